"""The joint law of some attributes, from a released table and the products of their pairs.

K cells, the joint values of the attributes, have shares that a table counts with noise, t, of
deviation s. Products z of labels, numbers and their pairs have much less noise. For any function f
of the attributes, with q(c), shape (m,), the products at cell c and N their noise, ::

    E[f] = a' z + sum_c t_c (f - a' q)(c)                                                       (1)
    a minimises   sum_c (s^2 + p_c h_c^2 / 144) (f - a' q)(c)^2 + a' N N' a

It is linear in the release, so that its noise is known exactly, and in f: there are shares p, some
below 0, with ``E[f] = sum_c p_c f(c)``. Where all attributes are labels these are the shares of
weighted least squares. A number enters q by its value, its square and its products; at a cell it
counts as the cell's mean, by its histogram, and h is the width of the cell. Products carry what a
quadratic gives, so that cells bring only the rest: with midpoints alone slopes of a logistic
regression are 3 to 60 % too small at 6 to 10 cells.

A study that continues another counted its tables of rows that may be others: they are not used.

Source: (1) is a control variate (Hammersley and Handscomb, Monte Carlo Methods, 1964, section 5.5);
its use on a release is derived for this project.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.noise import Array, EntryNoise, Noise
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments, bilinear
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import ColumnKind, Numeric
from dppca.common.kernel.schema.cells import Cells, encode_numeric

_ROUNDING = 1e-12  # of a scaled matrix, so that products that follow from others do no harm


@dataclass(frozen=True, slots=True)
class Axis:
    """The values of one attribute, a code each.

    ``coordinates`` and ``widths``, shape (size,), are coded means and widths of a number's cells;
    None for labels.
    """

    attribute: int
    size: int
    coordinates: Array | None = None
    widths: Array | None = None

    @property
    def key(self) -> tuple[int, int, bytes]:
        """What two axes with the same codes have in common."""
        means = b"" if self.coordinates is None else self.coordinates.tobytes()
        return self.attribute, self.size, means

    def values(self, variable: Variable) -> Array:
        """Return the coded variable at each code, shape (size,)."""
        if variable.label is not None:
            return np.asarray(np.arange(self.size) == variable.label, dtype=np.float64)
        assert self.coordinates is not None  # noqa: S101 - a number has them
        return self.coordinates


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Independent noisy counts of the same cells, from one table; noise of the merged cells.

    A cell merges ``merged`` cells of the table, each with the entry's noise.
    """

    shares: Array
    merged: int
    entry: EntryNoise

    @property
    def variance(self) -> float:
        """Variance of the noise of one cell."""
        return self.merged * self.entry.deviation**2

    def expect(self, f: Array) -> Linear:
        """Return ``sum_c t_c f(c)`` of functions f (r, K), as all cells add up to one."""
        centred = f - f.mean(axis=1, keepdims=True)
        moved = centred @ self.shares
        ones = np.ones(f.shape[1])
        noise = Noise(
            centred * self.entry.deviation, ones * self.merged, ones * self.entry.excess
        ).with_rows(moved, self.entry)
        return Linear(moved + f.mean(axis=1), noise)


@dataclass(frozen=True, eq=False)
class JointLaw:
    """Expectations of functions of some attributes, and of released products, with their noise.

    Attributes
    ----------
    axes
        The attributes.
    codes
        Their codes in each cell, shape (K, axes).
    shares
        p, shape (K,): some may be below 0.
    products
        All released products: the m of z, and after them those that were asked for.
    """

    axes: tuple[Axis, ...]
    codes: NDArray[np.intp]
    shares: Array
    products: Linear
    _q: Array
    _weights: Array
    _tables: tuple[tuple[CellCounts, float], ...]

    @property
    def attributes(self) -> tuple[int, ...]:
        """Indices of the attributes."""
        return tuple(axis.attribute for axis in self.axes)

    def values(self, variable: Variable) -> Array:
        """Return a coded variable at each cell, shape (K,)."""
        place = self.attributes.index(variable.attribute)
        return self.axes[place].values(variable)[self.codes[:, place]]

    def expect(self, f: Array, asked: Array | None = None) -> Linear:
        """Return ``E[f]`` of functions f (r, K), plus ``asked`` (r, j) times products asked for."""
        a = f @ self._weights.T
        more = np.zeros((len(f), len(self.products.values) - a.shape[1]))
        if asked is not None:
            more += asked
        rest = f - a @ self._q.T
        found = [self.products.combine(np.concatenate([a, more], axis=1))]
        found += [
            counts.expect(rest).combine(share * np.eye(len(f))) for counts, share in self._tables
        ]
        values = np.sum([each.values for each in found], axis=0)
        return Linear(values, reduce(Noise.beside, (each.noise for each in found)))

    def ends(
        self, f: Array, asked: Array | None = None, _own: Array | None = None
    ) -> tuple[Linear, Linear, Array]:
        """Return the same twice, as a table leaves nothing open; `OpenLaw` has two ends."""
        found = self.expect(f, asked)
        return found, found, np.zeros((2, len(f)))


def joint_law(
    moments: ReconciledMoments, attributes: Sequence[int], block: Block, asked: tuple[Array, Array]
) -> JointLaw | None:
    """Return the joint law of attributes; None if no table has all of them.

    Parameters
    ----------
    block
        Moments of at least these attributes.
    asked
        Vectors u and v, shapes (j, b), of further products ``u' G v``.
    """
    found = list(_tables(moments, attributes))
    if not found:
        return None
    axes = min(found, key=lambda each: each[1].variance)[0]
    same = [counts for own, counts in found if [a.key for a in own] == [a.key for a in axes]]
    precision = np.array([1 / max(each.variance, _ROUNDING**2) for each in same])
    tables = tuple(zip(same, (precision / precision.sum()).tolist(), strict=True))
    return make_law(moments, axes, tables, block, asked)


def make_law(
    moments: ReconciledMoments,
    axes: Sequence[Axis],
    tables: tuple[tuple[CellCounts, float], ...],
    block: Block,
    asked: tuple[Array, Array],
) -> JointLaw:
    """Return the law of equation (1) from counts of the cells of axes, with their weights."""
    codes = all_codes(axes)
    left, right, q = pair_products(moments, axes, codes, block)
    products = bilinear(block, np.concatenate([left, asked[0]]), np.concatenate([right, asked[1]]))
    m = len(left)
    t = np.sum([share * each.shares for each, share in tables], axis=0)
    t = t - t.mean() + 1 / len(t)
    likely = np.maximum(t, 0) / np.maximum(t, 0).sum()
    width = np.zeros(len(t))
    for place, axis in enumerate(axes):
        if axis.widths is not None:
            width += axis.widths[codes[:, place]] ** 2
    variance = sum(share**2 * each.variance for each, share in tables)
    weight = variance + likely * width / 144
    covariance = products.noise.covariance[:m, :m]
    normal = (q * weight[:, None]).T @ q + covariance
    scale = np.sqrt(np.maximum(np.diag(normal), np.finfo(float).tiny))
    normal = normal / np.outer(scale, scale) + _ROUNDING * np.eye(m)
    weights = np.linalg.solve(normal, (q * weight[:, None]).T / scale[:, None]) / scale[:, None]
    shares = products.values[:m] @ weights + t - (q.T @ t) @ weights
    return JointLaw(tuple(axes), codes, shares, products, q, weights, tables)


def all_codes(axes: Sequence[Axis]) -> NDArray[np.intp]:
    """Return the codes of all cells, shape (K, axes); those of the last axis follow each other."""
    sizes = [axis.size for axis in axes]
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1)


def pair_products(
    moments: ReconciledMoments, axes: Sequence[Axis], codes: NDArray[np.intp], block: Block
) -> tuple[Array, Array, Array]:
    """Return vectors u and v, shapes (m, b), of the products of axes, and q, shape (K, m)."""
    one, ones = block.unit(0), np.ones(len(codes))
    own = [
        [
            (each.coded(block), axis.values(each)[codes[:, place]])
            for each in _columns(moments, axis)
        ]
        for place, axis in enumerate(axes)
    ]
    found = [(one, one, ones)]
    for axis, each in zip(axes, own, strict=True):
        found += [(one, vector, values) for vector, values in each]
        if axis.coordinates is not None:
            found.append((each[0][0], each[0][0], each[0][1] ** 2))
    for first, second in combinations(own, 2):
        found += [(u, v, x * y) for u, x in first for v, y in second]
    left, right, q = (np.array(each) for each in zip(*found, strict=True))
    return left, right, q.T


def _columns(moments: ReconciledMoments, axis: Axis) -> list[Variable]:
    """Variables of which products know an attribute: its number, or its labels but the first."""
    names = moments.names
    if axis.coordinates is not None:
        return [names.variable(names.schema.attributes[axis.attribute].name)]
    if names.kind(axis.attribute) is ColumnKind.BINARY:
        return [names.indicator(axis.attribute, 1)]
    return [names.indicator(axis.attribute, code) for code in range(1, axis.size)]


def _tables(
    moments: ReconciledMoments, attributes: Sequence[int]
) -> Iterator[tuple[tuple[Axis, ...], CellCounts]]:
    """Yield tables that have all attributes, with other axes added up."""
    for counts in moments.counts:
        parts = counts.parts or (None,) * len(counts.attributes)
        known = [
            own if part is None else part[0]
            for own, part in zip(counts.attributes, parts, strict=True)
        ]
        if counts.continued or not set(attributes) <= set(known):
            continue
        places = [known.index(each) for each in attributes]
        others = tuple(place for place in range(len(known)) if place not in places)
        kept = np.transpose(counts.shares, (*places, *others))
        shape = kept.shape[: len(places)]
        merged = counts.shares.size // prod(shape)
        shares = kept.reshape(prod(shape), merged).sum(axis=1)
        axes = tuple(
            _axis(moments, each, size, parts[place])
            for each, place, size in zip(attributes, places, shape, strict=True)
        )
        yield axes, CellCounts(shares, merged, counts.entry)


def _axis(
    moments: ReconciledMoments, attribute: int, size: int, part: tuple[int, int] | None
) -> Axis:
    schema = moments.names.schema
    each, cells, unit = (
        *(schema.attributes[attribute], schema.cells[attribute]),
        2**schema.resolution_bits,
    )
    if moments.names.kind(attribute) is not ColumnKind.NUMERIC:
        return Axis(attribute, size)
    assert isinstance(each, Numeric)  # noqa: S101 - others have labels
    if cells is None or cells.missing:
        raise SettingError(
            f"{each.name} may be missing: its cells do not say which number such rows have"
        )
    if part is None:
        return Axis(attribute, size, _coordinates(each, cells, unit), _widths(cells))
    edges = np.arange(size + 1) / size - 0.5
    means = _means(edges, cells, _histogram(moments, attribute))
    return Axis(attribute, size, means, np.diff(edges))


def _coordinates(attribute: Numeric, cells: Cells, unit: int) -> Array:
    """Middles of the cells; of cells with one value, its own as rows have it."""
    found, (first, last) = cells.coordinates, cells.ends
    coded = encode_numeric(attribute, np.concatenate([first, cells.spikes]), unit) / unit
    one = np.concatenate([first == last, np.ones(len(cells.spikes), dtype=bool)])
    return np.where(one & cells.integer, coded, found)


def _widths(cells: Cells) -> Array:
    """Widths of cells in coordinates; 0 for single values."""
    first, last = (cells.scale.coordinates(each) for each in cells.ends)
    return np.concatenate([np.maximum(last - first, 0), np.zeros(len(cells.spikes))])


def _histogram(moments: ReconciledMoments, attribute: int) -> Array | None:
    own = [each for each in moments.counts if each.attributes == (attribute,)]
    return np.maximum(own[0].shares, 0) if own and not own[0].continued else None


def _means(edges: Array, cells: Cells, shares: Array | None) -> Array:
    """Mean coordinate in each part, by the histogram of the own cells; else the middle."""
    middles = (edges[:-1] + edges[1:]) / 2
    if shares is None:
        return middles
    ends = cells.ends if cells.integer else (cells.edges[:-1], cells.edges[1:])
    low, high = (cells.scale.coordinates(each) for each in ends)
    spikes = cells.scale.coordinates(np.array(cells.spikes))
    low, high = np.concatenate([low, spikes]), np.concatenate([high, spikes])
    size = len(middles)
    found, mass = np.zeros(size), np.zeros(size)
    for a, b, share in zip(low, high, shares, strict=True):
        start, stop = np.maximum(edges[:-1], a), np.minimum(edges[1:], b)
        if b > a:
            inside = np.maximum(stop - start, 0) / (b - a) * share
        else:
            inside = np.zeros(size)
            inside[min(int((a + 0.5) * size), size - 1)] = share
        mass += inside
        found += inside * (start + stop) / 2
    return np.divide(found, mass, out=middles, where=mass > 0)


def widest(law: JointLaw, place: int) -> float:
    """Return the root of the mean square of a number's widths of cells, in coded units."""
    axis = law.axes[place]
    assert axis.widths is not None  # noqa: S101 - it is asked of numbers
    likely = np.maximum(law.shares, 0)
    return float(np.sqrt(likely @ axis.widths[law.codes[:, place]] ** 2 / likely.sum()))
