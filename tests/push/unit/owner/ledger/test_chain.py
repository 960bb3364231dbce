"""Which entry may follow which, and what a chain says: without a file."""

import hashlib
from dataclasses import replace
from decimal import Decimal

import pytest

from dppca.common.kernel.errors import LedgerCorruptError, StudyStateError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.owner.ledger.chain import FIRST, LedgerRow, admit_charge, is_finished, verify_chain
from dppca.owner.ledger.entries import (
    Delivery,
    Disowning,
    Entry,
    Recovery,
    ReleaseKind,
    Reservation,
    commitment,
    time_text,
)
from dppca.owner.ledger.entry_documents import to_document
from tests.support.ledgers import NOW, request_of, rows_of
from tests.support.studies import make_study

STUDY, OTHER = make_study("small", name="study-1"), make_study("small", name="study-2")
ASKED, ASKED_OTHER = request_of(STUDY), request_of(OTHER)
ASKED_ELSEWHERE = request_of(STUDY, data_set="x")
DEARER = replace(ASKED.price, charge=PrivacyCost(Decimal(2), Decimal(0)))
A, B, NAMELESS = b"a" * 16, b"b" * 16, b""
RESERVED = Reservation(0, time_text(NOW), A, ASKED)
STORED = commitment(sequence=0, now=NOW, release_id=A, n_rows=1, payload=b"p", receipt=b"r")
SENT = Delivery(0, time_text(NOW), A)
RECOVERED = Recovery(0, time_text(NOW), A, ASKED, 1, "0" * 64)
DISOWNED = Disowning(0, time_text(NOW), A, STUDY.name, STUDY.digest, "Not ours.")


@pytest.mark.parametrize(
    ("before", "entry", "says"),
    [
        ([RESERVED], replace(RESERVED, release_id=B), "its study has been reserved before"),
        ([RESERVED], replace(RESERVED, request=ASKED_OTHER), "its release has been reserved"),
        ([RECOVERED], replace(RESERVED, release_id=B), "its study has been recovered or disowned"),
        ([DISOWNED], replace(RESERVED, release_id=B), "its study has been recovered or disowned"),
        ([], STORED, "its release was never reserved"),
        ([RESERVED, STORED], STORED, "its release has been committed before"),
        ([RESERVED, RECOVERED], STORED, "its release has been recovered before"),
        ([RESERVED], SENT, "its release was never committed"),
        ([RESERVED, STORED, SENT], SENT, "its release has been sent before"),
        ([RESERVED, STORED], RECOVERED, "its release is known already"),
        ([RECOVERED], RECOVERED, "its release is known already"),
        ([DISOWNED], DISOWNED, "its release is known already"),
        ([DISOWNED], RECOVERED, "its release is known already"),
        ([RESERVED, STORED], replace(DISOWNED, release_id=NAMELESS), "is known already"),
        ([RECOVERED], replace(DISOWNED, release_id=NAMELESS), "is known already"),
        ([RESERVED], DISOWNED, "its release was reserved here"),
        ([RESERVED], replace(RECOVERED, request=ASKED_OTHER), "was reserved otherwise"),
        (
            [RESERVED],
            replace(RECOVERED, request=ASKED_ELSEWHERE),
            "otherwise",
        ),
        (
            [RESERVED],
            replace(RECOVERED, request=replace(ASKED, price=DEARER)),
            "otherwise",
        ),
    ],
)
def test_an_entry_that_breaks_a_rule_is_named_with_the_rule(
    before: list[Entry], entry: Entry, says: str
) -> None:
    verify_chain(rows_of(before))
    with pytest.raises(LedgerCorruptError, match=f"at entry {len(before) + 1}: .*{says}"):
        verify_chain(rows_of([*before, entry]))


def test_a_release_that_was_reserved_is_recovered_at_its_one_charge() -> None:
    history = verify_chain(rows_of([RESERVED, RECOVERED]))
    assert history.charges == history.reservations
    assert history.total("survey") == ASKED.price.charge


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([], False),
        ([RESERVED], False),
        ([RESERVED, STORED], True),
        ([RECOVERED], True),
        ([DISOWNED], True),
    ],
)
def test_what_is_held_without_a_name_is_known_by_its_study(
    entries: list[Entry], known: bool
) -> None:
    history = verify_chain(rows_of(entries))
    assert history.knows(STUDY.digest, NAMELESS) is known
    assert history.knows("", A) is known
    assert not history.knows(OTHER.digest, NAMELESS)
    assert not history.knows(STUDY.digest, B)


@pytest.mark.parametrize(
    ("entries", "release", "held", "finished"),
    [
        ([], None, False, False),
        ([RESERVED], None, False, False),
        ([RESERVED, STORED], STORED, False, False),
        ([RESERVED, STORED, SENT], STORED, True, True),
        ([RECOVERED], RECOVERED, True, True),
        ([RESERVED, RECOVERED], RECOVERED, True, True),
        ([DISOWNED], None, False, True),
    ],
)
def test_what_counts_as_the_sites_own_release_and_whether_it_has_arrived(
    entries: list[Entry], release: Entry | None, held: bool, finished: bool
) -> None:
    history = verify_chain(rows_of(entries))
    found = history.contribution_for(STUDY.digest)
    assert type(found) is type(release)
    assert history.contribution_for(OTHER.digest) is None
    assert history.is_held(STUDY.digest) is held
    assert is_finished(history, RESERVED) is finished


def test_a_file_is_finished_once_its_bytes_are_stored() -> None:
    reserved = replace(RESERVED, request=replace(ASKED, kind=ReleaseKind.MODEL, name="dp-svm"))
    assert not is_finished(verify_chain(rows_of([reserved])), reserved)
    assert is_finished(verify_chain(rows_of([reserved, STORED])), reserved)


def test_an_entry_with_another_number_than_its_place_is_named() -> None:
    (row,) = rows_of([RESERVED])
    document = to_document(replace(RESERVED, sequence=2), previous=FIRST)
    moved = LedgerRow(1, document, hashlib.sha256(document).digest())
    with pytest.raises(LedgerCorruptError, match="at entry 1: it has another number"):
        verify_chain([moved])
    with pytest.raises(LedgerCorruptError, match="at entry 1: another entry stands"):
        verify_chain([replace(row, sequence=2)])
    with pytest.raises(LedgerCorruptError, match="at entry 1: its content does not have its hash"):
        verify_chain([replace(row, digest=bytes(32))])
    with pytest.raises(LedgerCorruptError, match="at entry 2: it is not one that follows"):
        verify_chain([row, replace(row, sequence=2)])


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (RECOVERED, "contributed to study study-1: .*entry 1 of the ledger recovered"),
        (DISOWNED, "name to study study-1, which entry 1 of the ledger disowned"),
    ],
)
def test_a_study_that_was_settled_is_not_drawn_again(entry: Entry, says: str) -> None:
    history = verify_chain(rows_of([entry]))
    with pytest.raises(StudyStateError, match=says):
        admit_charge(history, ASKED)
    assert admit_charge(history, ASKED_OTHER) is None
