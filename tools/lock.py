"""Reads the lock files in `requirements/`, without a network; ``make lock`` writes them with `uv`.

Each lock file pins every package with the SHA-256 of each of its files, for all supported Pythons
and systems at once, and names no registry.

::

    dev.lock      what `make test` and `make demo` work in
    runtime.lock  what is deployed; a part of dev.lock
    build.lock    what makes the wheel; a part of dev.lock
    fuzz.lock     what `make fuzz` adds
    tools.lock    what `make lock` and `make audit` need, in an environment of their own
    docs.lock     what `make docs` adds; agrees with dev.lock
    spark.lock    what the night's suite of Spark needs, in an environment of its own

``python -m tools.lock`` prints the digest of the requirements in `pyproject.toml`. ``make lock``
writes it into the head of every lock file, and a test compares it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
LOCKS = ("dev", "runtime", "build", "fuzz", "tools", "docs", "spark")


def requirements_digest() -> str:
    """SHA-256, in hexadecimal, of all requirements that the lock files are made from."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = document["project"]
    command = (
        project["requires-python"],
        project["dependencies"],
        project["optional-dependencies"],
        document["dependency-groups"],
        document["build-system"]["requires"],
    )
    return hashlib.sha256(json.dumps(command, sort_keys=True).encode()).hexdigest()


def read_pins(lock: str, python: str | None = None) -> list[str]:
    """Read the pins of a lock file, each as one line ``NAME==VERSION [; MARKER] --hash=…``.

    Parameters
    ----------
    python
        A version such as ``3.12``: only what CPython of this version needs on Linux on x86-64.
    """
    text = (FOLDER / f"{lock}.lock").read_text().replace("\\\n", "")
    pins = [re.sub(r"\s+", " ", line) for line in text.splitlines() if not line.startswith("#")]
    return [pin for pin in pins if python is None or _applies(pin, python)]


def _applies(pin: str, python: str) -> bool:
    marker = re.search(r" ; (.*?) --hash", pin)
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": "x86_64",
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    return marker is None or Marker(marker[1]).evaluate(environment)


if __name__ == "__main__":
    sys.stdout.write(requirements_digest())
