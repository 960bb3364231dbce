"""Charts have a bar for each share, loading and eigenvalue, and their texts are told apart."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from dppca.common.kernel.schema import Schema
from dppca.common.shell.charts import (
    Chart,
    draw_forest,
    loadings_chart,
    marginals_chart,
    scree_chart,
    write_charts,
)
from dppca.common.shell.panels import Cell, Panel
from tests.support.studies import make_study

NAMES = ("real rows", "synthetic rows")
NOTICE = "site-only: must not leave"
SVG = "{http://www.w3.org/2000/svg}"


def root(chart: Chart) -> ET.Element:
    return ET.fromstring(chart.svg)  # noqa: S314


def marks(chart: Chart, kind: str) -> Iterator[ET.Element]:
    """Elements of one class."""
    return (each for each in root(chart).iter() if kind in each.get("class", "").split())


def texts(chart: Chart) -> list[str]:
    return [each.text or "" for each in root(chart).iter(f"{SVG}text")]


def told(chart: Chart, kind: str) -> list[str]:
    """Titles of the marks of one class."""
    return [each.findtext(f"{SVG}title", "") for each in marks(chart, kind)]


def test_each_attribute_has_the_shares_of_both_tables_under_their_names() -> None:
    ages = [Cell(f"{n} to {n + 1}", n / 100, (14 - n) / 100) for n in range(14)]
    panels = [
        Panel("age", True, (*ages, Cell("= 0", 0.9, 0.8), Cell("(not known)", 0.1, 0.0))),
        Panel("ward", False, (Cell("a category with a long name", 0.2, 0.5),), 3),
    ]
    chart = marginals_chart(panels, NAMES, notice=NOTICE)
    cells = [cell for panel in panels for cell in panel.cells]
    for kind, shares, name in (
        ("first", [cell.ours for cell in cells], NAMES[0]),
        ("outline", [cell.theirs for cell in cells], NAMES[1]),
    ):
        named = [
            f"{cell.name}: {share:.1%} of {name}" for cell, share in zip(cells, shares, strict=True)
        ]
        assert told(chart, kind) == named
        heights = [float(each.get("height", "")) for each in marks(chart, kind)]
        drawn, expected = np.array(heights[:14]), np.array(shares[:14])
        assert np.allclose(drawn * expected.max(), expected * drawn.max(), atol=0.05)
    ticks = {"0 to 1", "= 0", "(not known)", "a category wi…"}
    assert {NOTICE, "age", "ward", "and 3 rarer labels", *ticks} < {*texts(chart)}
    assert "= 0: 90%, 80%" in texts(chart), "it would hide the rest, so it is cut and written"
    assert max(float(each.get("height", "")) for each in marks(chart, "first")) == 130


def test_numbers_have_round_ticks_that_do_not_touch_those_beside_them() -> None:
    edges = tuple(np.linspace(0.0, 8.3, 41))
    cells = [Cell("some", 0.02, 0.03) for _ in range(40)]
    panel = Panel("cost", True, (*cells, Cell("= 0", 0.2, 0.2)), edges=edges)
    named = texts(marginals_chart([panel], NAMES, notice=NOTICE))
    ticks = named[named.index("= 0: 20%, 20%") + 1 : -1]  # then comes the legend
    assert ticks == ["0", "2", "4", "6", "= 0"], "8 would touch the value that lies apart"


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (3, 3), (4, 4), (9, 3), (10, 5), (11, 4)])
def test_panels_leave_as_little_of_the_last_row_empty_as_can_be(n: int, columns: int) -> None:
    panel = Panel("sex", False, (Cell("f", 0.5, 0.4), Cell("m", 0.5, 0.6)))
    chart = marginals_chart([panel] * n, NAMES, notice=NOTICE)
    assert root(chart).get("width") == str(320 * columns)


def test_loadings_are_as_long_as_they_are_large_and_hollow_where_they_are_negative() -> None:
    schema: Schema = make_study("latent", name="latent").table
    vectors = np.linalg.qr(np.random.default_rng(3).normal(size=(8, 8)))[0][:2]
    chart = loadings_chart(schema, vectors, np.array([0.4, 0.1]), 0.2, [(), ()])
    for kind, signed in (("first", 1), ("hollow", -1)):
        lengths = [float(each.get("width", "")) for each in marks(chart, kind)]
        loadings = [float(each.rsplit(": ", 1)[1]) for each in told(chart, kind)]
        assert np.allclose(lengths, 90 * signed * np.array(loadings), atol=0.1)
    assert len([*marks(chart, "first"), *marks(chart, "hollow")]) == vectors.size
    assert texts(chart)[:2] == ["component 1: 0.4", "above the noise edge"]
    assert "NOT above the noise edge" in texts(chart)


def test_eigenvalues_are_filled_above_the_noise_edge_and_end_at_their_height() -> None:
    values = np.array([0.4, 0.2, 0.05, -0.02])
    chart = scree_chart(values, 0.1, count=3, noise_free=np.array([0.3, 0.2, 0.1, 0.0]))
    bars = [*marks(chart, "first"), *marks(chart, "hollow")]
    heights = np.array([float(each.get("height", "")) for each in bars])
    assert np.allclose(heights / heights[0], np.abs(values) / 0.4, atol=0.01)
    assert len(told(chart, "first")) == 2
    assert told(chart, "edge") == ["noise edge: 0.1"]
    assert len(next(marks(chart, "other")).get("points", "").split()) == 4


def test_names_are_text_and_a_chart_is_dark_where_its_reader_prefers_that(tmp_path: Path) -> None:
    panel = Panel("<script>\u202e", False, (Cell("<b>&", 0.5, 0.4),))
    chart = marginals_chart([panel], NAMES, notice=NOTICE)
    assert write_charts(tmp_path, {"one": chart}) == {"one": str(tmp_path / "one.svg")}
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn == chart._repr_svg_()
    assert "<script" not in drawn
    assert "\u202e" not in drawn
    assert "<b>&" in texts(chart)
    assert drawn.count("prefers-color-scheme:dark") == 1


def test_a_forest_plot_has_each_interval_in_proportion_and_a_line_at_nothing() -> None:
    drawn = draw_forest([("a<b", 1.0, 0.0, 2.0), ("c", -1.0, -2.0, 0.0), ("d", 0.0, -2.0, 2.0)])
    bars = re.findall(r'<rect class="first" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert [(float(x), float(width)) for x, width in bars] == [(490, 240), (250, 240), (250, 480)]
    assert re.findall(r'cx="([\d.]+)"', drawn) == ["610.0", "370.0", "490.0"]
    assert '<line class="axis" x1="490.0" y1="4.0"' in drawn
    assert "a&lt;b: 1, from 0 to 2" in drawn
    assert "<rect" in draw_forest([("exact", 3.0, 3.0, 3.0)])


def test_a_forest_plot_of_ratios_is_logarithmic_with_a_line_at_1() -> None:
    drawn = draw_forest([("a", 1.0, 0.25, 4.0), ("b", 2.0, 1.0, 4.0)], ratios=True)
    bars = re.findall(r'<rect class="first" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    assert [(float(x), float(width)) for x, width in bars] == [(250, 480), (490, 240)]
    assert re.findall(r'cx="([\d.]+)"', drawn) == ["490.0", "610.0"]
    assert '<line class="axis" x1="490.0" y1="4.0"' in drawn
    assert re.findall(r">([\d.]+)</text>", drawn) == ["0.5", "1", "2"]
    wide = draw_forest([("a", 1.0, 1e-9, 1e9)], ratios=True)
    assert 2 <= len(re.findall(r">(1e[+-]?\d+|[\d.]+)</text>", wide)) <= 7
    from_nothing = draw_forest([("a", 1.0, 0.0, 2.0)], ratios=True)
    assert re.findall(r'cx="([\d.]+)"', from_nothing) == ["490.0"]
    assert "<rect" in draw_forest([("exact", 3.0, 3.0, 3.0)], ratios=True)
