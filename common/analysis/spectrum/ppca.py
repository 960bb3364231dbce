"""Probabilistic PCA: a Gaussian with the released components, and rows drawn from it.

With eigenvalues lambda_i of a covariance that noise may have made indefinite, lambda+ =
max(lambda, 0), T = sum(lambda) and k components kept (Tipping and Bishop 1999, eq. 7 and 8)::

    sigma^2 = mean of lambda_i+ over the dropped i > k
    W       = U_k (Lambda_k - sigma^2 I)^(1/2)
    x       = W s + mu + xi,    s ~ N(0, I_k),    xi ~ N(0, sigma^2 I_p)

The latents s are drawn, never computed from rows: the rows are therefore post-processing of a
release, free of further cost. (Gu et al. 2022, step 15, project raw rows: such rows are not
private, however noisy U_k is.)

Setting negative eigenvalues to zero inflates the variance: ``tr(W W^T) + p sigma^2 = sum lambda+ >
T`` if there are any, by a factor of 1.7 to 10 on Adult. Scaling both parts by ``T / sum lambda+``
restores the trace, whose estimate T the noise leaves unbiased. It changes no direction and no
correlation. If T <= 0, nothing is scaled.

Reference: M. E. Tipping, C. M. Bishop, Probabilistic principal component analysis, JRSS B 61
(1999) 611-622.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PPCAModel:
    """A Gaussian of low rank plus equal noise, in coded units.

    ``mean`` has shape (p,); ``components`` is W, shape (p, k); ``noise_variance`` is sigma^2, at
    least 0; ``trace_scale`` is the factor that scaled the variances to the signed trace, 1 if they
    were not scaled.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]
    noise_variance: float
    trace_scale: float

    def covariance(self) -> NDArray[np.float64]:
        """``W W^T + sigma^2 I``, shape (p, p)."""
        model: NDArray[np.float64] = self.components @ self.components.T
        model[np.diag_indices_from(model)] += self.noise_variance
        return model


def fit_ppca(
    eigenvalues: NDArray[np.float64],
    vectors: NDArray[np.float64],
    mean: NDArray[np.float64] | None,
    *,
    trace_scaling: bool,
) -> PPCAModel:
    """Return the model of released components.

    ``eigenvalues`` are all p of them, descending, signed; ``vectors``, shape (k, p), has the kept
    eigenvectors as rows, ``1 <= k < p``; ``mean`` has shape (p,), or is None if the release has no
    sums, and zero is taken. ``trace_scaling`` scales variances down to the signed trace.
    """
    k, p = vectors.shape
    positive = np.maximum(eigenvalues, 0.0)
    noise_variance = float(positive[k:].mean())
    # Kept eigenvalues are no smaller than dropped ones; the floor is for rounding.
    spread = np.sqrt(np.maximum(positive[:k] - noise_variance, 0.0))
    trace, modelled = float(eigenvalues.sum()), float(positive.sum())
    scale = trace / modelled if trace_scaling and 0 < trace < modelled else 1.0
    return PPCAModel(
        mean=np.zeros(p) if mean is None else mean.copy(),
        components=vectors.T * spread * np.sqrt(scale),
        noise_variance=noise_variance * scale,
        trace_scale=scale,
    )


def log_density(
    model: PPCAModel, rows: NDArray[np.float64], *, least_variance: float
) -> NDArray[np.float64]:
    """Log-density of the model at rows (n_rows, p), in coded units; shape (n_rows,).

    ``least_variance``, above 0, replaces a smaller sigma^2, because rows on a grid are known only
    to its step.
    """
    covariance = replace(
        model, noise_variance=max(model.noise_variance, least_variance)
    ).covariance()
    centred = rows - model.mean
    distances = np.einsum("ij,ji->i", centred, np.linalg.solve(covariance, centred.T))
    _, log_determinant = np.linalg.slogdet(covariance)
    constant = len(covariance) * np.log(2.0 * np.pi) + log_determinant
    density: NDArray[np.float64] = -0.5 * (distances + constant)
    return density


def sample(model: PPCAModel, n_rows: int, *, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw rows, shape (n_rows, p), in coded units and not limited to their range.

    ``rng`` protects nothing: the model is already released.
    """
    p, k = model.components.shape
    latents = rng.standard_normal((n_rows, k))
    rows: NDArray[np.float64] = latents @ model.components.T + model.mean
    rows += np.sqrt(model.noise_variance) * rng.standard_normal((n_rows, p))
    return rows
