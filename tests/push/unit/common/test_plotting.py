"""What all plots share: pictures for people and for notebooks, names that fit, whole numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppca.common.plotting import (
    new_figure,
    shortened,
    whole_numbers,
    write_figures,
)


def test_a_figure_is_written_as_png_and_as_svg(tmp_path: Path) -> None:
    figure = new_figure(2, 1)
    figure.subplots().set_title("<script>")
    paths = write_figures(tmp_path, {"one": figure})
    assert paths == {"one": str(tmp_path / "one.png")}
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "one.svg").read_text()
    assert "<svg" in drawn
    assert "<script" not in drawn


def test_a_notebook_shows_a_figure_as_an_image() -> None:
    assert new_figure(2, 1)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "fits"),
    [("short", "short"), ("exactly ten", "exactly t…"), ("two\nlines", "two\\x0alines")],
)
def test_a_name_fits_and_says_that_it_was_cut(name: str, fits: str) -> None:
    assert shortened(name, 10) == fits


@pytest.mark.parametrize("n_components", [2, 3, 7, 40])
def test_ticks_are_at_whole_components(n_components: int) -> None:
    axes = new_figure(7, 4).subplots()
    axes.plot(range(1, n_components + 1), range(n_components))
    whole_numbers(axes.xaxis)
    ticks = axes.get_xticks()
    assert len(ticks) > 1
    assert all(float(tick).is_integer() for tick in ticks)
