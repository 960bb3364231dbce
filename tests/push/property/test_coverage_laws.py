"""Intervals cover: a small law, of releases with the real calibration and noise."""

import numpy as np
import pytest

from dppca.common.analysis.estimates.face import Estimates
from tests.support.coverage import (
    PEOPLE,
    Cell,
    Question,
    Releases,
    coded_people,
    pooled,
    tally,
    without_noise,
)

FALSE_ALARMS = 0.0  # all noise has a seed
QUESTIONS: dict[str, Question] = {
    "share": lambda e: e.proportion("job"),
    "difference": lambda e: e.difference("score", "sex"),
    "odds ratio": lambda e: e.odds_ratio("sex=m", "ill=yes"),
    "correlation": lambda e: e.correlation("age", "score"),
    "regression": lambda e: e.ols("score", ["age", "sex", "region=east"]),
}


@pytest.mark.parametrize("these_rows", [False, True])
@pytest.mark.parametrize(
    "cell", [Cell("gaussian", "owner", 3, "3"), Cell("laplace", "aggregate", 10, "1")], ids=str
)
def test_intervals_cover(cell: Cell, these_rows: bool) -> None:
    """Forty releases of each cell."""
    study = cell.study(PEOPLE)
    found = tally(
        Releases(study, coded_people(study), seed=8), QUESTIONS, count=40, these_rows=these_rows
    )
    assert all(each.share >= 0.85 for each in found.values() if each.given >= 30)
    assert 0.92 <= pooled(list(found.values())).share <= 0.99


def test_as_if_the_noise_were_none_covers_nothing() -> None:
    """The harm that estimates remove: the noised moments, read as if they were exact."""
    study = Cell("gaussian", "owner", 10, "1").study(PEOPLE)
    releases = Releases(study, coded_people(study), seed=1)
    truth = releases.of_population.mean("score").params[0]
    held = []
    for _, noised in releases.draw(60):
        naive = without_noise(Estimates(releases.moments(noised, n_rows=releases.rows)))
        low, high = naive.mean("score").conf_int()[0]
        held.append(low <= truth <= high)
    assert np.mean(held) < 0.6
