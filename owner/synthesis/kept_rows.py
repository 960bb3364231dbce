"""Signed tables of synthetic rows that lie at a site: what was signed is what is sent.

Rows come from products of floats, whose last digits differ between processors: the same command may
draw other rows on another machine. So a table is drawn only where none lies that was signed for the
same rows, and nothing replaces a signed table but one that the curator has accepted: a table that
is to be published is written to a folder of its own, and gets its name once it was accepted. A
command that was cut off leaves it there, and the next one sends it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dppca.common.kernel.attestation.claims import Replicate
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    FileStatement,
    embedded,
    envelope_path,
    open_envelope,
    read_envelope,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.durable.files import digest_file, writing
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    ReceiptError,
    SettingError,
    SignatureError,
)

_FOLDER = ".unpublished"
_NOT_SIGNED = (ArtefactError, ReceiptError, SignatureError, AlteredError)


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows that are wanted of a table.

    ``components_sha256`` is the digest of the result file, ``n_rows`` the number of rows, or None
    for any; ``ca`` is the authority's certificate (PEM), ``replicate`` says which one is wanted.
    """

    study_digest: str
    components_sha256: bytes
    form: Form
    n_rows: int | None
    ca: bytes | None
    replicate: Replicate | None = None


def unpublished(path: Path) -> Path:
    """Return the place of a table that the curator has yet to accept."""
    return path.parent / _FOLDER / path.name


def replicate_path(folder: Path, number: int, count: int) -> Path:
    """Return the path of a replicate in a folder."""
    return folder / f"replicate-{number:0{len(str(count))}}-of-{count}.parquet"


def list_files(folder: Path, paths: Iterable[Path], count: int) -> list[str]:
    """Return the names, in a folder, of all files of rows at these paths and of replicates."""
    tables = [each for path in paths for each in (path, unpublished(path))]
    tables += [replicate_path(folder, number + 1, count) for number in range(count)]
    files = [each for table in tables for each in (table, envelope_path(table))]
    return [each.relative_to(folder).as_posix() for each in files]


@dataclass(frozen=True, slots=True)
class SignedRows:
    """Signed table: where it lies, and its claims."""

    path: Path
    claims: Mapping[str, Any]


def find_signed(path: Path, wanted: WantedRows, *, publish: bool) -> SignedRows | None:
    """Return the signed table of these rows, at ``path`` or in its folder; None if there is none.

    Raise `SettingError` if other signed rows lie at ``path`` and these are not to be published.
    """
    here, waiting = _read_statement(path, wanted), _read_statement(unpublished(path), wanted)
    if here is not None and _fits(here, wanted):
        return SignedRows(path, here.predicate)
    if here is not None and not publish:
        raise SettingError(
            f"{path} holds {here.predicate.get('n_rows')} other rows, which were signed: name "
            "another folder (--output), or move the file away if it was given to nobody"
        )
    if waiting is None or not _fits(waiting, wanted):
        return None
    if not publish:
        give_name(path)
    return SignedRows(unpublished(path) if publish else path, waiting.predicate)


def give_name(path: Path) -> None:
    """Give an accepted table its name; `SettingError` if that is not possible."""
    waiting = unpublished(path)
    if waiting.exists():
        with writing(path):
            envelope_path(waiting).replace(envelope_path(path))
            waiting.replace(path)
    discard(path)


def discard(path: Path) -> None:
    """Remove a table that the curator will not accept."""
    waiting = unpublished(path)
    with suppress(OSError):
        waiting.unlink(missing_ok=True)
        envelope_path(waiting).unlink(missing_ok=True)
        waiting.parent.rmdir()  # fails while the other form waits there


def _read_statement(path: Path, wanted: WantedRows) -> FileStatement | None:
    """Return what was signed of a table; None if there is none that is as it was signed."""
    try:
        statement = open_envelope(
            read_envelope(path), Claim.ROWS, KnownParties(wanted.ca), what="the table's envelope"
        )
        statement.require_digest(digest_file(path))
    except (*_NOT_SIGNED, OSError):
        return None
    return statement


def _fits(statement: FileStatement, wanted: WantedRows) -> bool:
    said = statement.predicate
    try:
        envelope = embedded(said.get("components_envelope"), what="the components' envelope")
        components = open_envelope(
            envelope or b"", Claim.COMPONENTS, KnownParties(wanted.ca), what="the components'"
        )
    except _NOT_SIGNED:
        return False
    return (
        (said.get("study_digest"), said.get("form")) == (wanted.study_digest, wanted.form.value)
        and components.sha256 == wanted.components_sha256.hex()
        and said.get("replicate") == (wanted.replicate and asdict(wanted.replicate))
        and wanted.n_rows in (None, said.get("n_rows"))
    )
