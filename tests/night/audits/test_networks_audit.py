"""Audits of the networks' estimators, as `test_methods_audit` has them of the others.

One row without a value in common with its neighbour: that moves counts as far as it can. The event
is a threshold on the log-likelihood ratio of all noised counts of a fit, step after step. A single
row has no dependence, so choices tell nothing here; their law has tests of its own
(``tests/push/unit/common/papers/base/test_exponential.py``). False alarms: of each of both as
in `test_methods_audit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.papers import DPSUBN3, PrivBayes
from dppca.common.papers.networks import dp_subn3, fitting, noised_counts
from dppca.common.papers.networks.noised_counts import PooledCounts, count_rows
from dppca.owner.selftest.draws import bound_epsilon
from tests.night.audits.test_methods_audit import A_BOUND, THRESHOLDS, laplace_ratio
from tests.support.noise import less_noise, seed_noise
from tests.support.studies import binary_of, make_schema

SCHEMA = make_schema([binary_of(name, [0, 1]) for name in "abc"], max_rows_per_person=1)
N_RELEASES = 1_500
FALSE_ALARMS = 2 * A_BOUND
A, B = np.zeros((1, 3)), np.ones((1, 3))


def counts_ratio(released: list[PooledCounts]) -> float:
    total = 0.0
    for pooled in released:
        for attributes, table in pooled.tables.items():
            x, y = (count_rows(row.astype(int), attributes, (2, 2, 2)) for row in (A, B))
            total += laplace_ratio(table, x, y, pooled.calibration.law.width)
    return total


def release(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Any], list[PooledCounts]]:
    """All noised counts of a fit."""
    kept: list[PooledCounts] = []
    honest = noised_counts.release_counts

    def watched(*args: Any, **settings: Any) -> PooledCounts:
        kept.append(honest(*args, **settings))
        return kept[-1]

    for module in (dp_subn3, fitting):
        monkeypatch.setattr(module, "release_counts", watched)

    def of_fit(model: Any, rows: NDArray[np.float64]) -> list[PooledCounts]:
        kept.clear()
        model.fit([rows] if isinstance(model, DPSUBN3) else rows)
        return kept.copy()

    return of_fit


def spent_by(kind: type[Any], monkeypatch: pytest.MonkeyPatch) -> float:
    of_fit = release(monkeypatch)
    from_a, from_b = (
        np.array(
            [counts_ratio(of_fit(kind(epsilon=1, schema=SCHEMA), rows)) for _ in range(N_RELEASES)]
        )
        for rows in (A, B)
    )
    return bound_epsilon(from_a, from_b, claim=1.0, delta=0.0, level=A_BOUND, thresholds=THRESHOLDS)


BOTH = pytest.mark.parametrize("kind", [DPSUBN3, PrivBayes])


@BOTH
def test_a_network_spends_no_more_than_its_guarantee_says(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spent_by(kind, monkeypatch) <= 1


@BOTH
def test_the_audit_finds_noise_that_is_too_small(
    kind: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch)
    monkeypatch.setattr(noised_counts, "add_noise", less_noise(noised_counts.add_noise, 4))
    assert spent_by(kind, monkeypatch) > 1
