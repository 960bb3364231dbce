"""Values of a numeric inside its cells.

A law over cells does not determine the place of a value in its cell. At the cells' bounds on the
score's scale the law's distribution function is known; a cubic spline goes through these points,
with slopes limited to between 0 and three times the lower mean density of the two adjacent cells,
as in Fritsch and Carlson. Its derivative is a density: not below 0, continuous from cell to cell,
and with exactly the share of each cell. With slopes ``a`` and ``b`` at a cell's ends, in units of
the cell's own mean density, the place t in (0, 1) of a value has the distribution function ::

    t^2 (3 - 2 t) + a t (1 - t)^2 - b t^2 (1 - t)                                            (1)

Whole numbers are numbered from 0 to N - 1, without the spikes; number i takes the part from i/N to
(i + 1)/N of the range between the bounds. A value is drawn as above and becomes the number on whose
part it falls, so the numbers of a cell are spread as smoothly as other values.

On 20 cells, the total variation at 200 bins from a normal law as wide as a tenth (a twentieth) of
the range is .000 (.009); values spread evenly in each cell have .040 (.103).

Reference: F. Fritsch, R. Carlson, Monotone piecewise cubic interpolation, SIAM J. Numer. Anal. 17
(1980) 238-246.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema import Attribute, Column, ColumnKind, Numeric, Schema
from dppca.common.kernel.schema.attributes import find_neighbour, list_labels
from dppca.common.kernel.schema.cells import Cells
from dppca.common.kernel.schema.missing_codes import number_codes

_PARTS = 32  # in which the curve inside a cell is tabulated
_MOST_NUMBERS = 256  # of a cell that are listed; of more, so many evenly spread ones
_LEAST_SHARE = 1e-9  # keeps a division by a share that the noise took to 0
_EXACT = 1 << 53  # from here on, a whole number in float64 need not have a next one

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CellValues:
    """The V cells of a numeric, J of them intervals, as values of a field's variable.

    Attributes
    ----------
    cells
        The cells.
    bounds
        Ends of the intervals on the score's scale, in [-1/2, 1/2], shape (J + 1,), ascending.
    starts
        For whole numbers: the first number of each interval, and N; shape (J + 1,). Else None.
    coordinates, squares
        Mean and mean square of the coordinates of a cell's values, shape (V,), if these are spread
        evenly over the interval (whole numbers: over the numbers in it).
    """

    cells: Cells
    bounds: Vector
    starts: NDArray[np.int64] | None
    coordinates: Vector
    squares: Vector

    @classmethod
    def of(cls, cells: Cells) -> CellValues:
        """Return the cells as values of a variable."""
        if cells.integer:
            return _whole_numbers(cells)
        bounds = cells.scale.coordinates(cells.edges)
        means = (bounds[1:] + bounds[:-1]) / 2
        squares = means**2 + np.diff(bounds) ** 2 / 12
        return _with_spikes(cells, bounds, None, means, squares)

    @property
    def widths(self) -> Vector:
        """Widths of the intervals on the score's scale, shape (J,)."""
        return np.diff(self.bounds)

    def parts(self, n: int) -> Vector:
        """Return the part of each cell in each of ``n`` parts of equal width, shape (n, V).

        The cells' values are spread evenly; missing values, if they have a cell, are a part of
        their own, the last: shape (n + 1, V).
        """
        edges = np.arange(1, n) / n - 0.5
        found = np.zeros((n + self.cells.missing, self.cells.n_cells))
        for cell, (first, last) in enumerate(pairwise(self.bounds)):
            if self.starts is None:
                at = first + (np.arange(_MOST_NUMBERS) + 0.5) / _MOST_NUMBERS * (last - first)
            else:
                at = _coordinates_of_numbers(self.cells, self.starts, cell)
            place = np.searchsorted(edges, at, side="right")
            found[:n, cell] = np.bincount(place, minlength=n) / len(at)
        alone = range(self.cells.n_intervals, self.cells.n_intervals + len(self.cells.spikes))
        found[np.searchsorted(edges, self.coordinates[alone], side="right"), alone] = 1
        if self.cells.missing:
            found[-1, -1] = 1
        return found

    def spread(self, shares: Vector) -> ValueSampler:
        """Return a sampler of values, given the shares of the cells, shape (V,), all above 0."""
        from scipy.interpolate import CubicSpline

        widths = self.widths
        each = shares[: len(widths)]
        slopes = CubicSpline(self.bounds, np.r_[0.0, np.cumsum(each)])(self.bounds, 1)
        density = each / widths
        most = 3 * np.minimum(np.r_[density, np.inf], np.r_[np.inf, density])
        slopes = np.clip(slopes, 0, most)
        a, b = ((s / density)[:, None] for s in (slopes[:-1], slopes[1:]))
        steps = np.linspace(0, 1, _PARTS + 1)
        within = steps**2 * (3 - 2 * steps) + a * steps * (1 - steps) ** 2
        within -= b * steps**2 * (1 - steps)
        within = np.clip(np.maximum.accumulate(within, axis=1), 0, 1)
        index = np.arange(len(widths))[:, None]
        places = self.bounds[:-1, None] + widths[:, None] * steps
        return ValueSampler(self, (index + within).ravel(), places.ravel())


@dataclass(frozen=True, slots=True)
class ValueSampler:
    """Sampler of values inside cells.

    ``cumulative`` is a value's number of interval plus equation (1) of its place there, ascending;
    ``places`` are the same values on the score's scale.
    """

    of: CellValues
    cumulative: Vector
    places: Vector

    def draw(self, codes: NDArray[np.int32], rng: np.random.Generator) -> Vector:
        """Draw a value for each code of the field's variable, in the numeric's own unit.

        Each value is in the cell of its code (`Cells.index`) and between the bounds; it is NaN in
        the cell of missing values.
        """
        cells = self.of.cells
        own_values = [*np.zeros(cells.n_intervals), *cells.spikes, *[np.nan] * cells.missing]
        values = np.array(own_values)[codes]
        inside = codes < cells.n_intervals
        own = codes[inside]
        uniform = rng.random(len(codes))[inside]
        at = cells.scale.values(np.interp(own + uniform, self.cumulative, self.places))
        if self.of.starts is None:
            values[inside] = cells.move_inside(own, at)
        else:
            values[inside] = _numbers(cells, self.of.starts, own, at)
        return values


def draw_in_cells(
    schema: Schema, columns: Sequence[Column], rng: np.random.Generator
) -> list[Column]:
    """Replace codes of cells by values in the columns of numerics with ``products: bins``.

    ``columns`` come from `dppca.common.kernel.schema.decoding.decode_columns`. The shares of their
    codes decide the spread of the values.
    """
    drawn = list(columns)
    for index, (cells, kind) in enumerate(
        zip(schema.cells, schema.layout.attribute_kinds, strict=True)
    ):
        if cells is None or kind is not ColumnKind.INDICATOR:
            continue
        codes = columns[index].astype(np.int32)
        shares = np.bincount(codes, minlength=cells.n_cells) + 1e-6
        drawn[index] = CellValues.of(cells).spread(shares / shares.sum()).draw(codes, rng)
    return drawn


def leave_missing(
    columns: Sequence[Column],
    shares: Sequence[float | None],
    rng: np.random.Generator,
) -> tuple[list[Column], list[NDArray[np.bool_] | None]]:
    """Coordinates of the values that are present, and randomly drawn rows to be missing.

    If the share s of the rows is missing, these count as coordinate 0: released moments m and q of
    all rows are the moments of the present values times 1 - s. So the present values get mean m /
    (1 - s) and mean square q / (1 - s), as far as the bounds allow. Missingness is treated as
    independent of everything else, because with ``histogram: true`` the release has nothing else
    about it.

    ``columns`` come from `dppca.common.analysis.field.discretize.discretize`; ``shares`` are
    each attribute's released share of missing values, None if none can be missing.
    """
    present = list(columns)
    missing: list[NDArray[np.bool_] | None] = [None] * len(columns)
    for index, share in enumerate(shares):
        if share is None:
            continue
        at = np.asarray(columns[index], np.float64)
        kept = max(1.0 - min(max(share, 0.0), 1.0), _LEAST_SHARE)
        mean, square = at.mean() / kept, np.square(at).mean() / kept
        wider = np.sqrt(max(square - mean**2, 0.0) / max(at.var(), _LEAST_SHARE))
        present[index] = np.clip(mean + wider * (at - at.mean()), -0.5, 0.5)
        missing[index] = rng.random(len(at)) < share
    return present, missing


def _numbers(
    cells: Cells, starts: NDArray[np.int64], codes: NDArray[np.int32], values: Vector
) -> Vector:
    scale = cells.scale
    share = (values - scale.lower) / (scale.upper - scale.lower)
    index = np.clip(np.floor(share * starts[-1]), starts[codes], starts[codes + 1] - 1)
    return _whole_number(cells, index)


def _whole_number(cells: Cells, index: NDArray[np.integer] | Vector) -> Vector:
    """Return the whole number of each index; the numbering leaves out the spikes."""
    values = math.ceil(cells.scale.lower) + np.asarray(index, np.float64)
    for spike in cells.spikes:
        values = values + (values >= spike)
    return values


def _whole_numbers(cells: Cells) -> CellValues:
    scale = cells.scale
    first, last = math.ceil(scale.lower), math.floor(scale.upper)
    # Numbers below each edge; the first and the last interval also hold the values beyond.
    edges = np.ceil(np.r_[first, cells.edges[1:-1], last + 1]).astype(np.int64)
    starts = edges - first - np.searchsorted(np.array(cells.spikes), edges)
    bounds = scale.coordinates(scale.lower + starts / starts[-1] * (scale.upper - scale.lower))
    means, squares = np.empty(cells.n_intervals), np.empty(cells.n_intervals)
    for place in range(cells.n_intervals):
        coordinates = _coordinates_of_numbers(cells, starts, place)
        means[place], squares[place] = coordinates.mean(), (coordinates**2).mean()
    return _with_spikes(cells, bounds, starts, means, squares)


def _coordinates_of_numbers(cells: Cells, starts: NDArray[np.int64], place: int) -> Vector:
    """Coordinates of an interval's whole numbers, or of evenly spread ones if they are many."""
    start, stop = starts[place : place + 2]
    n = min(stop - start, _MOST_NUMBERS)
    index = start + ((np.arange(n) + 0.5) / n * (stop - start)).astype(np.int64)
    return cells.scale.coordinates(_whole_number(cells, index))


def _with_spikes(
    cells: Cells,
    bounds: Vector,
    starts: NDArray[np.int64] | None,
    means: Vector,
    squares: Vector,
) -> CellValues:
    alone = cells.coordinates[cells.n_intervals :]
    return CellValues(cells, bounds, starts, np.r_[means, alone], np.r_[squares, alone**2])


def keep_off_codes(attribute: Attribute, values: Column) -> Column:
    """Return values of which none is a code for missing: such a value becomes one beside it.

    A synthetic row that says 97 would otherwise be read as a row without a value.
    """
    if list_labels(attribute) is not None or not isinstance(attribute, Numeric):
        return values
    codes = set(number_codes(attribute).tolist())
    kept = values.copy() if codes else values
    for code in codes:
        other, towards = code, math.copysign(math.inf, attribute.middle - code)
        while other in codes and abs(other) < _EXACT:
            other = find_neighbour(other, towards, integer=attribute.integer)
        kept[values == code] = other
    return kept
