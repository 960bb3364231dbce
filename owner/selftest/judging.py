"""Findings about drawn noise: whether it has its law, repeats, and is made of random bits.

Noise is a matrix, shape (n, d): n releases of d coordinates. Each check has level `LEVEL`, which
its parts share; the statistics and their bounds are `dppca.owner.selftest.laws`.
"""

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.laws import (
    bins,
    centred,
    correlation_limit,
    correlations,
    digits,
    dkw,
    dkw_limit,
    echoes,
    extremes,
    likeliest,
    magnitudes,
    mean_limit,
    repeats,
)

LEVEL = 3e-8
"""Each check accuses an honest installation with at most this probability."""
_PART = LEVEL / 8
_FEW = 64  # coordinates that are judged one by one, and in pairs
_GROUPS = 32  # of neighbouring coordinates, where these are many


def judge_law(title: str, noise: NDArray[np.int64], law: IndependentLaw) -> Finding:
    """Check that each coordinate of noise, shape (n, d), has a law, and all of them together."""
    n, d = noise.shape
    limit = dkw_limit(n * d, _PART)
    together = dkw(noise.ravel(), law)
    sizes = magnitudes(law, noise)
    wrong = _wrong_coordinates(noise, sizes, law)
    faults = [f"coordinates {_some(wrong)} of {d} have another one"] if wrong else []
    if together > limit:
        faults.append(f"all {n * d} draws together have another one: {together:.5f} of {limit:.5f}")
    off = _worst_group(sizes)
    if off > 1:
        faults.append(f"draws are too small or too large: {off:.2f} times what is allowed")
    small, large = extremes(noise.ravel(), law)
    if small <= _PART:
        faults.append("there are too many or too few draws near 0")
    if large <= _PART:
        faults.append("the largest draws did not come, or too many did")
    faults += digits(noise.ravel(), law, _PART)
    says = (
        f"the noise does not have its law: {'; '.join(faults)}"
        if faults
        else f"{n} releases of {d} coordinates have the exact law, each coordinate and all "
        f"together: distance {together:.5f} of {limit:.5f} allowed; so have the largest draws"
    )
    return Finding(
        f"{title}: distribution",
        not faults,
        says,
        LEVEL,
        {
            "coordinates": d,
            "releases": n,
            "wrong": wrong,
            "distance": together,
            "limit": limit,
            "faults": faults,
        },
        title,
    )


def _wrong_coordinates(
    noise: NDArray[np.int64], sizes: NDArray[np.float64], law: IndependentLaw
) -> list[int]:
    """Return the coordinates without their law: of few by distance and bins, of many by size."""
    n, d = noise.shape
    if d > _FEW:
        off = np.abs(sizes.mean(axis=0)) > mean_limit(n, _PART / d)
        bare = ~noise.any(axis=0) & (d * likeliest(law) ** n <= _PART)
        wrong: list[int] = np.flatnonzero(off | bare).tolist()
        return wrong
    limit, level = dkw_limit(n, _PART / 2 / d), _PART / 2 / d
    return [i for i in range(d) if dkw(noise[:, i], law) > limit or bins(noise[:, i], law) <= level]


def _worst_group(sizes: NDArray[np.float64]) -> float:
    """Return the mean magnitude furthest from its law, as a share of its limit.

    Groups of the coordinates of (n, d) noise: all, neighbours, and those at equal distances.
    """
    sums = sizes.sum(axis=0)
    groups = [sums]
    if len(sums) > _FEW:
        groups += np.array_split(sums, _GROUPS)
        groups += [sums[start::_FEW] for start in range(_FEW)]
    level = _PART / len(groups)
    counts = [len(sizes) * len(group) for group in groups]
    return max(
        abs(float(group.sum())) / count / mean_limit(count, level)
        for group, count in zip(groups, counts, strict=True)
    )


def _some(wrong: list[int]) -> str:
    return ", ".join(map(str, wrong[:10])) + (", ..." if len(wrong) > 10 else "")


def judge_independence(title: str, noise: NDArray[np.int64], law: IndependentLaw) -> Finding:
    """Check that no two draws of noise (n, d) depend on each other, by sign or by magnitude.

    All draws are one sequence, and each stretch of it is compared with every other one. Few
    coordinates are compared in pairs, too.
    """
    n, d = noise.shape
    signed, sizes = centred(law, noise), magnitudes(law, noise)
    share, lag = echoes(signed.ravel(), sizes.ravel(), LEVEL / 3)
    faults = [f"draws that are {lag} apart are correlated"] if share > 1 else []
    worst, limit = 0.0, 1.0
    if d <= _FEW and n > 1:
        both = np.concatenate([signed, sizes], axis=1)
        pairs = d * (2 * d - 1) + 4 * d * d
        limit = correlation_limit(n - 1, LEVEL / 3 / pairs)
        within = correlations(both, both)[np.triu_indices(2 * d, 1)]
        between = correlations(both[:-1], both[1:])
        worst = float(max(np.abs(within).max(), np.abs(between).max()))
        if worst > limit:
            faults.append(f"two coordinates are correlated ({worst:.4f}, {limit:.4f} allowed)")
    again, allowed = repeats(noise, law, LEVEL / 3)
    if again > allowed:
        faults.append(f"{again} magnitudes came again, {allowed} may")
    twice = n - len({row.tobytes() for row in noise})
    if twice:
        faults.append(f"the noise of a whole release came again ({twice} times)")
    return Finding(
        f"{title}: independence",
        not faults,
        f"noise is used again or correlated: {'; '.join(faults)}"
        if faults
        else f"no two draws are correlated, by sign or magnitude ({share:.2f} of what is allowed), "
        "and none is used again",
        LEVEL,
        {"correlation": worst, "limit": limit, "repeated": max(twice, again - allowed, 0)},
        title,
    )


def judge_randomness(title: str, needed: float, taken: float) -> Finding:
    """Check that the sampler took enough random bits (see `dppca.owner.selftest.laws`)."""
    return Finding(
        f"{title}: randomness",
        taken >= needed,
        f"{taken:.0f} bits of the operating system's generator for noise that holds {needed:.0f}"
        + ("" if taken >= needed else ": it was made of something else"),
        0.0,
        {"bits_taken": taken, "bits_needed": needed},
    )
