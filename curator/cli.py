"""``dppca-curator``: run a curator, certify its parties, look after its studies.

Only `click` and the settings are imported here: a command imports what it needs when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import click

from dppca.common.attestation.command import verification_options
from dppca.common.attestation.command import verify as verify_and_print
from dppca.common.attestation.documents import VerificationDocument
from dppca.common.console import emit, prints, run_and_end
from dppca.common.documents import Document, PathText
from dppca.common.files import CredentialFolder
from dppca.curator.commands.backup import backup, restore
from dppca.curator.commands.certificates import pki
from dppca.curator.commands.owners import owner
from dppca.curator.commands.plan import plan
from dppca.curator.commands.studies import study
from dppca.curator.config import Limits

_LIMITS = {field.name: field for field in fields(Limits)}
_Command = TypeVar("_Command", bound=Callable[..., Any])


class ServeDocument(Document):
    """A curator that has ended."""

    state: Annotated[PathText, "folder of its studies"]


class HealthDocument(Document):
    """A curator that answered."""

    curator: Annotated[str, "`HOST:PORT` that was asked"]
    status: Annotated[str, "its answer: `serving`, or with `--live` any other"]


@click.group()
@click.version_option(package_name="dppca")
def cli() -> None:
    """The hub of federated studies: collects noised moments, returns joint components.

    \b
    Example:
      dppca-curator pki init --directory authority
      dppca-curator pki issue --directory authority --role curator \\
          --name hub --host localhost --output hub
      dppca-curator serve --state state --listen localhost:7443 --credentials hub
    """


def _limit(option: str, field: str, text: str) -> Callable[[_Command], _Command]:
    """An option for one field of `dppca.curator.config.Limits`, with its default and variable."""
    default = _LIMITS[field].default
    kind = click.IntRange(min=1) if isinstance(default, int) else click.FloatRange(0, min_open=True)
    return click.option(
        option,
        field,
        type=kind,
        default=default,
        envvar=f"DPPCA_{option.removeprefix('--').upper().replace('-', '_')}",
        show_default=True,
        show_envvar=True,
        help=text,
    )


@cli.command()
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of all studies; one daemon at a time.",
)
@click.option("--listen", required=True, metavar="HOST:PORT", help="Port 0 takes any free one.")
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DPPCA_CREDENTIALS",
    required=True,
    show_envvar=True,
    help="Folder with the curator's certificate.pem, key.pem and ca.pem, perhaps crl.pem.",
)
@click.option(
    "--port-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Gets HOST:PORT once calls are served.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    help="Answer /metrics, /ready and /live over HTTP here; 0 takes any free port.",
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    show_default=True,
    help="Address for --metrics-port; it asks for no certificate.",
)
@_limit("--max-contribution-bytes", "max_contribution_bytes", "Largest contribution, in bytes.")
@_limit(
    "--max-synthetic-bytes",
    "max_synthetic_bytes",
    "Largest table of one owner in one form, in bytes.",
)
@_limit("--max-wait", "max_wait_s", "Seconds a call waits for a result; owners ask again.")
@_limit("--idle-timeout", "idle_timeout_s", "Seconds an upload may pause.")
@_limit("--max-upload-time", "max_upload_s", "Seconds one upload may take.")
@_limit("--max-uploads", "max_uploads", "Uploads at once; others wait and come again.")
@_limit("--max-uploads-per-owner", "max_uploads_per_owner", "Uploads of one owner at once.")
@_limit("--max-calls", "max_calls", "Calls at once, of all kinds.")
@_limit("--max-calls-per-party", "max_calls_per_party", "Calls of one party at once.")
@_limit("--max-connections", "max_connections", "Connections of all parties at once.")
@_limit(
    "--max-connections-per-party", "max_connections_per_party", "Connections of one party at once."
)
@_limit("--max-unidentified", "max_unidentified", "Connections without a call so far, at once.")
@_limit(
    "--max-unidentified-per-address",
    "max_unidentified_per_address",
    "The same of one address; parties that have made a call are not counted.",
)
@_limit("--identify-within", "identify_s", "Seconds a new connection has for its first call.")
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Default: by terminal.")
@prints(ServeDocument)
def serve(
    state: Path,
    listen: str,
    credentials: Path,
    port_file: Path | None,
    metrics_port: int | None,
    metrics_host: str,
    log_format: Literal["json", "text"] | None,
    *,
    as_json: bool,
    **limits: float,
) -> None:
    """Serve until SIGTERM or SIGINT; running calls are then finished first.

    New files in the credentials folder (a certificate with its key, crl.pem) are taken over while
    the daemon runs.

    \b
    Example:
      dppca-curator serve --state state --listen 0.0.0.0:7443 --credentials hub
    """
    from dppca.curator.config import DaemonConfig, parse_address
    from dppca.curator.observability.log import configure

    configure(log_format)
    from dppca.curator import daemon

    host, port = parse_address(listen)
    daemon.serve(
        DaemonConfig(
            state=state,
            host=host,
            port=port,
            credentials=credentials,
            port_file=port_file,
            metrics_port=metrics_port,
            metrics_host=metrics_host,
            limits=Limits(**limits),  # type: ignore[arg-type] # click has made the types theirs
        )
    )
    document: ServeDocument = {"command": "serve", "state": str(state)}
    emit(document, "", as_json=as_json)


@cli.command()
@click.option(
    "--curator",
    envvar="DPPCA_CURATOR",
    required=True,
    metavar="HOST:PORT",
    help="Where the curator listens.",
    show_envvar=True,
)
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="DPPCA_CREDENTIALS",
    required=True,
    show_envvar=True,
    help="Folder with certificate.pem, key.pem and ca.pem of any party of the hub.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds.",
)
@click.option("--live", is_flag=True, help="Any answer will do: whether it runs at all.")
@prints(HealthDocument)
def health(curator: str, credentials: Path, timeout: float, *, live: bool, as_json: bool) -> None:
    """Ask a running curator whether it serves; fails unless it does.

    A curator whose store cannot be written runs, but does not serve.

    For health checks of containers: the curator's own credentials will do, where its certificate
    names the host that is asked.

    \b
    Example:
      dppca-curator health --curator localhost:7443 --credentials hub
    """
    from dppca.common.transport.tls import load_credentials
    from dppca.curator.config import parse_address
    from dppca.curator.operator.health import ask_health

    parse_address(curator)
    loaded = load_credentials(CredentialFolder(credentials))
    status = ask_health(curator, loaded, timeout_s=timeout, live=live)
    document: HealthDocument = {"command": "health", "curator": curator, "status": status}
    emit(document, status, as_json=as_json)


@cli.command()
@verification_options
@prints(VerificationDocument)
def verify(
    file: Path,
    ca: Path | None,
    crl: Path | None,
    held_since: datetime | None,
    acknowledgements: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Check what a released FILE claims: components, rows, a model, a summary. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt. Leaves with 15 to 18, naming the part at fault, where something is wrong,
    and with 51 where the result leaves out what a curator acknowledged.

    \b
    Example:
      dppca-curator verify nltcs.npz --ca authority/ca.pem --crl authority/crl.pem
    """
    verify_and_print(
        file,
        ca=ca,
        crl=crl,
        held_since=held_since,
        acknowledgements=acknowledgements,
        as_json=as_json,
    )


cli.add_command(backup)
cli.add_command(owner)
cli.add_command(pki)
cli.add_command(plan)
cli.add_command(restore)
cli.add_command(study)


def main() -> NoReturn:
    """Entry point."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
