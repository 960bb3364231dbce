"""What is shown while a study runs in containers, and how leftovers are told apart."""

from __future__ import annotations

import io
import os
import re
import socket
import threading
from pathlib import Path

import pytest
from rich.console import Console

from common.errors import EngineError, SettingError
from deploy.containers import board as board_module
from deploy.containers.addresses import DEFAULT_RANGE
from deploy.containers.board import Board
from deploy.containers.cluster import DEFAULT_IMAGE
from deploy.containers.federation import ContainerFederation
from deploy.containers.leftovers import RunState, state_of
from deploy.containers.wanted import Traffic
from deploy.simulation import cli
from deploy.simulation.demo import demo_study
from deploy.simulation.experiment import with_owners

PARTIES = ("curator", "owner-1")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board_module, "POLL_S", 0.01)


def test_every_change_is_a_line_with_seconds_and_bytes() -> None:
    stream, clock = io.StringIO(), Clock()
    board = Board(
        PARTIES, traffic=lambda _: Traffic(700, 99), shown=True, stream=stream, clock=clock
    )
    board.watch()
    with board.at_work("owner-1", "contribute", then="contributed"):
        clock.now += 2.5
    with board.at_work("curator", "looking"):
        clock.now += 1
    board.close()
    board.say("removing")
    lines = [" ".join(line.split()) for line in stream.getvalue().splitlines()]
    assert sorted(lines[:-1]) == [
        "0.0 s owner-1 contribute 0.0 s 799 bytes",
        "2.5 s curator looking 0.0 s 799 bytes",
        "2.5 s owner-1 contributed 2.5 s 799 bytes",
    ]
    assert lines[-1] == "3.5 s removing"


def test_a_party_that_fails_is_shown_so() -> None:
    stream = io.StringIO()
    board = Board(PARTIES, traffic=lambda _: Traffic(0, 0), shown=True, stream=stream)
    board.watch()
    with pytest.raises(SettingError), board.at_work("owner-1", "train", then="done"):
        raise SettingError
    board.close()
    assert "failed: train" in stream.getvalue()
    assert board.rows["owner-1"].state == "failed: train"


def test_a_party_that_has_gone_keeps_the_bytes_it_had() -> None:
    asked = threading.Event()

    def traffic(party: str) -> Traffic:
        if asked.is_set():
            raise EngineError(party)
        asked.set()
        return Traffic(5, 6)

    board = Board(PARTIES, traffic=traffic, shown=True, stream=io.StringIO())
    board.watch()
    with board.at_work("owner-1", "train"):
        assert asked.wait(60)
    board.close()
    assert board.rows["owner-1"].n_bytes == 11


def test_the_table_has_a_row_for_each_party() -> None:
    clock = Clock()
    board = Board(PARTIES, traffic=lambda _: Traffic(0, 0), shown=False, clock=clock)
    with board.at_work("owner-1", "contribute"):
        clock.now += 1.25
        console = Console(file=io.StringIO(), width=80)
        console.print(board.table())
        drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"curator +waiting +0\.0 +0\n", drawn)
    assert re.search(r"owner-1 +contribute +1\.2 +0\n", drawn)


def test_a_silent_board_asks_and_says_nothing() -> None:
    stream = io.StringIO()

    def traffic(party: str) -> Traffic:
        pytest.fail(f"asked for {party}")

    board = Board(PARTIES, traffic=traffic, shown=False, stream=stream)
    board.watch()
    with board.at_work("owner-1", "contribute"):
        board.say("something")
    board.close()
    assert stream.getvalue() == ""


def test_runs_of_processes_that_ended_are_leftovers() -> None:
    here = socket.gethostname()
    assert state_of(f"{here}:{os.getpid()}") is RunState.RUNNING
    assert state_of(f"{here}:17", lives=lambda _: False) is RunState.LEFT
    for process in ("", f"{here}:", f"{here}:x", f"not-{here}:17"):
        assert state_of(process, lives=lambda _: False) is RunState.ELSEWHERE


@pytest.mark.parametrize("owners", [1, 21])
def test_containers_serve_two_to_twenty_owners(owners: int, tmp_path: Path) -> None:
    study = with_owners(demo_study(), owners)
    with pytest.raises(SettingError, match="2 to 20 owners"):
        ContainerFederation(shown=False)(
            study,
            rows={},
            held_out=tmp_path,
            target="idp",
            folder=tmp_path,
            output=tmp_path,
            on_step=lambda: None,
        )


def test_the_commands_defaults_are_those_of_the_containers() -> None:
    assert cli.IMAGE == DEFAULT_IMAGE
    assert cli.SUBNET == DEFAULT_RANGE
