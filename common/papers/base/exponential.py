"""The exponential mechanism, drawn exactly: a choice that depends little on any one row.

Each of K candidates has an integer score u_i of the rows. Candidate i is chosen with probability

    P(i) = exp(u_i / b) / sum over j of exp(u_j / b),             b = ceil(2 k Delta / epsilon)  (1)

if one replaced row moves no score by more than Delta and a person has at most k rows. Between
neighbours a numerator changes by a factor of at most ``exp(k Delta / b)``, and so does the
denominator: the choice is epsilon-private.

**Exactness.** Take a candidate uniformly and keep it with probability ``exp(-(u_max - u_i) / b)``,
else begin again: the kept candidate has the law (1). A geometric variable G, ``P(G >= g) = exp(-g /
b)``, decides by ``G >= u_max - u_i``, and the sampler draws G exactly
(`dppca.common.kernel.privacy.noise.sampler`). All numbers are integers, and no table of
probabilities is needed.

Limits: as in `sampler`, the time depends on the draws; the mean number of candidates taken is at
most K.

Source: McSherry and Talwar (2007), "Mechanism Design via Differential Privacy".
"""

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise.sampler import laplace_histogram, propose_magnitudes
from dppca.common.papers.base.randomized_response import draw_below

_LARGEST_BATCH = 1 << 12  # draws at a time


def choice_scale(sensitivity: int, *, epsilon: Fraction, max_rows_per_person: int) -> int:
    """Return b of (1): the least integer that gives epsilon, above 0."""
    return ceil(2 * max_rows_per_person * sensitivity / epsilon)


def choose(scores: NDArray[np.int64], *, scale: int, entropy: EntropySource) -> int:
    """Return the index of a candidate, drawn by (1).

    ``scores`` has shape (K,), K >= 1, and no two of them are 2^63 apart; ``scale`` is b, an integer
    from 1 to 2^62. Raise `SettingError` if there are no candidates or the scores are no integers.
    """
    if scores.ndim != 1 or not scores.size or scores.dtype != np.int64:
        raise SettingError("the exponential mechanism needs a vector of int64 scores, one or more")
    gaps = (scores.max() - scores).astype(np.uint64)
    histogram = laplace_histogram(scale)
    batch = min(4 * scores.size, _LARGEST_BATCH)
    while True:
        cells, offsets, drawn, _ = propose_magnitudes(histogram, batch, entropy=entropy)
        cells, offsets = cells[drawn], offsets[drawn]
        magnitudes = (cells.astype(np.uint64) << np.uint64(histogram.shift)) + offsets
        beyond = cells >> (64 - histogram.shift) > 0  # past 64 bits, so past every gap
        candidates = draw_below(scores.size, cells.size, entropy)
        kept = np.flatnonzero(beyond | (magnitudes >= gaps[candidates]))
        if kept.size:
            return int(candidates[kept[0]])
