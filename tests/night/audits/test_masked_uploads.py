"""Are uploads random words to whoever lacks the openings? A battery on a million of them.

The rows are marked: every entry of one upload is the same, so that anything of it that shone
through would repeat. Each test rejects below p = 1e-6, and a battery makes 8 of them, each
corrected for the places that it looks at: a sound mask would fail for one seed in 125,000. Seeds
are fixed, so it never fails by chance. The same battery finds each of four weak masks.
"""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dppca.common.kernel.aggregation.masking import mask
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from tests.support.aggregation import federation

LEVEL = 1e-6
FALSE_ALARMS = 0.0  # all draws have seeds
N_WORDS = 1_000_000
WHO = federation(n_entries=N_WORDS - 2)
MARK = 0x0123_4567_89AB_CDEF
Words = NDArray[np.uint64]


def _upload(value: int, seed: int = 1) -> Words:
    vector = np.full(N_WORDS - 2, value)
    name = WHO.names[0]
    made = mask(WHO.terms, name, vector, key=WHO.keys[name], entropy=SeededEntropy(seed))
    return np.frombuffer(made.payload, "<u8")


def _bits(words: Words) -> NDArray[np.uint8]:
    """``(n, 64)``, lowest bit first."""
    return np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")


def _two_sided(counts: NDArray[np.int64], n: int) -> float:
    """Least p of counts that should be binomial(n, 1/2), times their number."""
    z = np.abs(2 * counts - n) / np.sqrt(n)
    return float(2 * stats.norm.sf(z.max()) * counts.size)


def _chi_square(values: NDArray[np.int64], n_values: int) -> float:
    return float(stats.chisquare(np.bincount(values, minlength=n_values)).pvalue)


def battery(words: Words) -> dict[str, float]:
    """P-values, one for each kind of structure, corrected for the places looked at."""
    bits = _bits(words)
    n = len(words)
    signs = 2 * bits.astype(np.float32) - 1
    pairs = np.abs((signs.T @ signs)[np.triu_indices(64, 1)])
    lags = [1, 2, 3, 8, 64, 1 << 15, (1 << 15) + 2]
    repeats = np.concatenate([(bits[lag:] ^ bits[:-lag])[: n - lags[-1]].sum(0) for lag in lags])
    flat = bits.reshape(-1)
    runs = int(np.count_nonzero(flat[1:] != flat[:-1]))
    columns = words.view(np.uint8).reshape(-1, 8).astype(np.int64)
    halves = words.view("<u2").reshape(-1, 4).astype(np.int64)
    collisions = n - len(np.unique(words >> np.uint64(24)))  # of 40 bits
    return {
        "bits": _two_sided(bits.sum(0).astype(np.int64), n),
        "pairs of bits": float(2 * stats.norm.sf(pairs.max() / np.sqrt(n)) * pairs.size),
        "repeats": _two_sided(repeats.astype(np.int64), n - lags[-1]),
        "runs": _two_sided(np.array([runs]), flat.size - 1),
        "bytes": 8 * min(_chi_square(column, 256) for column in columns.T),
        "halves": 4 * min(_chi_square(half, 1 << 16) for half in halves.T),
        "values": float(stats.kstest(words / 2.0**64, "uniform").pvalue),
        "collisions": 2 * float(stats.poisson.sf(collisions - 1, n**2 / 2**41)),
    }


@pytest.mark.parametrize("value", [0, MARK])
def test_an_upload_is_a_million_random_words(value: int) -> None:
    found = battery(_upload(value))
    assert min(found.values()) > LEVEL, found


def test_uploads_of_two_rows_say_nothing_of_which_is_which() -> None:
    marked, plain = _upload(MARK, seed=1), _upload(0, seed=2)
    found = battery(marked ^ plain) | {f"-{k}": p for k, p in battery(marked - plain).items()}
    assert min(found.values()) > LEVEL, found
    assert stats.ks_2samp(marked / 2.0**64, plain / 2.0**64).pvalue > LEVEL


def _unmasked(words: Words) -> Words:
    return np.full_like(words, MARK)


def _repeated(words: Words) -> Words:
    """The counter begins again with each block of 32,768 words."""
    return np.resize(words[: 1 << 15], len(words))


def _short(words: Words) -> Words:
    """A mask of 62 bits on a vector whose top bits show."""
    return words >> np.uint64(2)


def _linear(words: Words) -> Words:
    """A congruential generator modulo 2^64: its low bits have a short period."""
    state, out = 1, np.empty_like(words)
    for place in range(len(out)):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        out[place] = state
    return out


@pytest.mark.parametrize("weaken", [_unmasked, _repeated, _short, _linear])
def test_the_battery_finds_a_weak_mask(weaken: Callable[[Words], Words]) -> None:
    assert min(battery(weaken(_upload(0))).values()) < LEVEL
