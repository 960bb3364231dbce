"""Synthetic rows of an estimator: latents, and the step from coordinates to valid values.

Drawn
    ``s ~ N(0, I_k)``: post-processing of a release (`dppca.common.analysis.spectrum.ppca`).
Whitened, literal
    ``s = Lambda_k^(-1/2) U_k' (x - mu)``, our reading of step 15 of Gu et al. (2022), and ``s =
    U_k' x`` in [0, 1] coding, its wording. Both use *raw rows*: each synthetic row comes from one
    raw row, however noisy U_k is, and is not private.

Decoded rows come from the shared decoder (`dppca.common.analysis.field.discretize`) and from
released values only; with whitened or literal latents they are no more private than the coded ones.

Source: Gu, Zhang and Yang (2022), algorithm 1, steps 15 and 16.
"""

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.discretize import discretize
from dppca.common.analysis.spectrum.ppca import PPCAModel
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import Column, Schema
from dppca.common.kernel.schema.decoding import decode_columns
from dppca.common.papers.ppca.party_moments import PooledMoments

DRAWN, WHITENED, LITERAL = "drawn", "whitened", "literal"
_SMALLEST = 1e-12  # divisor in place of an eigenvalue that is not above 0


def rows_from_scores(
    rows: NDArray[np.float64],
    model: PPCAModel,
    *,
    latents: str,
    eigenvalues: NDArray[np.float64],
    vectors: NDArray[np.float64],
    offset: NDArray[np.float64],
    rng: np.random.RandomState,
) -> NDArray[np.float64]:
    """Return one synthetic row per raw one, shape (n_rows, p), in coded units; *not private*.

    ``rows``, shape (n_rows, p), and ``model`` are in coded units; ``latents`` is `WHITENED` or
    `LITERAL`; ``eigenvalues``, (p,), descending, and ``vectors``, (k, p), the kept eigenvectors as
    rows, are released; ``offset``, (p,), leads from coded units to [0, 1].
    """
    if latents == LITERAL:
        scores = (rows + offset) @ vectors.T
    else:
        leading = np.maximum(eigenvalues[: len(vectors)], _SMALLEST)
        scores = (rows - model.mean) @ vectors.T / np.sqrt(leading)
    noise = np.sqrt(model.noise_variance) * rng.standard_normal(rows.shape)
    synthetic: NDArray[np.float64] = scores @ model.components.T + model.mean + noise
    return synthetic


def decoded_values(
    schema: Schema, coded: NDArray[np.float64], moments: PooledMoments, *, seed: int
) -> list[Column]:
    """Decode coded rows to values that the schema allows: a column (n_rows,) per attribute.

    Columns hold numbers within their bounds or codes of labels. ``seed`` decides ties and redrawn
    labels.
    """
    with one_blas_thread():  # as in the federation, for the same bits
        columns = discretize(
            coded,
            schema.layout,
            mean=moments.mean,
            second=moments.second,
            entry_noise=moments.entry_noise,
            rng=np.random.default_rng(seed),
        )
    return decode_columns(schema, columns)
