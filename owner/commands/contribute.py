"""``dppca-owner contribute``: review, consent, then the release path of `owner.releasing`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from common.checkpoints import checkpoint
from common.console import emit, json_option, progress
from common.conversation import StudyState
from common.errors import ChainError
from common.privacy.entropy import OperatingSystemEntropy
from common.study import Study, decimal_text
from owner.client import Acknowledgement, CuratorClient
from owner.commands.consent import ask
from owner.commands.options import data_set_option, study_argument, study_file_option
from owner.config import Site, load_policy, load_site
from owner.contribution import Step, forecast, next_step, require_possible, review
from owner.ledger.chain import History
from owner.ledger.database import Ledger, StoredRelease, open_ledger, read_history
from owner.records import moments_of_table, open_table
from owner.releasing import make_release, send_release
from owner.render import contribution_text, review_text
from owner.session import agreed_study, connect, now


@click.command("contribute")
@study_argument
@data_set_option
@study_file_option
@click.option("--yes", is_flag=True, help="Consent without being asked.")
@json_option
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    data_set_name: str | None,
    study_file: Path | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Release noised moments of a data set to a study, once.

    Shows what would leave and asks before any noise is drawn. If an earlier attempt was cut off,
    it is taken up where it stood: the same bytes are sent, and nothing is charged twice.

    \b
    Example:
      dppca-owner contribute nltcs
      dppca-owner contribute nltcs --data-set survey --yes --json
    """
    site = load_site(folder)
    seconds: dict[str, float] = {"read": 0.0, "draw": 0.0, "send": 0.0}
    with connect(site) as client:
        study, state = agreed_study(site, client, study_name, study_file=study_file)
        if next_step(read_history(site.ledger), study.digest) is Step.SEND:
            with open_ledger(site.ledger, lock=site.lock) as ledger:
                stored = ledger.stored(study.digest)
                answer = _send(ledger, stored, client, seconds)
        else:
            stored, answer = _release(
                site, client, study, state, data_set_name, seconds, yes=yes, as_json=as_json
            )
    document = _document(site, study, stored, answer, seconds)
    emit(document, contribution_text(document), as_json=as_json)


def _release(
    site: Site,
    client: CuratorClient,
    study: Study,
    state: StudyState,
    data_set_name: str | None,
    seconds: dict[str, float],
    *,
    yes: bool,
    as_json: bool,
) -> tuple[StoredRelease, Acknowledgement]:
    """Ask, charge, draw, store and send; refused before anything is charged where it can be."""
    data_set = load_policy(site).data_set(data_set_name)
    table = open_table(data_set.path, study.table)
    history = read_history(site.ledger)
    found = review(
        study, history, n_rows=table.n_rows, data_set=data_set.name, budget=data_set.budget
    )
    require_possible(found, history, state, now=now())
    _require_no_lost_ledger(client, study, history)
    if yes and not as_json:
        click.echo(review_text(found, state, None), err=True)
    elif not yes:
        ask(
            review_text(found, state, forecast(study, n_rows=table.n_rows)),
            "Contribute this?",
            look=f"look at `dppca-owner review {study.name}`",
        )
    checkpoint("read")
    with (
        _timed(seconds, "read"),
        progress("Reading rows", table.n_rows, enabled=not as_json, unit="rows") as bar,
    ):
        moments = moments_of_table(table, study.table, progress=bar.advance)
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        with _timed(seconds, "draw"):
            stored = make_release(
                ledger,
                study,
                found.wanted,
                moments,
                entropy=OperatingSystemEntropy(),
                clock=now,
            )
        return stored, _send(ledger, stored, client, seconds)


def _require_no_lost_ledger(client: CuratorClient, study: Study, history: History) -> None:
    """Refuse to draw anew what the curator has: a second release of the same rows is never sent."""
    known = {each.digest for each in client.studies() if each.contributed}
    if study.digest in known and history.commitment_for(study.digest) is None:
        message = (
            f"the curator holds a contribution of this site to study {study.name} that this "
            "ledger does not know: an old copy is in use, or none. Restore the newest "
            "ledger.sqlite; nothing was drawn or charged"
        )
        raise ChainError(message)


def _send(
    ledger: Ledger, stored: StoredRelease, client: CuratorClient, seconds: dict[str, float]
) -> Acknowledgement:
    with _timed(seconds, "send"), progress("Sending", len(stored.payload), unit="bytes") as bar:

        def upload(release: StoredRelease, history: History) -> Acknowledgement:
            return client.contribute(release, history, sent=bar.advance)

        return send_release(ledger, stored, upload, clock=now)


@contextmanager
def _timed(seconds: dict[str, float], step: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    seconds[step] = round(time.perf_counter() - started, 6)


def _document(
    site: Site,
    study: Study,
    stored: StoredRelease,
    answer: Acknowledgement,
    seconds: dict[str, float],
) -> dict[str, Any]:
    wanted = stored.reservation.wanted
    return {
        "command": "contribute",
        "study": study.name,
        "digest": study.digest,
        "owner": site.name,
        "data_set": wanted.data_set,
        "rows": stored.commitment.n_rows,
        "entries": len(stored.payload) // 8,
        "bytes": len(stored.payload),
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "release_id": stored.reservation.release_id.hex(),
        "already_stored": answer.already_stored,
        "state": answer.state.value,
        "seconds": seconds,
    }
