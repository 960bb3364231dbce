"""One simulation's report, as its texts and its page tell it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dppca.common.documents.values import to_document
from dppca.common.numerics.comparison import PairSummary, Variation
from dppca.common.numerics.loadings import kept_components
from dppca.common.privacy.composition import compose_guarantee
from dppca.common.privacy.release import calibrate
from dppca.deploy.simulation.demo import TARGET, demo_study
from dppca.deploy.simulation.evaluate import Utility
from dppca.deploy.simulation.run_report import (
    SimulatedComponents,
    SimulatedPrivacy,
    SimulatedRows,
    SimulationReport,
    list_steps,
)
from dppca.deploy.simulation.runner import SimulatedCharge, SimulatedOwner
from dppca.owner.records import AttributeReport, CheckReport, FaultKind
from dppca.owner.records.faults import FaultCount
from dppca.owner.synthesis.visible_relations import VisibleRelations

FOUND = AttributeReport(False, "free, the first", "", {FaultKind.UNKNOWN: FaultCount(1234)})
VECTORS = np.eye(demo_study().table.layout.n_columns)[[3, 1, 0, 2, 4, 5, 6]]


PRIVACY = SimulatedPrivacy(
    mechanism="laplace",
    relation="bounded",
    max_rows_per_person=1,
    entries=135,
    federation=compose_guarantee(demo_study(), calibrate(demo_study())),
)


@pytest.fixture
def report() -> SimulationReport:
    owners = tuple(
        SimulatedOwner(
            name=f"owner-{number}",
            rows=5384,
            epsilon=1.0,
            delta=0.0,
            charged=SimulatedCharge("0.9999", "0"),
            dppca_svm_accuracy=0.9 + number / 100,
            seconds={
                "contribute": 0.5 + number,
                **({"open": 0.25} if number > 1 else {}),
                "train": 1.0,
            },
            bytes={"contribute": 1000, **({"open": 64} if number > 1 else {}), "train": 0},
        )
        for number in (1, 2, 3)
    )
    eigenvalues = np.array([0.4321, 0.2, 0.1, -0.05])
    return SimulationReport(
        command="demo",
        study="rand-hie",
        digest=demo_study().digest,
        target=TARGET,
        seed=1,
        split="iid",
        rows=SimulatedRows(16152, 4038),
        alarms=["owner-1: NOT READ: no value of <age> is a number"],
        coded_by_rule=CheckReport(16152, 0, {"lncoins": FOUND}, {}, ()),
        privacy=PRIVACY,
        owners=owners,
        components=SimulatedComponents(
            count=7,
            kept=kept_components(demo_study().table, VECTORS, eigenvalues, 0.1543),
            eigenvalues=eigenvalues.tolist(),
            noise_edge=0.1543,
            above_noise=2,
            negative=1,
            captured_variance=0.987,
            captured_by_chance=0.412,
        ),
        relations=VisibleRelations(
            21,
            19,
            (),
            "Relations of 19 of 21 pairs of attributes stand above the noise: <b>.",
        ),
        utility=Utility(0.98, 0.97, 0.91, 0.74),
        pairs=PairSummary(0.0456, 0.0123, (Variation(("lpi", "fmde"), 0.7891, 0.0567),)),
        steps=list_steps(owners),
        files={"report": "out/report.md"},
        plots={"scree": "out/scree.png"},
        seconds=12.346,
    )


@pytest.fixture
def document(report: SimulationReport) -> Any:
    """The report as JSON, for a test to change: a template shows one as it shows the other."""
    return to_document(report)
