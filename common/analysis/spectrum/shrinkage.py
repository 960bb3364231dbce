"""Shrunk eigenvalues: the noise's contribution is removed for the model that rows are drawn from.

Theory. Noise not only scatters eigenvalues, it raises the large ones: for a symmetric matrix of low
rank plus noise whose own spectrum ends at an edge e, an observed eigenvalue y > e belongs to a true
one above e/2, and its eigenvector is turned away from the true one. The best approximation of the
matrix in Frobenius norm gives the observed direction the weight ::

    eta(y) = sqrt(y^2 - e^2)    for y > e,    0 otherwise

(the semicircle law; Benaych-Georges and Nadakuditi 2011, Gavish and Donoho 2017). The edge is the
simulated one of the study's noise (`dppca.common.analysis.spectrum.noise_edge`), a little above e
in small matrices.

The rest of the variance is spread evenly over all directions. The trace T of the noised covariance
is unbiased, since noise has mean zero, and determines the level s of the rest ::

    sum over kept i of max(eta(y_i), s)  +  (p - k) s  =  T

Noise of a whole release, ``c (G G^T - H H^T)`` with q times as many columns as rows, has another
spectrum. With z = c d g(y), g its Stieltjes transform, free probability (sums of free variables
add R transforms) and the same best weight, -g / g', give ::

    K(z) = 2 q z / (1 - z^2) + 1 / z,   y / e = K(z) / K(z_e),
    eta(y) = -e z K'(z) / K(z_e),       K'(z_e) = 0:  (2 q - 1) z_e^4 + (2 q + 2) z_e^2 = 1

which for many columns is the semicircle law's. By that law it would be too small, by a tenth at
y = 1.5 e and a twentieth at 2 e.

Limits. The laws are asymptotic and for noise that is alike in all directions; a covariance is no
matrix of low rank. Shrinkage is post-processing of a release: it costs no privacy even if it is
wrong, and it changes no direction and no number of components. Only
`dppca.common.analysis.spectrum.ppca` uses its result.

References: F. Benaych-Georges, R. R. Nadakuditi, The eigenvalues and eigenvectors of finite, low
rank perturbations of large random matrices, Adv. Math. 227 (2011) 494-521; M. Gavish, D. L. Donoho,
Optimal shrinkage of singular values, IEEE Trans. Inf. Theory 63 (2017) 2137-2152.
"""

from math import inf, isinf, sqrt

import numpy as np
from numpy.typing import NDArray

_HALVINGS = 60  # of an interval in [0, 1]: to the last digit of float64


def shrink(
    eigenvalues: NDArray[np.float64], *, count: int, noise_edge: float, ratio: float = inf
) -> NDArray[np.float64]:
    """Eigenvalues for a model of ``count`` components, shape (p,), descending, at least 0.

    ``eigenvalues``, shape (p,), are those of the released covariance, descending, signed, and are
    not changed; ``count`` is k, the number of components kept, ``1 <= k < p``; ``noise_edge`` is in
    the units of the eigenvalues, at least 0; ``ratio`` is q of noise of a whole release. The kept
    ones are shrunk, the others all equal, and the sum does not change. If the sum is not above 0,
    negative eigenvalues are only set to 0.
    """
    p = len(eigenvalues)
    trace = float(eigenvalues.sum())
    if trace <= 0:  # no level s fits
        return np.maximum(eigenvalues, 0.0)
    leading = _weights(np.maximum(eigenvalues[:count], 0.0), noise_edge, ratio)
    if leading.sum() >= trace:  # nothing is left for the rest: s = 0, and eta is scaled to T
        return np.concatenate([leading * (trace / leading.sum()), np.zeros(p - count)])
    # The level rises as fewer kept ones exceed it: take the first level that they do exceed.
    # With n kept ones above s: sum of the first n eta + (p - n) s = T.
    above = np.arange(count, -1, -1)
    sums = np.concatenate([[0.0], np.cumsum(leading)])
    levels = (trace - sums[above]) / (p - above)
    stands = [n == 0 or leading[n - 1] >= level for n, level in zip(above, levels, strict=True)]
    level = float(levels[int(np.argmax(stands))])
    return np.concatenate([np.maximum(leading, level), np.full(p - count, level)])


def _weights(observed: NDArray[np.float64], edge: float, ratio: float) -> NDArray[np.float64]:
    """Return eta of eigenvalues of at least 0; 0 up to the edge."""
    if isinf(ratio) or edge <= 0:
        return np.sqrt(np.maximum(observed**2 - edge**2, 0.0))
    # The edge's z, a root of a quadratic equation in z^2; K falls before it.
    b = ratio + 1
    last = sqrt(1 / (b + sqrt(b * b + 2 * ratio - 1)))
    scale = edge / (2 * ratio * last / (1 - last**2) + 1 / last)
    low, high = np.zeros_like(observed), np.full_like(observed, last)
    for _ in range(_HALVINGS):
        z = (low + high) / 2
        below = 2 * ratio * z / (1 - z * z) + 1 / z > observed / scale
        low, high = np.where(below, z, low), np.where(below, high, z)
    found = 1 / high - 2 * ratio * high * (1 + high**2) / (1 - high**2) ** 2
    return np.where(observed > edge, scale * np.maximum(found, 0.0), 0.0)
