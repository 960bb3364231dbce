"""``dppca-owner budget``."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import click

from dppca.common.kernel.errors import ChainError, SettingError
from dppca.common.shell.console import emit, prints, terminal_width
from dppca.owner.cli import LazyGroup
from dppca.owner.commands.options import data_set_option


class _Tools(LazyGroup):
    lazy: ClassVar[Mapping[str, tuple[str, str]]] = {
        "show": ("budget:show", "Show what was charged and what is left; the default."),
        "export": ("budget_tools:export", "Verify the whole ledger, then write out every entry."),
        "verify": (
            "budget_tools:verify",
            "Verify the chain, all stored bytes and receipts.",
        ),
        "plan": ("budget_tools:plan", "Show what a further release would leave."),
    }


@click.group("budget", cls=_Tools, invoke_without_command=True)
@data_set_option
@prints("dppca.owner.render.ledger:SiteBudgets")
@click.pass_context
def command(ctx: click.Context, data_set_name: str | None, *, as_json: bool) -> int | None:
    """List what was charged to each population and what is left, and verify the whole ledger.

    A budget belongs to people: it counts what was charged for all data sets of a population, by
    whatever names. If the ledger does not verify, exits with 31 and names the first damaged entry;
    if it is lost or not the newest, with 48.

    \b
    Example:
      dppca-owner budget
      dppca-owner budget --data-set survey --json
      dppca-owner budget plan --epsilon 0.5
    """
    if ctx.invoked_subcommand is not None:
        if data_set_name is not None or as_json:
            raise SettingError(f"write the options after {ctx.invoked_subcommand}, not before it")
        return None
    return _show(ctx.obj, data_set_name, as_json=as_json)


@click.command("show")
@data_set_option
@prints("dppca.owner.render.ledger:SiteBudgets")
@click.pass_obj
def show(folder: Path, data_set_name: str | None, *, as_json: bool) -> int:
    """List what was charged and what is left, as `budget` alone does.

    \b
    Example:
      dppca-owner budget show --data-set survey
    """
    return _show(folder, data_set_name, as_json=as_json)


def _show(folder: Path, data_set_name: str | None, *, as_json: bool) -> int:
    from dppca.owner.commands.budget_totals import site_budgets
    from dppca.owner.render.ledger import budget_text

    budgets = site_budgets(folder, data_set_name)
    emit(budgets, budget_text(budgets, width=terminal_width()), as_json=as_json)
    return 0 if budgets.locked is None else ChainError.exit_code
