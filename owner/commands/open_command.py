"""``dppca-owner open``."""

from pathlib import Path

import click

from dppca.common.shell.console import emit, prints, progress
from dppca.owner.commands.options import digest_option, study_argument


@click.command("open")
@study_argument
@digest_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Longest time to wait: for owners, for votes, and for a curator that is away.",
)
@click.option("--yes", is_flag=True, help="Open without being asked.")
@prints("dppca.owner.commands.opening:OpenDocument")
@click.pass_obj
def command(
    folder: Path, study_name: str, digest: str | None, wait: float, *, yes: bool, as_json: bool
) -> None:
    """Open a study with trust: aggregate, once: take this opener's masks away from the sum.

    Fetches the set of uploads, checks every signature and seal and the quorum, stores the sum of
    its masks in the ledger, destroys the opener key, and sends the sum. Nothing is charged. No
    other set is ever opened, no matter who asks. At a terminal it shows the set and asks. If it was
    interrupted, run it again: it sends the same bytes.

    Where the study has spare openers, it votes for the set first, and opens once enough openers
    have voted: --wait waits for them. Exits with 50 while owners or votes are missing, and with 26
    or 27 if the set is refused.

    \b
    Example:
      dppca-owner open nltcs --wait 3600
    """
    from dppca.owner.commands.opening import ask_to_open, open_sum, opening_text
    from dppca.owner.site.config import load_site

    with progress(f"Waiting for study {study_name}") as bar:
        document = open_sum(
            load_site(folder),
            study_name,
            digest=digest,
            wait_s=wait,
            polled=bar.advance,
            agree_to=ask_to_open(study_name, yes=yes),
        )
    emit(document, opening_text(document), as_json=as_json)
