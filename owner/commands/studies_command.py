"""``dppca-owner studies``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.kernel.errors import ChainError, SettingError
from dppca.common.shell.console import emit, prints, tell

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study


@click.command("studies")
@click.option("--watch", is_flag=True, help="Show the list again as it changes, until Ctrl-C.")
@click.option(
    "--due",
    "days",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="List only what waits for this site and ends within DAYS days; print nothing otherwise.",
)
@prints("dppca.owner.render.studies:OwnStudies")
@click.pass_obj
def command(folder: Path, *, watch: bool, days: int | None, as_json: bool) -> None:
    """List the curator's studies that name this site, and what to do in each now.

    Nothing is read, charged or sent. The cost is what one contribution is charged here. On a
    terminal --watch shows the list again every ten seconds; elsewhere, whenever it changes.

    \b
    Example:
      dppca-owner studies
      dppca-owner studies --watch
      dppca-owner studies --due 3
    """
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.owner.client.calls import connect
    from dppca.owner.commands.studies import list_studies, watch_studies
    from dppca.owner.ledger.database import find_lock
    from dppca.owner.render.studies import due_studies, studies_text
    from dppca.owner.site.config import load_site

    if watch and (as_json or days is not None):
        raise SettingError("--watch shows all as text: leave out --json and --due, or --watch")
    site = load_site(folder)
    try:
        lock = find_lock(site.ledger)
    except ChainError as error:
        lock = str(error)
    if lock is not None:
        tell(f"This site is locked, and can spend nothing: {lock}")
    with connect(site) as client:
        known: dict[str, Study] = {}
        if not watch:
            document = list_studies(site, client, known)
            if days is not None:
                document = due_studies(document, utc_now() + timedelta(days=days))
            nothing = days is not None and not document.studies
            emit(document, "" if nothing else studies_text(document), as_json=as_json)
            return
        try:
            watch_studies(site, client, known)
        except KeyboardInterrupt:
            return
