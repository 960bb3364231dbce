"""Studies, releases and ledgers small enough to make hundreds of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.numerics.moments.moments import Moments
from dppca.common.privacy.accounting import Budget
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import Release, calibrate, draw
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.owner.ledger.chain import FIRST, LedgerRow
from dppca.owner.ledger.entries import Entry, ReleaseRequest, Reservation
from dppca.owner.ledger.entry_documents import to_document
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.release.contribution import request_contribution
from tests.support.studies import study_document

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUDGET = Budget(Decimal("3.0"), Decimal("1e-6"))


def small_study(
    name: str = "study-1", *, epsilon: str = "1.0", delta: str | None = None, **changes: Any
) -> Study:
    """A numeric, a binary and a categorical; Gaussian noise where there is a delta."""
    attributes: list[dict[str, Any]] = [
        {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
        {"name": "sex", "type": "binary", "values": ["f", "m"]},
        {"name": "plan", "type": "categorical", "categories": ["a", "b", "c"]},
    ]
    privacy = {"mechanism": "laplace", "epsilon": epsilon}
    if delta is not None:
        privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": delta}
    fields = {"name": name, "privacy": privacy, "resolution_bits": 4, **changes}
    return study_from_mapping(study_document(attributes, **fields))


def account_of(data_set: str = "survey", budget: Budget = BUDGET, **changes: Any) -> Account:
    """An account of a population that has the data set's name, in a policy without others."""
    return Account(data_set, Population(data_set, budget), **changes)


def request_of(
    study: Study, *, data_set: str = "survey", budget: Budget = BUDGET
) -> ReleaseRequest:
    return request_contribution(study, account=account_of(data_set, budget))


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
    return folder / "ledger.sqlite", folder / "site.lock"


def rows_of(entries: Iterable[Entry]) -> list[LedgerRow]:
    """A chain of entries as a file holds it; their sequences are numbered again."""
    rows, head = [], FIRST
    for sequence, entry in enumerate(entries, start=1):
        document = to_document(replace(entry, sequence=sequence), previous=head)
        head = hashlib.sha256(document).digest()
        rows.append(LedgerRow(sequence, document, head))
    return rows
