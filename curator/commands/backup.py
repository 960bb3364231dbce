"""``dppca-curator backup`` and ``restore``."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from common.console import emit, json_option, progress

if TYPE_CHECKING:
    from curator.store.backup import Backup

_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--state", type=_FOLDER, required=True, help="Folder of the daemon's studies.")
@click.option("--to", type=_FOLDER, required=True, help="Folder to make; it must not exist.")
@json_option
def backup(state: Path, to: Path, *, as_json: bool) -> None:
    """Copy all studies as they are now, while the daemon serves or not.

    The copy holds noised sums, components and synthetic rows: everything in it was released. Keys
    and certificates are not in it: keep the authority's folder and the curator's credentials
    apart.

    \b
    Example:
      dppca-curator backup --state state --to backup-2026-05-01
    """
    from curator.store.backup import back_up

    with progress("Copying bytes", enabled=not as_json) as bar:
        made = back_up(state, to, now_s=int(time.time()), advance=bar.advance)
    _tell("backup", to, made, as_json=as_json)


@click.command()
@click.argument("backup", type=_FOLDER)
@click.option("--state", type=_FOLDER, required=True, help="Folder without studies, to fill.")
@json_option
def restore(backup: Path, state: Path, *, as_json: bool) -> None:
    """Make a state folder of BACKUP; every byte is compared with its digest.

    Start the daemon with this folder as --state afterwards. What owners sent after the backup
    is not in it: they run their commands again.

    \b
    Example:
      dppca-curator restore backup-2026-05-01 --state new-state
    """
    from curator.store.backup import restore as fill

    with progress("Copying bytes", enabled=not as_json) as bar:
        found = fill(backup, state, advance=bar.advance)
    _tell("restore", state, found, as_json=as_json)


def _tell(command: str, folder: Path, backup: Backup, *, as_json: bool) -> None:
    document = {"command": command, "folder": str(folder), **asdict(backup)}
    text = (
        f"{folder}: {backup.studies} studies, {backup.contributions} contributions, "
        f"{backup.files} files of {backup.file_bytes} bytes, store version {backup.version}."
    )
    emit(document, text, as_json=as_json)
