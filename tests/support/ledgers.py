"""Releases and ledgers small enough to make hundreds."""

import hashlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import Budget
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import Release, calibrate, draw
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import FIRST, History, LedgerRow
from dppca.owner.ledger.database import begin_ledger, compare_ledger
from dppca.owner.ledger.entries import Entry, ReleaseRequest, Reservation
from dppca.owner.ledger.entry_documents import to_document
from dppca.owner.ledger.mark import CuratorView, LedgerAge, read_mark
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUDGET = Budget(Decimal("3.0"), Decimal("1e-6"))


def account_of(data_set: str = "survey", budget: Budget = BUDGET, **changes: Any) -> Account:
    """An account of a population with the data set's name, in a policy without others."""
    return Account(data_set, Population(data_set, budget), **changes)


def request_of(
    study: Study, *, data_set: str = "survey", budget: Budget = BUDGET
) -> ReleaseRequest:
    return request_contribution(study, calibrate(study), account=account_of(data_set, budget))


def drawn(study: Study, reservation: Reservation, *, seed: int = 1) -> Release:
    moments = Moments(10, np.zeros(study.table.layout.n_entries, dtype=np.int64))
    return draw(
        study,
        calibrate(study),
        moments,
        release_id=reservation.release_id,
        ledger_sequence=reservation.sequence,
        entropy=SeededEntropy(seed),
    )


def ledger_files(folder: Path) -> tuple[Path, Path]:
    """The files of a new ledger, made here or by `init`, to which a curator had nothing to say."""
    path, lock = folder / "ledger.sqlite", folder / "site.lock"
    mark = read_mark(path)
    if mark is None:
        folder.mkdir(exist_ok=True)
        begin_ledger(path, lock=lock)
    if mark is None or mark.standing is LedgerAge.UNCOMPARED:
        compare_ledger(path, CuratorView(), lock=lock)
    return path, lock


def rows_of(entries: Iterable[Entry]) -> list[LedgerRow]:
    """Rows of a ledger file for entries, whose sequences are numbered again."""
    rows, head = [], FIRST
    for sequence, entry in enumerate(entries, start=1):
        document = to_document(replace(entry, sequence=sequence), previous=head)
        head = hashlib.sha256(document).digest()
        rows.append(LedgerRow(sequence, document, head))
    return rows


def history_of(*entries: Entry) -> History:
    """Combine entries into a history without verifying them."""
    history = History()
    for entry in entries:
        history.add(entry, FIRST)
    return history


def tamper(path: Path, *statements: str, **changes: Any) -> None:
    """Change a ledger's file like a skilled attacker, with its triggers off and on again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as direct:
        triggers = direct.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        guards = triggers.fetchall()
        for name, _ in guards:
            direct.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            direct.execute(statement, changes)
        for _, sql in guards:
            direct.execute(sql)
