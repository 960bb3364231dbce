"""The parties' steps in one process are those of parties with files, keys and a wire."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from dppca.common.errors import StudyError
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate, draw
from dppca.common.schema.frames import read_frame
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.in_memory import make_parties, run_study
from dppca.owner.records import moments_of_table, open_table
from tests.support.latent_rows import make_rows, save_rows
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OWNERS = ["north", "south"]
STUDY = make_study("latent", owners=OWNERS, components={"count": 2})
ROWS = {name: make_rows(200, seed) for seed, name in enumerate(OWNERS)}


def test_the_pooled_sums_are_what_two_sites_would_release(tmp_path: Path) -> None:
    schema, noise, entropy = STUDY.table, calibrate(STUDY), SeededEntropy(7)
    expected = np.zeros(schema.layout.n_entries, np.int64)
    for name in OWNERS:
        moments = moments_of_table(
            open_table(save_rows(ROWS[name], tmp_path / f"{name}.parquet"), schema), schema
        )
        expected += draw(
            STUDY,
            noise,
            moments,
            release_id=entropy.bytes(16),
            ledger_sequence=1,
            entropy=entropy,
        ).packed
    sums = {name: accumulate_moments(schema, read_frame(ROWS[name], schema)) for name in OWNERS}
    parties = make_parties(STUDY, None, entropy=SeededEntropy(1))
    result, request = run_study(parties, sums, entropy=SeededEntropy(7), now=NOW)
    assert np.array_equal(result.pooled, expected)
    assert [share.owner for share in result.header.shares] == OWNERS
    assert request.charge == noise.charge


def test_a_masked_sum_is_opened_to_the_sum_of_what_was_noised() -> None:
    owners = [f"site-{place}" for place in range(5)]
    study = make_study(
        "latent",
        owners=owners,
        components={"count": 2},
        epsilon="1e6",
    )
    entropy = SeededEntropy(3)
    parties = make_parties(study, Aggregation(1, 4, 1), entropy=entropy)
    schema = parties.study.table
    sums = {
        name: accumulate_moments(schema, read_frame(make_rows(100, seed), schema))
        for seed, name in enumerate(owners)
    }
    result, _ = run_study(parties, sums, entropy=entropy, now=NOW)
    exact = sum(each.packed for each in sums.values())
    noise = calibrate(parties.study)
    assert np.abs(result.pooled - exact).max() < 60 * noise.law.width
    assert result.header.n_rows == 500
    assert [*parties.secrets] == owners[:4]


def test_a_study_whose_deadline_has_passed_does_not_begin() -> None:
    late = make_study("latent", owners=OWNERS, deadline="2026-04-30T00:00:00+00:00")
    parties = make_parties(late, None, entropy=SeededEntropy(1))
    with pytest.raises(StudyError, match="deadline"):
        run_study(parties, {}, entropy=SeededEntropy(1), now=NOW)
