"""Cells of a numeric: rows are counted in them, and synthetic values are drawn from them.

A numeric between bounds is cut into intervals at public edges; each of its ``spikes``, such as 0 or
40, has a cell of its own after the intervals, and ``missing`` gives one more, the last, to values
that are not finite. An interval that has no value but spikes is joined to the next one. The
cell of a value depends on the value and the schema alone, and every value has one: values outside
the bounds count as the bound, and without ``missing`` missing values count as the middle.
With ``integer: true`` a value counts as the nearest whole number between the bounds, here as in
products (`count_whole`).

``score: log`` maps a value to the coordinate ``log(1 + 1000 t) / log(1001) - 1/2``, with t its
place between the bounds from 0 to 1. Values are coded by comparing them with the values at which
the code changes, which are computed once from the schema: a vector unit may round a logarithm
differently at another place in memory; a comparison is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import LOG_REACH, Numeric, Score, find_neighbour

N_BINS = 40  # of a number that says nothing else
MOST_WHOLE_NUMBERS = 100  # of a range that get a cell each

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scale:
    """Values between two bounds, and their coordinates in [-1/2, 1/2]."""

    lower: float
    upper: float
    score: Score = Score.LINEAR

    @classmethod
    def of(cls, attribute: Numeric) -> Scale:
        """Return the scale of a numeric that has bounds."""
        return cls(*attribute.bounds, attribute.score)

    def coordinates(self, values: Vector) -> Vector:
        """Return coordinates of values within the bounds; any shape."""
        places = (values - self.lower) / (self.upper - self.lower)
        if self.score is Score.LOG:
            places = np.log1p(LOG_REACH * places) / math.log1p(LOG_REACH)
        return np.clip(places, 0.0, 1.0) - 0.5

    def values(self, coordinates: Vector) -> Vector:
        """Return values of coordinates, never outside the bounds; any shape."""
        width = self.upper - self.lower
        if self.score is Score.LOG:
            places = np.expm1(math.log1p(LOG_REACH) * (coordinates + 0.5)) / LOG_REACH
            values = self.lower + places * width
        else:
            values = self.lower + width / 2 + coordinates * width
        within: Vector = np.clip(values, self.lower, self.upper)
        return within

    @lru_cache(maxsize=64)  # noqa: B019 - scales are few, and values
    def code_changes(self, unit: int) -> Vector:
        """Return the least value of each code but the first, shape (unit,), ascending; read-only.

        Codes are coordinates in units of ``1 / unit``, rounded.
        """
        changes = self.values((np.arange(unit) + 0.5) / unit - 0.5)
        ascending: Vector = np.maximum.accumulate(changes)
        ascending.flags.writeable = False
        return ascending


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one numeric.

    Attributes
    ----------
    edges
        Shape (K + 1,), ascending, in the numeric's own unit: interval k holds values from
        ``edges[k]`` to below ``edges[k + 1]``; the first and the last also hold values beyond.
    spikes
        Values with cells of their own, after the intervals, ascending.
    integer
        Values are whole numbers.
    scale
        Scale of the numeric.
    middle
        The value that replaces a missing one.
    missing
        Missing values have a cell of their own, the last; its coordinate is 0.
    """

    edges: Vector
    spikes: tuple[float, ...]
    integer: bool
    scale: Scale
    middle: float
    missing: bool = False

    @property
    def n_intervals(self) -> int:
        """Number K of intervals."""
        return len(self.edges) - 1

    @property
    def n_cells(self) -> int:
        """K, plus one for each spike, plus one for missing values."""
        return self.n_intervals + len(self.spikes) + self.missing

    @property
    def names(self) -> tuple[str, ...]:
        """Names of cells: ``bin 1``, ``bin 2`` and so on, each spike's number, ``missing``."""
        bins = tuple(f"bin {number}" for number in range(1, self.n_intervals + 1))
        spikes = (repr(spike).removesuffix(".0") for spike in self.spikes)
        return (*bins, *spikes, *(("missing",) if self.missing else ()))

    @cached_property
    def ends(self) -> tuple[Vector, Vector]:
        """The least and the largest value of each interval between the bounds, shapes (K,)."""
        first, last = self.edges[:-1].copy(), self.edges[1:].copy()
        if self.integer:
            first, last[:-1] = np.ceil(first), np.ceil(last[:-1]) - 1
            last[-1] = np.floor(last[-1])
        else:
            last[:-1] = np.nextafter(last[:-1], -np.inf)
        for spike in self.spikes:
            first[first == spike] = find_neighbour(spike, math.inf, integer=self.integer)
        for spike in reversed(self.spikes):
            last[last == spike] = find_neighbour(spike, -math.inf, integer=self.integer)
        return first, last

    @cached_property
    def coordinates(self) -> Vector:
        """Coordinates of the cells, shape (n_cells,).

        It is the middle of an interval, or of the whole numbers in it; a spike's own; 0 for
        missing.
        """
        ends = self.ends if self.integer else (self.edges[:-1], self.edges[1:])
        middles = (self.scale.coordinates(ends[0]) + self.scale.coordinates(ends[1])) / 2
        spikes = self.scale.coordinates(np.array(self.spikes))
        return np.concatenate([middles, spikes, np.zeros(int(self.missing))])

    def values(self, codes: NDArray[np.int32]) -> Vector:
        """Return a value for each code, of any shape: its cell's middle; NaN for missing."""
        values = self.scale.values(self.coordinates)
        if self.integer:
            values = np.rint(values)
        intervals = np.arange(self.n_intervals)
        values[intervals] = self.move_inside(intervals, values[intervals])
        values[self.n_intervals : self.n_intervals + len(self.spikes)] = self.spikes
        if self.missing:
            values[-1] = np.nan
        decoded: Vector = values[codes]
        return decoded

    def move_inside(self, codes: NDArray[np.integer], values: Vector) -> Vector:
        """Return values that belong to these intervals: those outside of them, and spikes, move."""
        first, last = self.ends
        inside: Vector = np.clip(values, first[codes], last[codes])
        for spike in self.spikes:
            neighbour = find_neighbour(spike, math.inf, integer=self.integer)
            inside[inside == spike] = neighbour
        return inside

    def index(self, values: Vector) -> NDArray[np.int32]:
        """Return the cell of each value, also of values that are not finite: shape (n_rows,)."""
        lower, upper = self.scale.lower, self.scale.upper
        if self.integer:
            values = count_whole(values, lower, upper)
        known = np.clip(np.where(np.isfinite(values), values, self.middle), lower, upper)
        codes = np.searchsorted(self.edges[1:-1], known, side="right").astype(np.int32)
        for place, spike in enumerate(self.spikes):
            codes[known == spike] = self.n_intervals + place
        if self.missing:
            codes[~np.isfinite(values)] = self.n_cells - 1
        return codes


def make_cells(attribute: Numeric) -> Cells:
    """Make the cells of a numeric that has bounds."""
    scale = Scale.of(attribute)
    cells = Cells(
        edges=_edges(attribute, scale),
        spikes=attribute.spikes or (),
        integer=attribute.integer,
        scale=scale,
        middle=attribute.middle,
        missing=attribute.missing is not None,
    )
    first, last = cells.ends
    stops = cells.edges[1:][first <= last][:-1]
    return replace(cells, edges=np.array([cells.edges[0], *stops, cells.edges[-1]]))


def nearest_whole(values: Vector, out: Vector | None = None) -> Vector:
    """Return ``floor(x + 1/2)`` of each value x, in float64; what is not finite stays as it is."""
    whole = np.add(values, 0.5, out=out)
    return np.floor(whole, out=whole)


def count_whole(values: Vector, lower: float, upper: float) -> Vector:
    """Return the nearest whole number between the bounds for each value; others stay as they are.

    It is a function of one value: sums stay in the range from which their sensitivity follows.
    """
    whole = nearest_whole(values)
    inside = np.clip(whole, math.ceil(lower), math.floor(upper))
    counted: Vector = np.where(np.isfinite(whole), inside, whole)
    return counted


def encode_values(attribute: Numeric, values: Vector, unit: int) -> NDArray[np.int32]:
    """Code the values of rows: `encode_numeric` of what each counts as (`count_whole`)."""
    if attribute.integer:
        values = count_whole(values, *attribute.bounds)
    return encode_numeric(attribute, values, unit)


def encode_numeric(attribute: Numeric, values: NDArray[np.float64], unit: int) -> NDArray[np.int32]:
    """Return coordinates of places on a numeric's scale, shape (n_rows,), in units of ``1 / unit``.

    A place may lie between whole numbers, as a threshold does.
    """
    if attribute.score is Score.LOG:
        return encode_log(values, Scale.of(attribute).code_changes(unit))
    lower, upper = attribute.bounds
    middle = attribute.middle
    known = np.where(np.isfinite(values), values, middle)
    scaled = (np.clip(known, lower, upper) - middle) / (upper - lower) * unit
    grid = np.clip(np.rint(scaled), -(unit // 2), unit // 2).astype(np.int32)
    # Enforced on the integers: NaN cast to an integer is its minimum.
    result: NDArray[np.int32] = np.maximum(np.minimum(grid, unit // 2), -(unit // 2))
    return result


def encode_log(values: NDArray[np.float64], code_changes: NDArray[np.float64]) -> NDArray[np.int32]:
    """Code values (n_rows,) of a numeric with ``score: log``; int32 in units of ``2**-g``.

    ``code_changes`` comes from `Scale.code_changes`, shape (2**g,). A missing or non-finite value
    gets 0, the middle.
    """
    half = len(code_changes) // 2
    codes = np.searchsorted(code_changes, values, side="right") - half
    return np.where(np.isfinite(values), codes, 0).astype(np.int32)


def _edges(attribute: Numeric, scale: Scale) -> Vector:
    lower, upper = attribute.bounds
    if isinstance(attribute.bins, tuple):
        return np.array([lower, *attribute.bins, upper])
    if attribute.integer:
        first, last = math.ceil(lower), math.floor(upper)
        if attribute.bins is None and last - first < MOST_WHOLE_NUMBERS:
            return np.array([lower, *(np.arange(first, last) + 0.5), upper])
    n_bins = attribute.bins or N_BINS
    inner = scale.values(np.arange(1, n_bins) / n_bins - 0.5)
    if attribute.integer:
        inner = np.floor(inner) + 0.5
        inner = inner[(inner > first) & (inner < last)]
    # np.unique imports numpy.ma, for a tenth of what all of numpy takes.
    distinct = {*inner[(inner > lower) & (inner < upper)].tolist()}
    return np.array([lower, *sorted(distinct), upper])
