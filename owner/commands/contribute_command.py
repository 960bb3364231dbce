"""``dppca-owner contribute``."""

from pathlib import Path
from typing import Any

import click

from dppca.common.shell.console import emit, prints
from dppca.owner.commands.options import (
    data_set_option,
    digest_option,
    engine_option,
    study_argument,
    study_file_option,
)


@click.command("contribute")
@study_argument
@data_set_option
@study_file_option
@digest_option
@engine_option
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Longest time to wait for a curator that is away, in each call.",
)
@click.option(
    "--also-open", is_flag=True, help="Where people sign: they sign the opening of its set, too."
)
@click.option(
    "--also-publish",
    type=click.Choice(["coded", "decoded", "both"]),
    help="Where people sign: they sign the publishing of synthetic rows in these forms, too.",
)
@click.option(
    "--also-rows",
    type=click.IntRange(min=1),
    help="Most rows of each form then; by default as many as `synthesize` draws of the result.",
)
@click.option("--yes", is_flag=True, help="Consent without being asked.")
@prints("dppca.owner.render.contributions:ContributionDocument")
@click.pass_obj
def command(folder: Path, /, *, wait: float, yes: bool, as_json: bool, **given: Any) -> None:
    """Release noised moments of a data set to a study, once.

    Shows what would leave, and how many values are coded by rule (these counts stay here), and asks
    before any noise is drawn. The counts never make this command refuse, with or without --yes. If
    an earlier attempt was interrupted, this command continues it: it sends the same bytes and
    charges nothing twice.

    A study with trust: aggregate has the keys of all owners in its document. It needs --digest,
    unless this site has verified these keys before (peers.yaml). The sums leave masked: the curator
    can add them up once enough openers have come, and see no owner's sums.

    Where people sign, each later step waits for them again: --also-open and --also-publish ask them
    to sign it with the contribution, once and within 90 days. `withdraw` takes it back.

    \b
    Example:
      dppca-owner contribute nltcs
      dppca-owner contribute nltcs --data-set survey --yes --json
      dppca-owner contribute nltcs --engine dask://127.0.0.1:8786
    """
    from dppca.owner.commands.consent import Terminal
    from dppca.owner.commands.contribute import ContributionOptions, contribute
    from dppca.owner.commands.interrupt import report_charges
    from dppca.owner.render.contributions import contribution_text
    from dppca.owner.site.config import load_site

    site, asked = load_site(folder), ContributionOptions(**given)
    with report_charges(site, asked.study_name):
        document = contribute(site, asked, Terminal(yes=yes, quiet=as_json), wait_s=wait)
        emit(document, contribution_text(document), as_json=as_json)
