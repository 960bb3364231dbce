"""What one command took, with all of its processes."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REAPER = Path(__file__).with_name("reaper.py")
LIMIT_S = 1800.0
_LAST = 300


class RunError(RuntimeError):
    """A command failed, or was not done in time; its last words."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What all processes of a command took.

    Attributes
    ----------
    processor_s
        User and system time, summed.
    clock_s
        From the beginning to the end of the command.
    peak_mib
        Resident memory of the largest process.
    """

    processor_s: float
    clock_s: float
    peak_mib: float


def take(
    command: Sequence[object],
    folder: Path,
    *,
    limit_s: float = LIMIT_S,
    variables: Mapping[str, str] | None = None,
) -> Taken:
    """Run a command in a folder to its end; raise `RunError`."""
    with tempfile.NamedTemporaryFile("w+", errors="replace") as log:
        asked = [sys.executable, "-I", "-S", REAPER, limit_s, log.name, *command]
        done = subprocess.run(
            list(map(str, asked)),
            cwd=folder,
            env={**environment(), **(variables or {})},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout)
        words = log.read().strip()[-_LAST:]
    if found["code"] is None:
        raise RunError(f"not done in {limit_s:.0f} s")
    if found["code"] or found["left"]:
        left = f"; {found['left']} of its processes did not end" if found["left"] else ""
        raise RunError(f"it ended with {found['code']}{left}: {words}")
    return Taken(found["processor_s"], found["clock_s"], found["peak_mib"])


def environment() -> dict[str, str]:
    """Return the variables of this process without those of Python, make and a real site."""
    ours = ("PYTHON", "DPPCA_", "VIRTUAL_ENV", "MAKE", "MFLAGS")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}
