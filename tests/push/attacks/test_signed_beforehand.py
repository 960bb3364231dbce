"""One person with what two have signed beforehand: an opening and rows beside a contribution."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.consent.statement_terms import Also, AlsoRows, StatementTerms
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import DppcaError, NotApprovedError, SettingError
from dppca.common.verification.approving import describe_statement, read_proposal
from dppca.owner.commands.contribute import ContributionOptions
from dppca.owner.ledger.approvals import find_fault
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.entries import (
    Ballot,
    ReleaseRequest,
    Reservation,
    RowsPublication,
    SetOpening,
    time_text,
)
from tests.support.ledgers import NOW, ledger_files, request_of
from tests.support.people import (
    ANNA,
    BERT,
    CORA,
    begin_roles,
    newest,
    proposed,
    record_of,
    roles_of,
    seen,
    sign,
)
from tests.support.studies import make_study

STUDY, OTHER = make_study(name="nltcs"), make_study(name="other")
ROWS = AlsoRows(forms=("coded",), number=5)
BOTH = Also(opening=True, rows=ROWS)
REQUEST = seen(request_of(STUDY))
KEY, SECOND = "4" * 64, "6" * 64
SET, LATER_SET = "5" * 64, "8" * 64
SUMS = Sums(SET, ((0, b"total"),))
FIRST_ID = b"i" * 16


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as opened:
        begin_roles(opened, tmp_path)
        opened.offer(STUDY.name, KEY, now=NOW)
        opened.offer(OTHER.name, SECOND, now=NOW)
        yield opened


def reserve(ledger: Ledger, also: Also | None = BOTH, request: ReleaseRequest = REQUEST) -> Any:
    return ledger.reserve(replace(request, also=also), release_id=FIRST_ID, now=NOW)


def contributed(ledger: Ledger, also: Also | None = BOTH) -> str:
    """Digest of the statement of a contribution that was signed and charged."""
    digest = proposed(ledger, lambda: reserve(ledger, also))
    sign(ledger, digest, ANNA, BERT)
    assert reserve(ledger, None).consent == digest  # also by a command that does not ask again
    return digest


def publish(ledger: Ledger, n_rows: int = 5, form: str = "coded", study: Any = STUDY) -> None:
    ledger.publish(study, {form: (n_rows, "7" * 64)}, now=NOW, usual_rows=7)


def test_two_people_sign_once_and_the_opening_and_rows_go(ledger: Ledger) -> None:
    digest = contributed(ledger)
    ledger.vote(STUDY, KEY, SET, now=NOW)
    ledger.vote(STUDY, KEY, SET, now=NOW)
    ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW)
    publish(ledger)
    publish(ledger)
    uses = record_of(ledger, digest).uses
    assert [type(each) for each in uses] == [Reservation, Ballot, SetOpening, RowsPublication]
    assert newest(ledger) == digest, "nobody was asked again"


def test_an_opening_without_a_vote_goes_too(ledger: Ledger) -> None:
    digest = contributed(ledger, Also(opening=True, rows=None))
    ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW)
    assert len(record_of(ledger, digest).uses) == 2
    proposed(ledger, lambda: publish(ledger))


def test_two_sets_are_refused_by_the_chain(ledger: Ledger) -> None:
    """Case 41."""
    digest = contributed(ledger)
    ledger.vote(STUDY, KEY, SET, now=NOW)
    with pytest.raises(DppcaError, match="voted before"):
        ledger.vote(STUDY, KEY, LATER_SET, now=NOW)
    with pytest.raises(DppcaError, match="another set"):
        ledger.open_set(STUDY, KEY, Sums(LATER_SET, SUMS.totals), n_owners=3, now=NOW)
    assert len(record_of(ledger, digest).uses) == 2


def publish_twice(ledger: Ledger) -> None:
    publish(ledger, 4)
    ledger.publish(STUDY, {"coded": (4, "9" * 64)}, now=NOW)


ASKED_AGAIN: dict[str, Callable[[Ledger], Any]] = {
    "another study's key": lambda ledger: ledger.vote(OTHER, SECOND, SET, now=NOW),
    "another study's set": lambda ledger: ledger.open_set(OTHER, SECOND, SUMS, n_owners=3, now=NOW),
    "more rows": lambda ledger: publish(ledger, 6),
    "another form": lambda ledger: publish(ledger, 1, "decoded"),
    "another study's rows": lambda ledger: publish(ledger, 5, study=OTHER),
    "a form beside it": lambda ledger: ledger.publish(
        STUDY, {"coded": (2, "7" * 64), "decoded": (2, "7" * 64)}, now=NOW
    ),
    "other rows, again": publish_twice,
    "another contribution": lambda ledger: reserve(ledger, None, seen(request_of(OTHER))),
}


@pytest.mark.parametrize("what", ASKED_AGAIN)
def test_anything_else_is_asked_for_again(ledger: Ledger, what: str) -> None:
    """Cases 40 and 41."""
    contributed(ledger)
    proposed(ledger, lambda: ASKED_AGAIN[what](ledger))


@pytest.mark.parametrize(
    "also", [None, Also(opening=False, rows=ROWS), Also(opening=True, rows=None)]
)
def test_what_was_not_signed_beforehand_is_asked_for(ledger: Ledger, also: Also | None) -> None:
    contributed(ledger, also)
    if also is None or not also.opening:
        proposed(ledger, lambda: ledger.vote(STUDY, KEY, SET, now=NOW))
    if also is None or also.rows is None:
        proposed(ledger, lambda: publish(ledger))


@pytest.mark.parametrize(("n_rows", "is_few"), [(7, True), (8, False)])
def test_as_many_rows_as_the_result_says(ledger: Ledger, n_rows: int, *, is_few: bool) -> None:
    usual = AlsoRows(forms=("coded", "decoded"), number="result")
    contributed(ledger, Also(opening=False, rows=usual))
    tables = {"coded": (1, "7" * 64), "decoded": (n_rows, "7" * 64)}

    def call() -> None:
        ledger.publish(STUDY, tables, now=NOW, usual_rows=7)

    if is_few:
        call()
    else:
        proposed(ledger, call)


def test_one_large_table_does_not_hide_behind_a_small_one(ledger: Ledger) -> None:
    contributed(ledger, Also(opening=False, rows=AlsoRows(forms=("coded", "decoded"), number=5)))
    tables = {"coded": (1, "7" * 64), "decoded": (9, "7" * 64)}
    proposed(ledger, lambda: ledger.publish(STUDY, tables, now=NOW))


def test_nothing_goes_before_the_contribution(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA, BERT)
    proposed(ledger, lambda: ledger.vote(STUDY, KEY, SET, now=NOW))
    proposed(ledger, lambda: publish(ledger))


def test_a_contribution_that_asks_for_more_is_not_the_one_that_was_signed(ledger: Ledger) -> None:
    few = Also(opening=False, rows=ROWS)
    sign(ledger, proposed(ledger, lambda: reserve(ledger, None)), ANNA, BERT)
    sign(ledger, proposed(ledger, lambda: reserve(ledger, few)), ANNA, BERT)
    for more in (BOTH, Also(opening=False, rows=AlsoRows(forms=("coded",), number=6))):
        proposed(ledger, lambda also=more: reserve(ledger, also))


def test_one_signature_is_not_two(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA)
    with pytest.raises(NotApprovedError, match="1 of 2"):
        reserve(ledger)
    proposed(ledger, lambda: ledger.vote(STUDY, KEY, SET, now=NOW))


def test_one_person_takes_back_what_was_signed_beforehand(ledger: Ledger) -> None:
    digest = contributed(ledger)
    publish(ledger)
    ledger.withdraw(digest, now=NOW)
    with pytest.raises(NotApprovedError, match="used or withdrawn"):
        ledger.withdraw(digest, now=NOW)
    proposed(ledger, lambda: ledger.vote(STUDY, KEY, SET, now=NOW))
    assert reserve(ledger, None).consent == digest, "what was charged goes on"


def test_a_plain_contribution_that_was_made_cannot_be_withdrawn(ledger: Ledger) -> None:
    digest = contributed(ledger, None)
    with pytest.raises(NotApprovedError, match="used or withdrawn"):
        ledger.withdraw(digest, now=NOW)


def test_it_expires_to_the_second_after_ninety_days(ledger: Ledger) -> None:
    digest = contributed(ledger)
    expires = record_of(ledger, digest).statement.expires
    assert expires - NOW <= timedelta(days=90)
    assert expires - NOW > timedelta(days=89)
    ledger.vote(STUDY, KEY, SET, now=expires - timedelta(seconds=1))
    with pytest.raises(NotApprovedError):
        ledger.publish(STUDY, {"coded": (5, "7" * 64)}, now=expires)


def test_new_roles_another_policy_or_recipient_end_it(ledger: Ledger, tmp_path: Path) -> None:
    contributed(ledger)
    (tmp_path / "ca.pem").write_text("another authority")
    proposed(ledger, lambda: publish(ledger))
    (tmp_path / "ca.pem").write_text("the authority")
    policy = (tmp_path / "policy.yaml").read_text()
    (tmp_path / "policy.yaml").write_text(policy.replace("version: 1", "version: 2"))
    with pytest.raises(NotApprovedError, match=r"policy\.yaml"):
        publish(ledger)
    (tmp_path / "policy.yaml").write_text(policy)
    sign(ledger, ledger.propose_roles(roles_of((ANNA, CORA)), now=NOW), ANNA, CORA)
    proposed(ledger, lambda: ledger.vote(STUDY, KEY, SET, now=NOW))


def entry(digest: str, sequence: int, kind: str) -> Any:
    time = time_text(NOW)
    return {
        "vote": Ballot(sequence, time, KEY, STUDY.name, STUDY.digest, SET, digest),
        "other": Ballot(sequence, time, SECOND, OTHER.name, OTHER.digest, SET, digest),
        "rows": RowsPublication(
            sequence, time, STUDY.name, STUDY.digest, "coded", 5, "9" * 64, digest
        ),
        "more": RowsPublication(
            sequence, time, STUDY.name, STUDY.digest, "coded", 6, "9" * 64, digest
        ),
        "form": RowsPublication(
            sequence, time, STUDY.name, STUDY.digest, "decoded", 5, "9" * 64, digest
        ),
        "again": Reservation(sequence, time, FIRST_ID, REQUEST, digest),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "is_sound"),
    [
        ("vote", True),
        ("rows", True),
        ("other", False),
        ("more", False),
        ("form", False),
        ("again", False),
    ],
)
def test_a_chain_that_somebody_wrote_says_no_more(
    ledger: Ledger, kind: str, *, is_sound: bool
) -> None:
    """Case 45: with the hashes computed again."""
    digest = contributed(ledger)
    history = ledger.history()
    approvals, made = history.approvals, entry(digest, history.length + 1, kind)
    assert (find_fault(approvals, made) is None) is is_sound
    if is_sound:
        taken = approvals.copy()
        taken.add(made)
        assert find_fault(taken, replace(made, sequence=made.sequence + 1)) is not None, "once"


STATED: dict[str, Any] = {
    **{key: None for key in StatementTerms.model_fields if key != "also"},
    "version": 2,
    "kind": "contribution",
    "owner": "hospital",
    "authority": "2" * 64,
    "roles_sha256": "3" * 64,
    "release_id": "4" * 32,
    "proposed": "2026-01-02T03:00:00+00:00",
    "expires": "2026-01-16T03:00:00+00:00",
}


@pytest.mark.parametrize(
    ("changed", "is_one"),
    [
        ({"also": {"opening": True, "rows": None}}, True),
        ({"also": {"opening": False, "rows": {"forms": ["coded"], "number": 1}}}, True),
        ({"also": {"opening": False, "rows": {"forms": ["coded"], "number": "result"}}}, True),
        ({"also": {"opening": False, "rows": None}}, False),
        ({"also": None}, False),
        ({}, False),
        ({"version": 1, "also": {"opening": True, "rows": None}}, False),
        ({"kind": "rows", "also": {"opening": True, "rows": None}}, False),
        ({"also": {"opening": 1, "rows": None}}, False),
        ({"also": {"opening": True}}, False),
        ({"also": {"opening": True, "rows": None, "more": 1}}, False),
        ({"also": {"opening": True, "rows": {"forms": [], "number": 1}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["coded"], "number": 0}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["coded"], "number": 1.0}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["coded"], "number": True}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["coded"], "number": "all"}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["coded", "coded"], "number": 1}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["decoded", "coded"], "number": 1}}}, False),
        ({"also": {"opening": True, "rows": {"forms": ["raw"], "number": 1}}}, False),
    ],
    ids=str,
)
def test_terms_have_one_form(changed: dict[str, Any], *, is_one: bool) -> None:
    content = json.dumps({**STATED, **changed})
    if not is_one:
        with pytest.raises(ValueError, match=r"."):
            StatementTerms.model_validate_json(content)
        return
    found = StatementTerms.model_validate_json(content)
    assert StatementTerms.model_validate_json(json.dumps(found.model_dump(mode="json"))) == found


def test_the_signer_reads_in_plain_words_what_else_it_allows(ledger: Ledger) -> None:
    study = STUDY.canonical_bytes().decode()

    def text(also: Also | None) -> str:
        record = record_of(ledger, proposed(ledger, lambda: reserve(ledger, also)))
        content = canonical_json(
            {
                "statement": record.statement.content.decode(),
                "facts": canonical_json(dict(record.facts)).decode(),
                "study": study,
            }
        )
        return describe_statement(read_proposal(content, now=NOW))

    assert "beforehand" not in text(None)
    said = text(BOTH)
    assert "\nIt allows beforehand, once: vote for and open the one set of this study" in said
    assert "once: publish coded rows of its result, as many of each as 5" in said
    usual = AlsoRows(forms=("coded", "decoded"), number="result")
    said = text(Also(opening=False, rows=usual))
    assert "coded and decoded rows of its result, as many of each as the result says" in said
    assert "open the one set" not in said


def test_what_a_steward_asks_to_be_signed() -> None:
    def also(**given: Any) -> Also | None:
        return ContributionOptions("s", **given).also

    assert also() is None
    assert also(also_open=True) == Also(opening=True, rows=None)
    assert also(also_publish="coded", also_rows=5) == Also(opening=False, rows=ROWS)
    usual = AlsoRows(forms=("coded", "decoded"), number="result")
    assert also(also_open=True, also_publish="both") == Also(opening=True, rows=usual)
    with pytest.raises(SettingError, match="name the forms"):
        also(also_rows=5)
