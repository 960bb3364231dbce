"""Laws of the ledger: crashes cost nothing and double nothing; no change goes unseen."""

from __future__ import annotations

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

from common.errors import BudgetExceededError, LedgerCorruptError
from common.numerics.moments import Moments
from common.privacy.accounting import Budget, Charge
from common.privacy.entropy import OperatingSystemEntropy
from common.study import Study
from owner.ledger.chain import FIRST, History, Row, admit, follow
from owner.ledger.database import Ledger, StoredRelease, open_ledger, read_history
from owner.ledger.entries import Reservation, Sending, Wanted, commitment, time_text, to_document
from owner.releasing import make_release, send_release
from tests.support.ledgers import NOW, ledger_files, small_study, wanted_of

STUDIES = [small_study(f"study-{number}", epsilon=f"0.{number + 1}") for number in range(3)]
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
        study = stored.reservation.wanted.study_digest
        self.received.setdefault(study, set()).add(stored.payload + stored.receipt)


def _attempt(ledger: Ledger, study: Study, curator: _Curator) -> None:
    moments = Moments(10, np.zeros(study.table.layout.n_entries, dtype=np.int64))
    stored = make_release(
        ledger,
        study,
        wanted_of(study),
        moments,
        entropy=OperatingSystemEntropy(),
        clock=lambda: NOW,
    )
    send_release(ledger, stored, curator.take, clock=lambda: NOW)


@settings(max_examples=20, deadline=None)
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
                mock.patch("owner.ledger.database.checkpoint", checkpoint),
                mock.patch("owner.releasing.checkpoint", checkpoint),
            ):
                try:
                    with open_ledger(path, lock=lock, wait_s=0) as ledger:
                        _attempt(ledger, STUDIES[index], curator)
                except _Killed:
                    pass
            history = read_history(path)
            expected = sum((wanted_of(STUDIES[i]).charge.epsilon for i in tried), Decimal(0))
            assert history.total("survey") == Charge(expected, Decimal(0))
        assert {r.wanted.study_digest for r in history.reservations} == {
            STUDIES[i].digest for i in tried
        }
        assert all(len(copies) == 1 for copies in curator.received.values())
        assert len(history.commitments) >= len(curator.received) >= len(history.sendings)


# --- the chain


def _chain() -> list[Row]:
    """Two releases, as they are stored."""
    rows: list[Row] = []
    head = FIRST
    for number, study in enumerate(STUDIES[:2]):
        first, release_id = 3 * number + 1, bytes([number]) * 16
        for entry in (
            Reservation(first, time_text(NOW), release_id, wanted_of(study)),
            commitment(
                sequence=first + 1,
                now=NOW,
                release_id=release_id,
                n_rows=10,
                payload=b"p",
                receipt=b"r",
            ),
            Sending(first + 2, time_text(NOW), release_id),
        ):
            document = to_document(entry, previous=head)
            head = hashlib.sha256(document).digest()
            rows.append(Row(entry.sequence, document, head))
    return rows


CHAIN = _chain()


def _document(row: Row) -> bytes:
    assert isinstance(row.document, bytes)
    return row.document


def test_an_unchanged_chain_verifies() -> None:
    assert follow(CHAIN).length == len(CHAIN)


@given(data=st.data())
def test_any_changed_byte_is_caught_where_it_is(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(CHAIN) - 1))
    part = data.draw(st.sampled_from(["document", "digest"]))
    content = bytearray(getattr(CHAIN[index], part))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    changed = replace(CHAIN[index], **{part: bytes(content)})
    with pytest.raises(LedgerCorruptError, match=f"entry {index + 1}:"):
        follow([*CHAIN[:index], changed, *CHAIN[index + 1 :]])


@given(data=st.data())
def test_a_changed_entry_with_its_hash_mended_is_caught_at_the_latest_by_the_next(
    data: st.DataObject,
) -> None:
    index = data.draw(st.integers(0, len(CHAIN) - 2))
    content = bytearray(_document(CHAIN[index]))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    changed = Row(CHAIN[index].sequence, bytes(content), hashlib.sha256(content).digest())
    with pytest.raises(LedgerCorruptError, match=f"entry ({index + 1}|{index + 2}):"):
        follow([*CHAIN[:index], changed, *CHAIN[index + 1 :]])


@given(st.permutations(CHAIN))
def test_any_other_order_is_caught(rows: list[Row]) -> None:
    if rows == CHAIN:
        return
    with pytest.raises(LedgerCorruptError):
        follow(rows)
    renumbered = [replace(row, sequence=place) for place, row in enumerate(rows, start=1)]
    with pytest.raises(LedgerCorruptError):
        follow(renumbered)


@given(st.integers(0, len(CHAIN) - 2))
def test_a_missing_entry_is_caught_unless_it_is_the_last(index: int) -> None:
    with pytest.raises(LedgerCorruptError, match=f"entry {index + 1}:"):
        follow([*CHAIN[:index], *CHAIN[index + 1 :]])


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
            read_history(path)


# --- budgets

CENTS = st.integers(1, 200).map(lambda cents: Decimal(cents) / 100)


def _wanted(number: int, charge: Charge, budget: Budget) -> Wanted:
    return replace(
        wanted_of(STUDIES[0]), study_digest=f"{number:064x}", charge=charge, budget=budget
    )


@given(
    charges=st.lists(st.tuples(CENTS, st.booleans()), max_size=8),
    epsilon=CENTS,
    delta=st.sampled_from([Decimal(0), Decimal("1e-6")]),
)
@settings(deadline=None, max_examples=40)
def test_what_is_admitted_never_exceeds_the_budget_and_what_is_refused_would(
    charges: list[tuple[Decimal, bool]], epsilon: Decimal, delta: Decimal
) -> None:
    budget = Budget(epsilon, delta)
    history = History()
    for number, (amount, gaussian) in enumerate(charges):
        zero = Decimal(0)
        charge = Charge(zero, amount / 100) if gaussian else Charge(amount, zero)
        wanted = _wanted(number, charge, budget)
        after = history.total("survey") + charge
        covered = not (after.rho and not delta) and budget.spent(after) <= epsilon
        try:
            assert admit(history, wanted) is None
        except BudgetExceededError:
            assert not covered
            continue
        assert covered
        made = Reservation(number, time_text(NOW), bytes([number]) * 16, wanted)
        history = replace(history, reservations=(*history.reservations, made))
