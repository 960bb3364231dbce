"""A shell that runs the blocks of a page of the documentation unchanged."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.checkout import SEEDED
from tests.support.patience import run_watched


def read_blocks(page: Path) -> dict[str, str]:
    """Blocks marked `sh` below a comment `tested: NAME`, by name."""
    return dict(
        re.findall(r"<!-- tested: ([\w-]+) -->\n```sh\n(.*?)```", page.read_text(), re.DOTALL)
    )


@dataclass
class PageShell:
    folder: Path
    blocks: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        commands = self.folder / "bin"
        commands.mkdir()
        rooms = {"owner": "owner", "curator": "curator", "simulate": "deploy.simulation"}
        for name, room in rooms.items():
            script = commands / f"dppca-{name}"
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dppca.{room}.cli "$@"\n')
            script.chmod(0o755)
        self.variables |= {
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": SEEDED,
            "OPENBLAS_NUM_THREADS": "1",
        }

    def run(self, block: str) -> str:
        """Standard output of one block, all of whose commands succeed."""
        done = run_watched(["sh", "-euc", self.blocks[block]], cwd=self.folder, env=self.variables)
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"
        return done.stdout
