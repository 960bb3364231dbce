"""What is shown while a study runs in containers, and how leftovers are told apart."""

from __future__ import annotations

import io
import os
import re
import socket

from rich.console import Console

from dppca.deploy.simulation.containers.orphans import RunState, find_state
from dppca.deploy.simulation.containers.progress import ProgressTable

PARTIES = ("curator", "owner-1")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_every_step_is_a_line_with_seconds_and_bytes() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = ProgressTable(PARTIES, shown=True, stream=stream, clock=clock)
    progress.open()
    clock.now += 1
    progress.begin("owner-1", "contribute")
    progress.count("owner-1", 799)
    progress.count("owner-1", 0)
    clock.now += 2.5
    progress.begin("owner-1", "done")
    progress.close()
    progress.say("removing")
    assert [" ".join(line.split()) for line in stream.getvalue().splitlines()] == [
        "1.0 s owner-1 contribute 0.0 s 0 bytes",
        "3.5 s owner-1 done 2.5 s 799 bytes",
        "3.5 s removing",
    ]


def test_the_table_has_a_row_for_each_party() -> None:
    clock = Clock()
    progress = ProgressTable(PARTIES, shown=False, clock=clock)
    progress.begin("owner-1", "contribute")
    clock.now += 1.25
    progress.begin("owner-1", "components")
    console = Console(file=io.StringIO(), width=80)
    console.print(progress.table())
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"curator +waiting +0\.0 +0\n", drawn)
    assert re.search(r"owner-1 +components +1\.2 +0\n", drawn)


def test_silent_progress_says_nothing() -> None:
    stream = io.StringIO()
    progress = ProgressTable(PARTIES, shown=False, stream=stream)
    progress.open()
    progress.begin("owner-1", "contribute")
    progress.say("something")
    progress.close()
    assert stream.getvalue() == ""


def test_runs_of_processes_that_ended_are_leftovers() -> None:
    here = socket.gethostname()
    assert find_state(f"{here}:{os.getpid()}") is RunState.RUNNING
    assert find_state(f"{here}:17", lives=lambda _: False) is RunState.LEFT
    for process in ("", f"{here}:", f"{here}:x", f"not-{here}:17"):
        assert find_state(process, lives=lambda _: False) is RunState.ELSEWHERE
