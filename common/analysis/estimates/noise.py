"""Noise of released moments: what public identities leave of it, and how it enters an estimate.

G, shape (p + 1, p + 1), is the matrix of mean products of (1, coded row); columns count from 1. An
entry that was sent has independent noise of variance s^2 over its squared weight: w for a sum,
omega for a product with a target, a for a numeric's square, the root of 2 for a product of halved
variance, 1 otherwise. A binary's square and products inside of one
attribute are public; an indicator's square is its sum, that of a column of missing numbers half of
it. The K labels of a categorical, and the
cells of a numeric with ``products: bins``, add up to one in every row, so their sums add up to 1
and their products with any other column j to the sum of j. Generalised least squares onto all of
these identities at once has a closed form::

    mean_j = (w^2 m_j + sum_c omega_jc^2 t_jc / K_c) / W_j                                      (1)
    W_j = w^2 + sum_c omega_jc^2 / K_c
    labels of one attribute: mean_k += (1 - sum of means) / K
    j beside labels of c: G_jk += (mean_j - t_jc) / K_c
    tables: T += row gap / L + column gap / K - sum of the row gaps / (K L)

with m_j the released sum and t_jc the sum of G_jk over the labels k of c. What is left of the noise
has independent parts: nu_j of each mean, variance s^2 / W_j, centred inside of an attribute; the
square of each numeric; and, between attributes a and b, ::

    M_a Z M_b + nu_a q_b' + q_a nu_b'                                                           (2)

with M = I - 1 1'/K and q = 1/K (a scalar: M = 1, q = 0), and Z of variance s^2 / omega^2. (The sums
t_jc share entries only with sums of the other attribute's labels, by a constant that centring
removes.) So the covariance of any two functionals of the reconciled G is exact, from the columns
that they use alone.

Where the number of rows is secret, all that is sent is divided by n^, the noised number, and the
identities are "adds up to n^". With t for the relative noise of n^, an entry G_ij moves by
``-t (G_ij - P_ij)``, where P is what is left if all that was sent were 0: public squares, 1/K of
labels. It is one noise in all numbers of a release.

Sums of m Laplace noises are not normal: a functional with contributions c_e of the entries has an
excess kurtosis of ``(3 / m) sum c_e^4 / (sum c_e^2)^2``.

Source: least squares onto consistent counts, Hay et al. (2010), "Boosting the accuracy of
differentially private histograms through consistency"; (1) and (2) are derived for this project.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.privacy.matrix_noise import sum_precisions
from dppca.common.kernel.privacy.noise_law import NoiseLaw, ReleaseLaw
from dppca.common.kernel.schema.layout import ColumnKind, Layout

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EntryNoise:
    """Noise of one entry of weight 1, as a share of the rows.

    ``deviation`` is its standard deviation s, 0 without noise; ``mechanisms`` the number of noises
    of ``law`` in the pool, any number above 0; ``of_rows`` the standard deviation of t, 0 where the
    number of rows is public. ``columns`` are those of a joint law, m: then a number's square has
    twice the variance, and noises of entries are uncorrelated but not independent.
    """

    deviation: float
    law: type[NoiseLaw]
    mechanisms: float
    of_rows: float = 0.0
    columns: int | None = None

    @property
    def joint(self) -> type[ReleaseLaw] | None:
        """The law, where it is one of a whole release."""
        return self.law if issubclass(self.law, ReleaseLaw) else None

    @property
    def excess(self) -> float:
        """Excess kurtosis of the noise of one entry."""
        return self.law.unit_excess / (self.mechanisms * (self.columns or 1))


@dataclass(frozen=True, eq=False)
class JointPart:
    """Contributions that are entries of one symmetric matrix, of noise of a whole release.

    The contribution at ``start + e`` is that of the entry (rows[e], columns[e]) of the matrix,
    ``side`` large, of a law; ``degrees`` are all owners' columns of normals.
    """

    law: type[ReleaseLaw]

    start: int
    side: int
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    degrees: int

    def matrices(self, contributions: Array) -> Array:
        """Return the symmetric Y, (k, side, side), of which ``sqrt(2) |Y|_F`` is a deviation."""
        own = contributions[:, self.start : self.start + len(self.rows)]
        square = self.rows == self.columns
        found = np.zeros((len(own), self.side, self.side))
        found[:, self.rows, self.columns] = own * np.where(square, np.sqrt(0.5), 0.5)
        return np.where(found != 0, found, np.swapaxes(found, 1, 2))

    def fourth(self, contributions: Array) -> Array:
        """Return fourth cumulants, (k,)."""
        return self.law.fourth_cumulants(self.matrices(contributions), self.degrees)

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Draw the entries, (entries, size), of variance 1; for simulations."""
        z = self.law.standard_matrices(self.side, self.degrees, size, rng)
        deviation = np.where(self.rows == self.columns, np.sqrt(2.0), 1.0)
        return np.asarray(z[:, self.rows, self.columns] / deviation).T


@dataclass(frozen=True)
class Noise:
    """Noise of k numbers, linear in uncorrelated noises of variance 1.

    ``contributions`` has shape (k, m): each of the ``copies`` (m,) of a noise contributes as much;
    ``excess`` (m,) is its excess kurtosis. The first ``shares_rows`` are those of numbers of rows,
    each the same in all numbers of a release: the study's and, of two, that of the one that
    continues it. All are independent but those of ``joint`` parts.
    """

    contributions: Array
    copies: Array
    excess: Array
    shares_rows: int = 0
    joint: tuple[JointPart, ...] = ()

    @cached_property
    def covariance(self) -> Array:
        """Covariance, shape (k, k)."""
        return np.asarray((self.contributions * self.copies) @ self.contributions.T)

    @cached_property
    def variance(self) -> Array:
        """Variances, shape (k,)."""
        return np.asarray(self.contributions**2 @ self.copies)

    @cached_property
    def kurtosis(self) -> Array:
        """Excess kurtosis of each number, shape (k,); 0 where there is no noise."""
        apart = np.ones(len(self.copies))
        for part in self.joint:
            apart[part.start : part.start + len(part.rows)] = 0
        fourth = self.contributions**4 @ (apart * self.copies * self.excess)
        for part in self.joint:
            fourth = fourth + part.fourth(self.contributions)
        square = self.variance**2
        return np.divide(fourth, square, out=np.zeros_like(square), where=square > 0)

    def combine(self, weights: Array) -> Noise:
        """Return the noise of linear combinations; ``weights`` has shape (r, k)."""
        return replace(self, contributions=weights @ self.contributions)

    def draw_units(self, size: int, rng: np.random.Generator) -> Array:
        """Draw the independent noises, shape (m, size), each the sum of its copies.

        They are normal, or sums of 3 / excess Laplace noises; for simulations, they protect
        nothing.
        """
        drawn = rng.standard_normal((len(self.copies), size))
        heavy = self.excess > 0
        for part in self.joint:
            heavy[part.start : part.start + len(part.rows)] = False
        shape = (3 / self.excess[heavy] * self.copies[heavy])[:, None]
        drawn[heavy] *= np.sqrt(rng.standard_gamma(shape, (len(shape), size)) / shape)
        for part in self.joint:
            drawn[part.start : part.start + len(part.rows)] = part.draw(size, rng)
        return np.asarray(drawn * np.sqrt(self.copies)[:, None])

    def beside(self, other: Noise) -> Noise:
        """Return the noise of the sums with k numbers whose noise is independent but for rows'."""
        if other.shares_rows > self.shares_rows:
            return other.beside(self)
        first, own = other.contributions, self.contributions
        shared, excess = other.shares_rows, self.excess.copy()
        excess[:shared] = np.maximum(excess[:shared], other.excess[:shared])  # 0: not in it
        rows = own[:, :shared] + first[:, :shared]
        return Noise(
            np.concatenate([rows, own[:, shared:], first[:, shared:]], axis=1),
            np.concatenate([self.copies, other.copies[shared:]]),
            np.concatenate([excess, other.excess[shared:]]),
            self.shares_rows,
            (
                *self.joint,
                *(
                    replace(each, start=each.start + len(self.copies) - shared)
                    for each in other.joint
                ),
            ),
        )

    def with_rows(self, moved: Array, entry: EntryNoise, *, continued: bool = False) -> Noise:
        """Return the noise with that of the number of rows; ``moved`` is ``G - P``, shape (k,).

        The number is the study's or, with ``continued``, that of the study that continues it.
        """
        if not entry.of_rows:
            return self
        excess = np.array([entry.excess * (1 if entry.columns is None else 2)])  # 2: at most
        rows = Noise(-entry.of_rows * moved[:, None], np.ones(1), excess, 1)
        if continued:  # its excess is that of many cells: at most one's
            before = np.zeros_like(rows.contributions)
            numbers = np.concatenate([before, rows.contributions], axis=1)
            rows = Noise(numbers, np.ones(2), np.concatenate([np.zeros(1), excess]), 2)
        return rows.beside(self)


def form(u: Array, v: Array) -> Array:
    """Return the gradient of ``u' G v``, symmetric: for i < j the derivative by the entry G_ij.

    ``u`` and ``v`` have shape (..., b); the result has shape (..., b, b).
    """
    product = u[..., :, None] * v[..., None, :]
    gradient = product + np.swapaxes(product, -1, -2)
    places = np.arange(gradient.shape[-1])
    gradient[..., places, places] /= 2
    return gradient


def border(mean: Array, second: Array) -> Array:
    """Return the moments of (1, coded row), shape (p + 1, p + 1), of mean and second moment."""
    return np.block([[np.ones((1, 1)), mean[None]], [mean[:, None], second]])


class MomentNoise:
    """The law of the noise of the moments of a layout, and their reconciliation."""

    def __init__(self, layout: Layout, entry: EntryNoise) -> None:
        self.layout, self.entry = layout, entry
        self.attribute = np.r_[-1, layout.attribute_of]
        kinds = np.array(["", *(str(kind.value) for kind in layout.kinds)])
        self.label = kinds == ColumnKind.INDICATOR
        self.numeric = kinds == ColumnKind.NUMERIC
        self.of_mean = self.label + 0.5 * (kinds == ColumnKind.MISSING)  # what a square is of it
        sizes = np.bincount(layout.attribute_of)
        self.n_labels = np.where(self.label, sizes[self.attribute], 1)
        self.sum_weight = (
            layout.scaled_weight / 2**layout.resolution_bits if layout.with_sums else 0.0
        )
        self._categoricals = np.unique(self.attribute[self.label])
        self._sizes = sizes[self._categoricals].astype(np.float64)

    def weights(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> Array:
        """Weights omega of products of attributes, shape (len(one), len(other))."""
        target = np.isin(one, self.layout.targets)[:, None] | np.isin(other, self.layout.targets)
        plain = np.sqrt(2) if self.layout.halved_products else 1.0
        return np.where(target, float(self.layout.target_weight), plain)

    def scales(self, attributes: NDArray[np.int64]) -> Array:
        """Scale of the columns of each attribute in the matrix of a joint law."""
        target = np.isin(attributes, self.layout.targets)
        return np.where(target, float(self.layout.target_weight), 1.0)

    @cached_property
    def _pull(self) -> Array:
        """``omega^2`` of each column beside each categorical, shape (p + 1, c); 0 inside of one."""
        apart = self.attribute[:, None] != self._categoricals
        return np.asarray(apart * self.weights(self.attribute, self._categoricals) ** 2)

    @cached_property
    def precision(self) -> Array:
        """W of equation (1), in units of ``s^-2``, shape (p + 1,)."""
        if self.entry.joint is not None:
            return np.concatenate([[0.0], sum_precisions(self.layout)])
        return np.asarray(self.sum_weight**2 + self._pull @ (1 / self._sizes))

    def elsewhere(self, columns: NDArray[np.int64]) -> tuple[Array, Array]:
        """What means have of products with labels of other attributes than those of ``columns``.

        Weights ``omega / K`` of each such product, shape (len(columns), c), and K, shape (c,).
        """
        other = ~np.isin(self._categoricals, self.attribute[columns])
        sizes = self._sizes[other]
        return np.sqrt(self._pull[np.ix_(columns, other)]) / sizes, sizes

    @cached_property
    def unsent(self) -> Array:
        """P: the moments, shape (p + 1, p + 1), if all that was sent were 0."""
        mean, second = unpack(np.zeros(self.layout.n_entries, np.int64), 1, self.layout)
        nothing = np.zeros(self.layout.n_columns) if mean is None else mean
        return self.reconcile(border(nothing, second))

    def reconcile(self, matrix: Array) -> Array:
        """Project released moments, shape (p + 1, p + 1), onto the identities; a new array."""
        if not len(self._categoricals):
            return matrix.copy()
        members = (self.attribute[:, None] == self._categoricals).astype(np.float64)
        sums = matrix @ members
        mean = self.sum_weight**2 * matrix[0] + (self._pull * sums) @ (1 / self._sizes)
        mean /= self.sum_weight**2 + self._pull @ (1 / self._sizes)
        mean += members @ ((1 - mean @ members) / self._sizes)
        gaps = np.where(self._pull > 0, mean[:, None] - sums, 0.0)
        spread = (gaps / self._sizes) @ members.T  # of column j over the labels k of another
        both = members / self._sizes
        out = matrix + spread + spread.T - both @ (members[1:].T @ gaps[1:]) @ both.T
        for a in self._categoricals:  # products of two labels are public
            inside = np.flatnonzero(self.attribute == a)
            out[np.ix_(inside, inside)] = 0
            out[inside, inside] = mean[inside]
        halves = np.flatnonzero(self.of_mean == 0.5)
        out[halves, halves] = mean[halves] / 2
        mean[0] = 1
        out[0] = out[:, 0] = mean
        return np.asarray(out)
