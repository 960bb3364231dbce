"""Components of several parties' rows, each of which sends its own: two published rules.

Our curator adds up moments. In these rules a site decomposes its own noised second moment first and
sends a part of that.

DPdisPCA (Imtiaz and Sarwate 2018, algorithm 1). Site s has n_s rows in the unit ball, centred, as
rows of X_s. It computes ``A_s = X_s^T X_s / n_s``, adds symmetric Gaussian noise of deviation

    D_s sqrt(2 ln(1.25/delta)) / epsilon,      D_s = 1/n_s                                       (1)

and sends ``P_s = U_R S_R^(1/2)`` of its singular value decomposition; the components are the first
k eigenvectors of ``(1/m) sum P_s P_s^T``. As printed each site counts the same, however many rows
it has. What the description leaves open, as read here: R is 2k; the decomposition is of singular
values, so that a negative eigenvalue, which only noise makes, is sent with its sign lost.

- *Printed* (`published_sites`): (1) is marked as printed. D_s is for one row more or less; a
  replaced row moves A_s by sqrt(2)/n_s. Rows are centred by their exact mean, which no noise
  covers, so no epsilon holds and the label is `published-method`.
- *Sound* (`sound_sites`): the site's release is the product's, sums and second moment of rows
  in the unit ball with exact noise for their joint sensitivity
  (`dppca.common.kernel.privacy.sensitivity`, equation 8), and A_s its covariance about its own
  released mean. All after that is computed from the release. Negative eigenvalues are left out.

Local, then merged (Grammenos, Mendoza-Smith, Crowcroft and Mascolo 2020, the merge of two
subspaces): site s sends ``U_k (n_s S_k)^(1/2)``, and what has come so far is merged with the next
by the singular value decomposition of both side by side, cut to k again. Read here: sites in the
order of their names, no forgetting, and the sound release in place of the paper's noise on blocks
of a stream.

Both are comparators, so they stand here and not among the product's estimators
(docs/explanation/models.md).

References
----------
H. Imtiaz, A. D. Sarwate. "Differentially private distributed principal component analysis." ICASSP
2018.
A. Grammenos, R. Mendoza-Smith, J. Crowcroft, C. Mascolo. "Federated principal component analysis."
NeurIPS 2020.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.spectrum.pca import decompose, pooled_covariance
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.schema import Schema


@dataclass(frozen=True, slots=True)
class SiteSums:
    """What a site decomposes.

    Attributes
    ----------
    matrix
        Its noised second moment about a mean, symmetric, shape (d, d).
    """

    n_rows: int
    matrix: NDArray[np.float64]


def sound_sites(
    schema: Schema, releases: Sequence[NDArray[np.int64]], n_rows: Sequence[int]
) -> list[SiteSums]:
    """Covariances of released packed sums, one vector per site."""
    return [
        SiteSums(n, pooled_covariance(*unpack(packed, n, schema.layout)))
        for packed, n in zip(releases, n_rows, strict=True)
    ]


def published_sites(
    parts: Sequence[NDArray[np.float64]], *, epsilon: float, delta: float, rng: np.random.Generator
) -> list[SiteSums]:
    """Equation (1) on rows in the unit ball, shape (n_s, d) each; *not private*."""
    mean = np.concatenate(parts).mean(axis=0)
    sites = []
    for rows in parts:
        centred, n = rows - mean, len(rows)
        noise = rng.normal(scale=published_deviation(n, epsilon, delta), size=(rows.shape[1],) * 2)
        noise = np.triu(noise) + np.triu(noise, 1).T
        sites.append(SiteSums(n, centred.T @ centred / n + noise))
    return sites


def published_deviation(n_rows: int, epsilon: float, delta: float) -> float:
    """Equation (1)."""
    return math.sqrt(2 * math.log(1.25 / delta)) / (n_rows * epsilon)


def distributed_components(
    sites: Sequence[SiteSums], *, k: int, intermediate: int, signed: bool
) -> NDArray[np.float64]:
    """DPdisPCA's components as rows, shape (k, d).

    Parameters
    ----------
    intermediate
        R, columns that each site sends.
    signed
        Leave negative eigenvalues out; otherwise singular values are taken, as printed.
    """
    pooled = np.zeros_like(sites[0].matrix)
    for site in sites:
        sent = _factor(site.matrix, intermediate, signed=signed)
        pooled += sent @ sent.T / len(sites)
    return decompose(pooled).vectors[:k]


def merged_components(sites: Sequence[SiteSums], *, k: int) -> NDArray[np.float64]:
    """Components of subspaces that are merged one after the other, as rows, shape (k, d)."""
    kept = np.zeros((len(sites[0].matrix), 0))
    for site in sites:
        sent = _factor(site.n_rows * site.matrix, k, signed=True)
        left, values, _ = np.linalg.svd(np.hstack([kept, sent]), full_matrices=False)
        kept = left[:, :k] * values[:k]
    return np.linalg.svd(kept, full_matrices=False)[0].T[:k]


def _factor(matrix: NDArray[np.float64], count: int, *, signed: bool) -> NDArray[np.float64]:
    """Leading eigenvectors times the root of their values, shape (d, count)."""
    values, vectors = np.linalg.eigh(matrix)
    size = values if signed else np.abs(values)
    first = np.argsort(-size)[:count]
    factor: NDArray[np.float64] = vectors[:, first] * np.sqrt(np.maximum(size[first], 0.0))
    return factor
