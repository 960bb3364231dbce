"""The watchdog of commands that tests start tells a hang from slowness."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.patience import (
    HANG_S,
    STALL_S,
    WAIT_S,
    Progress,
    run_watched,
    ticks_of_family,
    wait_until,
)

HANGS = (
    "import pathlib, sys, time\n"
    "print('begun', flush=True)\n"
    "pathlib.Path(sys.argv[1]).touch()\n"
    "time.sleep(3600)\n"
)
WORKS = "while True: pass"
PARENT = (
    "import pathlib, subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', *sys.argv[2:]], start_new_session=True)\n"
    "pathlib.Path(sys.argv[1]).write_text(str(child.pid))\n"
    "sys.exit(child.wait())\n"
)


def clock_after(path: Path, seconds: float) -> Callable[[], float]:
    """A clock on which so much time has gone once there is a file; what is slow takes no time."""
    return lambda: seconds if path.exists() else 0.0


def test_a_command_that_hangs_is_ended_and_its_words_are_shown(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with pytest.raises(AssertionError, match=r"no progress for 300 s; it printed: begun"):
        run_watched([sys.executable, "-c", HANGS, begun], clock=clock_after(begun, STALL_S + 1))


def test_what_works_for_longer_than_a_stall_is_left_alone_and_so_is_what_lost_a_child() -> None:
    progress = Progress(100.0, stall_s=2, working_s=0.5, hang_s=60)
    looks = [(101, 0.4), (102, 0.5), (104, 1.0), (106, 1.4), (106, 0.4), (108, 0.0)]
    assert [progress.fault(*look) for look in looks] == [""] * len(looks)
    assert progress.fault(108.1, 0.4) == "no progress for 2 s"
    assert progress.fault(161.0, 99.0) == "not done after 60 s"


def test_the_work_of_a_child_is_work_of_the_command(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", PARENT, pid, WORKS]) as parent:
        child = int(wait_until(lambda: pid.exists() and pid.read_text()))
        family = ticks_of_family(parent.pid)
        wait_until(lambda: ticks_of_family(parent.pid)[child] >= family[child] + 5)
        assert family.keys() == {parent.pid, child}
        subprocess.run(["kill", str(child)], check=True)
        assert parent.wait(WAIT_S) != 0


def test_the_children_of_a_command_that_hangs_are_ended_too(tmp_path: Path) -> None:
    pid, begun = tmp_path / "pid", tmp_path / "begun"
    command = [sys.executable, "-c", PARENT, pid, HANGS, begun]
    with pytest.raises(AssertionError, match="no progress"):
        run_watched(command, clock=clock_after(begun, STALL_S + 1))
    # A killed process closes its pipes before it is gone: the command is done a moment earlier.
    wait_until(lambda: not _lives(Path("/proc") / pid.read_text() / "stat"))


def _lives(status: Path) -> bool:
    try:
        return not status.read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_never_ends_is_ended_though_it_works(tmp_path: Path) -> None:
    begun, works = tmp_path / "begun", HANGS.replace("time.sleep(3600)", WORKS)
    with pytest.raises(AssertionError, match="not done after 1800 s"):
        run_watched(
            [sys.executable, "-c", works, begun],
            clock=clock_after(begun, HANG_S + 1),
            stall_s=2 * HANG_S,
        )


def test_what_is_waited_for_is_returned_and_what_never_comes_is_told() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers)) == 7
    began = time.monotonic()
    with pytest.raises(AssertionError, match=r"not within 0.1 s: the log"):
        wait_until(lambda: None, hang_s=0.1, said=lambda: "the log")
    assert time.monotonic() - began > 0.1
