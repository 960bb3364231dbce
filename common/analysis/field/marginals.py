"""Released marginals, and labels assigned to rows so that the marginals are met exactly.

A categorical's released shares are its indicators' means, with negatives set to 0 and rescaled; a
binary's share of its second label is its mean plus 1/2, clipped to [0, 1]. Largest remainders turn
shares into whole numbers of rows.

Rows get labels by ``argmax_k (score_k - tau_k)``. The offsets tau that meet given shares are the
prices of an optimal transport between rows and labels; Sinkhorn's iteration at falling temperatures
finds them on a few thousand rows. Rows still above or below a quota are moved where moving costs
least. Any scores are possible, heavy-tailed or constant.

Reference: G. Peyré, M. Cuturi, Computational optimal transport, 2019, sections 4.2 and 5.2.
"""

import numpy as np
from numpy.typing import NDArray

_PRICED_ROWS = 4096  # of which prices are computed; `balance` puts the rest right
_TEMPERATURES = (0.5, 0.2, 0.1, 0.05, 0.02)  # in units of the spread: each starts the next
_STEPS = 12  # at each temperature


def binary_share(mean: float) -> float:
    """Return the share of the second label from a released mean in coded units."""
    return min(max(mean + 0.5, 0.0), 1.0)


def categorical_shares(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of K categories from released means of indicators, shape (K,), of sum 1.

    If none is positive, all shares are equal.
    """
    positive = np.maximum(means, 0.0)
    total = positive.sum()
    if total <= 0:
        return np.full(len(means), 1 / len(means))
    shares: NDArray[np.float64] = positive / total
    return shares


def apportion(shares: NDArray[np.float64], n_rows: int) -> NDArray[np.int64]:
    """Return whole rows per share, shape (K,), each off by less than 1; they sum to ``n_rows``."""
    exact = shares * n_rows
    whole = np.floor(exact).astype(np.int64)
    left = n_rows - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


def split_by_score(scores: NDArray[np.floating], n_second: int) -> NDArray[np.int32]:
    """Codes of a binary, shape (n,): 1 for the ``n_second`` highest scores, the first of equals."""
    codes = np.zeros(len(scores), dtype=np.int32)
    codes[np.argsort(-scores, kind="stable")[:n_second]] = 1
    return codes


def assign(scores: NDArray[np.floating], quota: NDArray[np.int64]) -> NDArray[np.int32]:
    """Codes of a categorical, shape (n,), with exactly ``quota`` rows per category.

    ``scores``, shape (n, K), are finite and are not changed; higher means more likely. ``quota``,
    shape (K,), comes from `apportion`; its sum is n.
    """
    prices = np.full(len(quota), np.inf)
    used = np.flatnonzero(quota > 0)
    prices[used] = _prices(scores[:, used], quota[used])
    values = scores - prices
    return balance(values, values.argmax(axis=1).astype(np.int32), quota)


def _prices(scores: NDArray[np.floating], quota: NDArray[np.int64]) -> NDArray[np.float64]:
    from scipy.special import logsumexp

    few = scores[:: max(1, len(scores) // _PRICED_ROWS)].astype(np.float64)
    spread = float(few.std(axis=1).mean())
    log_shares = np.log(quota / quota.sum())
    tau = np.zeros(len(quota))
    if spread == 0:
        return tau
    for temperature in _TEMPERATURES:
        t = temperature * spread
        for _ in range(_STEPS):
            z = (few - tau) / t
            log_share = logsumexp(z - logsumexp(z, axis=1, keepdims=True), axis=0)
            tau += t * (log_share - np.log(len(few)) - log_shares)
    return tau


def balance(
    values: NDArray[np.floating], codes: NDArray[np.int32], quota: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Move rows from labels above their quota to labels below it, in order of least loss.

    ``values``, shape (n, K), are finite; higher means more likely. ``codes``, shape (n,), are the
    initial labels. Both are not changed. ``quota``, shape (K,), has the rows for each label; its
    sum is n.
    """
    codes = codes.copy()
    room: list[int] = (quota - np.bincount(codes, minlength=len(quota))).tolist()
    shut = np.where(np.array(room) > 0, 0.0, -np.inf).astype(values.dtype)  # full labels
    for over in [label for label, left in enumerate(room) if left < 0]:
        rows = np.flatnonzero(codes == over)
        gain = values.take(rows, axis=0)
        own = gain[:, over].copy()
        # Each turn fills a label or ends the excess, so there are at most K turns.
        while True:
            gain += shut
            best = gain.argmax(axis=1)
            loss = own - gain[np.arange(len(rows)), best]
            cheapest = loss.argsort(kind="stable")[: -room[over]]
            moved, labels = list[int](), list[int]()
            for place, label in zip(cheapest.tolist(), best[cheapest].tolist(), strict=True):
                if room[label] > 0:
                    room[label] -= 1
                    moved.append(place)
                    labels.append(label)
            codes[rows[moved]] = labels
            shut[[label for label in {*labels} if not room[label]]] = -np.inf
            room[over] += len(moved)
            if not room[over]:
                break
            stay = np.ones(len(rows), bool)
            stay[moved] = False
            rows, own, gain = rows[stay], own[stay], gain[stay]
    return codes
