"""Audit of laws of a whole release, whose entries are not drawn independently.

No entry's law tells such noise from a wrong one: it is judged as the matrix that it is. The study
has yes/no columns and two numbers, so entries of the matrix are entries of the release; in units of
their deviations

- the mean square of all entries is 1: the scale, the number of columns, and that the two matrices
  do not depend on each other;
- so is that of the squares of numbers alone, which have twice the variance: one direction is as any
  other;
- no two entries are correlated, and no two releases: no row of normals is used again;
- the normals took as many random bits as they have digits. Noise of fewer digits has the same law
  to every test here, but products of numbers on a grid give residues away
  (`dppca.common.kernel.privacy.noise.wishart`).

Means are compared with `_LIMIT` of their own standard deviations over releases. For normal
means that is a false alarm of 1e-11 each. They are not normal, and their tails no more than those
of a square with an excess kurtosis below 6: what is stated is a thousand times as much.

A share is judged in sums of as many as make one noise; there people are added, so that the number
of people is an entry. Charges are compared with what rows and people move, under each promise.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.people import PeopleMoments
from dppca.common.kernel.privacy.laws import JOINT_LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy
from dppca.common.kernel.privacy.noise.wishart import KEPT_BITS
from dppca.common.kernel.privacy.noise_law import Noised, entry_weight
from dppca.common.kernel.privacy.release import calibrate, noise_moments
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.schema.units import NeighbourRelation, Person
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.owner.selftest.draws import CountingEntropy
from dppca.owner.selftest.findings import Finding

LEAST_RELEASES = 1600
"""Releases from which on a scale that is 2 % too small is found."""
_HONEST = 2  # owners that make the noise together
_LIMIT = 7.0  # standard deviations of a mean
_FALSE_ALARM = 1e-8  # chance that sound noise is beyond the limit
_PEOPLE: Mapping[str, Any] = {"unit": "person", "max_rows_per_person": None}
_PEOPLE_ADDED: Mapping[str, Any] = {**_PEOPLE, "neighbours": "added", "rows_counted": 3}
_PROMISES: Mapping[str, Mapping[str, Any]] = {
    "rows replaced": {},
    "rows replaced, targets": {"targets": ["b0", "n1"], "target_weight": 3},
    "rows added": {"neighbours": "added", "max_rows_per_person": 2},
    "people replaced": _PEOPLE,
    "people added": _PEOPLE_ADDED,
    "people weighed and replaced": {**_PEOPLE, "rows_counted": 3},
}


def audit_joint_noise(*, n_releases: int, advance: Callable[[int], None]) -> list[Finding]:
    """Audit every joint law, as one owner's noise and as shares; each release advances."""
    findings = []
    for name in JOINT_LAWS:
        for honest, changes in ((None, {}), (_HONEST, _PEOPLE_ADDED)):
            study = joint_study(name, **changes)
            noise = calibrate(study)
            if honest is not None:
                noise = _shared(study, noise, honest)
            findings.append(_audit(study, noise, n_releases, advance))
        findings.append(_judge_charge(name))
    return findings


def joint_study(name: str, **changes: Any) -> Study:
    """Return the study of the audit, of numbers and yes/no columns; changes are of its schema."""
    numbers = [{"name": f"n{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(2)]
    others = [{"name": f"b{i}", "type": "binary", "values": ["no", "yes"]} for i in range(12)]
    return study_from_mapping(
        {
            "name": "joint",
            "owners": ["owner-1"],
            "privacy": {"mechanism": name, "epsilon": "1"},
            "components": {"count": 1},
            "schema": {
                "resolution_bits": 10,
                "max_rows_per_person": 1,
                "attributes": [*numbers, *others],
                **changes,
            },
        }
    )


def _shared(study: Study, noise: Calibration, honest: int) -> Calibration:
    """Return the calibration of the same noise, made of shares."""
    law, charge = type(noise.law).calibrate_release(
        noise.sensitivity,
        noise.factor,
        study.table.layout,
        honest=honest,
        rows_counted=study.table.counted_of_person,
        epsilon=noise.epsilon,
        delta=None,
    )
    return replace(noise, law=law, charge=charge, n_honest_owners=honest)


def _audit(
    study: Study, noise: Calibration, n_releases: int, advance: Callable[[int], None]
) -> Finding:
    entropy = CountingEntropy(OperatingSystemEntropy())
    honest = noise.n_honest_owners or 1
    drawn = np.stack(
        [
            sum(_draw(study, noise, entropy, advance) for _ in range(honest))
            for _ in range(n_releases)
        ]
    )
    title = f"{noise.law.name.title()} {'contribution' if honest == 1 else 'masked contribution'}"
    faults = find_faults(study, noise, drawn)
    needed = n_releases * honest * _bits(study, noise)
    if (taken := 8.0 * entropy.taken) < needed:
        faults.append(f"{taken:.0f} random bits were taken for {needed:.0f}")
    says = f"{n_releases} releases of {drawn.shape[1]} entries have the scale and shape of the law"
    found = Finding.of_faults(f"{title}: distribution", faults, says)
    return replace(found, false_alarm=_FALSE_ALARM, release=title)


def _draw(
    study: Study, noise: Calibration, entropy: EntropySource, advance: Callable[[int], None]
) -> NDArray[np.int64]:
    exact = np.arange(study.table.layout.n_entries, dtype=np.int64)
    advance(1)
    kind = PeopleMoments if isinstance(study.unit, Person) else Moments
    return noise_moments(study, noise, kind(1, exact), entropy=entropy) - exact


def find_faults(study: Study, noise: Calibration, drawn: NDArray[np.int64]) -> list[str]:
    """Return what is wrong with the noise of releases, (n, D), with no count of cells."""
    layout, honest = study.table.layout, noise.n_honest_owners or 1
    i, j = layout.product_index
    squares = layout.n_sums + np.flatnonzero(i == j)
    kinds = np.full(layout.n_entries, Noised.PRODUCT, object)
    kinds[: layout.n_sums], kinds[squares] = Noised.SUM, Noised.SQUARE
    if layout.with_count:
        kinds[-1] = Noised.ROWS
    pooled = sqrt(noise.mechanisms(honest))
    deviation = {
        kind: noise.law.deviation_of(kind, layout) * entry_weight(kind, layout) * pooled
        for kind in set(kinds)
    }
    units = drawn / np.array([deviation[kind] for kind in kinds])
    faults = []
    for what, places in (("all entries", slice(None)), ("squares", squares)):
        means = (units[:, places] ** 2).mean(axis=1) - 1
        off = _deviations(means)
        if abs(off) > _LIMIT:
            size = "small" if off < 0 else "large"
            faults.append(f"{what}: too {size} by {abs(off):.1f} deviations")
    n = len(units)
    pairs = units.T @ units / n
    squared = (units**2).T @ units**2 / n
    worst = np.abs(np.triu(pairs, 1) / np.sqrt(np.maximum(squared, 1e-300) / n)).max()
    if worst > _LIMIT:
        faults.append(f"two entries are correlated, by {worst:.1f} deviations")
    if abs(off := _deviations((units[1:] * units[:-1]).mean(axis=1))) > _LIMIT:
        faults.append(f"successive releases are correlated, by {abs(off):.1f} deviations")
    if len({row.tobytes() for row in drawn}) < n:
        faults.append("the noise of a whole release came again")
    return faults


def _deviations(values: NDArray[np.float64]) -> float:
    """Return a mean in its own standard deviations."""
    return float(values.mean() / max(values.std(ddof=1) / sqrt(len(values)), 1e-300))


def _bits(study: Study, noise: Calibration) -> float:
    """Return the digits of all normals of one release or share: what exactness needs at least."""
    columns = ceil((noise.law.degrees or 0) / (noise.n_honest_owners or 1))
    side = study.table.layout.n_columns + study.table.layout.with_sums
    return 2.0 * side * columns * (KEPT_BITS + int(noise.law.width).bit_length())


def _judge_charge(name: str) -> Finding:
    """Compare charges with what rows or people that differ cost, under each promise."""
    faults, least = list[str](), 1.0
    for promise, changes in _PROMISES.items():
        study = joint_study(name, **changes)
        noise, layout, table = calibrate(study), study.table.layout, study.table
        people, facts = isinstance(study.unit, Person), noise.law.parameters()
        added = table.neighbours is NeighbourRelation.ADDED
        moved = _moved(layout, added=added) * (noise.factor if not people else table.rows_counted)
        # Each entry is rounded by one owner, and once more where averages are.
        cost = moved * 4**layout.resolution_bits / (2 * facts["scale"])
        cost += layout.n_entries * (1 + people) / facts["blanket"]
        charged = float(noise.charge.epsilon)
        least = min(least, cost / charged)
        if cost > charged * (1 + 1e-12):
            faults.append(f"{promise}: epsilon {charged} was charged for {cost:.6f}")
        if not noise.charge.covers(noise.law.cost(noise.sensitivity, noise.factor)):
            faults.append(f"{promise}: epsilon {charged} was charged for the law's own cost")
    says = f"what rows and people move under {len(_PROMISES)} promises costs {least:.4f} or more"
    return Finding.of_faults(f"{name.title()}: charge", faults, f"{says} of what is charged")


def _moved(layout: Layout, *, added: bool) -> float:
    """Return what rows that differ in any number of columns move of the matrix, at most."""
    weight, p = layout.scaled_weight / 2**layout.resolution_bits, layout.n_columns
    target = np.isin(layout.attribute_of, layout.targets)
    u = np.r_[weight, np.where(target, layout.target_weight, 1) / 2]
    if added:
        return float(u @ u)
    found = 0.0
    for flipped in range(p + 1):
        v = u * np.r_[1.0, np.where(np.arange(p) < flipped, -1.0, 1.0)]
        found = max(found, float(np.abs(np.linalg.eigvalsh(np.outer(u, u) - np.outer(v, v))).sum()))
    return found
