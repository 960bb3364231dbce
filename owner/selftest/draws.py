"""Audits of the noise of `dppca.common.kernel.privacy.release.draw`, which draws every release.

The moments belong to tables so small that all their neighbours can be searched. So the change that
the noise must hide is found, and not computed by the formula that calibrates it. The bytes come
from the operating system and are counted.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dppca.common.kernel.moments.moments import Moments, compute_moments
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.schema import Column, encode, find_cells
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.judging import LEVEL, judge_independence, judge_law
from dppca.owner.selftest.judging import judge_randomness as _randomness
from dppca.owner.selftest.laws import bits

THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 1.2, 1.6)  # of the claimed epsilon; public, not fitted
_ATTRIBUTES: list[dict[str, object]] = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 1},
    {"name": "sex", "type": "binary", "values": ["f", "m"]},
    {"name": "work", "type": "categorical", "categories": ["a", "b", "c"]},
]
_BINARIES: list[dict[str, object]] = [
    {"name": "sex", "type": "binary", "values": ["f", "m"]},
    {"name": "ill", "type": "binary", "values": ["no", "yes"]},
]


@dataclass(frozen=True, slots=True)
class Audit:
    """Mechanism that is audited, with its name in the report.

    ``study`` has every kind of attribute, and a table, for the law of each coordinate; ``small``
    has two binaries and their table: few coordinates, so a lower bound on epsilon is near the true
    value.
    """

    title: str
    study: Study
    small: Study


def audits() -> tuple[Audit, ...]:
    """Return an audit of every law that a study may ask for."""
    privacies = [
        {"mechanism": name, "epsilon": "2", "delta": "0.05"}
        if law.needs_delta
        else {"mechanism": name, "epsilon": "1"}
        for name, law in LAWS.items()
    ]
    return tuple(
        Audit(each["mechanism"].title(), _study(each, _ATTRIBUTES), _study(each, _BINARIES))
        for each in privacies
    )


class CountingEntropy:
    """Source that counts the bytes that the operating system gives while it is asked.

    A source that has its bytes from elsewhere counts as none.
    """

    def __init__(self, source: EntropySource) -> None:
        self._source = source
        self.taken = 0

    @classmethod
    def of_the_system(cls) -> Self:
        """Count what releases take."""
        return cls(OperatingSystemEntropy())

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes of the source."""
        with count_kernel() as given:
            content = self._source.bytes(count)
        self.taken += sum(given)
        return content


@contextmanager
def count_kernel() -> Iterator[list[int]]:
    """Give the numbers of bytes that the operating system's generator gives in the block."""
    kernel, given = os.urandom, list[int]()

    def counted(size: int, /) -> bytes:
        given.append(size)
        return kernel(size)

    setattr(os, "urandom", counted)  # noqa: B010 - mypy forbids the assignment
    try:
        yield given
    finally:
        setattr(os, "urandom", kernel)  # noqa: B010


def audit_noise(audit: Audit, *, n_releases: int, advance: Callable[[int], None]) -> list[Finding]:
    """Audit distribution and independence of every coordinate's noise, and its random bytes."""
    study, calibration = audit.study, calibrate(audit.study)
    moments = find_neighbours(study, calibration)[0]
    entropy = CountingEntropy(OperatingSystemEntropy())
    noise = _releases(study, calibration, moments, n_releases, entropy, advance) - moments.packed
    return [
        _distribution(audit.title, noise, calibration),
        _independence(audit.title, noise, calibration),
        _randomness(audit.title, bits(calibration.law.of_entries, noise), 8.0 * entropy.taken),
    ]


def audit_epsilon(audit: Audit, *, n_releases: int, advance: Callable[[int], None]) -> Finding:
    """Bound from below the epsilon that releases of two neighbouring tables in fact spend.

    The bound is `bound_epsilon` of the log-likelihood ratios of many releases of each.
    """
    study, claim = audit.small, calibrate(audit.small)
    a, b = find_neighbours(study, claim)
    entropy = OperatingSystemEntropy()
    from_a, from_b = (
        log_ratio(
            claim,
            a.packed,
            b.packed,
            _releases(study, claim, each, n_releases, entropy, advance),
        )
        for each in (a, b)
    )
    epsilon, delta = float(claim.epsilon), float(claim.delta)
    best = bound_epsilon(from_a, from_b, claim=epsilon, delta=delta, level=LEVEL)
    return Finding(
        f"{audit.title}: epsilon",
        best <= epsilon,
        f"at least {best:.3f} is spent on worst-case neighbours (confidence 1 - {LEVEL:.0e}, "
        f"{n_releases} releases of each); {epsilon:g} at delta {delta:g} is claimed",
        LEVEL,
        {"lower_bound": best, "claimed": epsilon, "delta": delta, "releases": 2 * n_releases},
    )


def bound_epsilon(
    from_a: NDArray[np.float64],
    from_b: NDArray[np.float64],
    *,
    claim: float,
    delta: float,
    level: float,
    thresholds: Sequence[float] = THRESHOLDS,
) -> float:
    """Return a lower bound on epsilon from losses of releases of two neighbours, (n,) each.

    The rates of one event are bounded by the intervals of Clopper and Pearson (1934), and
    ``epsilon >= ln((p_low - delta) / q_high)`` for every noise. The bound is wrong with
    probability at most ``level``: two intervals for each direction and threshold share it.
    Thresholds are parts of the claim.
    """
    n, best = len(from_a), 0.0
    each = level / (4 * len(thresholds))
    for p, q in ((from_a, from_b), (-from_b, -from_a)):
        for threshold in thresholds:
            hits_p = int((p >= threshold * claim).sum())
            hits_q = int((q >= threshold * claim).sum())
            low = beta.ppf(each, hits_p, n - hits_p + 1) if hits_p else 0.0
            high = beta.ppf(1 - each, hits_q + 1, n - hits_q)
            if low > delta:
                best = max(best, math.log((low - delta) / high))
    return best


def log_ratio(
    claim: Calibration, x: NDArray[np.int64], y: NDArray[np.int64], releases: NDArray[Any]
) -> NDArray[np.float64]:
    """Return log-likelihood ratios of releases (n, d), x (d,) against y.

    This is the most powerful statistic (Neyman and Pearson 1933).
    """
    z = releases.astype(np.float64)
    law = claim.law.of_entries
    difference = law.neg_log_pmf(z - y) - law.neg_log_pmf(z - x)
    ratio: NDArray[np.float64] = difference.sum(axis=1)
    return ratio


def _distribution(title: str, noise: NDArray[np.int64], calibration: Calibration) -> Finding:
    """Check the law of noise (n, d): of each coordinate, of all draws together, of its ends."""
    return replace(
        judge_law(title, noise, calibration.law.of_entries), release=f"{title} contribution"
    )


def _independence(title: str, noise: NDArray[np.int64], calibration: Calibration) -> Finding:
    """Check that noise of two coordinates, or of successive releases, is uncorrelated."""
    found = judge_independence(title, noise, calibration.law.of_entries)
    return replace(found, release=f"{title} contribution")


def _study(privacy: dict[str, str], attributes: list[dict[str, object]]) -> Study:
    return study_from_mapping(
        {
            "name": "audit",
            "owners": ["owner-1"],
            "privacy": privacy,
            "components": {"count": 1},
            "schema": {
                "resolution_bits": 4,
                "max_rows_per_person": 1,
                "tables": [{"table": [each["name"] for each in attributes[-2:]]}],
                "attributes": attributes,
            },
        }
    )


def find_neighbours(study: Study, calibration: Calibration) -> tuple[Moments, Moments]:
    """Return neighbouring tables of three rows, as far apart as possible in the mechanism's norm.

    They differ in as many rows as one person may have, three at most.
    """
    grid = [
        [0.0, 0.25, 0.5, 0.75, 1.0, *([] if a.missing is None else [np.nan])]
        if a.type == "numeric"
        else list(range(len(list_labels(a) or ())))
        for a in study.table.attributes
    ]
    rows = [list(row) for row in product(*grid)]
    k = min(study.max_rows_per_person, 3)
    tables = [_moments(study, [rows[0]] * (3 - k) + [row] * k) for row in rows]
    distance = calibration.law.of_entries.distance
    return max(product(tables, tables), key=lambda pair: distance(pair[0].packed - pair[1].packed))


def _moments(study: Study, rows: list[list[float]]) -> Moments:
    columns: list[Column] = [
        np.array(column, np.float64) if attribute.type == "numeric" else np.array(column, np.int32)
        for attribute, column in zip(study.table.attributes, zip(*rows, strict=True), strict=True)
    ]
    table = study.table
    return compute_moments(encode(table, columns), table.layout, find_cells(table, columns))


def _releases(
    study: Study,
    calibration: Calibration,
    moments: Moments,
    n_releases: int,
    entropy: EntropySource,
    advance: Callable[[int], None],
) -> NDArray[np.int64]:
    drawn = np.empty((n_releases, len(moments.packed)), np.int64)
    for i in range(n_releases):
        drawn[i] = draw(
            study,
            calibration,
            moments,
            release_id=bytes(16),
            ledger_sequence=1,
            entropy=entropy,
        ).packed
        advance(1)
    return drawn
