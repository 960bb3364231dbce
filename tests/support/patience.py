"""How long a test waits: limits are for hangs and never for speed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

WAIT_S = 300.0
"""For one call, one event, or one process that does little."""
HANG_S = 1800.0
"""For a command that does much: longer means that it hangs, on whatever machine."""
STALL_S, WORKING_S = 300.0, 0.5
"""A command that uses less than this processor time in so many seconds hangs."""

_LOOK_EVERY_S = 0.5
_ASK_EVERY_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def wait_until(
    condition: Callable[[], _T | None],
    *,
    hang_s: float = WAIT_S,
    said: Callable[[], object] = lambda: "it did not come about",
) -> _T:
    """Ask again and again until the answer is true, and return it.

    Parameters
    ----------
    said
        What to show where that does not happen, such as a log.

    Raises
    ------
    AssertionError
        It was not true within ``hang_s`` seconds: something hangs, on whatever machine.
    """
    end = time.monotonic() + hang_s
    while not (answer := condition()):
        assert time.monotonic() < end, f"not within {hang_s:g} s: {said()}"
        time.sleep(_ASK_EVERY_S)
    return answer


def run_watched(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stall_s: float = STALL_S,
    working_s: float = WORKING_S,
    hang_s: float = HANG_S,
    clock: Callable[[], float] = time.monotonic,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return what it printed.

    A watchdog looks at the processor time of the command and of all its descendants. Where they
    use less than ``working_s`` in ``stall_s``, or take longer than ``hang_s``, all are killed.

    Raises
    ------
    AssertionError
        The watchdog has ended the command; the message says why, and what the command printed.
    """
    line = [str(part) for part in command]
    process = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=None if env is None else dict(env),
        cwd=cwd,
    )
    ended, verdict = threading.Event(), list[str]()

    def watch() -> None:
        progress = Progress(clock(), stall_s, working_s, hang_s)
        while not ended.wait(_LOOK_EVERY_S):
            now, ticks = clock(), ticks_of_family(process.pid)
            if fault := progress.fault(now, sum(ticks.values()) / _TICKS_PER_S):
                verdict.append(fault)
                _kill(ticks)
                return

    watchdog = threading.Thread(target=watch, daemon=True)
    watchdog.start()
    try:
        stdout, stderr = process.communicate()
    finally:
        ended.set()
        watchdog.join()
        if process.poll() is None:
            _kill(ticks_of_family(process.pid))
            process.wait()
    if verdict:
        raise AssertionError(f"{' '.join(line)}: {verdict[0]}; it printed: {stdout}{stderr}")
    return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)


@dataclass
class Progress:
    """Tells a hang from slowness, by a time and the processor time that was used until then."""

    started: float
    stall_s: float
    working_s: float
    hang_s: float

    def __post_init__(self) -> None:
        self._moved, self._used = self.started, 0.0

    def fault(self, now: float, used: float) -> str:
        """What is wrong now; "" where nothing is."""
        # A descendant that ends takes its time with it: a change downward is progress, too.
        if abs(used - self._used) >= self.working_s:
            self._moved, self._used = now, used
        if now - self._moved > self.stall_s:
            return f"no progress for {self.stall_s:g} s"
        return f"not done after {self.hang_s:g} s" if now - self.started > self.hang_s else ""


def _kill(family: Mapping[int, int]) -> None:
    for pid in family:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)


def ticks_of_family(root: int) -> dict[int, int]:
    """Processor time of a process and of each living descendant, by process, in clock ticks."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[1])
            ticks[int(folder.name)] = sum(int(field) for field in fields[11:15])
    family: set[int] = set()
    generation = {root} & parents.keys()
    while generation:
        family |= generation
        generation = {pid for pid, parent in parents.items() if parent in generation}
    return {pid: ticks[pid] for pid in family}
