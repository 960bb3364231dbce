"""One simulation's findings, which the report's texts and its page tell."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from dppca.common.numerics.comparison import PairSummary, Variation
from dppca.deploy.simulation.demo import TARGET, demo_study
from dppca.deploy.simulation.evaluate import Utility
from dppca.deploy.simulation.run_report import Findings, make_document
from dppca.deploy.simulation.runner import OwnerRun, SimulationStep

COUNTS: dict[str, Any] = {
    "label": "site-only",
    "warning": "site-only",
    "rows": 16152,
    "malformed_rows": 0,
    "attributes": {
        "lncoins": {"unknown": 1234, "share": 0.0764, "faults": 0, "coded_as": "free, the first"}
    },
    "refuse_if_above": None,
    "above": {},
}
VECTORS = np.eye(demo_study().table.layout.n_columns)[[3, 1, 0, 2, 4, 5, 6]]


@pytest.fixture
def document() -> dict[str, Any]:
    owners = [
        OwnerRun(
            name=f"owner-{number}",
            n_rows=5384,
            epsilon="1",
            delta="0",
            charged_epsilon="0.9999",
            charged_rho="0",
            dppca_svm_accuracy=0.9 + number / 100,
            steps=(
                SimulationStep("contribute", 0.5 + number, 1000),
                *([SimulationStep("open", 0.25, 64)] if number > 1 else []),
                SimulationStep("train", 1.0, 0),
            ),
        )
        for number in (1, 2, 3)
    ]
    findings = Findings(
        command="demo",
        study=demo_study(),
        target=TARGET,
        seed=1,
        split="iid",
        owners=owners,
        n_held_out=4038,
        alarms=["owner-1: NOT READ: no value of <age> is a number"],
        coded_by_rule=deepcopy(COUNTS),
        count=7,
        vectors=VECTORS,
        eigenvalues=np.array([0.4321, 0.2, 0.1, -0.05]),
        noise_edge=0.1543,
        captured_variance=0.987,
        captured_by_chance=0.412,
        relations={
            "pairs": 21,
            "above": 19,
            "attributes": [],
            "summary": "Relations of 19 of 21 pairs of attributes stand above the noise: <b>.",
        },
        utility=Utility(0.98, 0.97, 0.91, 0.74),
        pairs=PairSummary(0.0456, 0.0123, (Variation(("lpi", "fmde"), 0.7891, 0.0567),)),
        files={"report": "out/report.md"},
        plots={"scree": "out/scree.png"},
        seconds=12.3456,
    )
    return make_document(findings)
