"""``dppca-curator``: run a curator, certify its parties, manage its studies.

This module imports only `click` and the settings; a command imports the rest when it runs.
"""

import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import click

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.shell.console import FOLDER, CommandGroup, emit, prints, run_and_end
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.common.shell.packages import require_package
from dppca.common.verification.command import verification_options
from dppca.common.verification.command import verify as verify_and_print
from dppca.common.verification.estimation import estimate as estimate_and_print
from dppca.common.verification.estimation import estimate_options
from dppca.curator.commands.backup import backup, restore
from dppca.curator.commands.certificates import pki
from dppca.curator.commands.options import connection_with, credentials_option
from dppca.curator.commands.owners import owner
from dppca.curator.commands.page.command import page
from dppca.curator.commands.plan import plan
from dppca.curator.commands.refusals import refusals
from dppca.curator.commands.studies import study
from dppca.curator.config import Limits

_LIMITS = {field.name: field for field in fields(Limits)}
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ServeDocument:
    """A curator that has stopped."""

    state: Annotated[Path, "folder of its studies"]


@dataclass(frozen=True, slots=True)
class HealthDocument:
    """A curator that answered."""

    curator: Annotated[str, "`HOST:PORT` that was asked"]
    status: Annotated[str, "its answer: `serving`, or with `--live` any other"]


def _is_address(path: Path) -> bool:
    """Return True for the port file of an earlier start."""
    return path.is_file() and re.fullmatch(rb"\S{1,300}:\d{1,5}\n", path.read_bytes()) is not None


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca")
def cli() -> None:
    """The curator of federated studies: collects noised moments, returns joint components.

    \b
    Example:
      dppca-curator pki init --directory authority
      dppca-curator pki issue --directory authority --role curator \\
          --name hub --host localhost --output hub
      dppca-curator serve --state state --listen localhost:7443 --credentials hub
    """


def _limit(option: str, field: str, text: str) -> Callable[[_Command], _Command]:
    """Option for one field of `dppca.curator.config.Limits`, with its default and variable."""
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


@click.command()
@click.option(
    "--state", type=FOLDER, required=True, help="Folder of all studies; only one daemon may use it."
)
@click.option(
    "--listen",
    required=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 takes any free port.",
)
@credentials_option(
    "Folder with the curator's certificate.pem, key.pem, ca.pem and, if used, crl.pem."
)
@output_file(
    "--port-file",
    help="File to write HOST:PORT to once calls are served.",
    law=FileLaw(own=_is_address),
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
@_limit(
    "--max-wait",
    "max_wait_s",
    "Longest time that a call waits for a result, in seconds; owners then ask again.",
)
@_limit("--idle-timeout", "idle_timeout_s", "Longest pause of an upload, in seconds.")
@_limit("--max-upload-time", "max_upload_s", "Longest time of an upload, in seconds.")
@_limit("--max-uploads", "max_uploads", "Most uploads at a time; other callers are told to retry.")
@_limit("--max-uploads-per-owner", "max_uploads_per_owner", "Most uploads of one owner at a time.")
@_limit("--max-calls", "max_calls", "Most calls at a time, of all kinds.")
@_limit("--max-calls-per-party", "max_calls_per_party", "Most calls of one party at a time.")
@_limit("--max-connections", "max_connections", "Most connections at a time, of all callers.")
@_limit("--handshake-within", "handshake_s", "Time that a new connection has for TLS, in seconds.")
@click.option(
    "--log-format",
    type=click.Choice(["json", "text"]),
    help="By default text on a terminal, else JSON.",
)
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
    """Serve until SIGTERM or SIGINT. Running calls are finished before the daemon ends.

    The daemon reads new files in the credentials folder (a certificate with its key, crl.pem) while
    it runs, and at once after SIGHUP.

    \b
    Example:
      dppca-curator serve --state state --listen 0.0.0.0:7443 --credentials hub
    """
    from dppca.curator.config import DaemonConfig, parse_address
    from dppca.curator.observability.handshakes import log_refused_handshakes
    from dppca.curator.observability.log import configure

    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the daemon takes it as a request
    configure(log_format)
    # Commands are made quiet by `none`, which somebody may have asked for, too; of the daemon's own
    # lines the reasons of refused handshakes are wanted.
    core_lines = os.environ.get("GRPC_VERBOSITY", "none") != "none"
    if not core_lines:
        os.environ.pop("GRPC_VERBOSITY", None)
    log_refused_handshakes(core_lines=core_lines)
    require_package("prometheus_client", purpose="the curator's daemon")
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
    emit(ServeDocument(state), "", as_json=as_json)


@click.command()
@connection_with("Folder with certificate.pem, key.pem and ca.pem of the curator or an operator.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds.",
)
@click.option("--live", is_flag=True, help="Only check that the curator runs: accept any answer.")
@prints(HealthDocument)
def health(curator: str, credentials: Path, timeout: float, *, live: bool, as_json: bool) -> None:
    """Ask a running curator whether it serves. Fails unless it does.

    A curator whose store cannot be written runs, but does not serve.

    Health checks of containers may use the curator's own credentials, if its certificate names the
    host that is asked.

    \b
    Example:
      dppca-curator health --curator localhost:7443 --credentials hub
    """
    from dppca.common.kernel.identity.tls import load_credentials
    from dppca.curator.config import parse_address
    from dppca.curator.operator.health import ask_health

    parse_address(curator)
    loaded = load_credentials(CredentialFolder(credentials))
    status = ask_health(curator, loaded, timeout_s=timeout, live=live)
    emit(HealthDocument(curator, status), status, as_json=as_json)


@click.command()
@verification_options
@prints("dppca.common.kernel.attestation.documents:Verification")
def verify(**given: Any) -> int:
    """Check what a released FILE claims: components, rows or a model. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt; with --uploads, the sum from what was sent. If something is wrong, exits
    with 15 to 18 and names the part at fault. Exits with 51 if the result leaves out a contribution
    that a curator acknowledged, and with 52 if no authority's certificate was given: then the file
    is consistent, and anybody may have made it.

    \b
    Example:
      dppca-curator verify nltcs.npz --ca authority/ca.pem --crl authority/crl.pem
      dppca-curator verify nltcs.npz --ca authority/ca.pem --uploads state/blobs
    """
    return verify_and_print(**given)


@click.command()
@estimate_options
@prints(
    "dppca.common.analysis.estimates.answers:AnswerDocument",
    "dppca.common.analysis.estimates.answers:AnswersDocument",
)
def estimate(**given: Any) -> int:
    """Answer a question from a result, with an honest interval.

    `dppca-owner estimate --help` lists the questions; this is the same command. It needs no curator
    that runs, and no credentials.

    \b
    Example:
      dppca-curator estimate nltcs.npz share outside --ca authority/ca.pem
    """
    return estimate_and_print(**given)


for _each in (pki, serve, health, plan, study, page, refusals, owner, verify, estimate):
    cli.add_command(_each)
for _each in (backup, restore):
    cli.add_command(_each)


def main() -> NoReturn:
    """Run the command line."""
    run_and_end(cli)


if __name__ == "__main__":
    main()
