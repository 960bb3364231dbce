"""The progress bar: nothing at first, then how far, how fast and how long."""

from __future__ import annotations

import pytest

from dppca.common import console
from dppca.common.console import Progress, progress


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error as a terminal wide enough, where a bar appears at once."""
    monkeypatch.setattr(console, "_PROGRESS_AFTER_S", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_bar_shows_how_far_and_how_fast(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = Progress("Reading rows", 4000, shown=True, unit="rows")
    bar.advance(1000)
    bar.advance(2000)
    bar.close()
    drawn = capsys.readouterr()
    assert "Reading rows" in drawn.err
    assert "3000/4000" in drawn.err
    assert " rows/s" in drawn.err
    assert drawn.out == ""


def test_what_has_no_unit_has_no_rate(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    bar = Progress("Waiting", None, shown=True)
    bar.advance()
    bar.close()
    drawn = capsys.readouterr().err
    assert "Waiting" in drawn
    assert "/s" not in drawn


def test_nothing_is_drawn_where_there_is_no_terminal(
    terminal: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("Reading rows", 10, unit="rows") as bar:
        bar.advance(10)
    assert capsys.readouterr() == ("", "")
