"""Writes the lock files in `requirements/` from `pyproject.toml`, or compares them.

``python -m deploy.lock`` writes, keeping the versions there are where they still hold;
``--upgrade`` takes the newest, ``--check`` compares. Needs `uv` beside this Python or on
the path, and the package registry; ``make lock`` sees to both.

A lock file pins every package with the SHA-256 of each of its files, for all Pythons and systems
this software runs on at once, and names no registry: wherever the bytes come from, they are these.

::

    requirements/dev.lock      all of it: what `make test` and `make demo` work in
    requirements/runtime.lock  what is deployed; a part of dev.lock
    requirements/build.lock    what makes the wheel; a part of dev.lock
    requirements/fuzz.lock     what `make fuzz` adds
    requirements/tools.lock    what `make lock` and `make audit` need, apart from the rest

The first line of each is the digest of what `pyproject.toml` asks for. A test compares it without a
network, so a changed requirement cannot be forgotten here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
OLDEST_PYTHON = "3.11"
HEAD = "# Made by `make lock` from pyproject.toml, whose requirements have the SHA-256\n# {}\n"
LOCKS = ("dev", "runtime", "build", "fuzz", "tools")  # dev first: it constrains the next two


def main() -> int:
    """Entry point."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if uv is None:
        sys.stderr.write("uv is missing: run make lock\n")
        return 1
    check = "--check" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        made = {name: _compile(uv, name, Path(folder)) for name in LOCKS}
    if check:
        stale = [name for name, text in made.items() if text != _path(name).read_text()]
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}: run make lock\n")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name, text in made.items():
        if not _path(name).exists() or _path(name).read_text() != text:  # make goes by the time
            _path(name).write_text(text)
    return 0


def requirements(document: dict[str, Any]) -> dict[str, list[str]]:
    """What `pyproject.toml` asks for, by lock file; extras of ours are resolved."""
    project = document["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]

    def flat(wanted: list[str]) -> list[str]:
        found: list[str] = []
        for each in wanted:
            ours = each.removeprefix(f"{project['name']}[").removesuffix("]")
            found += [each] if ours == each else flat(extras[ours])
        return found

    runtime: list[str] = project["dependencies"]
    return {
        "dev": sorted({*runtime, *flat(extras["dev"])}),
        "runtime": sorted(runtime),
        "build": sorted({*document["build-system"]["requires"], "editables>=0.5"}),
        "fuzz": sorted(extras["fuzz"]),
        "tools": sorted(extras["tools"]),
    }


def digest_of(wanted: list[str]) -> str:
    """SHA-256 of requirements, in hexadecimal."""
    return hashlib.sha256(json.dumps(wanted).encode()).hexdigest()


def _path(name: str) -> Path:
    return FOLDER / f"{name}.lock"


def _compile(uv: str, name: str, folder: Path) -> str:
    """Text of one lock file; pins of the one that exists are kept where they still hold."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = requirements(document)[name]
    source, made = folder / f"{name}.in", folder / f"{name}.lock"
    source.write_text("\n".join(wanted) + "\n")
    if _path(name).exists() and "--upgrade" not in sys.argv:
        shutil.copy(_path(name), made)
    dev = folder / "dev.lock"
    subprocess.run(
        [
            *(uv, "pip", "compile", "--quiet", "--universal", "--generate-hashes"),
            *("--python-version", OLDEST_PYTHON, "--no-header", "--no-annotate"),
            *("--no-emit-index-url", "--no-emit-find-links", "--output-file", str(made)),
            *(("--constraints", str(dev)) if name in {"runtime", "build"} else ()),
            str(source),
        ],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    body = "".join(
        line for line in made.read_text().splitlines(keepends=True) if not line.startswith("#")
    )
    return HEAD.format(digest_of(wanted)) + body


if __name__ == "__main__":
    raise SystemExit(main())
