"""The command `contribute`: rows, review, consent, then `dppca.owner.ledger.path`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

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
from dppca.owner.commands.consent import Dialogue
from dppca.owner.commands.coverage import require_rows_of_people
from dppca.owner.commands.preview import Asked, find_first, plan_contribution, read_rows
from dppca.owner.engines.engine import Engine, LocalEngine
from dppca.owner.engines.selection import open_engine
from dppca.owner.ledger.chain import History, require_unsettled
from dppca.owner.ledger.database import Ledger, StoredRelease, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.path import ContributionPlan, MaskedPlan, send_release, store_release
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table
from dppca.owner.release.contribution import (
    NextStep,
    Review,
    choose_data_set,
    decide_step,
    require_possible,
    require_sendable,
)
from dppca.owner.render.contributions import ContributionDocument
from dppca.owner.render.faults import alarm_lines
from dppca.owner.render.review import ContributionPreview
from dppca.owner.site.agreement import (
    Agreement,
    agree,
    require_allowed,
    require_digest,
    require_sending_key,
    require_verified,
    signing_key,
)
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import acknowledgement_path, save
from dppca.owner.site.policy import load_policy

AWAY_S = 600.0
"""Seconds that a contribution waits for a curator that is away: its start may take ten minutes."""


def contribute(
    site: Site, asked: Asked, dialogue: Dialogue, *, wait_s: float = AWAY_S
) -> ContributionDocument:
    """Carry out `contribute`, on a terminal or on a page.

    ``wait_s`` is how long each call goes on to a curator that is away: rows may take hours to be
    read, and a steward to answer.
    """
    seconds = {"read": 0.0, "draw": 0.0, "send": 0.0}
    with connect(site, Patience(lambda: wait_s, dialogue.tell)) as client:
        study, state = agreed_study(site, client, asked.study_name, study_file=asked.study_file)
        require_digest(study, asked.digest)
        view = compare_ledger(site, client)
        history = read_history(site.ledger)
        if decide_step(history, study.digest) is NextStep.SEND:
            if asked.data_set_name is not None:
                choose_data_set(study, history, load_policy(site), asked.data_set_name)
            with open_ledger(site.ledger, lock=site.lock) as ledger:
                stored = ledger.stored(study.digest)
                recovered = ledger.history().recoveries
                if recovered and all(each.study_digest != study.digest for each in view.releases):
                    data_set = load_policy(site).data_set(stored.reservation.request.data_set)
                    require_sendable(ledger.history(), stored.reservation, data_set.account)
                try:
                    answer, counts = _send(site, ledger, stored, client, dialogue, seconds), None
                except SignatureError:
                    require_sending_key(site, study)
                    raise
        else:
            stored, history, answer, counts = _release(
                site, client, study, state, history, asked, dialogue, seconds
            )
    return ContributionDocument(
        **stored_charge(site, history, stored),
        digest=study.digest,
        owner=site.name,
        entries=study.table.layout.n_entries,
        already_stored=answer.already_stored,
        opens=site.name in (study.openers or {}),
        acknowledgement=acknowledgement_path(site, study.name),
        state=answer.state,
        seconds=seconds,
        coded_by_rule=counts,
    )


def _release(
    site: Site,
    client: CuratorClient,
    study: Study,
    state: StudyState,
    history: History,
    asked: Asked,
    dialogue: Dialogue,
    seconds: dict[str, float],
) -> tuple[StoredRelease, History, Acknowledgement, CheckReport]:
    """Read, ask, charge, draw, store and send; make every possible refusal before the charge.

    The last value returned counts the values coded by rule, for the steward alone.
    """
    require_unsettled(history, study.name, study.digest)
    data_set = choose_data_set(study, history, load_policy(site), asked.data_set_name)
    agreement = agree(site, study, digest=asked.digest)
    if agreement is not None:
        require_allowed(study, agreement.terms, data_set)
        require_verified(study, agreement)
    engine = asked.engine or data_set.engine
    first = find_first(site, client, study)
    table, planned = plan_contribution(study, history, data_set, agreement, engine, first=first)
    require_possible(planned, history, state, now=utc_now())
    dialogue.begin(planned)
    checkpoint("read")
    with open_engine(engine, site.folder) as used:
        moments, counted = _read(used, table, study, data_set.key, dialogue, seconds)
    # Shown only: no decision may depend on a count of faults, because the release must not.
    read = replace(planned, n_rows=moments.n_rows)
    for line in alarm_lines(counted):
        dialogue.tell(line)
    asked_now = dialogue.require_consent(
        ContributionPreview(site, study, state, read, moments, data_set, counted, agreement)
    )
    if asked_now and planned.is_live:  # a release is of one moment, and that comes after consent
        moments, counted = _read(LocalEngine(), table, study, data_set.key, dialogue, seconds)
    if moments.n_rows != table.n_rows:
        dialogue.tell(f"{data_set.name} has {moments.n_rows} rows now, not {table.n_rows}.")
    # Reading and asking take long: if the study has ended meanwhile, nothing is charged.
    _, state = agreed_study(site, client, study.name, study_file=None)
    require_possible(replace(planned, n_rows=moments.n_rows), history, state, now=utc_now())
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        with _timed(seconds, "draw"):
            stored = store_release(
                ledger,
                planned.request,
                _plan(site, planned, agreement),
                moments,
                entropy=OperatingSystemEntropy(),
                clock=utc_now,
            )
        answer = _send(site, ledger, stored, client, dialogue, seconds)
        return stored, ledger.history(), answer, counted


def _plan(
    site: Site, planned: Review, agreement: Agreement | None
) -> ContributionPlan | MaskedPlan:
    if agreement is None:
        return ContributionPlan(planned.study, planned.calibration)
    key = signing_key(site, agreement.terms)
    return MaskedPlan(planned.study, planned.calibration, agreement.terms, site.name, key)


def _read(
    engine: Engine,
    table: Table,
    study: Study,
    key: str,
    dialogue: Dialogue,
    seconds: dict[str, float],
) -> tuple[Moments, CheckReport]:
    """Read rows; raise `PrivacyError` if one person has more than the study's promise is for."""
    with _timed(seconds, "read"):
        moments, counted = read_rows(table, engine, study, key=key, progress=dialogue.progress)
    require_rows_of_people(counted)
    return moments, counted


def _send(
    site: Site,
    ledger: Ledger,
    stored: StoredRelease,
    client: CuratorClient,
    dialogue: Dialogue,
    seconds: dict[str, float],
) -> Acknowledgement:
    size = len(stored.payload)
    with _timed(seconds, "send"), dialogue.progress("Sending", size, unit="bytes") as bar:

        def upload(release: StoredRelease, history: History) -> Acknowledgement:
            answer = client.contribute(release, history, sent=bar.advance)
            # kept before the ledger says that it was sent
            save(acknowledgement_path(site, release.reservation.request.study), answer.signed)
            return answer

        return send_release(ledger, stored, upload, clock=utc_now)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[step] = round(time.perf_counter() - started, 6)
