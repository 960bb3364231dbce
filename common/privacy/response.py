"""Randomised response: labels that each tell little of the truth.

Each of n labels out of K is kept with probability p and otherwise replaced by one of the K - 1
others, all equally likely. Two labels are told apart by a factor of at most

    p (K - 1) / (1 - p) = e^epsilon       for       p = e^epsilon / (e^epsilon + K - 1)         (1)

so every label on its own, and with it a table that differs in one label, is epsilon-private. p is
rounded down to a multiple of 2^-64, which only lowers the factor, and a label is kept if a uniform
64-bit integer is below ``p 2^64``: the draws are exact, as is the choice among the others, by
rejection.

Limits: a person with k labels costs k epsilon. Above an epsilon of 40 the rounding keeps p within
2^-64 of 1, and no label is flipped in practice, but p is never 1.

Source: Warner (1965), "Randomized Response"; Kairouz, Oh and Viswanath (2016), "Extremal Mechanisms
for Local Differential Privacy", for K > 2.
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from common.errors import SettingError
from common.privacy.accounting import require_epsilon
from common.privacy.entropy import EntropySource

_WORD = 1 << 64
_DIGITS = 60
_LARGEST = Decimal(100)  # beyond, p rounds to the same number below 1


def randomised_response(
    labels: NDArray[np.intp], *, n_labels: int, epsilon: Decimal, entropy: EntropySource
) -> NDArray[np.intp]:
    """Keep or replace each label on its own.

    Parameters
    ----------
    labels
        Shape (n,), integers from 0 to ``n_labels - 1``. Not changed.
    n_labels
        K, 2 or more.

    Returns
    -------
    ndarray, shape (n,)
        A new array.

    Raises
    ------
    SettingError
        epsilon is not above 0, or the labels are out of range.
    """
    if n_labels < 2 or (labels.size and not 0 <= labels.min() <= labels.max() < n_labels):
        message = f"labels must be integers from 0 to {n_labels - 1}, of 2 labels or more"
        raise SettingError(message)
    keep = _words(labels.size, entropy) < np.uint64(kept_of_word(epsilon, n_labels))
    others = _below(n_labels - 1, labels.size, entropy)
    others += others >= labels  # the K - 1 labels that are not the true one
    return np.where(keep, labels, others)


def kept_of_word(epsilon: Decimal, n_labels: int) -> int:
    """p of (1) in units of 2^-64, rounded down and below 2^64."""
    require_epsilon(epsilon)
    with localcontext(Context(prec=_DIGITS)):
        others = (n_labels - 1) * (-min(epsilon, _LARGEST)).exp()
        share = (_WORD / (1 + others)).to_integral_value(rounding=ROUND_FLOOR)
    return min(int(share), _WORD - 1)


def _words(count: int, entropy: EntropySource) -> NDArray[np.uint64]:
    return np.frombuffer(entropy.bytes(8 * count), dtype="<u8", count=count).astype(np.uint64)


def _below(bound: int, count: int, entropy: EntropySource) -> NDArray[np.intp]:
    """Uniform integers from 0 to ``bound - 1``; words past the last whole multiple are redrawn."""
    last = np.uint64(_WORD // bound * bound - 1)
    words = _words(count, entropy)
    while (outside := words > last).any():
        words[outside] = _words(int(outside.sum()), entropy)
    return (words % np.uint64(bound)).astype(np.intp)
