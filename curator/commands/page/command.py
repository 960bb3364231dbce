"""``dppca-curator page``."""

from pathlib import Path

import click

from dppca.common.pages.command import PageDocument, port_option, serve_page
from dppca.common.shell.console import emit, prints
from dppca.curator.commands.options import as_operator, connection, credentials_in


@click.command()
@port_option
@connection
@prints(PageDocument)
def page(port: int, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show a curator's studies, and their results, in a browser here.

    It also shows who has contributed.

    Prints an address that works once, in one browser. Needs an operator's certificate, and changes
    nothing. Ctrl-C ends it.

    \b
    Example:
      dppca-curator page --curator localhost:7443 --credentials alice
    """
    from dppca.common.pages.rendering import check_server

    check_server()
    from dppca.common.verification.dossier.writing import ANSWERS
    from dppca.curator.commands.page.routes import OperatorApp

    with as_operator(curator, credentials) as client:
        authority, answers = credentials_in(credentials).ca, credentials / ANSWERS
        pages = OperatorApp(client, curator, ca=authority, answers=answers)
        document = serve_page(pages.application(), pages.session, port=port)
    emit(document, "The page has ended.", as_json=as_json)
