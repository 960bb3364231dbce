"""Pictures have a bar for each share and loading, every pair, the rows' scores and the arrows."""

import numpy as np
import pytest

from dppca.common.analysis.comparison import Variation, list_pairs
from dppca.common.shell.panels import Cell, Panel
from dppca.common.shell.pictures import (
    MOST_POINTS,
    biplot_figure,
    marginals_figure,
    variation_figure,
)
from tests.support.studies import make_study

SCHEMA = make_study("latent", name="latent").table


def _vectors(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    square = np.random.default_rng(3).normal(size=(8, 8))
    return np.linalg.qr(square)[0][:count]


def test_points_of_a_biplot_are_scores_and_the_longest_arrow_reaches_them() -> None:
    vectors, mean = _vectors(3), np.linspace(0, 0.7, 8)
    rows = np.random.default_rng(4).normal(size=(MOST_POINTS + 50, 8))
    figure = biplot_figure(SCHEMA, vectors, mean, [("synthetic rows", rows)])
    (axes,) = figure.axes
    (points,) = axes.collections
    scores = (rows[:MOST_POINTS] - mean) @ vectors[:2].T
    assert np.allclose(np.asarray(points.get_offsets()), scores)
    ends = [np.hypot(*text.xy) for text in axes.texts if hasattr(text, "xy")]
    assert max(ends) == pytest.approx(np.abs(scores).max())
    figure.canvas.draw()
    for text in axes.texts:
        x, y = axes.transData.transform(text.xy if hasattr(text, "xy") else text.get_position())
        assert axes.bbox.contains(x, y)
    assert {"ill=yes", "colour=red", "x0"} <= {text.get_text() for text in axes.texts}


NAMES = ("real rows", "synthetic rows")
NOTICE = "site-only: must not leave"


def test_each_attribute_has_the_shares_of_both_tables_under_their_names() -> None:
    ages = [Cell(f"{n} to {n + 1}", n / 100, (14 - n) / 100) for n in range(14)]
    panels = [
        Panel("age", True, (*ages, Cell("= 0", 0.9, 0.8), Cell("(not known)", 0.1, 0.0))),
        Panel("ward", False, (Cell("a category with a long name", 0.2, 0.5),), 3),
    ]
    figure = marginals_figure(panels, NAMES, notice=NOTICE)
    figure.draw_without_rendering()
    assert figure.get_suptitle() == NOTICE
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(NAMES)
    for axes, panel in zip(figure.axes, panels, strict=True):
        assert axes.get_title() == panel.name
        real, synthetic = ([bar.get_height() for bar in each] for each in axes.containers)
        assert real == [cell.ours for cell in panel.cells]
        assert synthetic == [cell.theirs for cell in panel.cells]
    numeric, labels = figure.axes
    ticks = [tick.get_text() for tick in numeric.get_xticklabels()]
    assert {"0 to 1", "= 0", "(not known)"} <= {*ticks}
    assert [tick.get_text() for tick in labels.get_xticklabels()] == ["a category wi…"]
    assert labels.get_xlabel() == "and 3 rarer labels"
    # A spike that would hide the rest is cut, and its shares are written.
    assert 0.28 > numeric.get_ylim()[1] > 0.14
    assert "90%, 80%" in {text.get_text() for text in numeric.texts}


def test_numbers_have_round_ticks_that_do_not_touch_those_beside_them() -> None:
    edges = tuple(np.linspace(0.0, 8.3, 41))
    cells = [Cell("some", 0.02, 0.03) for _ in range(40)]
    panel = Panel("cost", True, (*cells, Cell("= 0", 0.2, 0.2)), edges=edges)
    (axes,) = marginals_figure([panel], NAMES, notice=NOTICE).axes
    ticks = {
        tick.get_text(): place
        for place, tick in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    }
    assert [*ticks] == ["= 0", "0", "2", "4", "6"]  # 8 would touch the value that lies apart
    assert ticks["4"] == pytest.approx(4 / 8.3 * 40 - 0.5)


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (3, 3), (4, 4), (9, 3), (10, 5), (11, 4)])
def test_panels_leave_as_little_of_the_last_row_empty_as_can_be(n: int, columns: int) -> None:
    panel = Panel("sex", False, (Cell("f", 0.5, 0.4), Cell("m", 0.5, 0.6)))
    figure = marginals_figure([panel] * n, NAMES, notice=NOTICE)
    assert figure.axes[0].get_gridspec().ncols == columns


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_the_heat_map_has_every_pair_and_every_attribute(n: int) -> None:
    marginals = [Variation((f"a{i}",), i / 100, 0.0) for i in range(n)]
    pairs = [Variation((f"a{i}", f"a{j}"), (i + j) / 200, 0.0) for i, j in list_pairs(n)]
    figure = variation_figure(marginals, pairs, notice=NOTICE)
    figure.draw_without_rendering()
    assert figure.get_suptitle() == NOTICE
    image = figure.axes[0].images[0]
    matrix = np.asarray(image.get_array())
    assert np.diag(matrix).tolist() == [each.found for each in marginals]
    for (i, j), each in zip(list_pairs(n), pairs, strict=True):
        assert matrix[i, j] == matrix[j, i] == each.found
    names = [tick.get_text() for tick in image.axes.get_yticklabels()]
    assert names == [f"a{i}" for i in range(n)]
    assert len(image.axes.texts) == (n * n if n <= 12 else 0)
