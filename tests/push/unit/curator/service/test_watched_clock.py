"""A jump of the wall clock ends nothing until it lasts; nothing is over that is not by both."""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.curator.service.watched_clock import JUMP_S, LASTS_S, WatchedClock, count_seconds
from tests.support.examples import examples

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
DAY_S = 86_400.0


@dataclass
class Clocks:
    """A wall clock that is wrong by ``wrong_s``, and true seconds."""

    passed_s: float = 0.0
    wrong_s: float = 0.0

    def watched(self) -> WatchedClock:
        return WatchedClock(self.wall, lambda: 1000.0 + self.passed_s)

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.passed_s + self.wrong_s)

    @property
    def true(self) -> datetime:
        return START + timedelta(seconds=self.passed_s)


def test_a_day_forward_for_six_seconds_is_held_back() -> None:
    clocks = Clocks()
    now = clocks.watched()
    clocks.passed_s = 5
    assert (now(), now.held) == (clocks.true, None)
    clocks.wrong_s = DAY_S
    for _ in range(6):
        clocks.passed_s += 1
        assert (now(), now.held) == (clocks.true, timedelta(days=1))
    clocks.wrong_s = 0
    assert (now(), now.held) == (clocks.true, None)


@pytest.mark.parametrize("jump_s", [DAY_S, -DAY_S, JUMP_S + 1, -JUMP_S - 1])
def test_a_jump_that_lasts_is_believed(jump_s: float) -> None:
    clocks = Clocks()
    now = clocks.watched()
    clocks.wrong_s = jump_s
    assert now() == min(clocks.true, clocks.wall())
    clocks.passed_s = LASTS_S - 1
    assert now() == min(clocks.true, clocks.wall())
    assert now.held == timedelta(seconds=jump_s)
    clocks.passed_s = LASTS_S
    assert (now(), now.held) == (clocks.wall(), None)
    clocks.wrong_s = 0  # and so is the way back from then on
    assert now.held == timedelta(seconds=-jump_s)


def test_a_clock_that_goes_on_jumping_is_never_believed() -> None:
    clocks = Clocks()
    now = clocks.watched()
    for _ in range(20):
        clocks.passed_s += LASTS_S / 2
        clocks.wrong_s += DAY_S
        assert now() == clocks.true


def test_a_clock_that_runs_too_fast_is_held_back_and_small_corrections_are_followed() -> None:
    fast, slewed = Clocks(), Clocks()
    now, followed = fast.watched(), slewed.watched()
    for _ in range(1000):
        fast.passed_s += 1
        fast.wrong_s += 99
        assert now() <= fast.true + timedelta(seconds=JUMP_S)
        slewed.passed_s += 1
        slewed.wrong_s += 0.09
        assert (followed(), followed.held) == (slewed.wall(), None)
    assert now.held is not None


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(-1e8, 1e8)), max_size=12),
)
def test_nothing_is_over_before_it_is_by_the_true_clock(jumps: list[tuple[float, float]]) -> None:
    """By more than a jump's least size, while no jump lasts: they end within the time allowed."""
    clocks = Clocks()
    now = clocks.watched()
    for passed_s, wrong_s in jumps:
        clocks.passed_s += min(passed_s, LASTS_S / 13)
        clocks.wrong_s = wrong_s
        assert now() <= clocks.true + timedelta(seconds=2 * JUMP_S)
    clocks.wrong_s = 0.0
    assert abs(now() - clocks.true) <= timedelta(seconds=2 * JUMP_S)


def test_a_jump_is_logged_when_it_comes_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    now = clocks.watched()
    with caplog.at_level(logging.WARNING, logger="dppca.curator"):
        for wrong_s in (-DAY_S, -DAY_S, 0.0, 0.0):
            clocks.wrong_s = wrong_s
            now()
    assert [record.message for record in caplog.records] == ["clock jumped", "clock is back"]
    fields = caplog.records[0].__dict__["fields"]
    assert fields["jump"] == "-1 d"
    assert "held back" in fields["next"]


def test_the_seconds_that_are_counted_pass() -> None:
    first = count_seconds()
    assert 0 <= count_seconds() - first < 60
    assert first >= time.monotonic() - 1
