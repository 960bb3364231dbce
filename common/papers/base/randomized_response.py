"""Randomised response: noised labels that each reveal little of the true one.

Each of n labels out of K is kept with probability p and otherwise replaced by one of the K - 1
others, all equally likely. The probabilities of an answer under two labels differ by a factor of at
most

    p (K - 1) / (1 - p) = e^epsilon       for       p = e^epsilon / (e^epsilon + K - 1)         (1)

so every label on its own, and with it a table that differs in one label, is epsilon-private. p is
rounded down to a multiple of 2^-64, and a label is kept if a uniform 64-bit integer is below ``p
2^64``: the draws are exact, and so is the choice among the others, by rejection.

Rounding lowers the factor of (1). The factor in the other direction is its inverse, and at most 1
while ``p >= 1/K``. Below an epsilon of some 10^-18, p may be rounded to less than 1/K. Then every
label is drawn uniformly from all K: it reveals nothing of the true one, which keeps every promise.

Limits: a person with k labels costs k epsilon. Above an epsilon of 40 the rounding keeps p within
2^-64 of 1, and no label is flipped in practice, but p is never 1.

Source: Warner (1965), "Randomized Response"; Kairouz, Oh and Viswanath (2016), "Extremal Mechanisms
for Local Differential Privacy", for K > 2.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import require_epsilon
from dppca.common.kernel.privacy.noise.entropy import EntropySource

_WORD = 1 << 64  # one more than the largest word of entropy
_DIGITS = 60  # far more than a threshold of 64 bits has
_LARGEST = Decimal(100)  # beyond, p rounds to the same number below 1


def randomised_response(
    labels: NDArray[np.intp], *, n_labels: int, epsilon: Decimal, entropy: EntropySource
) -> NDArray[np.intp]:
    """Keep or replace each label on its own; return a new array, shape (n,).

    ``labels``, shape (n,), are integers from 0 to ``n_labels - 1`` and are not changed;
    ``n_labels`` is K, 2 or more. Raise `SettingError` if epsilon is not above 0 or the labels are
    out of range.
    """
    if n_labels < 2 or (labels.size and not 0 <= labels.min() <= labels.max() < n_labels):
        raise SettingError(f"labels must be integers from 0 to {n_labels - 1}, of 2 labels or more")
    threshold = keep_threshold(epsilon, n_labels)
    if threshold is None:
        return draw_below(n_labels, labels.size, entropy)
    keep = _words(labels.size, entropy) < np.uint64(threshold)
    others = draw_below(n_labels - 1, labels.size, entropy)
    others += others >= labels  # the K - 1 labels that are not the true one
    return np.where(keep, labels, others)


def keep_threshold(epsilon: Decimal, n_labels: int) -> int | None:
    """Return p of (1) in units of 2^-64, rounded down and below 2^64; None if it is below 1/K.

    Every step rounds in the direction that makes p smaller.
    """
    require_epsilon(epsilon)
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_CEILING)):
        decay = (-min(epsilon, _LARGEST)).exp().next_plus()  # exp rounds to the nearest
        others = 1 + (n_labels - 1) * decay
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_FLOOR)):
        share = (_WORD / others).to_integral_value()
    threshold = min(int(share), _WORD - 1)
    return None if threshold * n_labels < _WORD else threshold


def _words(count: int, entropy: EntropySource) -> NDArray[np.uint64]:
    return np.frombuffer(entropy.bytes(8 * count), dtype="<u8", count=count).astype(np.uint64)


def draw_below(bound: int, count: int, entropy: EntropySource) -> NDArray[np.intp]:
    """Draw uniform integers below ``bound``; words past the last whole multiple are redrawn."""
    last = np.uint64(_WORD // bound * bound - 1)
    words = _words(count, entropy)
    while (outside := words > last).any():
        words[outside] = _words(int(outside.sum()), entropy)
    return (words % np.uint64(bound)).astype(np.intp)
