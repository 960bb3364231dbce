"""One person of a site, or somebody with the site's account, against the gate of its ledger."""

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.consent.statements import (
    PAYLOAD_TYPE,
    encoded,
    write_approval,
    write_statement,
)
from dppca.common.kernel.errors import (
    ChainError,
    DppcaError,
    LedgerCorruptError,
    NotApprovedError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.privacy.accounting import Budget
from dppca.owner.ledger.approvals import Approvals
from dppca.owner.ledger.chain import signed_charge, verify_chain
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.entries import (
    Approval,
    Disowning,
    Entry,
    Evidence,
    Proposal,
    Recovery,
    ReleaseKind,
    Reservation,
    time_text,
)
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import mark_paths
from dppca.owner.ledger.roles_file import ROLES
from tests.support.ledgers import NOW, drawn, ledger_files, request_of, rows_of, tamper
from tests.support.people import (
    ANNA,
    BERT,
    CORA,
    DORA,
    POLICY,
    SEEN,
    Someone,
    begin_roles,
    lay_files,
    newest,
    proposed,
    record_of,
    roles_of,
    seen,
    sign,
    someone,
)
from tests.support.studies import make_study

STUDY = make_study(name="nltcs")
OTHER = make_study(name="other")
REQUEST = seen(request_of(STUDY))
ID = b"i" * 16
LATER = NOW + timedelta(days=1)
SUMS = Sums("5" * 64, ((0, b"total"),))
KEY = "4" * 64


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as opened:
        begin_roles(opened, tmp_path)
        opened.offer(STUDY.name, KEY, now=NOW)
        yield opened


def reserve(ledger: Ledger, request: Any = REQUEST, *, now: Any = NOW) -> Reservation:
    return ledger.reserve(request, release_id=ID, now=now)


def disowning(reason: str = "stolen") -> Disowning:
    return Disowning(0, time_text(NOW), b"d" * 16, OTHER.name, OTHER.digest, reason)


CALLS: dict[str, Callable[[Ledger], Any]] = {
    "contribution": reserve,
    "model": lambda ledger: reserve(
        ledger, replace(REQUEST, kind=ReleaseKind.MODEL, name="m", request_digest="6" * 64)
    ),
    "vote": lambda ledger: ledger.vote(STUDY, KEY, "5" * 64, now=NOW),
    "opening": lambda ledger: ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW),
    "rows": lambda ledger: ledger.publish(STUDY, {"coded": (5, "7" * 64)}, now=NOW),
    "recovery": lambda ledger: ledger.recover([disowning()], now=NOW),
}


def facts_of(ledger: Ledger) -> tuple[Any, ...]:
    """All that a refusal must leave as it was, statements aside."""
    found = ledger.history()
    openers = {key: each.bound for key, each in found.openers.items()}
    return (found.charges, dict(found.commitments), openers, found.published, found.disowned)


@pytest.mark.parametrize("path", sorted(CALLS))
def test_each_path_asks_for_two_people_and_then_goes_once(ledger: Ledger, path: str) -> None:
    before, call = facts_of(ledger), CALLS[path]
    digest = proposed(ledger, lambda: call(ledger))
    sign(ledger, digest, ANNA)
    with pytest.raises(NotApprovedError, match=r"1 of 2 have signed \(p1\)"):
        call(ledger)
    assert facts_of(ledger) == before
    sign(ledger, digest, CORA)
    call(ledger)
    assert facts_of(ledger) != before
    assert len(record_of(ledger, digest).uses) == 1
    assert newest(ledger) == digest


@pytest.mark.parametrize("path", sorted(CALLS))
def test_statements_of_all_other_paths_allow_nothing_of_one(ledger: Ledger, path: str) -> None:
    same = {"vote", "opening"} if path in ("vote", "opening") else {path}  # they are of one set
    for other in sorted(CALLS.keys() - same - ({"opening"} if path != "opening" else set())):
        sign(ledger, proposed(ledger, lambda name=other: CALLS[name](ledger)), ANNA, BERT)
    before = facts_of(ledger)
    proposed(ledger, lambda: CALLS[path](ledger))
    assert facts_of(ledger) == before


def test_an_opening_needs_no_more_than_its_vote_did_and_another_set_does(ledger: Ledger) -> None:
    sign(ledger, proposed(ledger, lambda: CALLS["vote"](ledger)), ANNA, BERT)
    CALLS["vote"](ledger)
    CALLS["vote"](ledger)
    other = Sums("8" * 64, ((0, b"total"),))
    with pytest.raises(DppcaError, match="another set"):
        ledger.open_set(STUDY, KEY, other, n_owners=3, now=NOW)
    CALLS["opening"](ledger)


def test_two_signatures_of_one_key_are_one_person(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    content = record_of(ledger, digest).statement.content
    first = ANNA.sign(encoded(content))
    again = [ANNA.sign(encoded(content)), ANNA.sign(encoded(content), other_form=True)]
    for signatures in ([first], [first, first], again, [first, *again]):
        ledger.approve(write_approval(content, signatures), now=NOW)
    named = json.loads(write_approval(content, [first]))
    named["signatures"][0]["keyid"] = BERT.key.fingerprint
    ledger.approve(json.dumps(named).encode(), now=NOW)
    with pytest.raises(NotApprovedError, match="1 of 2"):
        reserve(ledger)


def test_two_keys_of_one_person_are_one_person(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    lay_files(tmp_path)
    second = someone(7, token=True)
    stated = roles_of((ANNA, BERT))
    stated["people"][0]["keys"].append(second.key.line)
    with open_ledger(path, lock=lock) as ledger:
        sign(ledger, ledger.propose_roles(stated, now=NOW), ANNA, BERT, second)
        digest = proposed(ledger, lambda: reserve(ledger))
        sign(ledger, digest, ANNA, second)
        with pytest.raises(NotApprovedError, match="1 of 2"):
            reserve(ledger)
        untouched = someone(7, token=True)
        content = record_of(ledger, digest).statement.content
        with pytest.raises(SignatureError):
            ledger.approve(untouched.approve(content, touched=False), now=NOW)
        sign(ledger, digest, BERT)
        reserve(ledger)


@pytest.mark.parametrize("missing", [ANNA, BERT, CORA])
def test_every_key_of_the_first_roles_signs_them(tmp_path: Path, missing: Someone) -> None:
    path, lock = ledger_files(tmp_path)
    lay_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        digest = ledger.propose_roles(roles_of(), now=NOW)
        sign(ledger, digest, *({ANNA, BERT, CORA} - {missing}))
        assert ledger.history().approvals.in_force is None
        assert reserve(ledger).consent == ""
        sign(ledger, digest, missing)
        assert ledger.history().approvals.in_force is not None


@pytest.mark.parametrize(
    ("stated", "people", "is_agreed"),
    [
        (roles_of(needed=1), [ANNA], False),
        (roles_of(needed=1), [ANNA, BERT], True),
        (roles_of((ANNA, BERT, CORA, DORA)), [ANNA, DORA], False),
        (roles_of((ANNA, BERT, CORA, DORA)), [ANNA, BERT], False),
        (roles_of((ANNA, BERT, CORA, DORA)), [ANNA, BERT, DORA], True),
        (roles_of((CORA, DORA, someone(8))), [CORA, DORA, someone(8)], False),
        (roles_of((ANNA, BERT), needed=2), [ANNA, CORA], False),
    ],
)
def test_roles_change_by_the_old_and_the_new_people_and_new_keys(
    ledger: Ledger, stated: dict[str, Any], people: list[Someone], *, is_agreed: bool
) -> None:
    digest = ledger.propose_roles(stated, now=NOW)
    sign(ledger, digest, *people)
    assert record_of(ledger, digest).is_in_force is is_agreed


def test_a_person_who_was_removed_counts_neither_before_nor_after(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA, CORA)
    sign(ledger, ledger.propose_roles(roles_of((ANNA, BERT)), now=NOW), ANNA, BERT)
    assert proposed(ledger, lambda: reserve(ledger)) != digest
    with pytest.raises(NotApprovedError, match="not in the roles"):
        sign(ledger, newest(ledger), CORA)
    with pytest.raises(NotApprovedError, match="other roles"):
        sign(ledger, digest, BERT)


@pytest.mark.parametrize(
    "changed",
    [
        {"request_digest": "9" * 64},
        {"study": "renamed"},
        {"query_sha256": "9" * 64},
        {"reading_sha256": "9" * 64},
        {"engine": "dask"},
        {"mechanism": "gaussian"},
        {"colluders": 1, "honest": 2},
        {"command": "train again"},
        {"evidence": replace(SEEN, rows="c" * 64)},
        {"evidence": replace(SEEN, rows="")},
        {"evidence": replace(SEEN, n_rows=11)},
        {"evidence": replace(SEEN, place="c" * 64)},
        {"account": replace(REQUEST.account, data_set="twin")},
        {"account": replace(REQUEST.account, source="9" * 64)},
    ],
    ids=str,
)
def test_anything_else_than_what_was_signed_is_another_statement(
    ledger: Ledger, changed: dict[str, Any]
) -> None:
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    before = facts_of(ledger)
    proposed(ledger, lambda: reserve(ledger, replace(REQUEST, **changed)))
    assert facts_of(ledger) == before


def test_another_price_or_budget_is_another_statement(ledger: Ledger) -> None:
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    budget = Budget(Decimal(30), Decimal("1e-6"))
    larger = seen(request_of(STUDY, budget=budget))
    proposed(ledger, lambda: reserve(ledger, larger))
    cheaper = replace(REQUEST, price=replace(REQUEST.price, epsilon=Decimal("0.5")))
    proposed(ledger, lambda: reserve(ledger, cheaper))


def test_rows_that_were_not_read_are_refused_whoever_asks(ledger: Ledger) -> None:
    with pytest.raises(NotApprovedError, match="no rows were read"):
        reserve(ledger, replace(REQUEST, evidence=None))


def test_live_rows_may_be_a_tenth_more_or_fewer(ledger: Ledger) -> None:
    live = Evidence("", 100, "b" * 64)
    sign(ledger, proposed(ledger, lambda: reserve(ledger, seen(REQUEST, live))), ANNA, BERT)
    for number in (89, 111):
        proposed(ledger, lambda n=number: reserve(ledger, seen(REQUEST, replace(live, n_rows=n))))
    reserve(ledger, seen(REQUEST, replace(live, n_rows=110)))


def test_another_charge_to_the_same_people_makes_a_statement_stale(ledger: Ledger) -> None:
    second = seen(request_of(OTHER))
    one = proposed(ledger, lambda: reserve(ledger))
    two = proposed(ledger, lambda: reserve(ledger, second))
    sign(ledger, one, ANNA, BERT)
    sign(ledger, two, ANNA, BERT)
    reserve(ledger)
    assert proposed(ledger, lambda: reserve(ledger, second)) not in (one, two)


def test_a_statement_is_used_once_and_its_charge_has_its_identifier(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA, BERT)
    made = reserve(ledger)
    terms = record_of(ledger, digest).statement.terms
    assert (made.consent, made.release_id.hex()) == (digest, terms.release_id)
    assert reserve(ledger) == made
    assert len(ledger.history().charges) == 1
    with pytest.raises(NotApprovedError, match="used or withdrawn"):
        sign(ledger, digest, CORA)


def test_a_charge_that_was_not_drawn_is_drawn_from_the_rows_that_were_signed(
    ledger: Ledger, tmp_path: Path
) -> None:
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    made = reserve(ledger)
    years = NOW + timedelta(days=400)
    assert reserve(ledger, now=years) == made
    for other in (replace(SEEN, rows="c" * 64), replace(SEEN, place="c" * 64), None):
        with pytest.raises(NotApprovedError, match=r"other rows.* put them back.* operator for"):
            reserve(ledger, replace(REQUEST, evidence=other))
    (tmp_path / "ca.pem").write_text("another authority")
    with pytest.raises(NotApprovedError, match="authority"):
        reserve(ledger)
    (tmp_path / "ca.pem").write_text("the authority")
    ledger.commit(drawn(STUDY, made), now=NOW)


def test_a_charge_from_before_the_roles_goes_on_as_it_was_begun(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        made = reserve(ledger)
        begin_roles(ledger, tmp_path)
        assert reserve(ledger, replace(REQUEST, evidence=None)) == made
        proposed(ledger, lambda: reserve(ledger, seen(request_of(OTHER))))


def test_statements_expire_to_the_second_and_the_clock_never_goes_back(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA, BERT)
    expires = record_of(ledger, digest).statement.expires
    assert proposed(ledger, lambda: reserve(ledger, now=expires)) != digest
    with pytest.raises(NotApprovedError, match="clock is earlier"):
        reserve(ledger, now=expires - timedelta(seconds=1))
    with pytest.raises(NotApprovedError, match="clock is earlier"):
        sign(ledger, newest(ledger), ANNA, now=NOW)


def test_a_statement_serves_until_the_second_before_it_expires(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA, BERT)
    reserve(ledger, now=record_of(ledger, digest).statement.expires - timedelta(seconds=1))


def test_what_was_withdrawn_is_withdrawn_for_ever(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    sign(ledger, digest, ANNA)
    ledger.withdraw(digest, now=NOW)
    with pytest.raises(NotApprovedError, match="used or withdrawn"):
        sign(ledger, digest, BERT)
    assert proposed(ledger, lambda: reserve(ledger)) != digest
    with pytest.raises(NotApprovedError, match="cannot be withdrawn"):
        ledger.withdraw(digest, now=NOW)


@pytest.mark.parametrize("path", sorted(CALLS))
def test_nothing_goes_while_the_policy_is_not_the_one_that_was_signed(
    ledger: Ledger, tmp_path: Path, path: str
) -> None:
    sign(ledger, proposed(ledger, lambda: CALLS[path](ledger)), ANNA, BERT)
    file, before = tmp_path / "policy.yaml", facts_of(ledger)
    file.write_text(POLICY.replace("populations: {}", "populations: {p: {epsilon: 100}}"))
    for _ in range(2):
        with pytest.raises(NotApprovedError, match=r"policy\.yaml is not the one"):
            CALLS[path](ledger)
        sign_once = ledger.propose_policy(now=NOW)
        assert ledger.propose_policy(now=NOW) == sign_once
    sign(ledger, sign_once, CORA)
    with pytest.raises(NotApprovedError, match=r"policy\.yaml is not the one"):
        CALLS[path](ledger)
    assert facts_of(ledger) == before
    file.write_text("# a comment\n" + POLICY)
    CALLS[path](ledger)


def test_an_older_policy_that_was_signed_once_is_not_in_force(
    ledger: Ledger, tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    larger = POLICY.replace("populations: {}", "populations: {p: {epsilon: 100}}")
    for text in (larger, POLICY):
        file.write_text(text)
        sign(ledger, ledger.propose_policy(now=NOW), ANNA, BERT)
    file.write_text(larger)
    with pytest.raises(NotApprovedError, match=r"policy\.yaml is not the one"):
        reserve(ledger)
    file.write_text(POLICY)
    with pytest.raises(SettingError, match="signed last"):
        ledger.propose_policy(now=NOW)


@pytest.mark.parametrize("name", ["ca.pem", "site.yaml"])
def test_another_recipient_is_another_statement(ledger: Ledger, tmp_path: Path, name: str) -> None:
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    (tmp_path / name).write_text("curator: elsewhere")
    proposed(ledger, lambda: reserve(ledger))


def test_signatures_over_two_texts_of_one_thing_are_one_each(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    statement = record_of(ledger, digest).statement
    edited = statement.terms.model_copy(update={"expires": "2026-02-02T03:00:00+00:00"})
    facts = json.dumps(dict(record_of(ledger, digest).facts)).encode()
    other = write_statement(edited, facts)
    sign(ledger, digest, ANNA)
    with pytest.raises(NotApprovedError, match="never proposed"):
        ledger.approve(BERT.approve(other), now=NOW)
    mixed = write_approval(statement.content, [BERT.sign(encoded(other))])
    with pytest.raises(SignatureError):
        ledger.approve(mixed, now=NOW)


@pytest.mark.parametrize(
    "signature",
    [
        lambda text: BERT.sign(encoded(text), "git"),
        lambda text: BERT.sign(encoded(text), "roles@dppca"),
        lambda text: BERT.sign(encoded(text), "file"),
        lambda text: BERT.sign(text),
        lambda text: BERT.sign(encoded(text)) + b"\0",
        lambda text: BERT.sign(encoded(text).replace(PAYLOAD_TYPE.encode(), b"text/plain")),
    ],
    ids=["git", "roles", "file", "plain text", "bytes after", "another type"],
)
def test_a_signature_for_another_purpose_is_none(
    ledger: Ledger, signature: Callable[[bytes], bytes]
) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    content = record_of(ledger, digest).statement.content
    with pytest.raises(SignatureError):
        ledger.approve(write_approval(content, [signature(content)]), now=NOW)


def test_a_stranger_signs_nothing(ledger: Ledger) -> None:
    digest = proposed(ledger, lambda: reserve(ledger))
    with pytest.raises(NotApprovedError, match="not in the roles"):
        sign(ledger, digest, DORA)


def test_a_person_who_signs_for_two_sites_signs_for_one_at_a_time(tmp_path: Path) -> None:
    statements = []
    for name in ("hospital", "clinic"):
        (tmp_path / name).mkdir()
        path, lock = ledger_files(tmp_path / name)
        with open_ledger(path, lock=lock) as ledger:
            begin_roles(ledger, tmp_path / name, owner=name)
            statements.append(record_of(ledger, proposed(ledger, lambda: reserve(ledger))))
            if name == "clinic":
                with pytest.raises(NotApprovedError, match="never proposed"):
                    ledger.approve(BERT.approve(statements[0].statement.content), now=NOW)


def test_a_ledger_of_before_the_use_is_locked(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    shutil.copy(path, tmp_path / "before")
    reserve(ledger)
    path.write_bytes((tmp_path / "before").read_bytes())
    with pytest.raises(ChainError):
        reserve(ledger)


def test_a_ledger_without_the_roles_lets_nothing_go_until_they_are_back(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        begin_roles(ledger, tmp_path)
    path.unlink()
    with open_ledger(path, lock=lock) as ledger:
        with pytest.raises(ChainError, match="roles restore"):
            ledger.recover([disowning()], now=NOW)
        with pytest.raises(ChainError):
            ledger.propose_roles(roles_of((DORA, someone(9))), now=NOW)
        assert ledger.restore_roles() == 1
        digest = proposed(ledger, lambda: ledger.recover([disowning()], now=NOW))
        sign(ledger, digest, ANNA)
        with pytest.raises(NotApprovedError, match="1 of 2"):
            ledger.recover([disowning()], now=NOW)
        with pytest.raises(NotApprovedError):
            ledger.recover([disowning("mine")], now=NOW)
        with pytest.raises(NotApprovedError):
            ledger.recover([], now=NOW)
        sign(ledger, digest, BERT)
        ledger.recover([disowning()], now=NOW)
    (tmp_path / ROLES).write_text("[]")  # an older or another file allows nothing
    with open_ledger(path, lock=lock) as ledger:
        proposed(ledger, lambda: reserve(ledger))


def test_without_marks_the_copy_of_the_roles_still_stands_in_the_way(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        begin_roles(ledger, tmp_path)
    for file in (path, *mark_paths(path)):
        file.unlink()
    with open_ledger(path, lock=lock) as ledger:
        with pytest.raises(ChainError, match="roles restore"):
            ledger.recover([], now=NOW)
        with pytest.raises(ChainError):
            reserve(ledger)


def entries_of(path: Path) -> list[Entry]:
    """Entries of a ledger that a skilled attacker writes again."""
    import sqlite3

    from dppca.owner.ledger.entry_documents import from_document

    with closing(sqlite3.connect(path)) as direct, direct:
        rows = direct.execute("SELECT document FROM entries ORDER BY sequence").fetchall()
    return [
        from_document(row, previous=bytes.fromhex(json.loads(row)["previous"])) for (row,) in rows
    ]


def forged(entry: Entry) -> Entry:
    if isinstance(entry, Approval):
        content = bytearray(base64.b64decode(entry.signature))
        content[-1] ^= 1
        return replace(entry, signature=base64.b64encode(bytes(content)).decode())
    return entry


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: [e for e in found if not isinstance(e, Approval)], "other roles"),
        (lambda found: [e for e in found if not isinstance(e, Approval | Proposal)], "no roles"),
        (lambda found: [forged(e) for e in found], "SignatureError"),
        (lambda found: [*found[:-2], found[-1]], "too few people"),
        (lambda found: [*found[:-2], found[-3], found[-1]], "signed its statement before"),
        (lambda found: [*found[:-1], replace(found[-1], consent="")], "no statement"),
        (lambda found: [*found[:-1], replace(found[-1], release_id=ID)], "another release"),
        (
            lambda found: [
                *found[:-1],
                replace(found[-1], request=replace(found[-1].request, query_sha256="9" * 64)),
            ],
            "something else",
        ),
        (lambda found: [*found, disowning()], "no statement"),
        (
            lambda found: [*found, replace(disowning(), consent=found[-1].consent)],
            "used or withdrawn",
        ),
    ],
)
def test_a_chain_written_again_with_its_hashes_is_damaged(
    ledger: Ledger, tmp_path: Path, change: Callable[[list[Any]], list[Entry]], said: str
) -> None:
    sign(ledger, proposed(ledger, lambda: reserve(ledger)), ANNA, BERT)
    reserve(ledger)
    found = entries_of(tmp_path / "ledger.sqlite")
    verify_chain(rows_of(found))
    with pytest.raises(LedgerCorruptError, match=said):
        verify_chain(rows_of(change(found)))


def test_the_file_of_a_site_with_roles_is_not_read_by_software_before_roles(
    ledger: Ledger, tmp_path: Path
) -> None:
    import sqlite3

    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as direct, direct:
        assert direct.execute("PRAGMA user_version").fetchone() == (9,)
    tamper(path, "PRAGMA user_version = 7")
    assert read_history(path).approvals.in_force is not None


def test_roles_of_the_next_version_follow_the_ones_in_force(ledger: Ledger) -> None:
    one = ledger.propose_roles(roles_of((ANNA, BERT)), now=NOW)
    two = ledger.propose_roles(roles_of((ANNA, CORA)), now=NOW)
    sign(ledger, one, ANNA, BERT)
    with pytest.raises(NotApprovedError, match="other roles"):
        sign(ledger, two, ANNA)
    assert ledger.history().approvals.roles[-1].document.version == 2
    with pytest.raises(SettingError, match="another site"):
        ledger.propose_roles(roles_of(owner="clinic"), now=NOW)


def test_after_the_day_of_review_roles_alone_are_proposed(ledger: Ledger) -> None:
    late = NOW.replace(year=2027)
    with pytest.raises(NotApprovedError, match="reviewed by"):
        reserve(ledger, now=late)
    next_roles = roles_of(review_by="2027-12-31")
    sign(ledger, ledger.propose_roles(next_roles, now=late), ANNA, BERT, now=late)
    proposed(ledger, lambda: reserve(ledger, now=late))


def test_a_recovery_is_all_of_its_entries(ledger: Ledger) -> None:
    two = replace(disowning(), release_id=b"e" * 16, study_digest="1" * 64)
    both = [disowning(), two]
    digest = proposed(ledger, lambda: ledger.recover(both, now=NOW))
    sign(ledger, digest, ANNA, BERT)
    proposed(ledger, lambda: ledger.recover([disowning()], now=NOW))
    ledger.recover(both, now=NOW)
    assert len(record_of(ledger, digest).uses) == 2


def test_a_recovered_charge_is_what_people_signed(ledger: Ledger) -> None:
    entry = Recovery(0, time_text(NOW), b"r" * 16, replace(REQUEST, evidence=None), 10, "2" * 64)
    sign(ledger, proposed(ledger, lambda: ledger.recover([entry], now=NOW)), ANNA, BERT)
    moved = replace(entry.request, account=replace(entry.request.account, data_set="twin"))
    proposed(ledger, lambda: ledger.recover([replace(entry, request=moved)], now=NOW))
    ledger.recover([entry], now=NOW)


def test_a_site_without_roles_asks_nobody_and_has_the_entries_of_before(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        made = reserve(ledger, request_of(STUDY))
        assert made.consent == ""
        assert ledger.history().approvals == replace(Approvals(), latest=made.time)
        ledger.recover([disowning()], now=NOW)
        ledger.publish(STUDY, {"coded": (5, "7" * 64)}, now=NOW)
        ledger.publish(STUDY, {"coded": (5, "7" * 64)}, now=NOW)
    kept = entries_of(path)
    assert len(kept) == 3
    assert not list(tmp_path.glob("roles*"))


def test_every_population_that_a_charge_counts_for_is_signed_with_what_is_spent(
    ledger: Ledger,
) -> None:
    act = signed_charge(ledger.history(), REQUEST)
    (budget,) = act.facts["budgets"]
    assert (budget["population"], budget["spent_epsilon"]) == ("survey", "0")
