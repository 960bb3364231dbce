"""The linear support vector machine without a free intercept, solved to a certified gap.

For signed rows ``z_i = y_i x_i`` the machine minimises a strongly convex function, and its dual is
a quadratic program in a box::

    P(w) = |w|^2 / 2 + C sum_i max(0, 1 - z_i w)                                                (1)
    D(a) = C sum_i a_i - |w(a)|^2 / 2,   w(a) = C sum_i a_i z_i,   0 <= a_i <= 1                (2)

For any a in the box ``P(w(a)) - D(a)`` bounds how far w(a) is from optimal, and strong convexity
turns that into a distance to the one exact minimiser w*::

    |w(a) - w*|^2 <= 2 (P(w(a)) - D(a))                                                         (3)

so a gap of tau^2/2 certifies a distance of tau, whatever the solver did. Nothing else is asked of
it; output perturbation (`common.methods.weights`) relies on (3) alone.

The solver is a primal-dual interior-point method with Mehrotra's predictor and corrector. With
multipliers s of ``a >= 0`` and t of ``a <= 1``, and ``Z`` scaled by sqrt(C), a step solves

    (Z Z^T + diag(s/a + t/(1-a))) da = r

through the D x D matrix ``I + Z^T diag(.)^-1 Z``, so a step costs n D^2: some twenty steps for any
C, where coordinate descent takes a number that grows with C and n.

Limits: rows in memory, D up to some thousands. The gap is computed in float64; a bound on its
rounding error is added to it, so a gap that float64 cannot certify is reported as too large.

Source: Ferris and Munson (2002), "Interior-point methods for massive support vector machines";
Mehrotra (1992), "On the implementation of a primal-dual interior point method".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from common.errors import SettingError

_PATIENCE = 10  # steps without progress: what float64 can certify has been reached
_TO_THE_BOUNDARY = 0.99
_START = 1.0


@dataclass(frozen=True, slots=True)
class Solution:
    """Weights and how far they are from optimal.

    Attributes
    ----------
    weights
        w, shape (D,).
    gap
        A bound on ``P(w) - min P``, its rounding error included.
    """

    weights: NDArray[np.float64]
    gap: float


def solve_hinge(signed: NDArray[np.float64], *, C: float, gap: float) -> Solution:
    """Minimise (1) to within ``gap``.

    Parameters
    ----------
    signed
        ``z``, shape (n_rows, D), n_rows >= 1. Not changed.
    C
        Above 0.
    gap
        Largest difference to the minimum, above 0.

    Raises
    ------
    SettingError
        float64 cannot certify so small a gap.
    """
    Z = np.sqrt(C) * signed
    n = len(Z)
    a, u = np.full(n, 0.5), np.full(n, 0.5)
    slope = Z @ (Z.T @ a) - 1.0
    # Multipliers whose difference is the slope: the dual is feasible from the first step on.
    s = np.maximum(slope, 0.0) + _START
    t = np.maximum(-slope, 0.0) + _START
    smallest, stalled = np.inf, 0
    while stalled < _PATIENCE:
        found = _certified(Z, a)
        if C * found.gap <= gap:
            return Solution(np.sqrt(C) * found.weights, C * found.gap)
        stalled = 0 if found.gap < smallest else stalled + 1
        smallest = min(smallest, found.gap)
        try:
            a, u, s, t = _step(Z, a, u, s, t)
        except linalg.LinAlgError:  # the matrix is singular to float64: so near is near enough
            break
    message = (
        f"the solver certified a gap of {C * smallest:.3g} and not the {gap:.3g} that the noise "
        "is calibrated for: lower C, or raise solver_tolerance"
    )
    raise SettingError(message)


def _certified(Z: NDArray[np.float64], a: NDArray[np.float64]) -> Solution:
    """The gap at w(a) for C = 1, with a bound on what float64 loses."""
    w = Z.T @ a
    margins = Z @ w
    squared = float(w @ w)
    loss = float(np.maximum(0.0, 1.0 - margins).sum())
    terms = float((np.abs(Z) @ np.abs(w)).sum()) + 3.0 * len(Z) + 2.0 * squared
    rounding = np.finfo(np.float64).eps * (Z.shape[1] + np.log2(len(Z)) + 10.0) * terms
    return Solution(w, squared + loss - float(a.sum()) + float(rounding))


def _step(
    Z: NDArray[np.float64],
    a: NDArray[np.float64],
    u: NDArray[np.float64],
    s: NDArray[np.float64],
    t: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """One predictor-corrector step; everything stays above 0.

    ``u = 1 - a`` is carried along: the difference loses its digits where a is near 1.
    """
    residual = Z @ (Z.T @ a) - 1.0 - s + t  # zero but for rounding
    theta = 1.0 / (s / a + t / u)
    factor = linalg.cho_factor(np.eye(Z.shape[1]) + (Z.T * theta) @ Z, overwrite_a=True)

    def direction(
        lower: NDArray[np.float64], upper: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        right = lower / a - upper / u - residual
        moved = linalg.cho_solve(factor, Z.T @ (theta * right))
        da = theta * (right - Z @ moved)
        return da, (lower - s * da) / a, (upper + t * da) / u

    da, ds, dt = direction(-s * a, -t * u)
    length = _length(a, u, s, t, da, ds, dt)
    mu = float(s @ a + t @ u) / (2 * len(a))
    after = float((s + length * ds) @ (a + length * da) + (t + length * dt) @ (u - length * da)) / (
        2 * len(a)
    )
    centre = mu * (after / mu) ** 3
    da, ds, dt = direction(centre - s * a - da * ds, centre - t * u + da * dt)
    length = _length(a, u, s, t, da, ds, dt)
    return a + length * da, u - length * da, s + length * ds, t + length * dt


def _length(*vectors: NDArray[np.float64]) -> float:
    """How far to go so that a, u, s and t stay above 0; ``u`` moves against ``a``."""
    a, u, s, t, da, ds, dt = vectors
    length = 1.0
    for value, change in ((a, da), (u, -da), (s, ds), (t, dt)):
        falling = change < 0
        if falling.any():
            furthest = float((-value[falling] / change[falling]).min())
            length = min(length, _TO_THE_BOUNDARY * furthest)
    return length
