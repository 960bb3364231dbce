"""Eigenvalues without what the noise added to them, for the model that rows are drawn from.

Theory. Noise does not only scatter eigenvalues, it raises the large ones: of a symmetric matrix of
low rank plus noise whose own spectrum ends at an edge e, an eigenvalue seen at y > e belongs to a
true one above e/2, and its eigenvector is turned away from the true one. What approximates the
matrix best in Frobenius norm gives the seen direction the weight ::

    eta(y) = sqrt(y^2 - e^2)    for y > e,    0 otherwise

(the semicircle law; Benaych-Georges and Nadakuditi 2011, Gavish and Donoho 2017). The edge is the
simulated one of the study's noise (`dppca.common.numerics.spectrum.noise_edge`), a little above e
in small matrices.

The rest of the variance goes to all directions alike. The trace T of the noised covariance is
unbiased, as noise has mean zero, so the level s of the rest follows from it ::

    sum over kept i of max(eta(y_i), s)  +  (p - k) s  =  T

Limits. The law is asymptotic and for noise that is alike in all entries; a covariance is no matrix
of low rank. It is post-processing of a release: wrong or right, it costs no privacy, changes no
direction and no number of components, and only `dppca.common.numerics.spectrum.ppca` sees its
result.

References: F. Benaych-Georges, R. R. Nadakuditi, The eigenvalues and eigenvectors of finite, low
rank perturbations of large random matrices, Adv. Math. 227 (2011) 494-521; M. Gavish,
D. L. Donoho, Optimal shrinkage of singular values, IEEE Trans. Inf. Theory 63 (2017) 2137-2152.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def shrink(
    eigenvalues: NDArray[np.float64], *, count: int, noise_edge: float
) -> NDArray[np.float64]:
    """Eigenvalues for a model of ``count`` components, shape (p,), descending, at least 0.

    Parameters
    ----------
    eigenvalues
        Those of the released covariance, shape (p,), descending, signed. Not changed.
    count
        k, how many components are kept, ``1 <= k < p``.
    noise_edge
        In the units of the eigenvalues, at least 0.

    Returns
    -------
    ndarray of float64
        The kept ones shrunk, the others all equal; their sum is the sum of ``eigenvalues``. Where
        that sum is not above 0 there is nothing to go by: negative ones are set to 0 and that is
        all.
    """
    p = len(eigenvalues)
    trace = float(eigenvalues.sum())
    if trace <= 0:
        return np.maximum(eigenvalues, 0.0)
    leading = np.maximum(eigenvalues[:count], 0.0)
    leading = np.sqrt(np.maximum(leading**2 - noise_edge**2, 0.0))
    if leading.sum() >= trace:
        return np.concatenate([leading * (trace / leading.sum()), np.zeros(p - count)])
    # The level rises as fewer kept ones stand above it: take the first that they do stand above.
    above = np.arange(count, -1, -1)
    sums = np.concatenate([[0.0], np.cumsum(leading)])
    levels = (trace - sums[above]) / (p - above)
    stands = [n == 0 or leading[n - 1] >= level for n, level in zip(above, levels, strict=True)]
    level = float(levels[int(np.argmax(stands))])
    return np.concatenate([np.maximum(leading, level), np.full(p - count, level)])
