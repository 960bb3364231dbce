from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.conversation import Form, Header, StudyState
from common.errors import (
    ChainError,
    ConflictError,
    DppcaError,
    SchemaMismatchError,
    StudyStateError,
    UnknownStudyError,
    UploadError,
)
from common.privacy.release import Release
from curator import protocol
from curator.admission import (
    SyntheticHeader,
    Verdict,
    admit,
    admit_publication,
    contribute,
    publish,
)
from curator.record import Chain, Content, OwnerHistory, StudyRecord
from tests.support.hub import header_of, make_release, make_study, with_receipt

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=1)
NONE = OwnerHistory()
STUDY = make_study(deadline=DEADLINE.isoformat(), max_rows=2500)
RELEASE = make_release(STUDY)
HEADER = header_of(RELEASE)
OPEN = protocol.create(None, STUDY, now=NOW)
ONE = contribute(OPEN, "owner-1", HEADER, NONE, now=NOW)
RESULT = Content(10, b"r" * 32)


def second(**ledger: Any) -> tuple[Release, Header]:
    release = make_release(STUDY, seed=1)
    return release, header_of(release, **ledger)


def decomposed() -> StudyRecord:
    record = OPEN
    for number in (1, 2):
        header = header_of(make_release(STUDY, seed=number))
        record = contribute(record, f"owner-{number}", header, NONE, now=NOW)
    return replace(record, state=StudyState.DECOMPOSED, result=RESULT)


def test_a_contribution_is_kept_with_all_that_was_said_of_it() -> None:
    (kept,) = ONE.contributions
    assert (kept.owner, kept.sha256, kept.receipt) == ("owner-1", HEADER.sha256, HEADER.receipt)
    assert kept.chain == Chain(HEADER.ledger_length, HEADER.ledger_head)
    assert kept.received_s == NOW.timestamp()
    assert ONE.state is StudyState.OPEN
    assert ONE.missing == ("owner-2", "owner-3")


def test_contributions_are_in_the_order_of_names_whoever_comes_first() -> None:
    record = OPEN
    for seed, owner in ((3, "owner-3"), (1, "owner-1")):
        header = header_of(make_release(STUDY, seed=seed))
        record = contribute(record, owner, header, NONE, now=NOW)
    assert record.contributed == ("owner-1", "owner-3")


@pytest.mark.parametrize("state", StudyState)
def test_the_very_same_release_is_acknowledged_in_every_state(state: StudyState) -> None:
    record = replace(ONE, state=state)
    later = DEADLINE + timedelta(days=1)
    longer = replace(HEADER, ledger_length=9)
    for header in (HEADER, longer):
        assert admit(record, "owner-1", header, NONE, now=later) is Verdict.ALREADY_STORED
    with pytest.raises(ConflictError):
        contribute(record, "owner-1", HEADER, NONE, now=later)


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN}))
def test_a_study_that_is_not_open_takes_nothing(state: StudyState) -> None:
    with pytest.raises(StudyStateError):
        admit(replace(ONE, state=state), "owner-2", second()[1], NONE, now=NOW)


def test_who_comes_late_is_refused_though_nobody_has_looked_at_the_clock_yet() -> None:
    with pytest.raises(StudyStateError, match="deadline"):
        admit(ONE, "owner-2", second()[1], NONE, now=DEADLINE)


@pytest.mark.parametrize(
    ("owner", "changes", "error"),
    [
        ("mallory", {}, UnknownStudyError),
        ("owner-1", {"release_id": b"x" * 16}, ConflictError),
        ("owner-1", {"sha256": b"x" * 32}, ConflictError),
        ("owner-1", {"n_rows": 7}, ConflictError),
        ("owner-2", {"n_entries": HEADER.n_entries + 1}, SchemaMismatchError),
        ("owner-2", {"n_rows": 0}, UploadError),
        ("owner-2", {"n_rows": 1501}, UploadError),
        ("owner-2", {"n_rows": 1 << 63}, UploadError),
        ("owner-2", {"n_rows": 999}, UploadError),
        ("owner-2", {"sha256": b"x" * 32}, UploadError),
        ("owner-2", {"release_id": b"x" * 16}, UploadError),
        ("owner-2", {"ledger_length": 0}, UploadError),
        ("owner-2", {"ledger_length": 1 << 63}, UploadError),
        ("owner-2", {"receipt": b""}, UploadError),
        ("owner-2", {"receipt": b"\xff\x00"}, UploadError),
        ("owner-2", {"receipt": b"[" * 60_000}, UploadError),
        ("owner-2", {"receipt": HEADER.receipt + b" "}, UploadError),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused_and_the_study_stays_as_it_was(
    owner: str, changes: dict[str, Any], error: type[DppcaError]
) -> None:
    header = HEADER if owner == "owner-1" else second()[1]
    before = replace(ONE)
    with pytest.raises(error):
        admit(ONE, owner, replace(header, **changes), NONE, now=NOW)
    with pytest.raises(error):
        contribute(ONE, owner, replace(header, **changes), NONE, now=NOW)
    assert before == ONE


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epsilon", "0.1"),
        ("epsilon", "1.0"),
        ("delta", "0.1"),
        ("charged_epsilon", "0.5"),
        ("mechanism", "gaussian"),
        ("scale", 1),
        ("scale", float(RELEASE.receipt.scale or 0)),
        ("l1", 1),
        ("l2_squared", 1),
        ("max_rows_per_person", 2),
        ("max_rows_per_person", True),
        ("resolution_bits", 7),
        ("schema_digest", "0" * 64),
        ("study_digest", "0" * 64),
        ("relation", "add-or-remove-one"),
        ("label", "published-method"),
        ("label", "site-only"),
        ("version", 2),
        ("source", "trust me"),
    ],
)
def test_a_receipt_that_the_study_does_not_imply_is_refused_by_name(
    field: str, value: object
) -> None:
    release, header = second()
    with pytest.raises(SchemaMismatchError, match=field):
        admit(ONE, "owner-2", with_receipt(header, release, **{field: value}), NONE, now=NOW)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ledger_sequence", 3),
        ("ledger_sequence", -1),
        ("ledger_sequence", "1"),
        ("ledger_sequence", True),
        ("software", 7),
        ("software", "x" * 129),
        ("n_rows", 1001),
    ],
)
def test_a_receipt_that_the_release_does_not_imply_is_a_bad_upload(
    field: str, value: object
) -> None:
    release, header = second()
    with pytest.raises(UploadError, match=field):
        admit(ONE, "owner-2", with_receipt(header, release, **{field: value}), NONE, now=NOW)


def test_a_release_of_another_study_is_refused() -> None:
    other = make_release(make_study(name="other"))
    header = replace(header_of(other), study_digest=OPEN.digest)
    with pytest.raises(SchemaMismatchError, match="study_digest"):
        admit(OPEN, "owner-1", header, NONE, now=NOW)
    history = OwnerHistory(None, frozenset({other.release_id}))
    with pytest.raises(ConflictError):
        admit(OPEN, "owner-1", header, history, now=NOW)


@given(seen=st.integers(1, 5), said=st.integers(1, 5), same=st.booleans())
def test_a_ledger_never_becomes_shorter_nor_another(seen: int, said: int, same: bool) -> None:
    history = OwnerHistory(Chain(seen, b"a" * 32))
    header = header_of(
        make_release(STUDY), ledger_length=said, ledger_head=(b"a" if same else b"b") * 32
    )
    if said > seen or (said == seen and same):
        assert admit(OPEN, "owner-1", header, history, now=NOW) is Verdict.ACCEPT
        return
    with pytest.raises(ChainError):
        admit(OPEN, "owner-1", header, history, now=NOW)


def rows_header(**changes: Any) -> SyntheticHeader:
    header = SyntheticHeader(OPEN.digest, Form.CODED, 100, 1000, b"s" * 32, RESULT.sha256)
    return replace(header, **changes)


def test_rows_are_published_once_per_form() -> None:
    record = publish(decomposed(), "owner-2", rows_header(), now=NOW)
    assert admit_publication(record, "owner-2", rows_header()) is Verdict.ALREADY_STORED
    with pytest.raises(ConflictError):
        admit_publication(record, "owner-2", rows_header(sha256=b"t" * 32))
    record = publish(record, "owner-2", rows_header(form=Form.DECODED), now=NOW)
    record = publish(record, "owner-1", rows_header(), now=NOW)
    assert [(p.owner, p.form) for p in record.publications] == [
        ("owner-1", Form.CODED),
        ("owner-2", Form.CODED),
        ("owner-2", Form.DECODED),
    ]


@pytest.mark.parametrize(
    ("owner", "changes", "error"),
    [
        ("mallory", {}, UnknownStudyError),
        ("owner-3", {}, StudyStateError),
        ("owner-1", {"components_sha256": b"x" * 32}, UploadError),
        ("owner-1", {"n_rows": 0}, UploadError),
    ],
)
def test_rows_that_break_a_rule_are_refused(
    owner: str, changes: dict[str, Any], error: type[DppcaError]
) -> None:
    record = decomposed()
    with pytest.raises(error):
        publish(record, owner, rows_header(**changes), now=NOW)
    assert record == decomposed()


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.DECOMPOSED}))
def test_rows_are_taken_only_while_a_study_is_decomposed(state: StudyState) -> None:
    with pytest.raises(StudyStateError):
        admit_publication(replace(decomposed(), state=state), "owner-1", rows_header())
