"""The reader's steps on the page on receipts, with Python's standard library and OpenSSL."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.requirements import miss

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
