"""Shares of labels from noisy ones.

The nearest shares on the simplex are the likeliest, but under large noise they put all rows on one
label. Here shares are ``q_k = exp(f_k) / sum_l exp(f_l)``, and the prior of f_k is ``N(0, t^2)``:
even shares for a small t, a few labels with most rows for a large one. For each t, f is the most
probable one given the release, by damped Gauss-Newton steps; the resulting laws are averaged with
their evidence (Laplace's approximation) as weights. Without noise each of them follows the release,
and without a release shares are even.

The curvature is a diagonal and two outer products, so a step costs K operations, not K^3: with w
the precisions of the noise, ``u = w q^2`` and ``c = sum_k w_k q_k^2`` it is ::

    diag(u + 1/t^2) + c q q' - u q' - q u'                                                (1)

Reference: D. MacKay, Bayesian interpolation, Neural Computation 4 (1992) 415-447.
"""

import numpy as np
from numpy.typing import NDArray

_WIDTHS = (0.3, 1.0, 2.0, 4.0)  # t of the prior, from even shares to a few labels
_STEPS = 60  # of the damped Gauss-Newton method, at most

Vector = NDArray[np.float64]


def label_shares(observed: Vector, noise: Vector) -> Vector:
    """Estimate shares of K labels, shape (K,): all above 0, and their sum is 1.

    ``observed`` has the released shares and ``noise`` the standard deviation of the noise of each,
    above 0; both have shape (K,).
    """
    from scipy.special import softmax

    weights = 1 / np.maximum(noise, 1e-6) ** 2
    f, laws, evidence = np.zeros(len(observed)), [], []
    for width in _WIDTHS:
        f, q, cost = _most_probable(observed, weights, width**-2.0, start=f)
        curvature = _Curvature(q, weights, width**-2.0)
        laws.append(q)
        evidence.append(-len(f) * np.log(width) - curvature.log_det / 2 - cost / 2)
    of_width = softmax(np.array(evidence))
    mean: Vector = np.maximum(of_width @ np.array(laws), np.finfo(float).tiny)
    mean /= mean.sum()
    return mean


def _most_probable(
    observed: Vector, weights: Vector, precision: float, *, start: Vector
) -> tuple[Vector, Vector, float]:
    """f that minimises ``weights @ (observed - q)^2 + precision f'f``, its q, the minimum."""

    def cost_at(f: Vector) -> tuple[float, Vector]:
        from scipy.special import softmax

        q: Vector = softmax(f)
        return float(weights @ (observed - q) ** 2 + precision * f @ f), q

    f, damping = start, 1e-2
    cost, q = cost_at(f)
    for _ in range(_STEPS):
        pull = weights * (observed - q)
        gradient = q * (pull - q @ pull) - precision * f
        step = _Curvature(q, weights, precision, damping).solve(gradient)
        there = cost_at(f + step)
        if there[0] < cost:
            settled = cost - there[0] < 1e-6 * cost
            f, (cost, q), damping = f + step, there, max(damping / 5, 1e-9)
            if settled:
                break
        else:
            damping *= 5
            if damping > 1e8:
                break
    return f, q, cost


class _Curvature:
    """Equation (1), its diagonal raised by a share ``damping``."""

    def __init__(self, q: Vector, weights: Vector, precision: float, damping: float = 0.0) -> None:
        u = weights * q**2
        self._diagonal = (u + precision) * (1 + damping)
        self._outer = np.stack([q, u], axis=1)
        self._scaled = self._outer / self._diagonal[:, None]
        # The inverse of [[c, -1], [-1, 0]], the weights of the two outer products.
        self._small = np.array([[0.0, -1.0], [-1.0, -u.sum()]]) + self._outer.T @ self._scaled

    @property
    def log_det(self) -> float:
        """Logarithm of the determinant."""
        return float(np.log(self._diagonal).sum() + np.linalg.slogdet(self._small)[1])

    def solve(self, right: Vector) -> Vector:
        """Solve the linear system for ``right``."""
        there = right / self._diagonal
        return there - self._scaled @ np.linalg.solve(self._small, self._outer.T @ there)
