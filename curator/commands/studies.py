"""``dppca-curator study``: begin, look at, end and download studies of a running curator."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from common.console import emit, json_option
from common.errors import SettingError

if TYPE_CHECKING:
    from common.study import Study
    from common.transport.tls import Credentials
    from curator.operator import Details, OperatorClient, Summary

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def study() -> None:
    """Studies of a running curator. Needs an operator's certificate.

    \b
    Example:
      export DPPCA_CURATOR=hub.example.org:7443 DPPCA_CREDENTIALS=alice
      dppca-curator study create nltcs.yaml
      dppca-curator study show nltcs
    """


def _connection(command: _Command) -> _Command:
    """The options that say which curator, and as whom."""
    command = click.option(
        "--credentials",
        envvar="DPPCA_CREDENTIALS",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        help="Folder with the operator's certificate.pem, key.pem and ca.pem.",
        show_envvar=True,
    )(command)
    return click.option(
        "--curator",
        envvar="DPPCA_CURATOR",
        required=True,
        metavar="HOST:PORT",
        help="Where the curator listens.",
        show_envvar=True,
    )(command)


@study.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_connection
@json_option
def create(file: Path, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Begin the study described in FILE (YAML). The same file again has no effect.

    \b
    Example:
      dppca-curator study create nltcs.yaml --curator localhost:7443 --credentials alice
    """
    begun = read_study(file)
    with _client(curator, credentials) as client:
        existed = client.create(begun)
    document = {
        "command": "study create",
        "study": begun.name,
        "digest": begun.digest,
        "already_stored": existed,
        "owners": list(begun.owners),
    }
    verb = "was there already" if existed else "waits for its owners"
    emit(document, f"Study {begun.name} {verb}. Digest: {begun.digest}", as_json=as_json)


@study.command("list")
@_connection
@json_option
def list_studies(curator: str, credentials: Path, *, as_json: bool) -> None:
    """All studies, newest first.

    \b
    Example:
      dppca-curator study list --json
    """
    with _client(curator, credentials) as client:
        found = client.studies()
    document = {"command": "study list", "studies": [_line(summary) for summary in found]}
    lines = [f"{s.name:32} {s.state.value:12} {s.contributions} of {s.owners}" for s in found]
    emit(document, "\n".join(lines) or "There are no studies.", as_json=as_json)


@study.command()
@click.argument("name")
@_connection
@json_option
def show(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Study NAME: who has come, when, with how many rows.

    \b
    Example:
      dppca-curator study show nltcs
    """
    with _client(curator, credentials) as client:
        details = client.show(name)
    document = {
        "command": "study show",
        **_line(details.summary),
        "reason": details.reason,
        "who": [asdict(owner) for owner in details.owners],
        "document": json.loads(details.document),
    }
    emit(document, _describe(details), as_json=as_json)


@study.command()
@click.argument("name")
@_connection
@json_option
def close(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Take no more synthetic rows for study NAME. Results stay available.

    \b
    Example:
      dppca-curator study close nltcs
    """
    with _client(curator, credentials) as client:
        state = client.close(name)
    document = {"command": "study close", "study": name, "state": state.value}
    emit(document, f"Study {name} is {state.value}.", as_json=as_json)


@study.command()
@click.argument("name")
@click.option("--reason", required=True, help="Shown to the owners; at most 200 characters.")
@_connection
@json_option
def abort(name: str, reason: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """End the open study NAME without a result. What owners sent stays charged.

    \b
    Example:
      dppca-curator study abort nltcs --reason "The schema was wrong."
    """
    with _client(curator, credentials) as client:
        state = client.abort(name, reason)
    document = {"command": "study abort", "study": name, "state": state.value}
    emit(document, f"Study {name} is {state.value}.", as_json=as_json)


@study.command()
@click.argument("name")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The new file."
)
@_connection
@json_option
def components(name: str, output: Path, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Download the joint components of study NAME (.npz).

    \b
    Example:
      dppca-curator study components nltcs --output nltcs.npz
    """
    with _client(curator, credentials) as client:
        size = client.download_components(name, output)
    document = {"command": "study components", "study": name, "path": str(output), "bytes": size}
    emit(document, f"{output}: {size} bytes.", as_json=as_json)


@study.command()
@click.argument("name")
@click.option(
    "--form",
    type=click.Choice(["decoded", "coded"]),
    default="decoded",
    show_default=True,
    help="Rows that conform to the schema, or the model's own coordinates.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Ends in .parquet, .arrow or .csv.",
)
@_connection
@json_option
def synthetic(
    name: str, form: str, output: Path, curator: str, credentials: Path, *, as_json: bool
) -> None:
    """Download the synthetic rows that owners of study NAME have published, as one table.

    \b
    Example:
      dppca-curator study synthetic nltcs --form decoded --output nltcs.parquet
    """
    from common.conversation import Form
    from common.proof.signatures import signer_of
    from curator.tables import require_format, write_table

    require_format(output)
    signer = signer_of(_credentials(credentials))
    with _client(curator, credentials) as client:
        stream = output.with_name(f".{output.name}.stream")
        try:
            client.download_synthetic(name, Form(form), stream)
            n_rows = write_table(stream, output, signer)
        finally:
            stream.unlink(missing_ok=True)
    document = {
        "command": "study synthetic",
        "study": name,
        "form": form,
        "rows": n_rows,
        "path": str(output),
        "bytes": output.stat().st_size,
    }
    emit(document, f"{output}: {n_rows} synthetic rows.", as_json=as_json)


def read_study(file: Path) -> Study:
    """The study a YAML file describes; `SettingError` where it cannot be read."""
    from common.study import study_from_yaml

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"cannot read {file} as text"
        raise SettingError(message) from error
    return study_from_yaml(text)


def _client(curator: str, credentials: Path) -> AbstractContextManager[OperatorClient]:
    from common.transport.tls import Role, check_credentials
    from curator.config import parse_address
    from curator.operator import OperatorClient

    parse_address(curator)
    loaded = _credentials(credentials)
    check_credentials(loaded, role=Role.OPERATOR, name=None, now=datetime.now(UTC))
    return OperatorClient(curator, loaded)


def _credentials(folder: Path) -> Credentials:
    from common.transport.tls import load_credentials
    from curator.pki import CA_CERTIFICATE, CERTIFICATE, KEY

    return load_credentials(
        ca=folder / CA_CERTIFICATE, certificate=folder / CERTIFICATE, key=folder / KEY
    )


def _line(summary: Summary) -> dict[str, Any]:
    return {
        "study": summary.name,
        "digest": summary.digest,
        "state": summary.state.value,
        "contributions": summary.contributions,
        "owners": summary.owners,
        "created": _time(summary.created_s),
    }


def _describe(details: Details) -> str:
    summary = details.summary
    lines = [
        f"Study {summary.name} is {summary.state.value}: "
        f"{summary.contributions} of {summary.owners} owners have contributed.",
        f"Digest:  {summary.digest}",
        f"Created: {_time(summary.created_s)}",
    ]
    if details.reason:
        lines.append(f"Reason:  {details.reason}")
    for owner in details.owners:
        if owner.received_s is None:
            lines.append(f"  {owner.name:24} missing")
            continue
        lines.append(
            f"  {owner.name:24} {owner.rows} rows, {owner.bytes} bytes, "
            f"{_time(owner.received_s)}; synthetic rows: {owner.synthetic_coded_rows} coded, "
            f"{owner.synthetic_decoded_rows} decoded"
        )
    return "\n".join(lines)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
