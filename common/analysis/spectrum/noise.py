"""Draws of a study's public noise in its real structure, which no formula fully describes.

One draw is one packed vector of noise, summed over the owners and unpacked like a release, so a
binary's square has no noise and an indicator's square has the noise of its column sum. With E and
nu the noise of second moment and mean and mu the released mean, the covariance's noise is ::

    pooled    E - nu mu^T - mu nu^T - nu nu^T
    within    E - nu mu^T - mu nu^T - sum_i n_i nu_i nu_i^T / n

(the owners' means are replaced by mu).

The draws protect nothing: they come from a seeded NumPy generator in float64, so that the same
study gives the same figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.schema.layout import Layout


class NoiseShape(Protocol):
    """A law of noise for simulations: `dppca.common.kernel.privacy.noise_law`."""

    def standard_release(
        self, layout: Layout, n: float, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """Sums of n noises of width 1 for all entries of a release, shape (D,)."""

    def standard_owners(
        self, layout: Layout, n_owners: int, n: float, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same, and what each owner's sums are of it, shape (n_owners, p)."""


class WideLaw(NoiseShape, Protocol):
    """A `NoiseShape` with a width in units of ``4**-g``."""

    @property
    def width(self) -> float:
        """Scale of Laplace noise, or standard deviation of Gaussian noise."""


@dataclass(frozen=True, slots=True)
class NoiseDraw:
    """One draw of the noise of pooled moments, in coded units.

    ``mean`` is nu, shape (p,), or None if the release has no sums; ``second`` is E, symmetric,
    shape (p, p); ``squares`` is ``sum_i n_i nu_i nu_i^T / n``, shape (p, p), or None unless the
    owners' own means were drawn. ``number`` is t, the relative noise of a noised number of rows
    that no released vector was given for, which has moved nothing yet; else 0.
    """

    mean: NDArray[np.float64] | None
    second: NDArray[np.float64]
    squares: NDArray[np.float64] | None
    number: float

    def linear(self, mean: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return the covariance's noise without the squares of the means' noise; shape (p, p), new.

        ``mean`` is mu, shape (p,), or None if the release has no sums.
        """
        if self.mean is None or mean is None:
            return self.second.copy()
        crossed = np.outer(self.mean, mean)
        return self.second - (crossed + crossed.T)


class NoiseSource:
    """Draws for one study; each advances the generator's state.

    ``law`` and ``width`` are those of each owner's noise on each entry of its packed vector, but
    for halved products; the width is in units of ``4**-g``, any size, fractions included.
    ``owner_rows`` are all at least 1. With ``own_means`` the owners' means are drawn one by one,
    for a covariance within owners; ``mechanisms`` is the number of such noises in the pool, any
    number above 0, None for one per owner. ``released`` is the pooled packed vector, shape (D,):
    where the number of rows is noised, and has the relative noise t, each entry A moves by ``-t A``
    too; None leaves that out.
    """

    def __init__(
        self,
        rng: np.random.Generator,
        layout: Layout,
        *,
        law: NoiseShape,
        width: float,
        owner_rows: Sequence[int],
        own_means: bool,
        mechanisms: float | None = None,
        released: NDArray[np.int64] | None = None,
    ) -> None:
        self._released = released if layout.with_count else None
        self._rng = rng
        self._layout = layout
        self._law = law
        self._width = width
        self._rows = np.asarray(owner_rows, dtype=np.float64)
        self._own_means = own_means and layout.with_sums
        self._n_rows = int(sum(owner_rows))
        self._mechanisms = len(owner_rows) if mechanisms is None else mechanisms

    def packed(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the next draw before unpacking.

        Return the packed vector, shape (D,), whole numbers in units of ``4**-g``, and
        `NoiseDraw.squares`, shape (p, p), which is None unless the owners' own means are drawn.
        """
        layout, m = self._layout, len(self._rows)
        squares = None
        if self._own_means:
            packed, each = self._law.standard_owners(layout, m, self._mechanisms, self._rng)
            squares = self._squares_of_means(self._width * each)
        else:
            packed = self._law.standard_release(layout, self._mechanisms, self._rng)
        packed *= self._width
        packed[layout.halved_places] *= np.sqrt(0.5)
        if self._released is not None:
            packed -= packed[-1] / (layout.count_unit * self._n_rows) * self._released
        return np.rint(packed, out=packed), squares

    def draw(self) -> NoiseDraw:
        """Return the next draw."""
        packed, squares = self.packed()
        mean, second = unpack(packed.astype(np.int64), self._n_rows, self._layout)
        number, moved = 0.0, self._released is not None
        if self._layout.with_count and not moved:
            number = float(packed[-1]) / (self._layout.count_unit * self._n_rows)
        return NoiseDraw(mean, second - self._public, squares, number)

    @cached_property
    def _public(self) -> NDArray[np.float64]:
        """Second moment from the entries that are not sent."""
        nothing = np.zeros(self._layout.n_entries, dtype=np.int64)
        return unpack(nothing, self._n_rows, self._layout)[1]

    def _squares_of_means(self, each: NDArray[np.float64]) -> NDArray[np.float64]:
        """``sum_i n_i nu_i nu_i^T / n`` from the noises of the owners' packed sums, (m, p)."""
        one = float(2**self._layout.resolution_bits) * self._layout.scaled_weight
        nu = each / (self._rows[:, None] * one)
        squares: NDArray[np.float64] = nu.T @ (nu * (self._rows / self._rows.sum())[:, None])
        return squares
