"""The linear support vector machine without a free intercept, solved to a certified gap.

For signed rows ``z_i = y_i x_i`` the machine minimises a strongly convex function, and its dual is
a quadratic program in a box::

    P(w) = |w|^2 / 2 + C sum_i max(0, 1 - z_i w)                                                (1)
    D(a) = C sum_i a_i - |w(a)|^2 / 2,   w(a) = C sum_i a_i z_i,   0 <= a_i <= 1                (2)

For any a in the box ``P(w(a)) - D(a)`` bounds how far w(a) is from optimal, and strong convexity
turns that into a distance to the one exact minimiser w*::

    |w(a) - w*|^2 <= 2 (P(w(a)) - D(a))                                                         (3)

so a gap of tau^2/2 certifies a distance of tau for any solver. Where row i has a weight v_i of at
most 1, its hinge is multiplied by v_i, and ``0 <= a_i <= v_i``. Output perturbation
(`dppca.common.analysis.estimators.base.weight_noise`) relies on (3) alone.

The gap is computed in float64 from all rows, so a bound on its error is added to it. Let C be 1
(rows are scaled), w the *computed* sum, which differs from w(a) by e. Then the gap at w is exactly

    |w|^2 + sum max(0, 1 - z_i w) - sum a_i + e w + |e|^2 / 2                                   (4)

A sum of m products of D, added in any order, has an error of at most ``D u`` (u = 2^-53) times the
sum of the products' sizes, to first order. n numbers are added in pairs, pairs of pairs, and so on,
with an error of ``ceil(log2 n) u`` and not ``n u``; the rows of w(a) 64 at a time, by BLAS, and the
blocks in pairs. So, with ``L = ceil(log2 n)`` and ``S = sum |z_i| |w|`` (sizes entry by entry), (4)
loses

    the hinges' sum   (D + L + 1) u S + (L + 1) u n      sum a   L u n      |w|^2   D u |w|^2
    e w               (64 + L) u S                       |e|^2 / 2   ((64 + L) u |Z|^T a)^2 / 2

and three more roundings, of ``|w|^2 + S + 2 n`` each. `rounding_error` exceeds the sum of these by
enough for second-order terms. Weights change no bound: that of 1 is exact, and one of at most 1/2
halves its row's share of the first line and adds one rounding of that half.

The solver is a primal-dual interior-point method with Mehrotra's predictor and corrector. With
multipliers s of ``a >= 0`` and t of ``a <= 1``, and ``Z`` scaled by sqrt(C), a step solves

    (Z Z^T + diag(s/a + t/(1-a))) da = r

through the D x D matrix ``I + Z^T diag(.)^-1 Z``, so a step costs n D^2: some twenty steps for any
C; coordinate descent needs a number that grows with C and n.

Limits: rows in memory, D up to some thousands. A gap that float64 cannot certify is reported as too
large.

Source: Ferris and Munson (2002), "Interior-point methods for massive support vector machines";
Mehrotra (1992), "On the implementation of a primal-dual interior point method".
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dppca.common.kernel.errors import SettingError

_PATIENCE = 10  # steps without progress, after which float64 cannot certify a smaller gap
_TO_THE_BOUNDARY = 0.99  # share of the way, so that the next point stays inside
_START = 1.0  # slack of the first multipliers
_BLOCK_ROWS = 64  # of w(a): smaller blocks lose less precision and take longer


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights w, shape (D,), and their distance from the optimum.

    ``gap`` is a bound on ``P(w) - min P``, its rounding error included.
    """

    weights: NDArray[np.float64]
    gap: float


def solve_hinge(
    signed: NDArray[np.float64],
    *,
    C: float,
    gap: float,
    weights: NDArray[np.float64] | None = None,
) -> Solution:
    """Minimise (1) to within ``gap``, above 0.

    ``signed`` is ``z``, shape (n_rows, D), n_rows >= 1, and is not changed; ``C`` is above 0;
    ``weights`` are v, shape (n_rows,), each 1 or from above 0 to 1/2; 1 where they are left out.
    Raise `SettingError` if float64 cannot certify so small a gap.
    """
    Z = np.sqrt(C) * signed  # with P and D divided by C, the program is that of C = 1
    most = np.ones(len(Z)) if weights is None else weights
    a, u = 0.5 * most, 0.5 * most
    slope = Z @ (Z.T @ a) - 1.0
    # Multipliers whose difference is the slope: the dual is feasible from the first step on.
    s = np.maximum(slope, 0.0) + _START
    t = np.maximum(-slope, 0.0) + _START
    smallest, stalled = np.inf, 0
    while stalled < _PATIENCE:
        certificate = _certified(Z, a, most)
        if C * certificate.gap <= gap:
            return Solution(np.sqrt(C) * certificate.weights, C * certificate.gap)
        stalled = 0 if certificate.gap < smallest else stalled + 1
        smallest = min(smallest, certificate.gap)
        try:
            a, u, s, t = _step(Z, a, u, s, t)
        except linalg.LinAlgError:  # singular in float64: no more precision is possible
            break
    raise SettingError(
        f"the solver certified a gap of {C * smallest:.3g} and not the {gap:.3g} that the noise "
        "is calibrated for: lower C, or raise solver_tolerance"
    )


def rounding_error(D: int, n_rows: int, *, sizes: float, squared: float, apart: float) -> float:
    """Bound on the error of the computed gap (4).

    ``sizes``, ``squared`` and ``apart`` are bounds on S, on ``|w|^2`` and on the norm of ``|Z|^T
    a``.
    """
    u, L = float(np.finfo(np.float64).eps) / 2.0, math.ceil(math.log2(n_rows))
    # The head's table, by S, n and |w|^2, with some units for second order; then |e|^2 / 2 in full.
    first = (D + 2 * L + 72) * sizes + (D + 2 * L + 8) * n_rows + (D + 8) * squared
    return u * first + (u * (_BLOCK_ROWS + L + 1) * apart) ** 2


def _certified(
    Z: NDArray[np.float64], a: NDArray[np.float64], most: NDArray[np.float64]
) -> Solution:
    """Return the gap at w(a) for C = 1 and weights ``most``, with a bound on float64's error."""
    n, D = Z.shape
    a = np.clip(a, 0.0, most)  # rounding may move a step beyond the box
    w = _weighted_sum(Z, a)
    sizes = np.abs(Z)
    squared = float(w @ w)
    loss = float(_sum_in_pairs(most * np.maximum(0.0, 1.0 - Z @ w)))
    # (4): its computed part, and a bound on what it lost.
    rounding = rounding_error(
        D,
        n,
        sizes=float((sizes @ np.abs(w)).sum()),
        squared=squared,
        apart=float(np.linalg.norm(a @ sizes)),
    )
    return Solution(w, squared + loss - float(_sum_in_pairs(a)) + rounding)


def _weighted_sum(Z: NDArray[np.float64], a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``sum a_i Z_i``, shape (D,): blocks by BLAS, and blocks in pairs."""
    n, D = Z.shape
    whole = n - n % _BLOCK_ROWS
    blocks = a[:whole].reshape(-1, 1, _BLOCK_ROWS) @ Z[:whole].reshape(-1, _BLOCK_ROWS, D)
    return _sum_in_pairs(np.concatenate([blocks[:, 0], (a[whole:] @ Z[whole:])[None]]))


def _sum_in_pairs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum along the first axis, of length m: no number goes through more than log2 m additions."""
    while len(values) > 1:
        half = len(values) // 2
        values = np.concatenate([values[:half] + values[half : 2 * half], values[2 * half :]])
    total: NDArray[np.float64] = values[0]
    return total


def _step(
    Z: NDArray[np.float64],
    a: NDArray[np.float64],
    u: NDArray[np.float64],
    s: NDArray[np.float64],
    t: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Take one predictor-corrector step; all values stay above 0.

    ``u = v - a`` is updated separately, because the difference loses its digits if a is near v.
    """
    residual = Z @ (Z.T @ a) - 1.0 - s + t  # zero up to rounding
    # The head's system by Woodbury's identity: theta is diag(s/a + t/u)^-1, factor is D x D.
    theta = 1.0 / (s / a + t / u)
    factor = linalg.cho_factor(np.eye(Z.shape[1]) + (Z.T * theta) @ Z, overwrite_a=True)

    def direction(
        lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        # lower and upper: what the products s a and t u still have to change by.
        right = lower / a - upper / u - residual
        moved = linalg.cho_solve(factor, Z.T @ (theta * right))
        da = theta * (right - Z @ moved)
        return da, (lower - s * da) / a, (upper + t * da) / u

    # Mehrotra's predictor aims at products of 0.
    da, ds, dt = direction(-s * a, -t * u)
    length = _length(a, u, s, t, da, ds, dt)
    mu = float(s @ a + t @ u) / (2 * len(a))
    after = float((s + length * ds) @ (a + length * da) + (t + length * dt) @ (u - length * da)) / (
        2 * len(a)
    )
    # His corrector aims at products of `centre`: the less, the further the predictor came. It also
    # takes out the products of changes that the linear system leaves out.
    centre = mu * (after / mu) ** 3
    da, ds, dt = direction(centre - s * a - da * ds, centre - t * u + da * dt)
    length = _length(a, u, s, t, da, ds, dt)
    return a + length * da, u - length * da, s + length * ds, t + length * dt


def _length(*vectors: NDArray[np.float64]) -> float:
    """Step length for which a, u, s and t stay above 0; ``u`` moves against ``a``."""
    a, u, s, t, da, ds, dt = vectors
    length = 1.0
    for value, change in ((a, da), (u, -da), (s, ds), (t, dt)):
        falling = change < 0
        if falling.any():
            furthest = float((-value[falling] / change[falling]).min())
            length = min(length, _TO_THE_BOUNDARY * furthest)
    return length
