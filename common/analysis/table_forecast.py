"""Forecast of two-way tables of synthetic rows: how far they will be from those of the real rows.

Only public figures enter: the schema, the noise, the number of synthetic rows. Forecast is the
total variation of a pair's table, a numeric in `JUDGED` equal cells or its whole numbers, as a mean
over all pairs. The errors of a pair (a, b):

Noise of the relation
    A product of two attributes of weight w has noise with standard deviation s / w, as a share of
    the rows, and each cell of the table ``r = c_a c_b s / w`` times its share. c is how much a
    table feels the noise: ``sqrt(K (m - 1))`` for K labels or bins, of which the table tells m
    apart; 2 for a binary, whose product is ±1/4; ``E|x| / E x^2`` for a numeric that is one column:
    3 on [-1/2, 1/2], and more for values that keep away from the bounds (`_LINE`). It costs no more
    than what the relation is worth. Tables of two numerics' bins are smoothed instead: ``r = c
    (sqrt(K_a K_b) s)^(2/3)``, the rate at which an even density of two numbers can be told.
Noise of each attribute's own shares
    ``sqrt(K (K - 1)) s / w``; of one number's cells, at the rate of smoothing, ``c (sqrt(K) s /
    w)^(4/5)``. Without a histogram, sums are pooled with what products with all indicators of
    another attribute of L labels add up to: ``w^2 = w_sums^2 + sum 1 / L``
    (`dppca.common.analysis.field.targets`).
Chance
    n rows drawn into K even cells are ``sqrt((K - 1) / (2 pi n))`` off, in total variation.
What is not released
    The shape of a numeric without a histogram (`_SHAPE`), and what its mean square does not say of
    it under noise; bends of a relation with a numeric that is one column (`_BEND`), of which trees
    show a part (`_TREES`) unless noise covers their leaves; where values lie within bins that are
    wider than the table's cells (`_WIDE`): whole numbers, which come in heaps, more (`_HEAPED`).

What is random adds as squares. What is not released is missing in other cells than those that noise
puts off, so the parts that each leaves right are multiplied.

Shares are not negative and add up to 1. The nearest ones to noised shares ``p (1 + r Z)`` are
``p (1 + r Z - t)_+`` with t such that they add up, and their total variation from p is ::

    E (1 - (1 + r Z - t)_+)_+     where     E (1 + r Z - t)_+ = 1                               (1)

for Z a standard normal: about ``0.4 r`` for little noise, and never more than 1. What the noise
could explain, the field takes to be none. So an error v costs no more than u, what is lost where
nothing is known: it counts as ``u v / sqrt(u^2 + v^2)``.

How strong relations are, how they bend, and how values lie in wide bins, no public figure says, and
tables differ in it by ten times. The constants are typical of the tables that they were chosen on,
and nine of ten of their cells lie in the range, which is wider where nothing tells the shape of
some numeric. So two forms come out in order nine times of ten only if they are well apart:
`TableForecast.is_above` says when.
``docs/reference/forecast.md`` has forecasts beside what was measured, on other tables too.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import ceil, exp, floor, hypot, pi, sqrt
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.roots import find_root
from dppca.common.kernel.privacy.matrix_noise import sum_precisions
from dppca.common.kernel.schema import Numeric, Schema
from dppca.common.kernel.schema.layout import ColumnKind, Layout

JUDGED = 20
"""Equal cells of a numeric in a two-way table."""
_EVEN = 0.9  # a numeric's K cells vary as K^0.9 even ones would
_RELATION = (0.07, 0.25, 0.12)  # worth of a relation, by how many of the two are numerics
_BEND = (0.0, 0.042, 0.115)  # lost of it to straight lines, likewise
_LABELS, _SPREAD = 0.11, 0.7  # error of shares, and of a shape, of which nothing is known
_SHAPE = 0.13  # error of the shape of a number without a histogram
_SQUARE = 23.0  # how much that shape feels the noise of its mean square
_LINE = 5.0  # E|x| / E x^2 of a number that is one column
_HISTOGRAM, _BINS, _PAIR = 1.27, 0.57, 0.86  # what smoothing leaves of noise
_WIDE, _HEAPED = 0.05, 0.12  # for each cell's width that a bin is wider
_TREES, _COVERED = 0.7, 4.0  # of bends that trees show; how much their leaves feel noise
_DRAWN = 0.5  # of chance, as rows meet the shares of each attribute
_FIT = 0.002  # what a field misses of its own sums
_ORDERED, _COVERED_ROWS = 1.1, 0.4  # ratio of figures that are in order; where noise covers all
_RANGE, _VAGUE_RANGE = (0.45, 2.1), (0.35, 2.6)  # of the likely figure: nine tables of ten
_LITTLE, _MUCH = 1e-4, 1e6  # times a cell's share; beyond both, (1) has reached its limits


@dataclass(frozen=True, slots=True)
class TableForecast:
    """Mean total variation of two-way tables, in [0, 1]."""

    likely: Annotated[float, "as it is in the middle of tables"]
    low: Annotated[float, "one of twenty is closer"]
    high: Annotated[float, "one of twenty is farther off"]

    @property
    def better_below(self) -> float | None:
        """Likely figure below which another form's rows are likely to be closer; None above 0.4.

        Forms are about as good if they differ by less than a tenth, or if noise covers them.
        """
        return self.likely / _ORDERED if self.likely < _COVERED_ROWS else None

    def is_above(self, other: Self) -> bool:
        """Whether rows of another form of the study are likely to be closer to the real ones."""
        return self.better_below is not None and other.likely < self.better_below


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What an attribute adds to the errors of its tables."""

    numeric: bool = True
    bins: int = 0  # in products; 0 for labels, and for one column
    felt: float
    cells: float
    own: float  # by noise
    hidden: float = 0.0  # not released
    vague: bool = False  # a shape, or places in wide bins, that nothing tells
    target: bool

    @property
    def line(self) -> bool:
        return self.numeric and not self.bins


def forecast_tables(
    schema: Schema, noise: float, n_rows: int, *, joint: bool = False
) -> TableForecast | None:
    """Forecast the total variation of two-way tables, the mean over all pairs of attributes.

    ``noise`` is that of a pooled product of weight 1, by
    `dppca.common.analysis.spectrum.noise_edge.entry_noise`; ``n_rows`` is that of synthetic rows.
    ``joint`` is for noise of a whole release, of which products tell nothing more of sums.
    Return None for rows of the unit ball, for a single attribute and for tables alone.
    """
    layout = schema.layout
    if layout.unit_ball or len(layout.groups) < 2 or not layout.with_products:
        return None
    precisions = sum_precisions(layout) if joint else _precisions(layout)
    parts = Counter(
        _part(schema, index, noise, float(precisions[start]))
        for index, (start, _) in enumerate(layout.groups)
    )
    bend = _seen_bend(layout, noise)
    total = pairs = 0.0
    for (a, n_a), (b, n_b) in combinations_with_replacement(parts.items(), 2):
        many = n_a * (n_a - 1) / 2 if a == b else n_a * n_b
        weight = layout.target_weight if a.target or b.target else 1
        total += many * _pair_error(a, b, noise / weight, n_rows, bend) if many else 0.0
        pairs += many
    likely = min(1.0, total / pairs)
    low, high = _VAGUE_RANGE if any(part.vague for part in parts) else _RANGE
    return TableForecast(likely, low * likely, min(1.0, high * likely))


def drawing_error(n_cells: float, n_rows: int) -> float:
    """Total variation by which chance puts ``n_rows`` rows, drawn into even cells, off."""
    return sqrt(max(0.0, n_cells - 1) / (2 * pi * n_rows))


def noised_variation(noise: float) -> float:
    """Total variation (1) of shares whose cells each have noise of ``noise >= 0`` times the share.

    It rises with the noise, from 0 to 1.
    """
    from scipy.special import ndtr

    if noise < _LITTLE:
        return noise * _density(0.0)
    r = min(noise, _MUCH)
    # With t = 1 + r u, (1) asks for E (Z - u)_+ = 1 / r, which falls in u and is above -u.
    u = find_root(lambda u: _density(u) - u * ndtr(-u) - 1 / r, -1 / r - 1, 10.0)
    top = u + 1 / r  # cells above it have more than their share
    part = r * (top * (ndtr(top) - ndtr(u)) + _density(top) - _density(u))
    return float(min(1.0, ndtr(u) + part))


def _density(z: float) -> float:
    return exp(-z * z / 2) / sqrt(2 * pi)


def _precisions(layout: Layout) -> NDArray[np.float64]:
    """Return what a column's sum is told by, ``w^2 + sum 1 / L``, (p,)."""
    sizes = np.bincount(layout.attribute_of)
    labels = np.array([kind is ColumnKind.INDICATOR for kind in layout.attribute_kinds])
    told = np.divide(labels, sizes)
    own = (layout.scaled_weight / 2**layout.resolution_bits) ** 2 + told.sum() - told
    return np.asarray(own[list(layout.attribute_of)])


def _part(schema: Schema, index: int, noise: float, precision: float) -> _Part:
    layout, attribute = schema.layout, schema.attributes[index]
    start, stop = layout.groups[index]
    labels, target = stop - start, index in layout.targets
    told = noise / sqrt(precision)
    blocks = layout.kinds[start] is ColumnKind.INDICATOR
    if not isinstance(attribute, Numeric):
        felt = sqrt(labels * (labels - 1)) if blocks else 2.0
        own = _known(noised_variation(felt * told), _LABELS)
        shown = labels if blocks else 2
        return _Part(numeric=False, felt=felt, cells=shown, own=own, target=target)
    cells = JUDGED
    if attribute.integer:
        lower, upper = attribute.bounds
        cells = min(cells, floor(upper) - ceil(lower) + 1)
    even = cells**_EVEN
    if blocks:
        felt = sqrt(labels * (min(labels, cells) - 1))
        own = _smoothed(labels, told, _BINS)
        wide = _HEAPED if attribute.integer else _WIDE
        hidden = min(1.0, wide * max(0, cells / labels - 1))
        return _Part(
            bins=labels,
            felt=felt,
            cells=even,
            own=own,
            hidden=hidden,
            vague=labels < cells,
            target=target,
        )
    counted = dict(layout.histograms).get(index)
    if counted is None:
        hidden = hypot(_SHAPE, _known(noised_variation(_SQUARE * told), _SPREAD))
        return _Part(felt=_LINE, cells=even, own=0.0, hidden=hidden, vague=True, target=target)
    own = _smoothed(counted, noise / float(layout.histogram_weight), _HISTOGRAM)
    return _Part(felt=_LINE, cells=even, own=own, target=target)


def _smoothed(cells: int, noise: float, constant: float) -> float:
    felt = sqrt(cells * (cells - 1)) * noise
    return noised_variation(min(felt, constant * (sqrt(cells) * noise) ** 0.8))


def _pair_error(a: _Part, b: _Part, noise: float, n_rows: int, bend: float) -> float:
    numerics = a.numeric + b.numeric
    felt = a.felt * b.felt * noise
    if a.bins and b.bins:
        smoothed = _PAIR * (sqrt(a.bins * b.bins) * noise) ** (2 / 3)
        relation = noised_variation(min(felt, smoothed))
    else:
        relation = _known(noised_variation(felt), _RELATION[numerics])
    drawn = _DRAWN * drawing_error((a.cells - 1) * (b.cells - 1) + 1, n_rows)
    lines = (a.line + b.line) / max(numerics, 1)
    kept = 1 - min(1.0, hypot(relation, drawn, _FIT, a.own, b.own))
    kept *= (1 - a.hidden) * (1 - b.hidden)
    return 1 - kept * (1 - bend * _BEND[numerics] * sqrt(lines))


def _seen_bend(layout: Layout, noise: float) -> float:
    """The part of bends that trees and tables leave out."""
    if not layout.tables:
        return 1.0
    covered = _COVERED * noise / float(layout.table_weight)
    covered *= sum(layout.tables) / len(layout.tables)
    return 1 - (1 - _TREES) / (1 + covered**2)


def _known(error: float, unknown: float) -> float:
    """An error by noise, where none is larger than that of knowing nothing."""
    return error * unknown / hypot(error, unknown)
