"""Options that operators' commands share: the curator's address and the credentials."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dppca.common.kernel.documents.amounts import parse_positive
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.shell.console import FOLDER, tell

if TYPE_CHECKING:
    from dppca.common.kernel.identity.tls import Credentials
    from dppca.curator.operator.client import OperatorClient

_Command = TypeVar("_Command", bound=Callable[..., Any])


def credentials_option(text: str) -> Callable[[_Command], _Command]:
    """Option for a folder of credentials, which ``text`` describes."""
    return click.option(
        "--credentials",
        type=FOLDER,
        envvar="DPPCA_CREDENTIALS",
        required=True,
        show_envvar=True,
        help=text,
    )


def connection_with(text: str) -> Callable[[_Command], _Command]:
    """Options for the curator's address and a folder of credentials, which ``text`` describes."""
    curator = click.option(
        "--curator",
        envvar="DPPCA_CURATOR",
        required=True,
        metavar="HOST:PORT",
        help="Where the curator listens.",
        show_envvar=True,
    )
    return lambda command: curator(credentials_option(text)(command))


connection = connection_with("Folder with the operator's certificate.pem, key.pem and ca.pem.")


def complete_study(context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Return studies of the curator, if the environment or the command line names it."""
    from dppca.common.shell.console import ASK_S, find_names

    def ask() -> list[str]:
        curator, credentials = context.params.get("curator"), context.params.get("credentials")
        if curator is None or credentials is None:
            return []
        with as_operator(curator, credentials, warn=lambda _: None) as client:
            return [each.name for each in client.studies(deadline_s=ASK_S)]

    return find_names((ask,), begun)


study_argument = click.argument("name", shell_complete=complete_study)


def as_operator(
    curator: str, credentials: Path, *, warn: Callable[[str], None] = tell
) -> AbstractContextManager[OperatorClient]:
    """Return a connection to a curator, with credentials that were checked before.

    ``warn`` is told what is unusual about the curator, such as an older version.
    """
    from dppca.common.kernel.identity.tls import (
        Role,
        check_credentials,
        parse_certificate,
        parse_identity,
    )
    from dppca.curator.config import parse_address
    from dppca.curator.operator.client import OperatorClient

    parse_address(curator)
    loaded = credentials_in(credentials)
    own = parse_identity(parse_certificate(loaded.certificate)).role
    role = Role.AUDITOR if own is Role.AUDITOR else Role.OPERATOR  # the curator says what it may
    check_credentials(loaded, role=role, name=None, now=utc_now())
    return OperatorClient(curator, loaded, warn=warn)


def credentials_in(folder: Path) -> Credentials:
    """Return the PEM files in an operator's folder."""
    from dppca.common.kernel.durable.files import CredentialFolder
    from dppca.common.kernel.identity.tls import load_credentials

    return load_credentials(CredentialFolder(folder))


class Positive(click.ParamType[Decimal]):
    """Decimal above 0, kept exact."""

    name = "decimal"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Decimal:
        """Return the amount; a message of click if it is none."""
        try:
            return parse_positive(value)
        except ValueError as error:
            self.fail(f"{value} {error}", param, ctx)
