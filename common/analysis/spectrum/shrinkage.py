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

Limits. The law is asymptotic and for noise with the same variance in all entries; a covariance is
no matrix of low rank. The spectrum of noise of a whole release is no semicircle: there eta is too
small, by a tenth at y = 1.5 e and a twentieth at 2 e (simulated, p = 17 and 64). Shrinkage is
post-processing of a release: it costs no privacy even if it is wrong, and it changes no direction
and no number of components. Only `dppca.common.analysis.spectrum.ppca` uses its result.

References: F. Benaych-Georges, R. R. Nadakuditi, The eigenvalues and eigenvectors of finite, low
rank perturbations of large random matrices, Adv. Math. 227 (2011) 494-521; M. Gavish, D. L. Donoho,
Optimal shrinkage of singular values, IEEE Trans. Inf. Theory 63 (2017) 2137-2152.
"""

import numpy as np
from numpy.typing import NDArray


def shrink(
    eigenvalues: NDArray[np.float64], *, count: int, noise_edge: float
) -> NDArray[np.float64]:
    """Eigenvalues for a model of ``count`` components, shape (p,), descending, at least 0.

    ``eigenvalues``, shape (p,), are those of the released covariance, descending, signed, and are
    not changed; ``count`` is k, the number of components kept, ``1 <= k < p``; ``noise_edge`` is in
    the units of the eigenvalues, at least 0. The kept ones are shrunk, the others all equal, and
    the sum does not change. If the sum is not above 0, negative eigenvalues are only set to 0.
    """
    p = len(eigenvalues)
    trace = float(eigenvalues.sum())
    if trace <= 0:  # no level s fits
        return np.maximum(eigenvalues, 0.0)
    leading = np.maximum(eigenvalues[:count], 0.0)
    # eta(y); 0 below the edge.
    leading = np.sqrt(np.maximum(leading**2 - noise_edge**2, 0.0))
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
