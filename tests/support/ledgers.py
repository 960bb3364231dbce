"""Studies, releases and ledgers small enough to make hundreds of."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np

from common.numerics.moments import Moments
from common.privacy.accounting import Budget
from common.privacy.entropy import SeededEntropy
from common.privacy.release import Release, calibrate, draw
from common.study import Study, study_from_mapping
from owner.ledger.entries import Reservation, Wanted

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BUDGET = Budget(Decimal("3.0"), Decimal("1e-6"))


def study_document(
    name: str = "study-1", *, epsilon: str = "1.0", delta: str | None = None
) -> dict[str, object]:
    privacy: dict[str, object] = {"mechanism": "laplace", "epsilon": epsilon}
    if delta is not None:
        privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": delta}
    return {
        "name": name,
        "owners": ["owner-1"],
        "privacy": privacy,
        "components": {"count": 1},
        "schema": {
            "resolution_bits": 4,
            "attributes": [
                {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
                {"name": "sex", "type": "binary", "values": ["f", "m"]},
                {"name": "plan", "type": "categorical", "categories": ["a", "b", "c"]},
            ],
        },
    }


def small_study(name: str = "study-1", *, epsilon: str = "1.0", delta: str | None = None) -> Study:
    return study_from_mapping(study_document(name, epsilon=epsilon, delta=delta))


def wanted_of(study: Study, *, data_set: str = "survey", budget: Budget = BUDGET) -> Wanted:
    calibration = calibrate(study)
    return Wanted(
        data_set=data_set,
        study=study.name,
        study_digest=study.digest,
        mechanism=calibration.mechanism.value,
        charge=calibration.charge,
        epsilon=calibration.epsilon,
        delta=calibration.delta,
        budget=budget,
    )


def drawn(study: Study, reservation: Reservation, *, seed: int = 1) -> Release:
    moments = Moments(10, np.zeros(study.table.layout.n_entries, dtype=np.int64))
    return draw(
        study,
        moments,
        release_id=reservation.release_id,
        ledger_sequence=reservation.sequence,
        entropy=SeededEntropy(seed),
    )


def ledger_files(folder: Path) -> tuple[Path, Path]:
    return folder / "ledger.sqlite", folder / "site.lock"
