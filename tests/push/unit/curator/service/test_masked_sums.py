from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.spectrum.noise_edge import noise_edge
from dppca.common.kernel.aggregation.sum_messages import Upload
from dppca.common.kernel.errors import (
    GarbledSumError,
    LimitError,
    PermissionDeniedError,
    SignatureError,
    StoreError,
    UploadError,
)
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.service.masked_sums import (
    OpeningSpool,
    check_upload,
    digest_set,
    read_evidence,
    read_openings,
    read_seals,
    read_uploads,
    set_for,
)
from dppca.curator.store import SqliteStore
from dppca.curator.study.aggregate import aggregate_masked
from dppca.curator.study.study_record import StudyRecord
from tests.support.census import header_of
from tests.support.masked import MaskedRecords, make_masked_study, noised_sum

MASKED = MaskedRecords(make_masked_study())
STUDY, TERMS = MASKED.made.study, MASKED.terms
OPENINGS = [MASKED.opening(opener) for opener in TERMS.openers]
OPENED = MASKED.opened(MASKED.opened(MASKED.sealed, OPENINGS[0]), OPENINGS[1])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "state")
    MASKED.keep(store, OPENED, *OPENINGS)
    yield store
    store.close()


def blob(store: SqliteStore, record: StudyRecord, owner: str) -> Path:
    contribution = record.find_contribution(owner)
    assert contribution is not None
    return store.blobs.path(contribution.sha256)


def test_what_is_stored_adds_up_to_the_sum_over_the_owners(store: SqliteStore) -> None:
    result = aggregate_masked(
        STUDY,
        calibrate(STUDY),
        OPENED.contributions,
        read_uploads(store, OPENED),
        read_openings(store, OPENED),
    )
    np.testing.assert_array_equal(result.pooled, noised_sum(MASKED.made, STUDY.owners))
    assert result.mean is not None
    expected = noise_edge(
        STUDY.table.layout,
        law=calibrate(STUDY).law,
        owner_rows=[1000] * 4,
        mean=result.mean,
        covariance=STUDY.covariance,
        seed=int(STUDY.digest[:16], 16),
        mechanisms=calibrate(STUDY).mechanisms(4),
    )
    assert result.header.noise_edge == expected.value, "four shares of three"
    with pytest.raises(GarbledSumError):
        aggregate_masked(
            STUDY,
            calibrate(STUDY),
            OPENED.contributions,
            read_uploads(store, OPENED),
            (replace(each, total=bytes(len(each.total))) for each in read_openings(store, OPENED)),
        )


def test_a_set_is_shown_and_sealed_without_its_vectors(store: SqliteStore) -> None:
    shown = MASKED.shown("owner-2")
    n_bytes = 8 * TERMS.n_words
    for owner in STUDY.owners:
        path = blob(store, OPENED, owner)
        path.write_bytes(path.read_bytes()[:-n_bytes])
    assert b"".join(set_for(store, OPENED, "owner-2")) == shown.to_bytes()
    assert digest_set(store, OPENED).hex() == shown.digest
    assert tuple(read_seals(store, OPENED, "owner-2")) == shown.entries


def test_the_evidence_is_what_was_signed(store: SqliteStore) -> None:
    evidence = read_evidence(store, OPENED)
    uploads = [Upload.from_bytes(each.content, TERMS) for each in MASKED.releases.values()]
    assert [(each.statement, each.signature) for each in evidence.statements] == [
        (each.statement, each.signature) for each in uploads
    ]
    assert evidence.openings == tuple(each.without_total() for each in OPENINGS)
    assert evidence.votes == ()


@pytest.mark.parametrize("content", [b"", b"no upload", bytes(5000)])
def test_damaged_uploads_are_a_fault_of_the_store(store: SqliteStore, content: bytes) -> None:
    path = blob(store, OPENED, "owner-3")
    path.write_bytes(content)
    for read in (
        lambda: digest_set(store, OPENED),
        lambda: list(set_for(store, OPENED, "owner-1")),
        lambda: list(read_uploads(store, OPENED)),
    ):
        with pytest.raises(StoreError, match=r"is not a masked upload|damaged"):
            read()
    path.unlink()
    with pytest.raises(StoreError, match="is gone"):
        digest_set(store, OPENED)


@given(cuts=st.lists(st.integers(0, 300), max_size=6))
def test_only_the_sum_of_an_opening_is_written(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    content = OPENINGS[0].to_bytes()
    store = SqliteStore(tmp_path_factory.mktemp("state"))
    with store.blobs.spool() as spool:
        opening = OpeningSpool(spool, len(content) - 8 * TERMS.n_words)
        places = sorted({0, *(min(cut, len(content)) for cut in cuts), len(content)})
        for start, end in pairwise(places):
            opening.write(content[start:end])
        opening.sync()
        assert spool.path.read_bytes() == OPENINGS[0].total
        assert opening.read(STUDY) == OPENINGS[0].without_total()
    store.close()


def test_a_sum_that_was_not_signed_is_refused(tmp_path: Path) -> None:
    content = OPENINGS[0].to_bytes()
    store = SqliteStore(tmp_path)
    with store.blobs.spool() as spool:
        opening = OpeningSpool(spool, len(content) - 8 * TERMS.n_words)
        opening.write(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(UploadError, match="the sum of owner-1 is not the one that it signed"):
            opening.read(STUDY)
    store.close()


def test_every_byte_of_an_upload_is_checked(tmp_path: Path) -> None:
    """Whichever byte is another, it is refused; by the header's digest even before that."""
    release = MASKED.releases["owner-3"]
    header, path = header_of(release, "owner-3"), tmp_path / "upload"
    path.write_bytes(release.content)
    check_upload(path, STUDY, header)
    for place in range(0, len(release.content), 7):
        changed = bytearray(release.content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises((UploadError, LimitError, SignatureError, PermissionDeniedError)):
            check_upload(path, STUDY, header)
