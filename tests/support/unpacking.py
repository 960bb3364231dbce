"""Archives of ours, unpacked by any Python that this project supports."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: str | Path, folder: Path) -> None:
    """Unpack a tar archive into a folder; Python before 3.11.4 has no filters, and needs none."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extractall(folder, filter="data")
        else:
            opened.extractall(folder)  # noqa: S202 - what we packed
