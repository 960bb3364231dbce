"""Each side says its version, and the curator its clock; what is said leads to remarks alone."""

from datetime import timedelta

import pytest

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.transport.greeting import (
    VERSION,
    Greeting,
    clock_remark,
    make_greeting,
    read_greeting,
    version_remark,
)
from dppca.common.wire import federation_pb2 as pb


@pytest.mark.parametrize(
    ("theirs", "ours", "says"),
    [
        ("0.3.0", "0.3.0", ""),
        ("0.3.0.dev1", "0.3.0", ""),
        ("0.3.0", "0.10.0", "runs DPPCA 0.3.0, and this site the newer 0.10.0"),
        ("1.0", "0.10.0", "runs DPPCA 1.0, and this site the older 0.10.0"),
        ("0.3.1", "0.3", "the older 0.3"),
        ("", "0.3.0", "is of an earlier version than this site (0.3.0): it says none"),
    ],
)
def test_an_older_side_that_meets_a_newer_one_is_named(theirs: str, ours: str, says: str) -> None:
    remark = version_remark(theirs, who="the curator", here="this site", ours=ours)
    assert remark.startswith(f"the curator {says}" if says.startswith(("runs", "is")) else "")
    assert says in remark
    assert bool(remark) == bool(says)


@pytest.mark.parametrize(
    "text",
    ["", "x", "9" * 7, "1\n2", "0.3.0\x1b[31m", "0.3.0" + "a" * 40, "1.0 ", "١"],
)
def test_a_version_that_cannot_be_is_as_if_none_was_said(text: str) -> None:
    assert read_greeting(pb.Greeting(version=text)) == Greeting()


def test_both_sides_of_one_version_say_nothing_to_people() -> None:
    began = utc_now()
    greeting = read_greeting(make_greeting(now=began), asked=began)
    assert (greeting.version, greeting.held) == (VERSION, False)
    assert greeting.remarks() == []
    assert greeting.ahead is not None
    assert clock_remark(greeting.ahead, who="the curator") == ""


@pytest.mark.parametrize(
    ("apart", "says"),
    [
        (timedelta(days=1), "1 d ahead of this machine's"),
        (timedelta(days=-1), "1 d behind this machine's"),
        (timedelta(seconds=61), "1 min ahead of"),
        (timedelta(seconds=-61), "1 min behind"),
        (timedelta(seconds=59), ""),
    ],
)
def test_clocks_are_compared_in_both_directions(apart: timedelta, says: str) -> None:
    assert says in (remark := clock_remark(apart, who="the curator"))
    assert bool(remark) == bool(says)
    began = utc_now()
    read = read_greeting(make_greeting(now=began + apart, held=True), asked=began).ahead
    assert read is not None
    assert abs(read - apart) < timedelta(seconds=30)


@pytest.mark.parametrize("clock_ms", [0, 2**63 - 1, -(2**63)])
def test_a_time_that_cannot_be_is_as_if_none_was_said(clock_ms: int) -> None:
    assert read_greeting(pb.Greeting(clock_ms=clock_ms), asked=utc_now()) == Greeting()


def test_a_clock_that_has_jumped_is_told() -> None:
    said = Greeting(VERSION, held=True).remarks()
    assert len(said) == 1
    assert "the curator's clock has jumped" in said[0]
