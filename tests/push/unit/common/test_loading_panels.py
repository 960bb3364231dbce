"""A loadings plot has a bar for each loading; a biplot has the rows' scores and the arrows."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from dppca.common.loading_panels import MOST_POINTS, biplot_figure, loadings_figure
from tests.support.studies import binary_of, make_schema, make_study

SCHEMA = make_study("latent", name="latent").table


def _vectors(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    square = np.random.default_rng(3).normal(size=(8, 8))
    return np.linalg.qr(square)[0][:count]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_bars_are_the_loadings_of_the_first_six(count: int) -> None:
    vectors = _vectors(count)
    figure = loadings_figure(SCHEMA, vectors, np.linspace(1, 0.1, 8), noise_edge=0.95)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert len(panels) == min(count, 6)
    for vector, axes in zip(vectors, panels, strict=False):
        widths = [patch.get_width() for patch in axes.patches]
        assert np.allclose(widths, vector[np.argsort(-np.abs(vector), kind="stable")])
    assert "above" in panels[0].get_title()
    assert all("NOT above" in axes.get_title() for axes in panels[1:])


def test_titles_and_numbers_of_the_loadings_do_not_run_into_each_other() -> None:
    attributes = [binary_of("x" * 40 + str(i), ["n", "y"]) for i in range(8)]
    schema = make_schema(attributes, max_rows_per_person=1)
    figure = loadings_figure(schema, _vectors(6), np.full(8, 0.1234), noise_edge=0.95)
    figure.canvas.draw()
    titles = [axes.title.get_window_extent() for axes in figure.axes]
    assert all(figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 for box in titles)
    for axes in figure.axes:
        numbers = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert all(left.x1 < right.x0 for left, right in pairwise(numbers))
    assert not any(one.overlaps(other) for one, other in combinations(titles, 2))


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


def test_a_biplot_shows_two_tables_with_two_signs() -> None:
    rows = np.random.default_rng(5).normal(size=(10, 8))
    figure = biplot_figure(SCHEMA, _vectors(2), None, [("own", rows), ("synthetic", -rows)])
    first, second = figure.axes[0].collections
    assert np.allclose(np.asarray(first.get_offsets()), -np.asarray(second.get_offsets()))
    assert len(first.get_paths()[0].vertices) != len(second.get_paths()[0].vertices)


def test_names_of_arrows_lie_inside_the_axes_and_not_on_each_other() -> None:
    directions = np.array(
        [[1, 0.99, 0.98, -1, 0.2, 0.21, 0.22, 0.1], [0, 0.01, 0.02, 0, 1, 1, 1, 1]]
    )
    rows = np.random.default_rng(6).normal(size=(50, 8)) / 10
    figure = biplot_figure(SCHEMA, directions, None, [("synthetic rows", rows)])
    (axes,) = figure.axes
    figure.canvas.draw()
    names = [text for text in axes.texts if text.get_text()]
    boxes = [text.get_window_extent() for text in names]
    assert 2 < len(boxes) < 8
    assert len(boxes) == len(axes.texts) / 2  # an arrow for each name
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(axes.bbox.x0 <= box.x0 and box.x1 <= axes.bbox.x1 for box in boxes)
