"""A study of people with a secret number of them, by command: simulated, reported, asked."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tests.support.studies import binary_of, numeric_of, study_document

N, N_OWNERS, EPSILON = 300, 3, "400"
ATTRIBUTES = [numeric_of("age", 0, 100), binary_of("ill", ["n", "y"])]
SUM = ("--trust", "aggregate", "--colluders", 1, "--openers", 2)
JOINT = {"mechanism": "matrix-laplace", "sum_weight": 1.0, "resolution_bits": 12}


def _run(*words: object) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(line, check=False, capture_output=True, text=True)


def write_files(tmp_path: Path, law: Mapping[str, Any]) -> tuple[Path, Path]:
    """Write a study, and the rows of its people, of whom those with many rows are old."""
    k = np.repeat([1, 5], N // 2)
    ages, ill = np.repeat([20, 60], N // 2), np.arange(N) % 2
    lines = [
        f"p{person},{ages[person]},{'ny'[ill[person]]}"
        for person in np.repeat(np.arange(N), k).tolist()
    ]
    rows, study = tmp_path / "rows.csv", tmp_path / "study.yaml"
    rows.write_text("\n".join(["person,age,ill", *lines]))
    document = study_document(
        ATTRIBUTES,
        name="people",
        owners=[f"owner-{number + 1}" for number in range(N_OWNERS)],
        epsilon=EPSILON,
        max_rows_per_person=None,
        unit="person",
        neighbours="added",
        **law,
    )
    document["schema"] = {k: v for k, v in document["schema"].items() if v is not None}
    study.write_text(yaml.safe_dump(document))
    return study, rows


@pytest.mark.parametrize(
    ("trust", "law"),
    [((), {}), (SUM, {}), ((), JOINT), (SUM, JOINT)],
    ids=["owner", "aggregate", "owner, joint", "aggregate, joint"],
)
def test_a_secret_number_of_people_is_simulated_reported_and_asked(
    tmp_path: Path, trust: tuple[object, ...], law: Mapping[str, Any]
) -> None:
    study, rows = write_files(tmp_path, law)
    output = tmp_path / "out"
    asked = ("--study", study, "--data", rows, "--owners", N_OWNERS, "--output", output)
    command = ("dppca.deploy.simulation.cli", "run", *asked, *trust)
    refused = _run(*command)
    assert refused.returncode != 0
    assert "the study has unit: person: name the column" in refused.stderr
    assert not output.exists()
    done = _run(*command, "--key", "person", "--target", "ill", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    privacy, rows_found = report["privacy"], report["rows"]
    assert (privacy["unit"], privacy["n_estimated"]) == ("person", True)
    assert privacy["n"] == pytest.approx(0.8 * N, abs=10), "a fifth of the people is held out"
    assert [owner["rows"] for owner in report["owners"]] == [None] * N_OWNERS
    assert rows_found["training"] + rows_found["held_out"] == 3 * N
    assert "rows" in report["simulation_only"]
    text = (output / "report.md").read_text()
    assert f"From about {privacy['n']} people" in text
    assert "| owner-1 | secret |" in text
    verified = _run("dppca.owner.cli", "verify", output / "components.npz", "--json")
    mechanism = json.loads(verified.stdout)["mechanism"]
    assert mechanism["name"] == law.get("mechanism", "laplace")
    assert mechanism["parameters"].get("divided") == (1 if law else None)
    question = (output / "components.npz", "mean", "age", "--ca", output / "ca.pem", "--json")
    answer = _run("dppca.owner.cli", "estimate", *question)
    assert answer.returncode == 0, answer.stderr
    (found,) = json.loads(answer.stdout)["estimates"]
    assert found["estimate"] == pytest.approx(40, abs=6), "one of many rows weighs as one of one"
