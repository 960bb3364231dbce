"""Reader for the lock files in `requirements/`; ``make lock`` writes them with `uv`.

Each lock file pins every package with the SHA-256 of each of its files, for all supported Pythons
and systems at once, and names no registry.

::

    dev.lock      the environment of `make test` and of all that is tested
    demo.lock     what `make demo` needs; a part of dev.lock
    runtime.lock  the deployed packages; a part of dev.lock
    site.lock     what a site with pages and plots needs; a part of dev.lock
    verify.lock   what `dppca-owner verify` alone needs; a part of dev.lock
    build.lock    the packages that build the wheel; a part of dev.lock
    fuzz.lock     additions for `make fuzz`
    tools.lock    separate environment of `make lock` and `make audit`
    docs.lock     additions for `make docs`; agrees with dev.lock
    spark.lock    separate environment of the night's Spark suite

``python -m tools.lock`` prints the digest of the requirements in `pyproject.toml`. ``make lock``
writes it into the head of every lock file, and a test compares it.
"""

import hashlib
import json
import re
import sys
import tomllib
from pathlib import Path

from packaging.markers import Marker

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
LOCKS = ("dev", "demo", "runtime", "site", "verify", "build", "fuzz", "tools", "docs", "spark")


def requirements_digest() -> str:
    """SHA-256, in hexadecimal, of all requirements for the lock files."""
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

    ``python``, such as ``3.12``, selects the pins that CPython of this version needs on Linux on
    x86-64.
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
