"""The report's keys are a promise; its Markdown and the story say the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.errors import SettingError, StudyError
from common.schema import encode
from common.study import study_from_mapping
from deploy.simulation.demo import PLANS, TARGET, demo_study, demo_table
from deploy.simulation.evaluate import Utility
from deploy.simulation.experiment import coded_rows, with_owners
from deploy.simulation.plots import plot_marginals, plot_scree
from deploy.simulation.report import SIMULATION_ONLY, Findings, document_of, markdown_of
from deploy.simulation.runner import OwnerRun, Step
from deploy.simulation.story import story_of


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
            steps=(Step("contribute", 0.5 + number, 1000), Step("train", 1.0, 0)),
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
        count=7,
        eigenvalues=np.array([0.3, 0.2, 0.1, -0.05]),
        noise_edge=0.15,
        captured_variance=0.987,
        utility=Utility(0.98, 0.97, 0.91, 0.74),
        files={"report": "out/report.md"},
        plots={"scree": "out/scree.png"},
        seconds=12.3456,
    )
    return document_of(findings)


def test_the_report_prints_the_federations_guarantee_with_its_assumptions(
    document: dict[str, Any],
) -> None:
    privacy, text = document["privacy"], markdown_of(document)
    assert privacy["federation"]["epsilon"] == f"{document['owners'][0]['epsilon']:g}"
    for assumption in privacy["assumptions"]:
        assert assumption in text
    assert "No person has rows at two owners" in text


def test_the_report_has_the_keys_that_were_promised(document: dict[str, Any]) -> None:
    assert set(document["owners"][0]) >= {"name", "rows", "epsilon", "delta"}
    assert set(document["components"]) >= {
        "count",
        "eigenvalues",
        "captured_variance",
        "noise_edge",
    }
    assert set(document["utility"]) == {
        "trtr_accuracy",
        "tstr_accuracy",
        "tstr_accuracy_decoded",
        "majority",
    }
    assert document["components"]["above_noise"] == 2
    assert document["components"]["negative"] == 1
    assert document["steps"][0] == {"name": "contribute", "seconds": 3.5, "bytes": 3000}
    assert document["simulation_only"] == list(SIMULATION_ONLY)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_the_markdown_marks_what_only_a_simulation_knows(document: dict[str, Any]) -> None:
    text = markdown_of(document)
    assert "Utility †" in text
    assert "variance captured, of the best possible †" in text
    assert "| owner-2 | 5,384 | 1 | 0 | 0.920 |" in text
    assert "| synthetic rows, coded | 0.9700 |" in text
    assert "(scree.png)" in text


def test_the_story_says_who_held_what_what_it_cost_and_what_is_protected(
    document: dict[str, Any],
) -> None:
    story = " ".join(story_of(document).split())
    for said in (
        "owner-1 5,384, owner-2 5,384, owner-3 5,384",
        "charged epsilon 1, delta 0",
        "one year of one person",
        "max_rows_per_person: 5",
        "7 joint components",
        "the noise edge; 2 eigenvalues are above it",
        "0.970",
        "site-only",
        "out/scree.png",
    ):
        assert said in story


def test_plots_are_written_for_every_kind_of_attribute(tmp_path: Path) -> None:
    schema = demo_study().table
    rng = np.random.default_rng(0)
    columns = [
        rng.integers(0, 2, 50).astype(np.float64)
        if attribute.type == "numeric"
        else rng.integers(0, len(attribute.labels), 50).astype(np.int32)
        for attribute in schema.attributes
    ]
    rows = encode(schema, columns)
    plot_marginals(tmp_path / "m.png", schema, real=rows, synthetic=rows[:20])
    spectrum = np.linspace(0.2, -0.1, 14)
    plot_scree(
        tmp_path / "s.png", eigenvalues=spectrum, noise_free=spectrum, count=3, noise_edge=0.05
    )
    for name in ("m.png", "s.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_the_demo_knows_every_row_of_its_data() -> None:
    study, table = demo_study(), demo_table()
    assert table.num_rows == 20_190
    assert set(table["lncoins"].to_pylist()) == set(PLANS.values())
    assert table.column_names == [attribute.name for attribute in study.table.attributes]
    rows = coded_rows(study.table, table)
    # Nothing is an unknown label that coding would have had to mend: plans as they are counted.
    start, stop = study.table.layout.groups[1]
    counts = dict(zip(PLANS.values(), rows[:, start:stop].sum(axis=0) // 1024, strict=True))
    assert counts == {"free": 10_997, "25%": 4065, "50%": 1401, "95%": 2653, "100%": 1074}


def test_owners_are_renamed_and_everything_else_is_kept() -> None:
    study = demo_study()
    renamed = with_owners(study, 5)
    assert renamed.owners == tuple(f"owner-{number}" for number in range(1, 6))
    assert renamed.model_copy(update={"owners": study.owners}) == study
    assert with_owners(study, 3).digest == study.digest


def test_no_owners_and_a_quorum_above_their_number_are_refused() -> None:
    with pytest.raises(SettingError, match="at least one owner"):
        with_owners(demo_study(), 0)
    document = demo_study().model_dump(mode="json", by_alias=True, exclude_none=True)
    quorate = study_from_mapping({**document, "quorum": 3})
    with pytest.raises(StudyError, match="quorum 3 is above"):
        with_owners(quorate, 2)
