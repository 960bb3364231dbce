"""One cell tries to hold a site up: converting it must take work in proportion to its length.

A cell of half a mebibyte has 5 s of this process's time. Linear work takes a hundredth of it,
quadratic work several times as much: two measures are never compared, since a busy machine
changes one of them.
"""

import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest

from dppca.common.kernel.schema import Categorical, Numeric, columns, texts
from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.lines import split_fields

LABELS = Categorical(name="c", type="categorical", categories=("a", "b", "1"))
NUMBER = Numeric(name="x", type="numeric", lower=0, upper=3)
SHAPES: dict[str, Callable[[int], str]] = {
    "zeros, and then a one": lambda n: "0." + "0" * n + "1",  # found by reviewers
    "zeros, and then a letter": lambda n: "0." + "0" * n + "x",
    "digits without a point": lambda n: "1" * n,
    "digits on both sides": lambda n: "1" * n + "." + "10" * n,
    "zeros after a point": lambda n: "1." + "0" * n,
    "a long exponent": lambda n: "1e" + "9" * n,
    "a long negative exponent": lambda n: "1." + "7" * n + "e-" + "0" * n + "5",
    "halves": lambda n: "1." + "0" * 300 + "5" * n,
    "a long nan": lambda n: "nan(" + "_" * n + "!",
    "blanks": lambda n: " " * n + "x" + " " * n,
    "blanks that are no ASCII": lambda n: "\u2003" * n + "1" + "\u2003" * n,
    "points": lambda n: "." * n,
    "signs": lambda n: "+-" * n,
    "quotes": lambda n: '"' * n,
    "commas and quotes": lambda n: ',"' * n,
}


LENGTH, LIMIT_S = 1 << 19, 5.0


def require_little_work(task: Callable[[], object]) -> None:
    begin = time.process_time()
    task()
    assert time.process_time() - begin < LIMIT_S


@pytest.mark.parametrize("attribute", [LABELS, NUMBER], ids=lambda a: a.type)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_cell_is_converted_at_once(attribute: Categorical | Numeric, shape: str) -> None:
    for kind in (pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())):
        cells = pa.array([SHAPES[shape](LENGTH), "?"]).cast(kind)
        require_little_work(partial(parse_column, attribute, cells))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_line_is_divided_at_once(shape: str) -> None:
    require_little_work(partial(split_fields, SHAPES[shape](LENGTH).encode(), 3))


def test_no_pattern_of_python_is_matched_with_a_cell() -> None:
    for module in (columns, texts):
        assert not hasattr(module, "re"), (
            "Python's patterns may go back; those of Arrow (RE2) do not"
        )
