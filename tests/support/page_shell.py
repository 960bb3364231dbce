"""Pages of the documentation, as their readers follow them: by a shell, and by hand."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from tests.support.checkout import ROOT, SEEDED
from tests.support.patience import run_watched
from tests.support.requirements import miss


def read_blocks(page: Path) -> dict[str, str]:
    """Blocks marked `sh` below a comment `tested: NAME`, by name; those of lists are indented."""
    found = re.findall(
        r"^( *)<!-- tested: ([\w-]+) -->\n\1```sh\n(.*?)^\1```", page.read_text(), re.DOTALL | re.M
    )
    return {name: dedent(text) for _, name, text in found}


@dataclass
class PageShell:
    folder: Path
    blocks: Mapping[str, str]
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        commands = self.folder / "bin"
        commands.mkdir()
        rooms = {"owner": "owner", "curator": "curator", "simulate": "deploy.simulation"}
        rooms["verify"] = "common.verification"
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


_HAND = (ROOT / "docs/reference/receipts.md").read_text().split("## By hand")[1]


def check_by_hand(folder: Path, name: str) -> list[str]:
    """OpenSSL's output about a file; the page's example is cut for files without components."""
    if shutil.which("openssl") is None:
        miss("OpenSSL", "apt-get install openssl")
    (block,) = re.findall(r"^```python\n(.*?)^```$", _HAND, re.MULTILINE | re.DOTALL)
    if name != "components.npz":
        block = block.replace("components.npz", name).split("for release in")[0]
    subprocess.run([sys.executable, "-I", "-c", block], cwd=folder, check=True)
    said = []
    for command in re.findall(r"^    (openssl .*)$", _HAND, re.MULTILINE):
        ran = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
        said.append(ran.stdout + ran.stderr)
    return said
