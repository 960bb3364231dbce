"""A loadings plot has a bar for each loading; a biplot has the rows' scores and the arrows."""

from __future__ import annotations

import numpy as np
import pytest

from dppca.common.loading_panels import MOST_POINTS, biplot_figure, loadings_figure
from tests.support.latent_rows import make_latent_study

SCHEMA = make_latent_study(name="latent").table


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
