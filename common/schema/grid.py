"""Numeric columns to the grid of box coding, many rows at a time.

With ``m`` the middle of a column's bounds ``[l, u]`` and ``h = 2^(g-1)``, a finite value ``x``
becomes

    clip(rint((clip(x, l, u) - m) / (u - l) * 2^g), -h, h)                                     (1)

and any other value 0, the middle. What is computed is

    clip(rint((x - m) / ((u - l) / 2^g)), code(l), code(u))                                    (2)

the same integer with fewer passes over the data: dividing by a power of two first loses nothing,
and every step of (1) is non-decreasing in ``x`` also after rounding, so that clipping the value to
its bounds is clipping the result to the codes of the bounds. (Where ``(u - l) / 2^g`` would not be
a normal number, the two steps are kept apart.) The last step is on the integers: they are in
range whatever was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.schema.attributes import Numeric


@dataclass(frozen=True, slots=True)
class Grid:
    """Bounds of q numeric columns.

    Attributes
    ----------
    middle, step
        Shape (q,), of equation (2); ``unit`` is what ``step`` was not yet divided by.
    lowest, highest
        Codes of the bounds; shape (q,), or () where all columns have the same.
    """

    middle: NDArray[np.float64]
    step: NDArray[np.float64]
    unit: float
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]

    @property
    def n_columns(self) -> int:
        """q."""
        return len(self.middle)

    def code(
        self,
        values: NDArray[np.float64],
        *,
        work: NDArray[np.float64],
        out: NDArray[np.float32],
    ) -> None:
        """Code rows.

        Parameters
        ----------
        values
            Shape (n_rows, q). Not changed, unless it is ``work``.
        work
            Shape (n_rows, q), overwritten: where the rows are while they are computed. The
            fastest where it is in the same order as ``values`` and stays in the cache.
        out
            Shape (n_rows, q): the integers, in float32.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            finite = np.isfinite(values)
            np.subtract(values, self.middle, out=work)
            np.divide(work, self.step, out=work)
            if self.unit != 1.0:
                np.multiply(work, self.unit, out=work)
            np.rint(work, out=work)
            if not finite.all():
                np.copyto(work, 0.0, where=~finite)
        if self.lowest.ndim or self.highest.ndim:
            np.minimum(work, self.highest, out=work)
            np.maximum(work, self.lowest, out=work)
        else:
            np.clip(work, self.lowest, self.highest, out=work)
        np.copyto(out, work, casting="same_kind")


def grid_of(numerics: Sequence[Numeric], *, resolution_bits: int) -> Grid:
    """The grid of numerics with bounds, for resolution g."""
    unit = float(1 << resolution_bits)
    lower = np.array([each.lower for each in numerics], dtype=np.float64)
    upper = np.array([each.upper for each in numerics], dtype=np.float64)
    middle = np.array([each.middle for each in numerics], dtype=np.float64)
    width = upper - lower
    normal = bool((width / unit >= np.finfo(np.float64).tiny).all())

    def bound(values: NDArray[np.float64]) -> NDArray[np.float64]:
        codes = np.rint((values - middle) / width * unit)
        codes = np.clip(codes, -unit / 2, unit / 2)
        same = bool((codes == codes[0]).all())
        return np.asarray(codes[0] if same else codes)

    return Grid(
        middle=middle,
        step=width / unit if normal else width,
        unit=1.0 if normal else unit,
        lowest=bound(lower),
        highest=bound(upper),
    )
