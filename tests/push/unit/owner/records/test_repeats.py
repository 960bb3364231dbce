"""The value that most of many values have is found in any order, and one that few have is not."""

from collections import Counter
from datetime import date
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.attributes import Date, count_days
from dppca.owner.records.repeats import LEAST, Repeats, value_text

VALUES = st.lists(st.one_of(st.just(999.0), st.integers(-99, 99).map(float)), max_size=300)


@given(VALUES, st.integers(1, 40), st.randoms())
def test_what_most_have_is_found_whatever_the_batches_and_their_order(
    values: list[float], cut: int, order: Random
) -> None:
    batches = [values[start : start + cut] for start in range(0, len(values), cut)]
    order.shuffle(batches)
    whole = Repeats()
    for batch in batches:
        part = Repeats()
        part.add(np.array(batch))
        whole.merge(*part.to_document())
        assert len(whole.to_document()[1]) <= 64
    (value, count), *_ = Counter(values).most_common(1) or [(0.0, 0)]
    if count >= LEAST and count > len(values) * 0.52:  # a count may be a 65th too small
        assert whole.commonest[0] == value
    elif count < LEAST or 4 * count < len(values):
        assert whole.commonest == ()


def test_a_value_of_few_rows_may_be_a_persons_and_is_not_told() -> None:
    few = Repeats()
    few.add(np.full(LEAST - 1, 999.0))
    assert few.commonest == ()
    few.add(np.array([999.0]))
    assert few.commonest == (999.0,)


def test_two_codes_that_share_what_one_would_have_are_both_told() -> None:
    for counts, told in (((50, 50, 0), 2), ((60, 40, 0), 2), ((60, 20, 20), 1), ((40, 5, 5), 1)):
        both = Repeats()
        both.add(np.repeat([-9.0, 999.0, 8888.0], counts))
        assert both.commonest == (-9.0, 999.0)[:told]
    spread = Repeats()
    spread.add(np.concatenate([np.full(30, 999.0), np.arange(101.0, 171.0)]))
    assert spread.commonest == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.0, "999"), (-9.0, "-9"), (99.9, "99.9"), (99999999.0, "99999999"), (1e300, "1e+300")],
)
def test_a_number_is_told_as_it_stands_in_files(value: float, text: str) -> None:
    assert value_text(Numeric(name="x", lower=0, upper=1), value) == text


def test_a_day_is_told_as_a_date_also_beyond_the_calendar() -> None:
    born = Date(name="born", type="date", lower=date(1900, 1, 1), upper=date(2030, 1, 1))
    assert value_text(born, float(count_days(date(9999, 9, 9)))) == "9999-09-09"
    assert value_text(born, 1e9) == "1000000000 days from 1970"
