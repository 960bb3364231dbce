"""Run one command; tell what all processes that it began have taken. The standard library alone.

::

    python -I -S reaper.py SECONDS LOG COMMAND ARGUMENT...

Prints one JSON document: ``processor_s`` (user and system time of every process, summed),
``peak_mib`` (resident memory of the largest one), ``clock_s``, ``code`` (of the command; null if it
was not done in SECONDS) and ``left`` (processes that were still alive long after it, and killed).

A process that loses its parent becomes a child of this one (Linux), which waits for it: so the time
of daemons, and of a server that commands are forked from, counts although nobody else waits.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
GRACE_S = 20.0


class Reaper:
    """The command, and when it is too late for it or for what it left."""

    def __init__(self, seconds: float, log: str, command: list[str]) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "this system lets no process adopt orphans")
        self._code: int | None = None
        self._done = self._late = False
        self._left: set[int] = set()
        signal.signal(signal.SIGALRM, self._kill)
        self._begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        with Path(log).open("ab") as output:
            self._command = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def wait(self) -> dict[str, object]:
        """Wait for every process; return what they took."""
        clock = 0.0
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                break
            if pid == self._command.pid:
                clock, self._done = time.monotonic() - self._begun, True
                self._code = None if self._late else os.waitstatus_to_exitcode(status)
                signal.setitimer(signal.ITIMER_REAL, GRACE_S, 0.1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "processor_s": used.ru_utime + used.ru_stime,
            "peak_mib": used.ru_maxrss / 1024,
            "clock_s": clock,
            "code": self._code,
            "left": len(self._left),
        }

    def _kill(self, _number: int, _frame: FrameType | None) -> None:
        self._late = True
        for pid in list_descendants():
            if self._done:
                self._left.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def list_descendants() -> list[int]:
    """Return the processes below this one that are alive."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if state != "Z":
            parents[int(file.parent.name)] = int(parent)
    found: list[int] = []
    below = {os.getpid()}
    while below:
        below = {pid for pid, parent in parents.items() if parent in below}
        found += below
    return found


if __name__ == "__main__":
    print(json.dumps(Reaper(float(sys.argv[1]), sys.argv[2], sys.argv[3:]).wait()))
