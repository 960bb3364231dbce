"""``dppca-owner ledger recover``."""

from pathlib import Path

import click

from dppca.common.shell.console import CommandGroup, emit, prints


@click.group("ledger", cls=CommandGroup)
def command() -> None:
    """Settle a ledger that was lost, or restored from an old copy.

    \b
    Example:
      dppca-owner ledger recover --data-set survey
    """


@command.command("recover")
@click.option(
    "--data-set",
    "data_sets",
    multiple=True,
    metavar="[STUDY=]NAME",
    help="The data set that was contributed to all studies, or to one; may be repeated.",
)
@click.option(
    "--disown",
    multiple=True,
    metavar="STUDY",
    help="Charge nothing for this contribution: this site did not send it. May be repeated.",
)
@click.option("--reason", help="With --disown: why, in one line; the ledger keeps it.")
@click.option("--yes", is_flag=True, help="Consent without being asked.")
@prints("dppca.owner.render.ledger:LedgerRecovery")
@click.pass_obj
def recover(
    folder: Path,
    data_sets: tuple[str, ...],
    disown: tuple[str, ...],
    reason: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Charge again what only the curator knows, and unlock the site.

    First try to put back the newest ledger.sqlite. The charges follow from the receipts that this
    site signed and from the studies; you name the data set. The command shows all charges and asks.
    A recovered contribution is not drawn again; the curator's signed acknowledgement of it is kept.
    The same command again changes nothing.

    \b
    Example:
      dppca-owner ledger recover --data-set survey
      dppca-owner ledger recover --data-set nltcs=survey --disown other --reason "Key stolen."
    """
    from dppca.owner.client.calls import connect
    from dppca.owner.commands.interrupt import report_entries_on_interrupt
    from dppca.owner.commands.recovery import recover_contributions, recovered_text
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    with report_entries_on_interrupt(site), connect(site) as client:
        recovery = recover_contributions(
            site, client, data_sets, disown, reason=reason, yes=yes, quiet=as_json
        )
        emit(recovery, recovered_text(recovery), as_json=as_json)
