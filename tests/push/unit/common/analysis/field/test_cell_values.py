"""Values inside cells: no staircase, the cells' shares, whole numbers as smooth as others."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dppca.common.analysis.field.cell_values import CellValues, keep_off_codes
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.cells import make_cells
from tests.support.studies import make_schema, numeric_of

N = 400_000


def _held(**fields: object) -> CellValues:
    return CellValues.of(
        make_cells(Numeric.model_validate({"name": "x", "type": "numeric"} | fields))
    )


def _drawn(held: CellValues, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """As many values of each cell as its share says."""
    codes = np.repeat(np.arange(len(shares)), np.rint(N * shares).astype(int)).astype(np.int32)
    return held.spread(shares).draw(codes, np.random.default_rng(3))


def _distance(
    values: NDArray[np.float64], edges: NDArray[np.float64], truth: NDArray[np.float64]
) -> float:
    return float(np.abs(np.histogram(values, edges)[0] / len(values) - truth).sum() / 2)


@pytest.mark.parametrize("bins", [10, [-6, -4.5, -2, -1, 0, 0.5, 3, 4, 7]])
def test_a_normal_law_on_ten_cells_is_no_staircase(bins: object) -> None:
    """At 200 bins the values are nearer to the law than a fifth of the staircase's distance."""
    held = _held(lower=-10, upper=10, bins=bins)
    edges, law = np.linspace(-10, 10, 201), norm(0, 2.5)
    truth = np.diff(law.cdf(edges))
    cells = held.cells.edges
    shares = np.maximum(np.diff(law.cdf(cells)), 1e-9)
    shares /= shares.sum()
    stairs = np.diff(np.interp(edges, cells, np.r_[0, np.cumsum(shares)]))
    assert (
        _distance(_drawn(held, shares), edges, truth)
        < 0.15 * np.abs(stairs - truth).sum() / 2 + 0.009
    )


def test_the_density_is_continuous_from_cell_to_cell() -> None:
    """Just left and just right of each edge, where the shares fall by half from cell to cell."""
    held = _held(lower=0, upper=8, bins=8)
    shares = 0.5 ** np.arange(8)
    values = _drawn(held, shares / shares.sum())
    for edge in range(1, 5):
        left = ((values >= edge - 0.05) & (values < edge)).sum()
        right = ((values >= edge) & (values < edge + 0.05)).sum()
        assert right == pytest.approx(left, rel=0.15)


def test_beside_a_cell_of_nearly_all_rows_no_part_is_left_empty() -> None:
    values = _drawn(_held(lower=0, upper=4, bins=4), np.array([0.02, 0.02, 0.94, 0.02]))
    assert np.diff(np.sort(values[values < 3.8])).max() < 0.1


@pytest.mark.parametrize(("score", "most"), [("linear", 0.005), ("log", 0.03)])
def test_whole_numbers_inside_wide_cells_follow_the_law(score: str, most: float) -> None:
    """Ages on cells of three years, or of up to eighteen, each number against its probability."""
    held = _held(lower=0, upper=119, integer=True, score=score)
    numbers = np.arange(120)
    truth = np.diff(norm(60, 15).cdf(np.arange(121) - 0.5))
    shares = np.bincount(held.cells.index(numbers.astype(float)), weights=truth)
    shares = np.maximum(shares, 1e-9) / shares.sum()
    values = _drawn(held, shares)
    found = np.bincount(values.astype(int), minlength=120) / len(values)
    assert np.abs(found - truth).sum() / 2 < most


def test_no_synthetic_value_is_a_code_for_missing() -> None:
    x, y, huge = make_schema(
        [
            numeric_of("x", 0, 99, integer=True),
            numeric_of("y", 0, 1, missing_values=[1]),
            numeric_of("huge", 0, 1e300, integer=True, missing_values=["1e299"]),
        ],
        missing_values=[0, 97, 98, 99, 200],
    ).attributes
    assert keep_off_codes(x, np.array([0.0, 96, 97, 98, 99])).tolist() == [1, 96, 96, 96, 96]
    assert keep_off_codes(y, np.array([0.0, 1])).tolist() == [0, np.nextafter(1, 0)]
    assert keep_off_codes(huge, np.array([1.0])).tolist() == [1]
