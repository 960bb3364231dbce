from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dppca.common.kernel.attestation.results import result_from_bytes, result_to_bytes
from dppca.common.kernel.errors import StudyStateError
from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.composition import compose_guarantee
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import encode
from dppca.common.kernel.study import Study
from dppca.curator.study import lifecycle
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import StudyRecord
from tests.support.census import make_release
from tests.support.examples import examples
from tests.support.pooling import contributed as admitted
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def contributed(study: Study, rows: tuple[int, ...] = (900, 1000, 1100)) -> StudyRecord:
    record = lifecycle.create(None, study, now=NOW)
    for seed, n_rows in enumerate(rows):
        release = make_release(study, seed=seed, n_rows=n_rows)
        record = admitted(record, f"owner-{seed + 1}", release, now=NOW)
    return record


def vectors(study: Study, rows: tuple[int, ...] = (900, 1000, 1100)) -> list[NDArray[np.int64]]:
    return [make_release(study, seed=seed, n_rows=n).packed for seed, n in enumerate(rows)]


def test_a_result_can_be_read_back_and_checked() -> None:
    study = make_study()
    record = contributed(study)
    result = aggregate(study, calibrate(study), record.contributions, vectors(study))
    read = result_from_bytes(result_to_bytes(result), study)
    assert read.header == result.header
    assert read.header.n_rows == 3000
    assert [share.owner for share in read.header.shares] == ["owner-1", "owner-2", "owner-3"]
    assert read.header.missing == ()
    np.testing.assert_array_equal(read.vectors, result.vectors)


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 1000))
def test_the_sum_is_modulo_two_to_the_64_whatever_an_owner_sends(seed: int) -> None:
    study = make_study()
    record = contributed(study)
    rng = np.random.default_rng(seed)
    size = study.table.layout.n_entries
    sent = [rng.integers(-(2**63), 2**63 - 1, size, dtype=np.int64) for _ in range(3)]
    result = aggregate(study, calibrate(study), record.contributions, sent)
    expected = [sum(int(vector[entry]) for vector in sent) % 2**64 for entry in range(size)]
    assert [int(entry) % 2**64 for entry in result.pooled] == expected
    assert np.all(np.isfinite(result.vectors))


def test_vectors_are_taken_one_at_a_time() -> None:
    study = make_study()
    record = contributed(study)
    alive = 0

    def one_by_one() -> Iterator[NDArray[np.int64]]:
        nonlocal alive
        for vector in vectors(study):
            alive += 1
            assert alive == 1
            yield vector
            alive -= 1

    aggregate(study, calibrate(study), record.contributions, one_by_one())


@pytest.mark.parametrize("covariance", ["pooled", "within"])
def test_without_noise_it_is_the_covariance_of_the_rows(covariance: str) -> None:
    study = make_study(covariance=covariance)
    rng = np.random.default_rng(3)
    tables = [
        encode(
            study.table,
            [
                rng.uniform(20 + 20 * owner, 90, 400),
                rng.integers(0, 2, 400).astype(np.int32),
                rng.integers(0, 3, 400).astype(np.int32),
            ],
        )
        for owner in range(3)
    ]
    sent = [compute_moments(table, study.table.layout).packed for table in tables]
    record = contributed(study, (400, 400, 400))
    result = aggregate(study, calibrate(study), record.contributions, sent)
    real = [table / 2**study.table.resolution_bits for table in tables]
    if covariance == "pooled":
        expected = np.cov(np.vstack(real).T, bias=True)
    else:
        expected = np.mean([np.cov(table.T, bias=True) for table in real], axis=0)
    np.testing.assert_allclose(result.covariance(study), expected, atol=1e-12)
    np.testing.assert_allclose(result.eigenvalues, np.linalg.eigvalsh(expected)[::-1], atol=1e-12)
    assert result.mean is not None
    np.testing.assert_allclose(result.mean, np.vstack(real).mean(axis=0), atol=1e-12)


def test_who_did_not_come_is_named_and_changes_nothing_else() -> None:
    study = make_study(quorum=2, deadline="2030-01-01T00:00:00Z")
    record = contributed(study, (900, 1000))
    result = aggregate(study, calibrate(study), record.contributions, vectors(study, (900, 1000)))
    assert result.header.missing == ("owner-3",)
    assert result.header.n_rows == 1900
    mean, _ = unpack(result.pooled, 1900, study.table.layout)
    np.testing.assert_array_equal(result.mean, mean)


def test_nobody_gives_nothing() -> None:
    study = make_study()
    with pytest.raises(StudyStateError):
        aggregate(study, calibrate(study), (), [])


EPSILON, DELTA = Decimal("0.30000000000000000000000000001"), Decimal("0.1")


@pytest.mark.parametrize(
    ("overlap", "times"),
    [
        (False, 1),
        (True, 3),
        ([["owner-1", "owner-3"]], 2),
        ([["owner-1", "owner-2"], ["owner-2", "owner-3"]], 2),
        ([["owner-1", "owner-2", "owner-3"]], 3),
    ],
)
def test_the_federations_figure_is_one_owners_or_where_people_overlap_the_sum(
    overlap: bool | list[list[str]], times: int
) -> None:
    study = make_study(overlap=overlap)
    calibration = replace(calibrate(study), epsilon=EPSILON, delta=DELTA)
    guarantee = compose_guarantee(study, calibration)
    exact = Context(prec=60)
    assert Decimal(guarantee.epsilon) == exact.multiply(EPSILON, times)
    assert Decimal(guarantee.delta) == exact.multiply(DELTA, times)
    told = " ".join(guarantee.assumptions)
    for part in ("assert", "max_rows_per_person", "replace-one", "public", "owners"):
        assert part in told
    assert ("No person has rows at two owners" in told) is (overlap is not True)
    assert "computational" not in told
    if isinstance(overlap, list):
        assert " + ".join(sorted(overlap[0])) in told
        assert "otherwise" in told
