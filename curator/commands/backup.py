"""``dppca-curator backup`` and ``restore``."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.shell.console import FOLDER, emit, prints, progress
from dppca.common.shell.outputs import output_folder

if TYPE_CHECKING:
    from dppca.curator.store.backup import Backup


_DOCUMENT = "dppca.curator.store.backup:BackupDocument"


@click.command()
@click.option("--state", type=FOLDER, required=True, help="Folder of the daemon's studies.")
@output_folder("--to", required=True, fresh=True, help="Folder to make; it must not exist.")
@prints(_DOCUMENT)
def backup(state: Path, to: Path, *, as_json: bool) -> None:
    """Copy all studies as they are now. The daemon may be running.

    The copy holds noised sums, components and synthetic rows: everything in it was released. Keys
    and certificates are not in it: keep the authority's folder and the curator's credentials
    apart.

    \b
    Example:
      dppca-curator backup --state state --to backup-2026-05-01
    """
    from dppca.curator.store.backup import back_up

    with progress("Copying bytes", enabled=not as_json) as bar:
        made = back_up(state, to, now_s=int(time.time()), advance=bar.advance)
    _tell(to, made, as_json=as_json)


@click.command()
@click.argument("backup", type=FOLDER)
@click.option(
    "--state", type=FOLDER, required=True, help="Folder to fill; it must hold no studies."
)
@prints(_DOCUMENT)
def restore(backup: Path, state: Path, *, as_json: bool) -> None:
    """Make a state folder from BACKUP. Every byte is compared with its digest.

    Afterwards, start the daemon with this folder as --state. It does not hold what owners sent
    after the backup: they must run their commands again.

    \b
    Example:
      dppca-curator restore backup-2026-05-01 --state new-state
    """
    from dppca.curator.store.backup import restore as fill

    with progress("Copying bytes", enabled=not as_json) as bar:
        manifest = fill(backup, state, advance=bar.advance)
    _tell(state, manifest, as_json=as_json)


def _tell(folder: Path, backup: Backup, *, as_json: bool) -> None:
    from dppca.curator.store.backup import BackupDocument

    text = (
        f"{folder}: {many(backup.studies, 'studies')}, "
        f"{many(backup.contributions, 'contributions')}, "
        f"{many(backup.files, 'files')} of {backup.file_bytes} bytes, "
        f"store version {backup.version}."
    )
    emit(BackupDocument(folder=folder, **asdict(backup)), text, as_json=as_json)
