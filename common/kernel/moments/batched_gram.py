"""Products of blocks of few columns: a stack of low blocks, multiplied in one call.

A float32 product is exact only if its own diagonal is small (`dppca.common.kernel.moments.gram`),
so many low products can be exact where one tall product is not. One call multiplies all of them,
because a call costs as much time as hundreds of such rows and because NumPy lets other threads run
only if a call returns more than 500 numbers (decision 96).

The second factor lacks the first column. BLAS therefore does not use its symmetric product, which
is several times slower for small matrices.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray


class BatchedGram:
    """``z^T z`` and column sums of the rows of one block of ``n_columns >= 2``."""

    def __init__(
        self, n_columns: int, most_rows: int, kind: type[np.float32 | np.float64] = np.float32
    ) -> None:
        self._products = np.empty((n_columns, n_columns))
        self._ones = np.ones(most_rows, kind)

    def multiply(
        self, rows: NDArray[Any], height: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Multiply ``height`` rows at a time.

        Return products and sums, shapes (p, p) and (p,), valid until the next call, and the largest
        number on the diagonal of the product of any ``height`` rows. The former are exact if the
        latter is below 2^24; of rows in float64, if they are below 2^53.
        """
        height = min(height, len(rows))
        n_stacked = len(rows) - len(rows) % height
        stack, rest = rows[:n_stacked].reshape(-1, height, rows.shape[1]), rows[n_stacked:]
        first_column = stack[:, :, 0]
        first = np.einsum("bn,bn->b", first_column, first_column)
        # Rows are finite, and so are their products. OpenBLAS has raised the flag "invalid" for a
        # product of zeros all the same (twice in 7,600 tests): NumPy would make a warning of it.
        with np.errstate(invalid="ignore"):
            others = np.matmul(stack.transpose(0, 2, 1), stack[:, :, 1:])
        most = max(first.max(), others.diagonal(-1, 1, 2).max())
        sums = np.matmul(self._ones[:height], stack).sum(axis=0, dtype=np.float64)
        products = self._products
        others.sum(axis=0, dtype=np.float64, out=products[:, 1:])
        products[1:, 0] = products[0, 1:]
        products[0, 0] = first.sum(dtype=np.float64)
        if len(rest):
            last = np.matmul(rest.T, rest)
            most = max(most, last.diagonal().max())
            products += last
            sums += np.matmul(self._ones[: len(rest)], rest)
        return products, sums, float(most)
