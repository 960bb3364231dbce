"""Laws of values inside cells: each in its cell, within bounds, and whole where it has to be."""

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dppca.common.analysis.field.cell_values import CellValues
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.cells import Cells, make_cells
from tests.support.examples import examples
from tests.support.studies import numeric_of


@st.composite
def spikes(draw: st.DrawFn, lower: float, upper: float, *, integer: bool) -> list[float]:
    """Values with cells of their own: near each other, at the bounds and anywhere between."""
    if integer:
        first, last = math.ceil(lower), math.floor(upper)
        most = min(last - first, 16)
        one = st.integers(first, last) | st.integers(first, min(first + 9, last)) | st.just(last)
        return sorted(map(float, draw(st.sets(one, max_size=most))))
    ends = [lower, upper, math.nextafter(lower, upper), math.nextafter(upper, lower), 0.0]
    one_of_all = st.floats(lower, upper).map(lambda each: each + 0.0)
    near = st.sampled_from([each for each in ends if lower <= each <= upper])
    return sorted(draw(st.sets(one_of_all | near, max_size=16)))


@st.composite
def numerics(draw: st.DrawFn) -> Cells:
    lower = draw(st.sampled_from([-1e6, -20.5, -3.0, 0.0, 0.25, 17.0, 1e9]))
    upper = lower + draw(st.sampled_from([2.0, 3.5, 20.0, 120.0, 1e5, 1e12]))
    fields: dict[str, object] = {
        "score": draw(st.sampled_from(["linear", "log"])),
        "integer": draw(st.booleans()),
    }
    if own := draw(spikes(lower, upper, integer=bool(fields["integer"]))):
        fields |= {"spikes": own, "histogram": True}
    if draw(st.booleans()):
        fields |= {"missing": "level", "histogram": True}
    kind = draw(st.sampled_from(["none", "number", "edges"]))
    if kind == "number":
        fields["bins"] = draw(st.integers(2, 60))
    elif kind == "edges":
        cuts = draw(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=6, unique=True))
        edges = sorted({lower + (upper - lower) * cut for cut in cuts})
        ends = (lower, *edges, upper)
        assume(all(a < b for a, b in pairwise(ends)))
        if fields["integer"]:
            assume(all(math.ceil(a) < b for a, b in pairwise(ends)))
        else:
            assume(all(b - a >= 1e-12 * (upper - lower) for a, b in pairwise(ends)))
        fields["bins"] = edges
    return make_cells(Numeric.model_validate(numeric_of("x", lower, upper) | fields))


@given(cells=numerics(), seed=st.integers(0, 1000), rough=st.floats(0, 8))
@settings(max_examples=examples(150))
def test_every_value_is_in_its_cell_within_bounds_and_whole_where_it_has_to_be(
    cells: Cells, seed: int, rough: float
) -> None:
    held = CellValues.of(cells)
    rng = np.random.default_rng(seed)
    shares = np.exp(rng.normal(scale=rough, size=cells.n_cells))
    codes = rng.integers(cells.n_cells, size=500).astype(np.int32)
    sampler = held.spread(shares / shares.sum())
    values = sampler.draw(codes, rng)
    for chance in (0.0, 1 - 2.0**-53):  # the ends of each cell
        ends: Any = SimpleNamespace(random=lambda n, chance=chance: np.full(n, chance))
        np.testing.assert_array_equal(cells.index(sampler.draw(codes, ends)), codes)
    np.testing.assert_array_equal(cells.index(values), codes)
    missing = codes == cells.n_cells - 1 if cells.missing else np.zeros(500, bool)
    np.testing.assert_array_equal(np.isnan(values), missing)
    known = values[~missing]
    assert known.min() >= cells.scale.lower
    assert known.max() <= cells.scale.upper
    if cells.integer:
        np.testing.assert_array_equal(known, np.rint(known))
    for place, spike in enumerate(cells.spikes, cells.n_intervals):
        np.testing.assert_array_equal(values == spike, codes == place)
    middles = cells.values(np.arange(cells.n_cells, dtype=np.int32))
    np.testing.assert_array_equal(cells.index(middles), np.arange(cells.n_cells))


@given(cells=numerics())
@settings(max_examples=examples(100))
def test_moments_of_a_cell_are_those_of_values_spread_evenly_over_it(cells: Cells) -> None:
    """The obvious version: the coordinates of all whole numbers, or of a fine grid."""
    held = CellValues.of(cells)
    if cells.integer:
        first, last = math.ceil(cells.scale.lower), math.floor(cells.scale.upper)
        assume(last - first < 20_000)
        values = np.arange(first, last + 1, dtype=np.float64)
    else:
        values = cells.scale.values((np.arange(400_000) + 0.5) / 400_000 - 0.5)
        values = np.append(values, cells.spikes)
    coordinates, index = cells.scale.coordinates(values), cells.index(values)
    if cells.missing:
        coordinates, index = np.append(coordinates, 0.0), np.append(index, cells.n_cells - 1)
    assert set(index) == set(range(cells.n_cells))
    for cell in range(cells.n_cells):
        own = coordinates[index == cell]
        assert held.coordinates[cell] == pytest.approx(own.mean(), abs=2e-4)
        assert held.squares[cell] == pytest.approx((own**2).mean(), abs=2e-4)
