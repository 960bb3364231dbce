"""The command `contribute`: a contribution as a kind of release (`dppca.owner.release.run`).

The study is fetched and kept once, and the policy is read once, if it is needed: stored bytes are
sent whatever it says by then. What was read before the steward agreed is what is charged; the
second look asks the curator only for the state of the study.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import SettingError, SignatureError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.study import Study, require_continues
from dppca.common.transport.channels import Patience
from dppca.owner.client.calls import (
    Acknowledgement,
    CuratorClient,
    agreed_study,
    compare_with_curator,
    connect,
)
from dppca.owner.commands.budget_totals import stored_charge
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History, require_unsettled
from dppca.owner.ledger.database import Ledger, StoredRelease
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan, send_release
from dppca.owner.ledger.pins import find_consent_of, require_pinned, require_seen
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table, open_table
from dppca.owner.release.contribution import (
    Review,
    choose_data_set,
    find_other_reading,
    require_keys,
    require_possible,
    require_sendable,
    review,
)
from dppca.owner.release.dialogue import Dialogue, Outline
from dppca.owner.release.next_step import NextStep
from dppca.owner.release.reading import Reader, Reading, ShowProgress, request_of_rows
from dppca.owner.release.run import ReleaseRun
from dppca.owner.render.contributions import ContributionDocument
from dppca.owner.render.review import ContributionPreview, consent_facts, outline_contribution
from dppca.owner.site.agreement import (
    Agreement,
    agree,
    require_allowed,
    require_digest,
    require_said,
    require_sending_key,
    require_verified,
    signing_key,
)
from dppca.owner.site.config import Site
from dppca.owner.site.consents import keep_consent, kept_consent
from dppca.owner.site.kept_studies import acknowledgement_path, find_continued, keep_study, save
from dppca.owner.site.policy import DataSet, Policy, load_policy

if TYPE_CHECKING:
    from dppca.common.kernel.consent.statement_terms import Also

AWAY_S = 600.0
"""Seconds that a contribution waits for a curator that is away: its start may take ten minutes."""


@dataclass(frozen=True, slots=True)
class ContributionOptions:
    """What a steward asks to contribute; None for what was left out.

    ``digest`` is the study's, from another owner's steward; ``study_file`` the steward's own copy;
    ``engine`` replaces the policy's engine. ``also_open``, ``also_publish`` and ``also_rows`` are
    what people of a site with roles are asked to sign beforehand (`also`).
    """

    study_name: str
    data_set_name: str | None = None
    digest: str | None = None
    study_file: Path | None = None
    engine: str | None = None
    also_open: bool = False
    also_publish: str | None = None
    also_rows: int | None = None

    @property
    def also(self) -> "Also | None":
        """What people sign beside the contribution; `SettingError` for a number without forms."""
        if self.also_rows is not None and self.also_publish is None:
            raise SettingError("--also-rows is of --also-publish: name the forms of the rows, too")
        if not self.also_open and self.also_publish is None:
            return None
        from dppca.common.kernel.consent.statement_terms import Also, AlsoRows  # rarely asked

        rows = None
        if self.also_publish is not None:
            both = self.also_publish == "both"
            forms = ("coded", "decoded") if both else (self.also_publish,)
            stated = {"forms": forms, "number": self.also_rows or "result"}
            rows = AlsoRows.model_validate(stated)
        return Also(opening=self.also_open, rows=rows)


def contribute(
    site: Site, options: ContributionOptions, dialogue: Dialogue, *, wait_s: float = AWAY_S
) -> ContributionDocument:
    """Carry out `contribute`, on a terminal or on a page.

    ``wait_s`` is how long each call goes on to a curator that is away: rows may take hours to be
    read, and a steward to answer.
    """
    patience = Patience(lambda: wait_s, dialogue.tell)
    with connect(site, patience, warn=dialogue.tell) as client:
        asked = ask_contribution(site, client, options, progress=dialogue.progress)
        return ReleaseRun(site, dialogue).carry_out(asked)


def ask_contribution(
    site: Site, client: CuratorClient, options: ContributionOptions, *, progress: ShowProgress
) -> "AskedContribution":
    """Fetch and keep the study, and compare the ledger with what the curator holds."""
    name, file = options.study_name, options.study_file
    study, state = agreed_study(site, client, name, study_file=file)
    require_digest(study, options.digest)
    view = compare_with_curator(site, client)
    return AskedContribution(site, client, options, progress, study, state, view)


@dataclass(frozen=True)
class AskedContribution:
    """A contribution as it was asked for (`dppca.owner.release.run.AskedRelease`).

    ``state`` is the study's, and ``view`` what the curator holds of this site, both when the study
    was fetched.
    """

    site: Site
    client: CuratorClient
    options: ContributionOptions
    progress: ShowProgress
    study: Study
    state: StudyState
    view: CuratorView

    @property
    def digest(self) -> str:
        """See `AskedRelease`."""
        return self.study.digest

    @cached_property
    def policy(self) -> Policy:
        """The policy, which is read when it is needed first."""
        return load_policy(self.site)

    def open(self, history: History) -> "OpenedContribution":
        """See `AskedRelease`."""
        study, options = self.study, self.options
        require_unsettled(history, study.name, study.digest)
        also = options.also
        if also is not None and history.approvals.in_force is None:
            raise SettingError("--also-open and --also-publish are for a site where people sign")
        if also is not None and also.opening and self.site.name not in (study.openers or {}):
            raise SettingError(f"study {study.name} asks this site to open nothing")
        require_pinned(history.approvals, study, self.site.name)
        require_seen(history.approvals, study, self.site.name, self.view.roles_version)
        data_set = choose_data_set(study, history, self.policy, options.data_set_name)
        require_said(study, data_set)
        agreement = agree(self.site, study, digest=options.digest)
        if agreement is not None:
            require_allowed(study, agreement.terms, data_set)
            require_verified(study, agreement)
        opened = open_contribution(
            self.site,
            self.client,
            study,
            self.state,
            history=history,
            data_set=data_set,
            agreement=agreement,
            first=find_first(self.site, self.client, study),
            engine=options.engine,
        )
        return replace(opened, also=also)

    def deliver(
        self,
        ledger: Ledger,
        stored: StoredRelease,
        counted: CheckReport | None,
        *,
        seconds: Mapping[str, float],
    ) -> ContributionDocument:
        """Send stored bytes (`AskedRelease`); those of an earlier command at no further charge."""
        if counted is not None:
            return self._send(ledger, stored, counted, seconds)
        self._require_sendable(ledger.history(), stored)
        try:
            return self._send(ledger, stored, None, seconds)
        except SignatureError:
            require_sending_key(self.site, self.study)
            raise

    def _require_sendable(self, history: History, stored: StoredRelease) -> None:
        """Refuse another data set, and a first sending that recovered charges left no budget."""
        if self.options.data_set_name is not None:
            choose_data_set(self.study, history, self.policy, self.options.data_set_name)
        held = any(each.study_digest == self.digest for each in self.view.releases)
        if history.recoveries and not held:
            data_set = self.policy.data_set(stored.reservation.request.data_set)
            require_sendable(history, stored.reservation, data_set.account)

    def _send(
        self,
        ledger: Ledger,
        stored: StoredRelease,
        counted: CheckReport | None,
        seconds: Mapping[str, float],
    ) -> ContributionDocument:
        """Send stored bytes, and keep the acknowledgement before the ledger says that it came."""
        site, study, size = self.site, self.study, len(stored.payload)
        kept, started = acknowledgement_path(site, study.name), time.perf_counter()
        with self.progress("Sending", size, unit="bytes") as bar:

            def upload(release: StoredRelease, history: History) -> Acknowledgement:
                by = release.reservation.consent
                consent = find_consent_of(history.approvals, study, site.name, by)
                answer = self.client.contribute(release, history, consent=consent, sent=bar.advance)
                save(kept, answer.signed)
                return answer

            answer = send_release(ledger, stored, upload, clock=utc_now)
        return ContributionDocument(
            **stored_charge(lambda: self.policy, ledger.history(), stored),
            digest=study.digest,
            owner=site.name,
            entries=study.table.layout.n_entries,
            counts=study.unit.counts,
            already_stored=answer.already_stored,
            opens=site.name in (study.openers or {}),
            acknowledgement=kept,
            state=answer.state,
            seconds={**seconds, "send": round(time.perf_counter() - started, 6)},
            coded_by_rule=None if counted is None else counted.without_values(),
        )


@dataclass(frozen=True, slots=True)
class OpenedContribution:
    """A contribution whose data set is open (`dppca.owner.release.run.OpenedRelease`).

    Attributes
    ----------
    state
        State of the study when it was fetched; ``client`` asks for the present one.
    agreement
        Agreement on the keys of a study with ``trust: aggregate``; else None.
    engine
        Address of what reads the rows.
    also
        What people of a site with roles sign beside it; None for nothing.
    """

    site: Site
    client: CuratorClient
    state: StudyState
    history: History
    data_set: DataSet
    agreement: Agreement | None
    engine: str
    table: Table
    review: Review
    also: "Also | None" = None

    @property
    def study(self) -> Study:
        """See `OpenedRelease`."""
        return self.review.study

    @property
    def request(self) -> ReleaseRequest:
        """See `OpenedRelease`."""
        return replace(self.review.request, also=self.also)

    @property
    def outline(self) -> Outline:
        """See `OpenedRelease`."""
        return outline_contribution(self.review, is_live=self.table.source.is_live)

    def require_possible(self, reading: Reading[Moments] | None) -> None:
        """See `OpenedRelease`; afterwards with the study's state and the number of rows by then."""
        state, planned = self.state, self.review
        if reading is not None:
            if self.study.shows_rows:  # else the time of this call would tell their number
                state = self.client.progress(self.study.digest).state
            planned = planned.with_read(reading.n_rows, reading.rows.n_rows)
            require_keys(self.history, self.data_set.account, reading.counted)
        require_possible(planned, self.history, state, now=utc_now())

    @contextmanager
    def reader(self) -> Iterator[Reader[Moments]]:
        """See `OpenedRelease`."""
        with open_engine(self.engine, self.site.folder) as engine:
            yield engine.sum_table

    def offer(self, reading: Reading[Moments]) -> ContributionPreview:
        """Return what the steward is shown; the number of rows is that of the rows read."""
        return ContributionPreview(
            site=self.site,
            study=self.study,
            state=self.state,
            review=self.review.with_read(reading.n_rows, reading.rows.n_rows),
            moments=reading.rows,
            data_set=self.data_set,
            counted=reading.counted,
            agreement=self.agreement,
            is_live=self.table.source.is_live,
        )

    def keep_consent(self, offer: ContributionPreview) -> None:
        """Keep what was agreed to; an attempt that goes on after the charge agrees to no more."""
        found = offer.without_forecast
        kept = kept_consent(self.site, found.study, found.digest)
        if kept is None or found.next is NextStep.RESERVE:
            facts, said = consent_facts(found), found.asserted
            keep_consent(
                self.site,
                found.study,
                found.digest,
                facts,
                asserted=said,
                reading_sha256=self.review.request.reading_sha256,
                now=utc_now(),
            )

    def prepare(self, reading: Reading[Moments]) -> Moments:
        """Return the sums as they were read."""
        return reading.rows

    def plan(self, reading: Reading[Moments]) -> ContributionPlan | MaskedPlan:  # noqa: ARG002
        """See `OpenedRelease`; the signing key of a masked contribution is read here."""
        if self.agreement is None:
            return ContributionPlan(self.study, self.review.calibration)
        terms = self.agreement.terms
        key = signing_key(self.site, terms)
        return MaskedPlan(self.study, self.review.calibration, terms, self.site.name, key)


def find_first(site: Site, client: CuratorClient, study: Study) -> Study | None:
    """Return the study that a study continues, kept here or fetched from the curator and kept.

    None if there is none, or the curator does not list it. Raise `StudyError` where the two do not
    belong together, and errors of `CuratorClient.study`.
    """
    first = find_continued(site, study)
    if study.continues is None or first is not None:
        return first
    for each in client.studies():
        if each.digest == study.continues.study:
            found, _ = client.study(each.name)
            require_continues(found, study, result_sha256=None)  # it compares the digest, too
            keep_study(site, found)
            return found
    return None


def open_contribution(
    site: Site,
    client: CuratorClient,
    study: Study,
    state: StudyState,
    *,
    history: History,
    data_set: DataSet,
    agreement: Agreement | None,
    first: Study | None,
    engine: str | None,
) -> OpenedContribution:
    """Open a data set, and review its contribution before a row is read.

    ``first`` is the study that it continues, of `find_first`; ``engine`` replaces the data set's.
    Raise as `open_table` and `review` do.
    """
    address, table = engine or data_set.engine, open_table(data_set.source, study.table)
    planned = review(
        study,
        history,
        n_rows=table.n_rows,
        account=data_set.account,
        terms=None if agreement is None else agreement.terms,
        first=first,
    )
    request = request_of_rows(planned.request, table, address)
    before = find_other_reading(history, request)
    planned = replace(planned, request=request, read_otherwise=before)
    return OpenedContribution(
        site, client, state, history, data_set, agreement, address, table, planned
    )
