"""Laws of the ledger: crashes cost nothing and double nothing; no change goes unseen."""

import hashlib
import sqlite3
import tempfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import BudgetExceededError, LedgerCorruptError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History, LedgerRow, admit_charge, verify_chain
from dppca.owner.ledger.database import Ledger, StoredRelease, open_ledger
from dppca.owner.ledger.entries import (
    Delivery,
    Disowning,
    Entry,
    Recovery,
    ReleaseRequest,
    Reservation,
    commitment,
    time_text,
)
from dppca.owner.ledger.file import read_archive, read_history
from dppca.owner.ledger.path import ContributionPlan, send_release, store_release
from tests.support.examples import examples
from tests.support.ledgers import NOW, ledger_files, request_of, rows_of
from tests.support.studies import make_study

STUDIES = [
    make_study("small", name=f"study-{number}", epsilon=f"0.{number + 1}") for number in range(3)
]
STEPS = ["reserve", "draw", "store", "commit", "acknowledge"]


class _Killed(BaseException):
    """Ends an attempt where `kill -9` would; the tests of faults do it for real."""


class _Curator:
    """Keeps what came; every copy of a release must be the same bytes."""

    def __init__(self) -> None:
        self.received: dict[str, set[bytes]] = {}
        self.chain = 0

    def take(self, stored: StoredRelease, history: History) -> None:
        assert history.length >= self.chain, "an owner's chain never gets shorter"
        self.chain = history.length
        study = stored.reservation.request.request_digest
        self.received.setdefault(study, set()).add(stored.payload + stored.receipt)


def _attempt(ledger: Ledger, study: Study, curator: _Curator) -> None:
    moments = Moments(10, np.zeros(study.table.layout.n_entries, dtype=np.int64))
    stored = store_release(
        ledger,
        request_of(study),
        ContributionPlan(study, calibrate(study)),
        moments,
        entropy=OperatingSystemEntropy(),
        clock=lambda: NOW,
    )
    send_release(ledger, stored, curator.take, clock=lambda: NOW)


@settings(max_examples=examples(20))
@given(
    attempts=st.lists(
        st.tuples(st.integers(0, len(STUDIES) - 1), st.sampled_from([*STEPS, None])),
        min_size=1,
        max_size=8,
    )
)
def test_any_sequence_of_crashes_and_retries_charges_once_and_sends_the_same_bytes(
    attempts: list[tuple[int, str | None]],
) -> None:
    curator = _Curator()
    with tempfile.TemporaryDirectory() as folder:
        path, lock = ledger_files(Path(folder))
        tried = set()
        for index, death in attempts:
            tried.add(index)

            def checkpoint(step: str, death: str | None = death) -> None:
                if step == death:
                    raise _Killed

            with (
                mock.patch("dppca.owner.ledger.database.checkpoint", checkpoint),
                mock.patch("dppca.owner.ledger.path.checkpoint", checkpoint),
            ):
                try:
                    with open_ledger(path, lock=lock, wait_s=0) as ledger:
                        _attempt(ledger, STUDIES[index], curator)
                except _Killed:
                    pass
            history = read_history(path)
            expected = sum((request_of(STUDIES[i]).price.charge.epsilon for i in tried), Decimal(0))
            assert history.total("survey") == PrivacyCost(expected, Decimal(0))
        assert {r.request.request_digest for r in history.reservations} == {
            STUDIES[i].digest for i in tried
        }
        assert all(len(copies) == 1 for copies in curator.received.values())
        assert len(history.commitments) >= len(curator.received) >= len(history.deliveries)


def _chain() -> list[LedgerRow]:
    """Two releases as they are stored, and what `ledger recover` adds: one charged, one not."""
    time, entries = time_text(NOW), list[Entry]()
    for number, study in enumerate(STUDIES[:2]):
        identifier = bytes([number]) * 16
        stored = commitment(
            sequence=0, now=NOW, release_id=identifier, n_rows=10, payload=b"p", receipt=b"r"
        )
        entries += [
            Reservation(0, time, identifier, request_of(study)),
            stored,
            Delivery(0, time, identifier),
        ]
    return rows_of(
        [
            *entries,
            Recovery(0, time, b"r" * 16, request_of(STUDIES[2]), 10, "0" * 64),
            Disowning(0, time, b"d" * 16, "other", "0" * 64, "Not ours."),
        ]
    )


CHAIN = _chain()


def _document(row: LedgerRow) -> bytes:
    assert isinstance(row.document, bytes)
    return row.document


def test_an_unchanged_chain_verifies() -> None:
    assert verify_chain(CHAIN).length == len(CHAIN)


@given(data=st.data())
def test_any_changed_byte_is_caught_where_it_is(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(CHAIN) - 1))
    part = data.draw(st.sampled_from(["document", "digest"]))
    content = bytearray(getattr(CHAIN[index], part))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    changed = replace(CHAIN[index], **{part: bytes(content)})
    with pytest.raises(LedgerCorruptError, match=f"entry {index + 1}:"):
        verify_chain([*CHAIN[:index], changed, *CHAIN[index + 1 :]])


@given(data=st.data())
def test_a_changed_entry_with_its_hash_mended_is_caught_at_the_latest_by_the_next(
    data: st.DataObject,
) -> None:
    index = data.draw(st.integers(0, len(CHAIN) - 2))
    content = bytearray(_document(CHAIN[index]))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    changed = LedgerRow(CHAIN[index].sequence, bytes(content), hashlib.sha256(content).digest())
    with pytest.raises(LedgerCorruptError, match=f"entry ({index + 1}|{index + 2}):"):
        verify_chain([*CHAIN[:index], changed, *CHAIN[index + 1 :]])


@given(st.permutations(CHAIN))
def test_any_other_order_is_caught(rows: list[LedgerRow]) -> None:
    if rows == CHAIN:
        return
    with pytest.raises(LedgerCorruptError):
        verify_chain(rows)
    renumbered = [replace(row, sequence=place) for place, row in enumerate(rows, start=1)]
    with pytest.raises(LedgerCorruptError):
        verify_chain(renumbered)


@given(st.integers(0, len(CHAIN) - 2))
def test_a_missing_entry_is_caught_unless_it_is_the_last(index: int) -> None:
    with pytest.raises(LedgerCorruptError, match=f"entry {index + 1}:"):
        verify_chain([*CHAIN[:index], *CHAIN[index + 1 :]])


FACTS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "commit", "sent", "recover", "disown"]),
        st.integers(0, len(STUDIES) - 1),
        st.integers(0, 3),
    ),
    max_size=8,
)


@given(FACTS)
def test_whatever_was_recovered_every_release_is_charged_once_and_no_study_drawn_again(
    facts: list[tuple[str, int, int]],
) -> None:
    """Any facts in any order: what breaks a rule is refused, and what is left adds up."""
    entries: list[Entry] = []
    for kind, number, release in facts:
        study, release_id, time = STUDIES[number], bytes([release]) * 16, time_text(NOW)
        request = request_of(study)
        made: dict[str, Entry] = {
            "reserve": Reservation(0, time, release_id, request),
            "commit": commitment(
                sequence=0, now=NOW, release_id=release_id, n_rows=1, payload=b"p", receipt=b"r"
            ),
            "sent": Delivery(0, time, release_id),
            "recover": Recovery(0, time, release_id, request, 1, "0" * 64),
            "disown": Disowning(0, time, release_id, study.name, study.digest, "Not ours."),
        }
        try:
            history = verify_chain(rows_of([*entries, made[kind]]))
        except LedgerCorruptError:
            continue
        before = verify_chain(rows_of(entries))
        if kind in ("reserve", "commit"):
            assert before.settled_for(study.digest) is None or kind == "commit"
        entries.append(made[kind])
        charged = {
            e.release_id: e.request.price.charge.epsilon
            for e in entries
            if isinstance(e, Reservation | Recovery)
        }
        assert history.total("survey").epsilon == sum(charged.values(), Decimal(0))
        for entry in entries:
            if isinstance(entry, Recovery | Disowning | Delivery):
                assert history.knows("", entry.release_id)


def test_stored_bytes_that_change_are_caught(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _attempt(ledger, STUDIES[0], _Curator())
    content = path.read_bytes()
    direct = sqlite3.connect(path)
    (payload,) = direct.execute("SELECT payload FROM releases").fetchone()
    direct.close()
    start = content.index(payload)
    for place in range(start, start + len(payload), 13):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(LedgerCorruptError, match="entry 2"):
            read_archive(path)
        with (
            open_ledger(path, lock=lock) as ledger,
            pytest.raises(LedgerCorruptError, match="entry 2"),
        ):
            ledger.stored(STUDIES[0].digest)


CENTS = st.integers(1, 200).map(lambda cents: Decimal(cents) / 100)


def _make_request(number: int, charge: PrivacyCost, budget: Budget) -> ReleaseRequest:
    asked = request_of(STUDIES[0], budget=budget)
    price = replace(asked.price, charge=charge)
    return replace(asked, request_digest=f"{number:064x}", price=price)


@given(
    charges=st.lists(st.tuples(CENTS, st.booleans()), max_size=8),
    epsilon=CENTS,
    delta=st.sampled_from([Decimal(0), Decimal("1e-6")]),
)
@settings(max_examples=examples(40))
def test_what_is_admitted_never_exceeds_the_budget_and_what_is_refused_would(
    charges: list[tuple[Decimal, bool]], epsilon: Decimal, delta: Decimal
) -> None:
    budget = Budget(epsilon, delta)
    history = History()
    for number, (amount, gaussian) in enumerate(charges):
        zero = Decimal(0)
        charge = PrivacyCost(zero, amount / 100) if gaussian else PrivacyCost(amount, zero)
        request = _make_request(number, charge, budget)
        after = history.total("survey") + charge
        covered = not (after.rho and not delta) and budget.spent(after) <= epsilon
        try:
            assert admit_charge(history, request) is None
        except BudgetExceededError:
            assert not covered
            continue
        assert covered
        made = Reservation(number, time_text(NOW), bytes([number]) * 16, request)
        history.add(made, bytes(32))
