"""The noised number of rows: what it is, when it is refused, and how likely that is."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import TooFewRowsError
from dppca.common.kernel.privacy.counted_rows import (
    LEAST,
    chance_of_refusal,
    count_deviation,
    count_rows,
    require_rows,
    split_rows,
)
from dppca.common.kernel.privacy.release import calibrate
from tests.support.studies import make_study

FALSE_ALARMS = 0.0
LAWS: list[dict[str, Any]] = [{}, {"delta": "1e-9"}]


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("weight", [0.25, 1, 3])
def test_a_number_below_five_deviations_is_refused(law: dict[str, Any], weight: float) -> None:
    study = make_study("small", owners=["a", "b"], neighbours="added", count_weight=weight, **law)
    layout, noise = study.table.layout, calibrate(study)
    deviation = count_deviation(layout, noise, n_owners=2)
    entry = noise.law.deviation / (weight * 4**study.table.resolution_bits)
    assert deviation == pytest.approx(entry * 2**0.5)
    least = int(np.ceil(LEAST * deviation))
    pooled = np.zeros(layout.n_entries, np.int64)
    for n_rows, given_back in ((least, least), (least - 1, None), (-least, None)):
        pooled[-1] = n_rows * layout.count_unit
        assert count_rows(pooled, layout) == n_rows
        if given_back is None:
            with pytest.raises(TooFewRowsError, match="less than 5 times its deviation"):
                require_rows(pooled, layout, noise, n_owners=2)
        else:
            assert require_rows(pooled, layout, noise, n_owners=2) == given_back


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, 1.5, 4.0])
def test_the_chance_of_refusal_is_the_tail_of_the_law(law: dict[str, Any], share: float) -> None:
    """One owner: the exact distribution of the noise below ``5 sd - n``."""
    study = make_study("small", neighbours="added", **law)
    layout, noise = study.table.layout, calibrate(study)
    least = LEAST * count_deviation(layout, noise, n_owners=1)
    n_rows = round(share * least)
    found = chance_of_refusal(layout, noise, n_rows=n_rows, n_owners=1)
    below = np.array([np.ceil((least - n_rows) * layout.count_unit) - 1], np.int64)
    assert found == pytest.approx(float(noise.law.cdf(below)[0]), rel=0.02, abs=1e-9)


@pytest.mark.parametrize("law", LAWS, ids=["laplace", "gaussian"])
def test_tables_alone_count_by_all_their_totals_and_the_large_ones_count_less(
    law: dict[str, Any],
) -> None:
    study = make_study(
        "small",
        owners=["a", "b"],
        neighbours="added",
        **law,
        components=None,
        continues={"study": "0" * 64, "result": "1" * 64},
        only_tables=True,
        tables=[{"table": ["sex", "plan"]}, {"table": ["age", "plan"]}],
        tables_weight=0.5,
    )
    layout, noise, n_rows, draws = study.table.layout, calibrate(study), 60_000, 4000
    small, large = layout.tables
    exact = np.repeat([n_rows * layout.table_unit // each for each in layout.tables], layout.tables)
    assert small < large
    assert count_rows(exact, layout) == n_rows
    rng, deviation = np.random.default_rng(1), count_deviation(layout, noise, n_owners=2)
    drawn = noise.law.standard_sum(2, draws * layout.n_entries, rng).reshape(draws, -1)
    pooled = exact + np.rint(drawn * noise.law.width).astype(np.int64)
    found = np.array([count_rows(each, layout) for each in pooled])
    assert found.std() == pytest.approx(deviation, rel=0.05)
    assert abs(found.mean() - n_rows) < 4 * deviation / draws**0.5
    assert require_rows(exact, layout, noise, n_owners=2) == n_rows
    with pytest.raises(TooFewRowsError, match="less than 5 times its deviation"):
        require_rows(exact // n_rows, layout, noise, n_owners=2)
    small_alone = noise.law.deviation * (2 * small) ** 0.5 / layout.table_unit
    assert deviation == pytest.approx(small_alone / (1 + small / large) ** 0.5)


@given(st.integers(0, 10**9), st.integers(1, 100))
def test_parts_of_a_number_add_up_to_it_and_are_alike(n_rows: int, n_owners: int) -> None:
    parts = split_rows(n_rows, n_owners)
    assert (sum(parts), len(parts)) == (n_rows, n_owners)
    assert max(parts) - min(parts) <= 1
