"""Standard deviations by group: what counted cells know of them, and what they do not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from dppca.common.analysis.estimates.face import Estimates, estimates
from dppca.common.analysis.estimates.spreads import _away, _least
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from tests.support.asked import asked, counted
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all noise has a seed
N = 4000
VISITS = {**numeric_of("visits", 0, 9, integer=True), "missing": "indicator"}


def _released(epsilon: str, **cells: int) -> tuple[Estimates, list[NDArray[np.float64]]]:
    """Answers of 4,000 rows by three arms, the last with forty, and the visits of each arm."""
    rng = np.random.default_rng(2)
    arm = np.where(np.arange(N) < 40, 2, rng.integers(0, 2, N)).astype(np.int32)
    visits = rng.poisson(1 + arm).clip(0, 9).astype(float)
    visits[rng.random(N) < 0.1] = np.nan
    study = make_study(
        [VISITS, categorical_of("arm", ["a", "b", "c"])],
        owners=["one"],
        epsilon=epsilon,
        tables=[{"table": ["visits", "arm"], **({"cells": cells} if cells else {})}],
    )
    sums = accumulate_moments(study.table, [visits, arm])
    own = [visits[(arm == code) & ~np.isnan(visits)] for code in range(3)]
    return estimates(Published(study, pooled_result(study, [sums], seed=1))), own


def test_cells_of_one_value_give_the_deviation_of_the_rows_that_have_the_number() -> None:
    found, own = _released("100000")
    answer = found.sd("visits", by="arm")
    assert_allclose(answer.params, [each.std() for each in own], rtol=2e-3)
    for each, (low, high) in zip(own, answer.conf_int(), strict=True):
        error = np.square(each - each.mean()).std() / (2 * each.std() * np.sqrt(len(each)))
        assert high - low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert_allclose(found.sd("visits").params, np.concatenate(own).std(), rtol=2e-3)


def test_cells_of_several_values_give_what_is_known_and_no_number() -> None:
    found, own = _released("100000", visits=5)
    answer = found.sd("visits", by="arm")
    assert np.isnan(answer.params).all()
    for each, (low, high) in zip(own, answer.conf_int(), strict=True):
        assert low < each.std() < high
        assert high - low > 0.5, "where in its cell a value lies is not known"


def test_a_group_that_the_noise_hides_has_all_that_is_possible() -> None:
    found, _ = _released("0.05")
    assert_allclose(found.sd("visits", by="arm").conf_int()[2], [0, 4.5])


def test_it_is_refused_where_no_table_has_the_cells_beside_the_labels() -> None:
    with pytest.raises(SettingError, match="counted no cells of age beside region: that needs a"):
        asked().sd("age", by="region")
    with pytest.raises(SettingError, match="age cannot be compared by its own cells"):
        counted().sd("age", by="age")


def test_table_1_has_the_same_deviations() -> None:
    found = counted().summary("age", by="sex")
    at = [place for place, each in enumerate(found.cells) if each.statistic == "SD"]
    assert [found.cells[place].group for place in at] == ["all", "sex=f", "sex=m"]
    assert_allclose(found.conf_int()[at[1:]], counted().sd("age", by="sex").conf_int())
    told = asked().summary("age", by="region").left_out
    assert [each for each in told if each.startswith("age, SD by group: study")]


def test_every_value_that_cells_allow_has_a_variance_between_both_sides() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        first = np.sort(rng.integers(0, 30, 5)).astype(float)
        last = first + rng.integers(0, 6, 5)
        cell = rng.integers(0, 5, 60)
        values = rng.uniform(first[cell], last[cell])
        p = np.bincount(cell, minlength=5) / 60
        low, high = (
            p @ _away(_least(p, first, last, far=far), first, last, far=far) ** 2
            for far in (False, True)
        )
        assert low - 1e-6 <= values.var() <= high + 1e-6
        same = p @ _away(_least(p, first, first, far=True), first, first, far=True) ** 2
        assert same == pytest.approx(first[cell].var(), abs=1e-6)


def test_a_number_in_bins_has_a_deviation_of_its_cells() -> None:
    """No square of it is released: of all rows it is counted in its bins, too."""
    bins = {**numeric_of("score", 0, 10), "bins": 5, "products": "bins"}
    study = make_study([bins, binary_of("sex", ["f", "m"])], owners=["one"], epsilon="10000")
    score = np.random.default_rng(1).uniform(0, 10, N)
    sums = accumulate_moments(study.table, [score, np.arange(N, dtype=np.int32) % 2])
    found = estimates(Published(study, pooled_result(study, [sums], seed=1)))
    for answer in (found.sd("score"), found.sd("score", by="sex")):
        for low, high in answer.conf_int():
            assert low < 2.89 < high
