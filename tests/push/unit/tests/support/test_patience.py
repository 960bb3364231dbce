"""The watchdog of commands that tests start tells a hang from slowness."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.support.patience import WAIT_S, run_watched

HANGS = "import time; print('begun', flush=True); time.sleep(3600)"
SLOW = "import time\nend = time.process_time() + 3\nwhile time.process_time() < end: pass\nprint(1)"
PARENT = (
    "import pathlib, subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True)\n"
    "pathlib.Path(sys.argv[2]).write_text(str(child.pid))\n"
    "sys.exit(child.wait())\n"
)


def test_a_command_that_hangs_is_ended_and_its_words_are_shown() -> None:
    with pytest.raises(AssertionError, match=r"no progress for 2 s; it printed: begun"):
        run_watched([sys.executable, "-c", HANGS], stall_s=2)


def test_a_command_that_works_for_longer_than_a_stall_is_left_alone() -> None:
    done = run_watched([sys.executable, "-c", SLOW], stall_s=2, working_s=0.05)
    assert (done.returncode, done.stdout) == (0, "1\n")


def test_the_work_of_a_child_is_progress_of_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, SLOW, tmp_path / "pid"]
    assert run_watched(command, stall_s=2, working_s=0.05).returncode == 0


def test_the_children_of_a_command_that_hangs_are_ended_too(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no progress"):
        run_watched([sys.executable, "-c", PARENT, HANGS, tmp_path / "pid"], stall_s=2)
    status = Path("/proc") / (tmp_path / "pid").read_text() / "stat"
    # A killed process closes its pipes before it is gone: the command is done a moment earlier.
    deadline = time.monotonic() + WAIT_S
    while _lives(status) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(status)


def _lives(status: Path) -> bool:
    try:
        return not status.read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_that_never_ends_is_ended_though_it_works() -> None:
    with pytest.raises(AssertionError, match="not done after 2 s"):
        run_watched([sys.executable, "-c", "while True: pass"], hang_s=2)
