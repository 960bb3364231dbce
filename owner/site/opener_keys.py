"""Opener keys of a site, in files that are destroyed after their use.

``openers/KEYID.key`` holds the 96 secret bytes of one key (mode 0600); KEYID is the SHA-256 of its
public half. The ledger offers a key before its file is made. The file is overwritten and removed
after the sums that the key opens are stored, and before they are sent. If a command was killed in
between, the next command of the site destroys the file (`sweep_opener_keys`).

Limits: a disk that writes to another place (flash, snapshots) may keep the old blocks, and so does
a backup: leave the folder ``openers`` out of backups.
"""

import os
from pathlib import Path

from dppca.common.kernel.aggregation.seals import OpenerKey
from dppca.common.kernel.durable.files import create_file, sync
from dppca.common.kernel.errors import ArtefactError, LedgerError, SettingError
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import Openers

_SUFFIX = ".key"


def create_opener_key(folder: Path, key: OpenerKey) -> None:
    """Store an offered key durably; raise `SettingError` if that is not possible."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        create_file(_path(folder, key.key_id), key.secret)
        sync(folder)
        sync(folder.parent)
    except OSError as error:
        raise SettingError(f"cannot keep the opener key in {folder}: {error.strerror}") from error


def read_opener_key(folder: Path, key_id: str) -> OpenerKey | None:
    """Read a key; return None if its file is missing or was not written completely.

    Raise `ArtefactError` if the file holds another key or cannot be read.
    """
    path = _path(folder, key_id)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArtefactError(f"cannot read {path}: {error.strerror}") from error
    try:
        key = OpenerKey(content)
    except ArtefactError:
        return None
    if key.key_id != key_id:
        raise ArtefactError(f"{path} holds another opener key than its name says")
    return key


def destroy_opener_key(folder: Path, key_id: str) -> bool:
    """Overwrite a key's file and remove it, durably; return False if there was none.

    On failure, raise a `SettingError` that names the file to destroy.
    """
    path = _path(folder, key_id)
    try:
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
        sync(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SettingError(
            f"cannot destroy {path}: {error.strerror}. It is no longer needed and must not stay: "
            "correct its permissions, then run the command again"
        ) from error
    return True


def list_opener_keys(folder: Path) -> tuple[str, ...]:
    """Identifiers of the keys that have a file, ascending."""
    return tuple(sorted(path.stem for path in folder.glob(f"*{_SUFFIX}")))


def spent_opener_keys(folder: Path, openers: Openers) -> tuple[str, ...]:
    """Keys that have opened their set, according to the ledger, but still have a file."""
    return tuple(
        key_id
        for key_id in list_opener_keys(folder)
        if key_id in openers and openers[key_id].opening is not None
    )


def unbound_opener_keys(folder: Path, openers: Openers) -> tuple[str, ...]:
    """Keys with a file that have neither voted nor opened, according to the ledger."""
    return tuple(
        key_id
        for key_id in list_opener_keys(folder)
        if key_id not in openers or openers[key_id].bound is None
    )


def sweep_opener_keys(folder: Path, ledger: Path) -> None:
    """Destroy keys that an interrupted opening has left behind.

    Do nothing if the ledger cannot be read: the command that needs it reports the fault.
    """
    if not list_opener_keys(folder):
        return
    try:
        openers = read_history(ledger).openers
    except LedgerError:
        return
    for key_id in spent_opener_keys(folder, openers):
        destroy_opener_key(folder, key_id)


def _path(folder: Path, key_id: str) -> Path:
    return folder / f"{key_id}{_SUFFIX}"
