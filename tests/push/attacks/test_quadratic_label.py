"""One cell tries to hold a site up: converting it must take work in proportion to its length.

Processor time of a cell beside that of one eight times as long: linear work takes eight times as
long, quadratic work 64 times. The smaller of several measures is taken, and cells that take less
than a clock can tell are made no longer.
"""

import time
from collections.abc import Callable

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


def work(task: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        begin = time.process_time_ns()
        task()
        best = min(best, time.process_time_ns() - begin)
    return best


@pytest.mark.parametrize("attribute", [LABELS, NUMBER], ids=lambda a: a.type)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_of_a_cell_grows_with_its_length(
    attribute: Categorical | Numeric, shape: str
) -> None:
    short, long = (SHAPES[shape](length) for length in (8_000, 64_000))
    for kind in (pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())):
        cells = [pa.array([cell, "?"]).cast(kind) for cell in (short, long)]
        times = [work(lambda c=c: parse_column(attribute, c)) for c in cells]
        assert times[1] <= 24 * max(times[0], 100_000)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_of_a_line_grows_with_its_length(shape: str) -> None:
    short, long = (SHAPES[shape](length).encode() for length in (8_000, 64_000))
    times = [work(lambda line=line: split_fields(line, 3)) for line in (short, long)]
    assert times[1] <= 24 * max(times[0], 100_000)


def test_no_pattern_of_python_is_matched_with_a_cell() -> None:
    for module in (columns, texts):
        assert not hasattr(module, "re"), (
            "Python's patterns may go back; those of Arrow (RE2) do not"
        )
