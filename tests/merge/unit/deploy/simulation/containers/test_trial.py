"""What is said of the containers' lines, and where they are kept."""

from pathlib import Path

import pytest

from dppca.deploy.simulation.containers.trial import Follower

LINES = [
    ("owner-1-key", "step: init"),
    ("owner-1-key", "step: done"),
    ("owner-1", "ok       clock: agrees"),
    ("owner-1", "step: contribute"),
    ("owner-2", "started again (1)"),
    ("owner-1", "step: done"),
    ("owner-2", "step: done"),
]


@pytest.mark.parametrize("every", [False, True])
def test_steps_are_said_in_words_and_each_container_has_a_file(every: bool, tmp_path: Path) -> None:
    said: list[str] = []
    follow = Follower(tmp_path / "logs", ("owner-1", "owner-2"), said=said.append, every=every)
    for name, line in LINES:
        follow(name, line)
    others = ["owner-1 | ok       clock: agrees"] if every else []
    assert said == [
        "owner-1-key: makes its key",
        *others,
        "owner-1: adds up its rows, adds noise and sends",
        "owner-2 | started again (1)",
        "owner-1: done (1 of 2 owners)",
        "owner-2: done (2 of 2 owners)",
    ]
    kept = (tmp_path / "logs" / "owner-1.log").read_text().splitlines()
    assert kept == ["ok       clock: agrees", "step: contribute", "step: done"]
