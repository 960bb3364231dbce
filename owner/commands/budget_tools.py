"""``dppca-owner budget export``, ``verify`` and ``plan``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.kernel.errors import ChainError, SettingError
from dppca.common.shell.console import FILE, Whole, emit, prints, terminal_width
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import data_set_option

if TYPE_CHECKING:
    from dppca.owner.render.ledger import ExportDocument

_NOTED = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})")


@click.command("export")
@output_file(
    "--output",
    help="File to write (.csv or .json); by default print CSV.",
    law=FileLaw(replaceable=True),
)
@prints("dppca.owner.render.ledger:ExportDocument")
@click.pass_obj
def export(folder: Path, output: Path | None, *, as_json: bool) -> None:
    """Verify the whole ledger, then write out every entry.

    Each entry carries its SHA-256, which the next one repeats: anybody who has the export can check
    the chain. It holds no row and no payload. Exits with 48 if the ledger is lost or not the
    newest.

    \b
    Example:
      dppca-owner budget export --output ledger.csv
      dppca-owner budget export --json
    """
    from dppca.owner.ledger import tools
    from dppca.owner.ledger.database import require_newest
    from dppca.owner.ledger.file import read_archive
    from dppca.owner.render.ledger import export_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_studies import save

    if output is not None and output.suffix not in (".csv", ".json"):
        raise SettingError(f"{output.name} must end in .csv or .json")
    site = load_site(folder)
    archive = read_archive(site.ledger)
    require_newest(site.ledger)
    entries = tools.exported(archive.rows)
    document: ExportDocument = {
        "command": "budget export",
        "owner": site.name,
        "entries": len(entries),
        "head": archive.history.head.hex(),
        "chain": entries,
        "output": None,
    }
    table = tools.as_csv(entries)
    if output is None:
        emit(document, table.rstrip("\n"), as_json=as_json)
        return
    # The file is as in 0.1.0, without the key of its own place.
    written = {name: value for name, value in document.items() if name != "output"}
    save(output, (table if output.suffix == ".csv" else json.dumps(written, indent=1)).encode())
    short: ExportDocument = {**document, "chain": None, "output": str(output)}
    emit(short, export_text(short), as_json=as_json)


@click.command("verify")
@click.option(
    "--extends",
    "noted",
    metavar="LENGTH:HEAD",
    help="Also check that the chain continues this one, which an earlier export or verify printed.",
)
@prints("dppca.owner.render.ledger:VerifiedLedger")
@click.pass_obj
def verify(folder: Path, noted: str | None, *, as_json: bool) -> int:
    """Verify the chain, all stored bytes, and that every receipt says what was charged.

    Computes the sensitivity and the noise again if the study is kept here. Exits with 31 and names
    the entry if something does not hold, and with 48 if the ledger is lost or not the newest, or
    does not continue the chain of --extends.

    \b
    Example:
      dppca-owner budget verify
      dppca-owner budget verify --extends 12:4e07...
    """
    from dppca.owner.commands.budget_releases import verify_release
    from dppca.owner.ledger import tools
    from dppca.owner.ledger.database import find_lock
    from dppca.owner.ledger.file import read_archive
    from dppca.owner.render.ledger import VerifiedLedger, verified_text
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    archive = read_archive(site.ledger)
    locked = find_lock(site.ledger)
    if noted is not None:
        match = _NOTED.fullmatch(noted)
        if match is None:
            raise SettingError("--extends takes LENGTH:HEAD, a number and 64 hexadecimal digits")
        head = bytes.fromhex(match.group(2))
        tools.require_prefix(archive.history, length=int(match.group(1)), head=head)
    history = archive.history
    verified = VerifiedLedger(
        entries=history.length,
        head=history.head,
        extends=noted,
        releases=tuple(verify_release(site, archive, charged) for charged in history.charges),
        locked=locked,
    )
    emit(verified, verified_text(verified), as_json=as_json)
    return 0 if locked is None else ChainError.exit_code


@click.command("plan")
@data_set_option
@click.option("--epsilon", metavar="DECIMAL", help="Epsilon of a further release.")
@click.option("--delta", metavar="DECIMAL", help="Delta of Gaussian noise; else Laplace.")
@click.option(
    "--study-file", "files", type=FILE, multiple=True, help="A further study; may be repeated."
)
@click.option(
    "--times",
    type=Whole(1, 1000),
    default=1,
    show_default=True,
    help="How many times each release is made.",
)
@prints("dppca.owner.render.ledger:BudgetPlan")
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
    """Show what further studies would leave of a population's lifetime budget. Charges nothing.

    Give study files or an epsilon. Works offline; run it as often as you like.

    \b
    Example:
      dppca-owner budget plan --epsilon 0.5 --times 3
      dppca-owner budget plan --data-set survey --study-file next.yaml --json
    """
    from dppca.owner.commands.budget_releases import planned_charges
    from dppca.owner.commands.budget_totals import population_budget
    from dppca.owner.ledger import tools
    from dppca.owner.ledger.database import require_newest
    from dppca.owner.ledger.file import read_history
    from dppca.owner.render.ledger import BudgetPlan, budget_plan_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.policy import load_policy

    site = load_site(folder)
    policy = load_policy(site)
    data_set = policy.data_set(data_set_name)
    require_newest(site.ledger)
    history = read_history(site.ledger)
    population, populations = data_set.account.population, policy.populations
    tied = history.tied_to(population.name, populations)
    total = history.total(population.name, populations)
    request = planned_charges(history, epsilon, delta, files) * times
    steps = tools.plan(population.budget, total, request, tied=[each.budget for each in tied])
    planned = BudgetPlan(
        data_set=data_set.name,
        population=population_budget(population.name, policy, history),
        steps=steps,
    )
    emit(planned, budget_plan_text(planned, width=terminal_width()), as_json=as_json)
