"""``dppca-owner page``."""

from pathlib import Path

import click

from dppca.common.pages.command import PageDocument, port_option, serve_page
from dppca.common.shell.console import emit, prints


@click.command("page")
@port_option
@prints(PageDocument)
@click.pass_obj
def command(folder: Path, port: int, *, as_json: bool) -> None:
    """Show this site's studies, budget and ledger in a browser on this machine; ask for consent.

    Prints an address that works once, in one browser. The page says what would leave, what
    it costs and what is left of the budget; to agree, you tick what you assert. Ctrl-C ends the
    page; a contribution that is under way is finished first.

    \b
    Example:
      dppca-owner page
      dppca-owner --site hospital page --port 8700
    """
    from dppca.common.pages.rendering import check_server

    check_server()
    from dppca.owner.commands.page.routes import StewardApp
    from dppca.owner.site.config import load_site

    pages = StewardApp(load_site(folder))
    document = serve_page(pages.application(), pages.session, port=port)
    emit(document, f"The page has ended. {pages.finish()}", as_json=as_json)
