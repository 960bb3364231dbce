import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.errors import (
    ChainError,
    ConflictError,
    DppcaError,
    SchemaMismatchError,
    StudyStateError,
    TooManyRowsError,
    UnknownStudyError,
    UploadError,
)
from dppca.common.kernel.privacy.release import Release, calibrate
from dppca.common.kernel.study import Continued
from dppca.curator.study import admission, lifecycle
from dppca.curator.study.admission import (
    SyntheticHeader,
    UploadDecision,
    admit_publication,
    publish,
)
from dppca.curator.study.study_record import (
    MAX_LEDGER_LENGTH,
    Contribution,
    Header,
    LedgerHead,
    OwnerHistory,
    Publication,
    StoredResult,
    StudyRecord,
)
from tests.support.census import header_of, make_release, with_receipt
from tests.support.pooling import contributed
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DEADLINE = NOW + timedelta(hours=1)
NONE = OwnerHistory()
STUDY = make_study(deadline=DEADLINE.isoformat(), max_rows=4502)
NOISE = calibrate(STUDY)
admit = partial(admission.admit, calibration=NOISE)
contribute = partial(admission.contribute, calibration=NOISE)
RELEASE = make_release(STUDY)
HEADER = header_of(RELEASE)
OPEN = lifecycle.create(None, STUDY, now=NOW)
ONE, _ = contribute(OPEN, HEADER, NONE, now=NOW)
RESULT = StoredResult(10, b"r" * 32, b"envelope")


def second(**ledger: Any) -> tuple[Release, Header]:
    release = make_release(STUDY, seed=1)
    return release, header_of(release, "owner-2", **ledger)


def decomposed() -> StudyRecord:
    record = OPEN
    for number in (1, 2):
        record = contributed(record, f"owner-{number}", make_release(STUDY, seed=number), now=NOW)
    return replace(record, state=StudyState.DECOMPOSED, result=RESULT)


def test_a_contribution_is_kept_with_all_that_was_said_of_it() -> None:
    record, _ = contribute(OPEN, HEADER, NONE, now=NOW)
    kept = Contribution(HEADER.release, HEADER.n_bytes, HEADER.chain, int(NOW.timestamp()))
    assert record == replace(OPEN, contributions=(kept,))
    assert (kept.owner, kept.n_rows, kept.study_digest) == ("owner-1", 1000, OPEN.digest)
    assert kept.sha256 == hashlib.sha256(RELEASE.payload()).digest()
    assert kept.release_id == RELEASE.release_id
    assert record.missing == ("owner-2", "owner-3")


@pytest.mark.parametrize("state", StudyState)
def test_the_very_same_release_is_acknowledged_in_every_state(state: StudyState) -> None:
    record = replace(ONE, state=state)
    later = DEADLINE + timedelta(days=1)
    longer = header_of(RELEASE, ledger_length=9)
    for header in (HEADER, longer):
        assert admit(record, header, NONE, now=later) is UploadDecision.ALREADY_STORED
    taken = contribute(record, HEADER, NONE, now=later)
    assert taken == (record, UploadDecision.ALREADY_STORED)


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.OPEN}))
def test_a_study_that_is_not_open_takes_nothing(state: StudyState) -> None:
    with pytest.raises(StudyStateError):
        admit(replace(ONE, state=state), second()[1], NONE, now=NOW)


def test_who_comes_late_is_refused_though_nobody_has_looked_at_the_clock_yet() -> None:
    with pytest.raises(StudyStateError, match="deadline"):
        admit(ONE, second()[1], NONE, now=DEADLINE)


def changed(header: Header, changes: dict[str, Any]) -> Header:
    """With another owner, size or chain, or another field of the receipt."""
    fields = dict(changes)
    own = {name: fields.pop(name) for name in ("n_bytes", "chain") if name in fields}
    owner = fields.pop("owner", header.owner)
    told = with_receipt(header, **fields)
    return replace(told, release=replace(told.release, owner=owner), **own)


@pytest.mark.parametrize(
    ("owner", "changes", "error", "says"),
    [
        ("mallory", {}, UnknownStudyError, "does not name mallory"),
        ("owner-1", {"release_id": "a" * 32}, ConflictError, "owner-1 has .* another release"),
        ("owner-1", {"payload_sha256": "a" * 64}, ConflictError, "another release"),
        ("owner-1", {"n_rows": 7}, ConflictError, "another release"),
        ("owner-2", {"n_entries": 3}, SchemaMismatchError, "3 entries from owner-2"),
        ("owner-2", {"n_bytes": 23}, UploadError, "23 bytes from owner-2"),
        ("owner-2", {"n_bytes": 25}, UploadError, "25 bytes from owner-2"),
        ("owner-2", {"n_rows": 0}, UploadError, "0 rows from owner-2; it must have"),
        ("owner-2", {"n_rows": 1501}, TooManyRowsError, "owner-2 has 1501 rows, .* at most 1500"),
        ("owner-2", {"n_rows": (1 << 63) - 1}, TooManyRowsError, "max_rows"),
        ("owner-2", {"chain": LedgerHead(0, b"h" * 32)}, UploadError, "0 entries; owner-2 must"),
        ("owner-2", {"chain": LedgerHead(1 << 63, b"h" * 32)}, UploadError, "owner-2 must have"),
        ("owner-2", {"ledger_sequence": 3}, UploadError, "ledger_sequence"),
    ],
)
def test_a_header_that_breaks_a_rule_is_refused(
    owner: str, changes: dict[str, Any], error: type[DppcaError], says: str
) -> None:
    header = HEADER if owner == "owner-1" else second()[1]
    for decide in (admit, contribute):
        with pytest.raises(error, match=says):
            decide(ONE, changed(header, {"owner": owner, **changes}), NONE, now=NOW)


@pytest.mark.parametrize("n_rows", [1, 1500])
@pytest.mark.parametrize("length", [2, MAX_LEDGER_LENGTH])
def test_what_stands_at_the_end_of_what_is_allowed_is_taken(n_rows: int, length: int) -> None:
    release = make_release(STUDY, seed=1, n_rows=n_rows)
    header = header_of(release, "owner-2", ledger_length=length)
    for fields in ({"ledger_sequence": 0}, {"ledger_sequence": length}, {"software": "x" * 128}):
        taken = with_receipt(header, **fields)
        assert admit(ONE, taken, NONE, now=NOW) is UploadDecision.ACCEPT


NOT_OF_THE_STUDY: list[tuple[str, object]] = [
    ("epsilon", "0.1"),
    ("epsilon", "1.0"),
    ("delta", "0.1"),
    ("charged_epsilon", "0.5"),
    ("mechanism", "gaussian"),
    ("parameters", {"scale": 1}),
    ("parameters", {"scale": float(RELEASE.receipt.noise.parameters["scale"])}),
    ("parameters", {**RELEASE.receipt.noise.parameters, "variance": 1}),
    ("parameters", 1),
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
]


@pytest.mark.parametrize(("field", "value"), NOT_OF_THE_STUDY)
def test_a_receipt_that_the_study_does_not_imply_is_refused_by_name(
    field: str, value: object
) -> None:
    with pytest.raises(SchemaMismatchError, match=field):
        admit(ONE, with_receipt(second()[1], **{field: value}), NONE, now=NOW)


def test_a_release_of_another_study_is_refused() -> None:
    other = make_release(make_study(name="other"))
    header = header_of(other)
    with pytest.raises(SchemaMismatchError, match="study_digest"):
        admit(OPEN, header, NONE, now=NOW)
    history = OwnerHistory(None, frozenset({other.release_id}))
    with pytest.raises(ConflictError, match="owner-1 has used this release for another"):
        admit(OPEN, header, history, now=NOW)


@given(seen=st.integers(1, 5), said=st.integers(1, 5), same=st.booleans())
def test_a_ledger_never_becomes_shorter_nor_another(seen: int, said: int, same: bool) -> None:
    history = OwnerHistory(LedgerHead(seen, b"a" * 32))
    header = header_of(
        make_release(STUDY), ledger_length=said, ledger_head=(b"a" if same else b"b") * 32
    )
    if said > seen or (said == seen and same):
        assert admit(OPEN, header, history, now=NOW) is UploadDecision.ACCEPT
        return
    says = f"owner-1 has {said} entries; it had {seen}" if said < seen else "has another end"
    with pytest.raises(ChainError, match=says):
        admit(OPEN, header, history, now=NOW)


def rows_header(**changes: Any) -> SyntheticHeader:
    header = SyntheticHeader(OPEN.digest, Form.CODED, 100, 1000, b"s" * 32, RESULT.sha256)
    return replace(header, **changes)


def test_rows_are_published_once_per_form() -> None:
    record, verdict = publish(decomposed(), "owner-2", rows_header(), now=NOW)
    assert verdict is UploadDecision.ACCEPT
    assert record.publications == (
        Publication("owner-2", Form.CODED, 100, 1000, b"s" * 32, int(NOW.timestamp())),
    )
    assert admit_publication(record, "owner-2", rows_header()) is UploadDecision.ALREADY_STORED
    taken = publish(record, "owner-2", rows_header(), now=NOW)
    assert taken == (record, UploadDecision.ALREADY_STORED)
    with pytest.raises(ConflictError, match="owner-2 has published other coded rows"):
        admit_publication(record, "owner-2", rows_header(sha256=b"t" * 32))
    record, _ = publish(record, "owner-2", rows_header(form=Form.DECODED), now=NOW)
    record, _ = publish(record, "owner-1", rows_header(n_rows=1), now=NOW)
    assert [(p.owner, p.form) for p in record.publications] == [
        ("owner-1", Form.CODED),
        ("owner-2", Form.CODED),
        ("owner-2", Form.DECODED),
    ]


@pytest.mark.parametrize(
    ("owner", "changes", "error", "says"),
    [
        ("mallory", {}, UnknownStudyError, "does not name mallory"),
        ("owner-3", {}, StudyStateError, "owner-3 did not take part"),
        ("owner-1", {"components_sha256": b"x" * 32}, UploadError, "other components"),
        ("owner-1", {"n_rows": 0}, UploadError, "owner-1 announces no synthetic row"),
    ],
)
def test_rows_that_break_a_rule_are_refused(
    owner: str, changes: dict[str, Any], error: type[DppcaError], says: str
) -> None:
    with pytest.raises(error, match=says):
        publish(decomposed(), owner, rows_header(**changes), now=NOW)


def test_a_study_that_continues_another_has_decoded_rows_alone() -> None:
    continues = Continued(study="0" * 64, result="0" * 64)
    further = STUDY.model_copy(update={"continues": continues})
    record = replace(decomposed(), study=further)
    with pytest.raises(UploadError, match="no coded rows"):
        admit_publication(record, "owner-1", rows_header())
    decoded = rows_header(form=Form.DECODED)
    assert admit_publication(record, "owner-1", decoded) is UploadDecision.ACCEPT


@pytest.mark.parametrize("state", sorted(set(StudyState) - {StudyState.DECOMPOSED}))
def test_rows_are_taken_only_while_a_study_is_decomposed(state: StudyState) -> None:
    with pytest.raises(StudyStateError):
        admit_publication(replace(decomposed(), state=state), "owner-1", rows_header())
