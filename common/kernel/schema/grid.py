"""Numeric columns to the grid of box coding, many rows at a time.

With ``m`` the middle of a column's bounds ``[l, u]`` and ``h = 2^(g-1)``, a finite value ``x``
becomes

    clip(rint((clip(x, l, u) - m) / (u - l) * 2^g), -h, h)                                     (1)

and any other value 0, the middle. (Of an attribute with ``integer: true`` x is the nearest whole
number, made before, and the codes below are those of the whole numbers between the bounds.) The
computed form is

    clip(rint((x - m) / ((u - l) / 2^g)), code(l), code(u))                                    (2)

It gives the same integer with fewer passes over the data: dividing by a power of two first loses
nothing, and every step of (1) is non-decreasing in ``x`` also after rounding, so clipping the value
to its bounds equals clipping the result to the codes of the bounds. (If ``(u - l) / 2^g`` would not
be a normal number, the two steps are kept apart.) The last step is on the integers, in float32 as
they are passed on, which holds the codes of the bounds exactly and keeps the order of others: they
are always in range.

Non-finite cells are searched for only if a block's sum of squares is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.schema.attributes import Numeric

_Kind = TypeVar("_Kind", np.float32, np.float64)
_CACHE_LINE = 64  # bytes


@dataclass(frozen=True, slots=True)
class Grid:
    """Bounds of q numeric columns.

    ``middle`` and ``step`` are as in equation (2); ``unit`` is the factor that ``step`` was not
    yet divided by. ``lowest`` and ``highest`` are the codes of the bounds. All four arrays have
    shape (q,), or () if all columns have the same value. ``centred`` is True if every ``middle`` is
    0.
    """

    middle: NDArray[np.float64]
    step: NDArray[np.float64]
    unit: float
    lowest: NDArray[np.float32]
    highest: NDArray[np.float32]
    centred: bool

    def code(
        self,
        values: NDArray[np.float64],
        *,
        work: NDArray[np.float64],
        out: NDArray[np.float32],
    ) -> None:
        """Code rows.

        ``values`` has shape (n_rows, q), or one dimension, and is not changed. ``work`` has the
        same shape and is overwritten; it is the fastest in the order of ``values`` and within the
        cache. ``out``, of the same shape, gets the integers in float32.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            if self.centred:
                np.divide(values, self.step, out=work)
            else:
                np.subtract(values, self.middle, out=work)
                np.divide(work, self.step, out=work)
            if self.unit != 1.0:
                np.multiply(work, self.unit, out=work)
            np.rint(work, out=work)
            flat = work if work.ndim == 1 else work.ravel(order="K")
            if not np.isfinite(np.dot(flat, flat)):  # only then can a cell be non-finite
                np.copyto(work, 0.0, where=~np.isfinite(values))
            np.copyto(out, work, casting="same_kind")
            np.clip(out, self.lowest, self.highest, out=out)

    def tile(self, n_rows: int) -> Grid:
        """Return the grid of ``n_rows`` rows as one: a long row is coded faster than short ones."""

        def repeated(each: NDArray[_Kind]) -> NDArray[_Kind]:
            if not each.ndim:
                return each
            row = allocate_aligned(n_rows * len(each), each.dtype.type)
            row.reshape(n_rows, -1)[:] = each
            return row

        return replace(
            self,
            middle=repeated(self.middle),
            step=repeated(self.step),
            lowest=repeated(self.lowest),
            highest=repeated(self.highest),
        )


def make_grid(numerics: Sequence[Numeric], *, resolution_bits: int) -> Grid:
    """Make the grid of numerics with bounds, for resolution g."""
    unit = float(1 << resolution_bits)
    ends = [_ends(each) for each in numerics]
    lower = np.array([each.lower for each in numerics], dtype=np.float64)
    upper = np.array([each.upper for each in numerics], dtype=np.float64)
    middle = np.array([each.middle for each in numerics], dtype=np.float64)
    width = upper - lower
    normal = bool((width / unit >= np.finfo(np.float64).tiny).all())

    def bound(values: NDArray[np.float64]) -> NDArray[np.float32]:
        codes = np.rint((values - middle) / width * unit)
        return _collapse(np.clip(codes, -unit / 2, unit / 2).astype(np.float32))

    return Grid(
        middle=_collapse(middle),
        step=_collapse(width / unit if normal else width),
        unit=1.0 if normal else unit,
        lowest=bound(np.array([least for least, _ in ends])),
        highest=bound(np.array([most for _, most in ends])),
        centred=not middle.any(),
    )


def _ends(numeric: Numeric) -> tuple[float, float]:
    """The least and the largest value that a row counts as."""
    lower, upper = numeric.bounds
    if not numeric.integer:
        return lower, upper
    return float(math.ceil(lower)), float(math.floor(upper))  # NumPy holds no int beyond 64 bits


def _collapse(values: NDArray[_Kind]) -> NDArray[_Kind]:
    """Return one value if all are equal, because operations on one are faster."""
    return np.asarray(values[0]) if (values == values[0]).all() else values


def allocate_aligned(n_values: int, kind: type[_Kind]) -> NDArray[_Kind]:
    """Allocate an uninitialised array, shape (n_values,), aligned to the cache line.

    On some processors unaligned arrays take half as long again.
    """
    each = np.dtype(kind).itemsize
    raw = np.empty(n_values + _CACHE_LINE // each, kind)
    first = -raw.ctypes.data % _CACHE_LINE // each
    return raw[first : first + n_values]
