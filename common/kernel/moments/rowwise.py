"""Products of rows that depend on one row alone.

BLAS rounds a row's product by the row's place in the matrix: the rows that share a kernel, a block
or a thread decide the order of the additions. If such a product decided a release, replacing one
row could change the products of other rows, and the sensitivity would be wrong. Two products avoid
this:

* `GridWeights`: integer rows z with ``|z_j| <= m`` times weights rounded *once* to a public grid,
  integers a. Every partial sum of a row's product is an integer of at most

      m sum_j |a_j|  <=  2^53                                                                   (1)

  in any order, with or without fused operations, so float64 holds each of them exactly, and the
  result is the exact integer ``sum a_j z_j``. (1) is enforced in integers: on the weights when they
  are made, on the rows when they are multiplied.
* `products`: for float rows. Arrays are multiplied or added one operation at a time, column by
  column: each entry is ``((r_1 m_1 + r_2 m_2) + r_3 m_3) + ...`` in float64, and every step,
  rounded as IEEE 754 prescribes, depends on its two numbers alone.

`cos_and_sin` and `dppca.common.kernel.schema.coding.row_norms` use only such steps.

Limits: `products` takes some three times as long as BLAS.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import RangeError

_EXACT = 1 << 53  # below it double precision has every whole number
_BLOCK_VALUES = 1 << 13  # values of a product at a time, so that they stay in the cache
_STEPS = 1024  # of a turn, in the tables of `cos_and_sin`
_STEP = 2 * math.pi / _STEPS
_COS = np.array([math.cos(each * _STEP) for each in range(_STEPS)])
_SIN = np.array([math.sin(each * _STEP) for each in range(_STEPS)])


@dataclass(frozen=True, slots=True)
class GridWeights:
    """Weights on a public grid, for exact products with integer rows; made by `weights_on`.

    ``whole`` are the weights in steps of the grid, integers stored as float64, shape (k, d). The
    grid's step is ``2^-bits``; ``bits`` may be negative. ``largest`` is m, a bound on the size of a
    row's entries.
    """

    whole: NDArray[np.float64]
    bits: int
    largest: int

    def __post_init__(self) -> None:
        for row in self.whole.tolist():
            if self.largest * sum(abs(int(each)) for each in row) > _EXACT:
                raise RangeError("weights are too large for exact products")

    def multiply(self, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return products with rows (n, d): exact integers stored as float64, shape (n, k).

        Raise `RangeError` if a row has an entry larger than ``largest``.
        """
        if rows.size and (int(rows.max()) > self.largest or int(rows.min()) < -self.largest):
            raise RangeError(
                f"rows have entries beyond {self.largest}, for which products are exact"
            )
        product: NDArray[np.float64] = rows.astype(np.float64) @ self.whole.T
        return product


def weights_on(weights: NDArray[np.float64], *, largest: int) -> GridWeights:
    """Round finite weights (k, d) to the finest power-of-two grid that keeps (1) for all rows."""
    total = max((math.fsum(np.abs(row)) for row in weights), default=0.0)
    # The sum of |a_j| is at most 2^bits times total, plus a half for each weight.
    room = _EXACT // largest - weights.shape[1]
    bits = math.frexp(room)[1] - 1 - math.frexp(total)[1] if total > 0 else 0
    return GridWeights(np.rint(np.ldexp(weights, bits)), bits, largest)


def products(rows: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``rows matrix^T``, shape (n, k), of shapes (n, d) and (k, d), each row on its own."""
    n_rows, d = rows.shape
    result = np.zeros((n_rows, len(matrix)))
    height = max(1, _BLOCK_VALUES // max(len(matrix), 1))
    for start in range(0, n_rows, height):
        part, total = rows[start : start + height], result[start : start + height]
        for column in range(d):
            total += part[:, column, None] * matrix[:, column]
    return result


def cos_and_sin(
    angles: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cosine and sine of finite angles, each depending on its angle alone, to within 1e-14.

    NumPy computes several angles at once, and differently at an array's end. This function reduces
    each angle exactly modulo one turn, takes the nearest of 1024 angles from a table and applies
    the first terms of the series to the difference. A turn is float64's 2 pi, so angles of many
    turns have a relative error of 4e-17.
    """
    flat = np.ascontiguousarray(angles).reshape(-1)
    cos, sin = np.empty_like(flat), np.empty_like(flat)
    for start in range(0, len(flat), _BLOCK_VALUES):
        part = slice(start, start + _BLOCK_VALUES)
        rest = np.fmod(flat[part], 2 * math.pi)
        place = np.rint(rest / _STEP)
        rest -= place * _STEP
        near = place.astype(np.int64) & (_STEPS - 1)
        square = rest * rest
        of_cos = 1.0 - square * (0.5 - square * (1 / 24 - square / 720))
        of_sin = rest * (1.0 - square * (1 / 6 - square / 120))
        cos[part] = _COS[near] * of_cos - _SIN[near] * of_sin
        sin[part] = _SIN[near] * of_cos + _COS[near] * of_sin
    return cos.reshape(angles.shape), sin.reshape(angles.shape)
