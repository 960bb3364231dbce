"""The command `contribute`: rows, review, consent, then `dppca.owner.ledger.path`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import SignatureError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.study import Study
from dppca.common.transport.channels import Patience
from dppca.owner.client.calls import (
    Acknowledgement,
    CuratorClient,
    agreed_study,
    compare_ledger,
    connect,
)
from dppca.owner.commands.budget_totals import stored_charge
from dppca.owner.commands.preview import (
    ContributionOptions,
    OpenedContribution,
    find_first,
    open_contribution,
)
from dppca.owner.engines.engine import Engine, LocalEngine
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History, require_unsettled
from dppca.owner.ledger.database import Ledger, StoredRelease, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan, send_release, store_release
from dppca.owner.records.faults import CheckReport
from dppca.owner.release.contribution import choose_data_set, require_possible, require_sendable
from dppca.owner.release.dialogue import Dialogue
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.release.reading import require_rows_of_people
from dppca.owner.render.contributions import ContributionDocument
from dppca.owner.render.review import ContributionPreview, consent_facts
from dppca.owner.site.agreement import (
    agree,
    require_allowed,
    require_digest,
    require_sending_key,
    require_verified,
    signing_key,
)
from dppca.owner.site.config import Site
from dppca.owner.site.consents import keep_consent, kept_consent
from dppca.owner.site.kept_studies import acknowledgement_path, save
from dppca.owner.site.policy import Policy, load_policy

AWAY_S = 600.0
"""Seconds that a contribution waits for a curator that is away: its start may take ten minutes."""


def contribute(
    site: Site, options: ContributionOptions, dialogue: Dialogue, *, wait_s: float = AWAY_S
) -> ContributionDocument:
    """Carry out `contribute`, on a terminal or on a page.

    ``wait_s`` is how long each call goes on to a curator that is away: rows may take hours to be
    read, and a steward to answer.
    """
    patience = Patience(lambda: wait_s, dialogue.tell)
    with connect(site, patience, warn=dialogue.tell) as client:
        return ContributionRun(site, client, dialogue).carry_out(options)


class ContributionRun:
    """One `contribute`: the study is fetched and kept once, the policy is read once.

    What was read before the steward agreed is what is charged; afterwards the curator is asked
    only for the state of the study.
    """

    def __init__(self, site: Site, client: CuratorClient, dialogue: Dialogue) -> None:
        self._site, self._client, self._dialogue = site, client, dialogue
        self._seconds = {"read": 0.0, "draw": 0.0, "send": 0.0}

    def carry_out(self, options: ContributionOptions) -> ContributionDocument:
        """Make the contribution, or send the one that is stored."""
        site, client = self._site, self._client
        name, file = options.study_name, options.study_file
        study, state = agreed_study(site, client, name, study_file=file)
        require_digest(study, options.digest)
        view, history = compare_ledger(site, client), read_history(site.ledger)
        if decide_step(history, study.digest) is NextStep.SEND:
            return self._send_again(study, history, view, options)
        return self._release(study, state, history, options)

    @cached_property
    def _policy(self) -> Policy:
        return load_policy(self._site)

    def _release(
        self, study: Study, state: StudyState, history: History, options: ContributionOptions
    ) -> ContributionDocument:
        """Read, ask, charge, draw, store and send; make every refusal before the charge."""
        opened = self._open(study, history, options)
        planned = opened.review
        require_possible(planned, history, state, now=utc_now())
        self._dialogue.begin(opened.outline)
        checkpoint("read")
        moments, counted = self._read_and_ask(opened, state)
        # Reading and asking take long: if the study has ended meanwhile, nothing is charged.
        state = self._client.progress(study.digest).state
        require_possible(replace(planned, n_rows=moments.n_rows), history, state, now=utc_now())
        with open_ledger(self._site.ledger, lock=self._site.lock) as ledger:
            with self._timed("draw"):
                stored = store_release(
                    ledger,
                    planned.request,
                    self._plan(opened),
                    moments,
                    entropy=OperatingSystemEntropy(),
                    clock=utc_now,
                )
            return self._send(study, ledger, stored, counted)

    def _open(
        self, study: Study, history: History, options: ContributionOptions
    ) -> OpenedContribution:
        """Open the data set, unless the ledger, the policy or the study's keys forbid it."""
        require_unsettled(history, study.name, study.digest)
        data_set = choose_data_set(study, history, self._policy, options.data_set_name)
        agreement = agree(self._site, study, digest=options.digest)
        if agreement is not None:
            require_allowed(study, agreement.terms, data_set)
            require_verified(study, agreement)
        first = find_first(self._site, self._client, study)
        return open_contribution(study, history, data_set, agreement, options.engine, first=first)

    def _read_and_ask(
        self, opened: OpenedContribution, state: StudyState
    ) -> tuple[Moments, CheckReport]:
        """Return exact sums of the rows that the steward agreed to contribute, and their faults."""
        with open_engine(opened.engine, self._site.folder) as engine:
            moments, counted = self._read(opened, engine)
        preview = opened.preview(self._site, state, moments, counted)
        for line in preview.alarms:
            self._dialogue.tell(line)
        asked_now = self._dialogue.require_consent(preview)
        self._keep_consent(preview)
        if asked_now and opened.table.source.is_live:  # a release is of one moment, after consent
            moments, counted = self._read(opened, LocalEngine())
        if moments.n_rows != opened.table.n_rows:
            self._dialogue.tell(
                f"{opened.data_set.name} has {moments.n_rows} rows now, not {opened.table.n_rows}."
            )
        return moments, counted

    def _keep_consent(self, preview: ContributionPreview) -> None:
        """Keep what was agreed to; an attempt that goes on after the charge agrees to no more."""
        found, name = preview.document(with_forecast=False), preview.study.name
        kept = kept_consent(self._site, name, found.digest)
        if kept is None or found.next is NextStep.RESERVE:
            facts, said = consent_facts(found), found.asserted
            keep_consent(self._site, name, found.digest, facts, asserted=said, now=utc_now())

    def _read(self, opened: OpenedContribution, engine: Engine) -> tuple[Moments, CheckReport]:
        """Read rows; raise `PrivacyError` if one person has more than the study's promise is for.

        No other decision may depend on a count of faults, because the release must not.
        """
        with self._timed("read"):
            moments, counted = opened.read_rows(engine, progress=self._dialogue.progress)
        require_rows_of_people(counted)
        return moments, counted

    def _plan(self, opened: OpenedContribution) -> ContributionPlan | MaskedPlan:
        study, calibration = opened.review.study, opened.review.calibration
        if opened.agreement is None:
            return ContributionPlan(study, calibration)
        terms = opened.agreement.terms
        key = signing_key(self._site, terms)
        return MaskedPlan(study, calibration, terms, self._site.name, key)

    def _send_again(
        self, study: Study, history: History, view: CuratorView, options: ContributionOptions
    ) -> ContributionDocument:
        """Send the stored bytes as they are, at no further charge."""
        if options.data_set_name is not None:
            choose_data_set(study, history, self._policy, options.data_set_name)
        with open_ledger(self._site.ledger, lock=self._site.lock) as ledger:
            stored = ledger.stored(study.digest)
            held = any(each.study_digest == study.digest for each in view.releases)
            if ledger.history().recoveries and not held:
                data_set = self._policy.data_set(stored.reservation.request.data_set)
                require_sendable(ledger.history(), stored.reservation, data_set.account)
            try:
                return self._send(study, ledger, stored, None)
            except SignatureError:
                require_sending_key(self._site, study)
                raise

    def _send(
        self, study: Study, ledger: Ledger, stored: StoredRelease, counted: CheckReport | None
    ) -> ContributionDocument:
        """Send stored bytes, and keep the acknowledgement before the ledger says that it came."""
        kept, size = acknowledgement_path(self._site, study.name), len(stored.payload)
        with self._timed("send"), self._dialogue.progress("Sending", size, unit="bytes") as bar:

            def upload(release: StoredRelease, history: History) -> Acknowledgement:
                answer = self._client.contribute(release, history, sent=bar.advance)
                save(kept, answer.signed)
                return answer

            answer = send_release(ledger, stored, upload, clock=utc_now)
        return ContributionDocument(
            **stored_charge(lambda: self._policy, ledger.history(), stored),
            digest=study.digest,
            owner=self._site.name,
            entries=study.table.layout.n_entries,
            already_stored=answer.already_stored,
            opens=self._site.name in (study.openers or {}),
            acknowledgement=kept,
            state=answer.state,
            seconds=self._seconds,
            coded_by_rule=None if counted is None else counted.without_values(),
        )

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[step] = round(time.perf_counter() - started, 6)
