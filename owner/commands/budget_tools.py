"""``dppca-owner budget export``, ``verify`` and ``plan``."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from common.console import emit, json_option
from common.errors import ArtefactError, NotReadyError, SchemaMismatchError, SettingError
from common.methods.settings import delta_of, epsilon_of
from common.privacy.accounting import Charge, rho_from_epsilon_delta
from common.privacy.release import calibrate
from common.study import Study, decimal_text
from owner.commands.options import data_set_option, file_path
from owner.config import Site, load_policy, load_site
from owner.contribution import remaining, spent
from owner.ledger import tools
from owner.ledger.chain import History
from owner.ledger.database import Archive, read_archive, read_history
from owner.ledger.entries import Reservation
from owner.render import optional_text
from owner.render_ledger import export_text, plan_text, verified_text
from owner.studies import kept_study, save, study_from_file

_NOTED = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


@click.command("export")
@click.option("--output", type=file_path, help="Ends in .csv or .json; CSV is printed without.")
@json_option
@click.pass_obj
def export(folder: Path, output: Path | None, *, as_json: bool) -> None:
    """Write out every entry of the ledger, once the whole of it has been verified.

    Each entry carries its SHA-256, which the next one repeats, so whoever has the export can check
    the chain. It holds no row and no payload.

    \b
    Example:
      dppca-owner budget export --output ledger.csv
      dppca-owner budget export --json
    """
    if output is not None and output.suffix not in (".csv", ".json"):
        message = f"{output.name} must end in .csv or .json"
        raise SettingError(message)
    site = load_site(folder)
    archive = read_archive(site.ledger)
    entries = tools.exported(archive.rows)
    document: dict[str, Any] = {
        "command": "budget export",
        "owner": site.name,
        "entries": len(entries),
        "head": archive.history.head.hex(),
        "chain": entries,
    }
    if output is None:
        emit(document, tools.as_csv(entries).rstrip("\n"), as_json=as_json)
        return
    text = tools.as_csv(entries) if output.suffix == ".csv" else json.dumps(document, indent=1)
    save(output, text.encode())
    short = {key: value for key, value in document.items() if key != "chain"}
    short["output"] = str(output)
    emit(short, export_text(short), as_json=as_json)


@click.command("verify")
@click.option(
    "--extends",
    "noted",
    metavar="LENGTH:HEAD",
    help="Also: the chain goes on from this one, as an earlier export or verify printed it.",
)
@json_option
@click.pass_obj
def verify(folder: Path, noted: str | None, *, as_json: bool) -> None:
    """Verify the chain, all stored bytes, and that every receipt says what was charged.

    Where the study is kept here, the sensitivity and the noise are computed anew. Leaves with 31,
    naming the entry, where something does not hold; with 48 where the chain is not the noted one.

    \b
    Example:
      dppca-owner budget verify
      dppca-owner budget verify --extends 12:4e07...
    """
    site = load_site(folder)
    archive = read_archive(site.ledger)
    if noted is not None:
        match = _NOTED.fullmatch(noted)
        if match is None:
            message = "--extends takes LENGTH:HEAD, a number and 64 hexadecimal digits"
            raise SettingError(message)
        head = bytes.fromhex(match.group(2))
        tools.require_extends(archive.rows, length=int(match.group(1)), head=head)
    history = archive.history
    document = {
        "command": "budget verify",
        "entries": history.length,
        "head": history.head.hex(),
        "extends": noted,
        "releases": [_verified(site, archive, reservation) for reservation in history.reservations],
    }
    emit(document, verified_text(document), as_json=as_json)


@click.command("plan")
@data_set_option
@click.option("--epsilon", metavar="DECIMAL", help="Of a further release.")
@click.option("--delta", metavar="DECIMAL", help="For Gaussian noise; without, Laplace.")
@click.option(
    "--study-file", "files", type=file_path, multiple=True, help="A further study; may be repeated."
)
@click.option(
    "--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="Each so often."
)
@json_option
@click.pass_obj
def plan(
    folder: Path,
    data_set_name: str | None,
    epsilon: str | None,
    delta: str | None,
    files: tuple[Path, ...],
    times: int,
    *,
    as_json: bool,
) -> None:
    """Show what further studies would leave of a data set's lifetime budget. Charges nothing.

    Give studies' files, or an epsilon. Works offline, and may be asked as often as you like.

    \b
    Example:
      dppca-owner budget plan --epsilon 0.5 --times 3
      dppca-owner budget plan --data-set survey --study-file next.yaml --json
    """
    site = load_site(folder)
    data_set = load_policy(site).data_set(data_set_name)
    history = read_history(site.ledger)
    budget, total = data_set.budget, history.total(data_set.name)
    wanted = _wanted(history, epsilon, delta, files) * times
    steps = tools.plan(budget, total, wanted)
    document = {
        "command": "budget plan",
        "data_set": data_set.name,
        "epsilon": decimal_text(budget.epsilon),
        "delta": decimal_text(budget.delta),
        "spent": optional_text(spent(budget, total)),
        "remaining": optional_text(remaining(budget, total)),
        "steps": [step.to_document() for step in steps],
    }
    emit(document, plan_text(document), as_json=as_json)


def _wanted(
    history: History, epsilon: str | None, delta: str | None, files: tuple[Path, ...]
) -> list[tuple[str, Charge]]:
    """What each further release is called, and its charge."""
    if (epsilon is None) == (not files) or (delta is not None and epsilon is None):
        message = "give --epsilon (with --delta for Gaussian noise), or --study-file, not both"
        raise SettingError(message)
    if epsilon is None:
        return [_charge_of(history, study_from_file(path)) for path in files]
    amount = epsilon_of(epsilon)
    if delta is None:
        return [(f"Laplace, epsilon {epsilon}", Charge(epsilon=amount, rho=Decimal(0)))]
    rho = rho_from_epsilon_delta(amount, delta_of(delta))
    what = f"Gaussian, epsilon {epsilon} at delta {delta}"
    return [(what, Charge(epsilon=Decimal(0), rho=rho))]


def _charge_of(history: History, study: Study) -> tuple[str, Charge]:
    if history.reservation_for(study.digest) is not None:
        nothing = Charge(epsilon=Decimal(0), rho=Decimal(0))
        return f"study {study.name} (charged already)", nothing
    return f"study {study.name}", calibrate(study).charge


def _verified(site: Site, archive: Archive, reservation: Reservation) -> dict[str, Any]:
    """How far a release has come, and what of its receipt could be compared."""
    wanted, history = reservation.wanted, archive.history
    found: dict[str, Any] = {
        "sequence": reservation.sequence,
        "study": wanted.study,
        "model": wanted.model or None,
        "release_id": reservation.release_id.hex(),
        "receipt": None,
        "recomputed": False,
    }
    receipt = archive.receipts.get(reservation.release_id)
    if receipt is None:
        return found
    tools.check_receipt(reservation, history, receipt)
    found["receipt"] = "as charged"
    study = None if wanted.model else _kept(site, wanted.study, wanted.study_digest)
    if study is not None:
        tools.check_implied(study, reservation, receipt)
        found["recomputed"] = True
    return found


def _kept(site: Site, name: str, digest: str) -> Study | None:
    """A study's document, where the one that was charged is kept here and sound."""
    try:
        study = kept_study(site, name)
    except (NotReadyError, ArtefactError, SchemaMismatchError):
        return None
    return study if study.digest == digest else None
