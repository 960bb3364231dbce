"""Pictures have every pair, the rows' scores and the arrows."""

import numpy as np
import pytest

from dppca.common.analysis.comparison import Variation, list_pairs
from dppca.common.shell.pictures import MOST_POINTS, biplot_figure, variation_figure
from tests.support.studies import make_study

SCHEMA = make_study("latent", name="latent").table


def _vectors(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    square = np.random.default_rng(3).normal(size=(8, 8))
    return np.linalg.qr(square)[0][:count]


def test_points_of_a_biplot_are_scores_and_the_longest_arrow_reaches_them() -> None:
    vectors, mean = _vectors(3), np.linspace(0, 0.7, 8)
    rows = np.random.default_rng(4).normal(size=(MOST_POINTS + 50, 8))
    figure = biplot_figure(SCHEMA, vectors, mean, [("synthetic rows", rows)], [(), ()])
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


NOTICE = "site-only: must not leave"


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
