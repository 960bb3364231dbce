"""Principal components of pooled moments: covariance, eigenvectors, number of components.

Covariance, from raw moments M (mean of products) and mu (mean)::

    pooled    Sigma = M - mu mu^T,   M = sum_i n_i M_i / n,   mu = sum_i n_i mu_i / n
    within    Sigma = sum_i n_i (M_i - mu_i mu_i^T) / n

``within`` (Gu et al. 2022, algorithm 1, step 5) drops the variance between the owners' means.
Without column sums the mean is set to zero: components belong to the second moment.

Noise makes the covariance indefinite. Its eigenvalues keep their signs: their sum is unbiased for
the trace, and the negative ones show the size of the noise. lambda are the eigenvalues, descending,
lambda+ = max(lambda, 0), T = sum(lambda).

Number of components k, one of three rules:

* contribution rate c: the smallest k with ``sum_{i<=k} lambda_i+ >= c sum lambda+``, or, signed,
  ``sum_{i<=k} lambda_i >= c T`` (the formula of Gu et al. 2022; their loop has no ``break``, the
  smallest k is our reading);
* count: k as given;
* above the noise: the number that exceed the edge of `dppca.common.analysis.spectrum.noise_edge`.

The rule's number is then limited to ``1 <= k <= p - 1`` and to the number of positive eigenvalues:
a direction of negative variance is noise even if the study asked for it. If no eigenvalue is
positive, the first component is kept, because a result has at least one; its eigenvalue in the
result, not above zero, shows that nothing was found.

Reference: W. Gu et al., PPCA-DP-MH, 2022, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.study import ComponentRule

_ROWS_AT_ONCE = 64  # of a p by p matrix, so that no second one is made
_ROUNDING = 1e-9
"""Relative tolerance: entries or sums closer than this are equal up to rounding."""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """All eigenvalues and eigenvectors of a covariance.

    ``eigenvalues`` has shape (p,), descending, signed. Row i of ``vectors``, shape (p, p), is the
    unit eigenvector of eigenvalue i; its largest entry by magnitude, the first of equals, is
    positive.
    """

    eigenvalues: NDArray[np.float64]
    vectors: NDArray[np.float64]


def pooled_covariance(
    mean: NDArray[np.float64] | None, second: NDArray[np.float64], *, overwrite: bool = False
) -> NDArray[np.float64]:
    """Return the covariance of all rows from their raw moments, shape (p, p).

    ``mean`` has shape (p,) or is None if the release has no sums; ``second``, shape (p, p), is the
    symmetric mean of products of two columns. With ``overwrite`` the covariance replaces
    ``second``, else it is a new array and ``second`` is not changed.
    """
    covariance = second if overwrite else second.copy()
    if mean is not None:
        for start in range(0, len(mean), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            covariance[rows] -= np.outer(mean[rows], mean)
    return covariance


@dataclass(frozen=True, slots=True)
class WithinCovariance:
    """Running sum of the owners' own covariances, with the memory of one matrix.

    Sums of floats depend on their order in the last bits: add owners by name. ``n_rows`` counts the
    rows so far; ``scatter`` is ``sum_i n_i (M_i - mu_i mu_i^T)``, shape (p, p).
    """

    n_rows: int
    scatter: NDArray[np.float64]

    def add(
        self, n_rows: int, mean: NDArray[np.float64] | None, second: NDArray[np.float64]
    ) -> WithinCovariance:
        """Return the sum with one more owner: ``n_rows`` rows, mean (p,), second moment (p, p)."""
        return WithinCovariance(
            self.n_rows + n_rows, self.scatter + n_rows * pooled_covariance(mean, second)
        )

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Mean of the covariances so far, weighted by rows; needs at least one owner."""
        return self.scatter / self.n_rows


def empty_covariance(n_columns: int) -> WithinCovariance:
    """Return the sum over no owners, for ``n_columns`` columns."""
    return WithinCovariance(0, np.zeros((n_columns, n_columns)))


def decompose(covariance: NDArray[np.float64]) -> Decomposition:
    """Compute eigenvalues and eigenvectors with an order and signs independent of the solver.

    If eigenvalues coincide, any rotation of their vectors is equally valid; to have the same bytes
    elsewhere, send the vectors. Other threads run meanwhile: NumPy releases the interpreter's lock
    in LAPACK's ``dsyevd``, SciPy does not. ``covariance``, shape (p, p), is symmetric and is not
    changed. Raise ``ValueError`` if it is not finite and ``LinAlgError`` if LAPACK does not
    converge.
    """
    values, columns = np.linalg.eigh(np.asarray_chkfinite(covariance))
    return Decomposition(values[::-1].copy(), fix_signs(columns.T[::-1]))


def fix_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Flip rows, shape (k, p), so that each row's largest entry by magnitude is positive; new.

    If entries are equal up to rounding, the first decides.
    """
    magnitude = np.abs(vectors)
    largest = magnitude.max(axis=1, keepdims=True)
    first = np.argmax(magnitude >= largest * (1 - _ROUNDING), axis=1)
    signs = np.where(vectors[np.arange(len(vectors)), first] < 0, -1.0, 1.0)
    turned: NDArray[np.float64] = vectors * signs[:, None]
    return turned


def count_components(
    eigenvalues: NDArray[np.float64], rule: ComponentRule, *, noise_edge: float
) -> int:
    """Number of components kept, ``1 <= k <= p - 1``.

    ``eigenvalues`` has shape (p,), p >= 2, descending, signed; ``rule`` is the study's.
    ``noise_edge``, the largest eigenvalue that noise alone would give, serves the rule
    ``above_noise`` only.
    """
    positive = int(np.count_nonzero(eigenvalues > 0))
    if rule.contribution_rate is not None:
        parts = eigenvalues if rule.trace == "signed" else np.maximum(eigenvalues, 0)
        needed = rule.contribution_rate * float(parts.sum())
        # Rounding must not miss a share that is met exactly.
        reached = np.cumsum(parts) >= needed - _ROUNDING * abs(needed)
        count = int(np.argmax(reached)) + 1
    elif rule.count is not None:
        count = rule.count
    else:
        count = int(np.count_nonzero(eigenvalues > noise_edge))
    return max(1, min(count, positive, len(eigenvalues) - 1))
