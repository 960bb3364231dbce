"""``dppca-curator``: run a curator, certify its parties, look after its studies.

Only `click` and the settings are imported here: a command imports what it needs when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import click

from common.console import emit, json_option, run
from curator.commands.backup import backup, restore
from curator.commands.certificates import pki
from curator.commands.plan import plan
from curator.commands.studies import study
from curator.config import Limits

_LIMITS = {field.name: field for field in fields(Limits)}
_Command = TypeVar("_Command", bound=Callable[..., Any])


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
    """An option for one field of `curator.config.Limits`, with its default and variable."""
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
    help="Address for --metrics-port; nobody is identified there.",
)
@_limit("--max-contribution-bytes", "max_contribution_bytes", "Of one contribution.")
@_limit("--max-synthetic-bytes", "max_synthetic_bytes", "Of one owner's rows in one form.")
@_limit("--max-wait", "max_wait_s", "Seconds a call waits for a result; owners ask again.")
@_limit("--idle-timeout", "idle_timeout_s", "Seconds an upload may pause.")
@_limit("--max-upload-time", "max_upload_s", "Seconds one upload may take.")
@_limit("--max-uploads", "max_uploads", "Uploads at once; others wait and come again.")
@_limit("--max-uploads-per-owner", "max_uploads_per_owner", "Uploads of one owner at once.")
@_limit("--max-calls", "max_calls", "Calls at once, of all kinds.")
@_limit("--max-calls-per-party", "max_calls_per_party", "Calls of one party at once.")
@click.option("--log-format", type=click.Choice(["json", "text"]), help="Default: by terminal.")
@json_option
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
    from curator.config import DaemonConfig, parse_address
    from curator.log import configure

    configure(log_format)
    from curator import daemon

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
    emit({"command": "serve", "state": str(state)}, "", as_json=as_json)


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
@json_option
def health(curator: str, credentials: Path, timeout: float, *, live: bool, as_json: bool) -> None:
    """Ask a running curator whether it serves; fails unless it does.

    A curator whose store cannot be written runs, but does not serve.

    For health checks of containers: the curator's own credentials will do, where its certificate
    names the host that is asked.

    \b
    Example:
      dppca-curator health --curator localhost:7443 --credentials hub
    """
    from common.transport.tls import load_credentials
    from curator.config import parse_address
    from curator.health import ask_health
    from curator.pki import CA_CERTIFICATE, CERTIFICATE, KEY

    parse_address(curator)
    loaded = load_credentials(
        ca=credentials / CA_CERTIFICATE,
        certificate=credentials / CERTIFICATE,
        key=credentials / KEY,
    )
    status = ask_health(curator, loaded, timeout_s=timeout, live=live)
    emit({"command": "health", "curator": curator, "status": status}, status, as_json=as_json)


@cli.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--ca",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The authority's certificate; without it, who the parties are is not checked.",
)
@json_option
def verify(file: Path, ca: Path | None, *, as_json: bool) -> None:
    """Check what a released FILE claims: components, rows, a model, a summary. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee anew from the
    study in the receipt. Leaves with 15 to 18, naming the part at fault, where something is wrong.

    \b
    Example:
      dppca-curator verify nltcs.npz --ca authority/ca.pem
    """
    from common.proof.verify import read_authority, verification_text, verify_file

    report = verify_file(file, ca=read_authority(ca))
    document = {"command": "verify", "file": str(file), **report}
    emit(document, verification_text(report), as_json=as_json)


cli.add_command(backup)
cli.add_command(pki)
cli.add_command(plan)
cli.add_command(restore)
cli.add_command(study)


def main() -> NoReturn:
    """Entry point."""
    run(cli)


if __name__ == "__main__":
    main()
