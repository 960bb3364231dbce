"""Waiting times of tests: limits are for hangs and never for speed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")

WAIT_S = 300.0
"""Limit for one call, one event, or one process that does little."""
HANG_S = 1800.0
"""Limit for a command that does much: beyond it, the command hangs on any machine."""

_ASK_EVERY_S = 0.02


def wait_until(
    condition: Callable[[], _T | None],
    *,
    hang_s: float = WAIT_S,
    said: Callable[[], object] = lambda: "it did not come about",
) -> _T:
    """Ask repeatedly until the answer is true, and return it.

    Raise `AssertionError` with the output of ``said``, such as a log, after ``hang_s`` seconds:
    that is a hang, on any machine.
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
    encoding: str = "utf-8",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output; kill all its processes if it hangs."""
    line = [str(part) for part in command]
    pipes: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "encoding": encoding,
    }
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, env=env, cwd=cwd, start_new_session=True, **pipes
    ) as process:
        try:
            stdout, stderr = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed = "".join(process.communicate())
            raise AssertionError(
                f"{' '.join(line)}: not done after {HANG_S:g} s: {printed}"
            ) from None
    return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)
