"""``dppca-curator plan`` as an operator types it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dppca.common.shell.console import run
from dppca.curator.cli import cli

_STUDY = """
name: pilot
owners: [east, west]
privacy: {mechanism: laplace, epsilon: "1"}
components: {count: 2}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: sex, type: binary, values: [f, m]}
    - {name: age, type: numeric, lower: 0, upper: 100}
    - {name: plan, type: categorical, categories: [a, b, c]}
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "pilot.yaml"
    path.write_text(_STUDY)
    return path


def _plan(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str]:
    with pytest.raises(SystemExit) as left:
        run(cli, ["plan", *map(str, arguments)])
    return left.value.code, capsys.readouterr().out


def _document(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, Any]:
    code, out = _plan(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_a_plan_in_words_and_as_a_document_and_as_a_picture(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "pilot.png"
    code, text = _plan(capsys, study, "--rows", 4000, "--delta", "1e-9", "--plot", picture)
    assert code == 0
    assert "Study pilot works at epsilon 1 (laplace)" in text
    assert text.startswith("May work. Study pilot works"), "the verdict stands first"
    assert "sends 104 bytes" in text
    assert "noise edge" not in text
    assert "What choices cost" not in text, "wide tables need --details"
    assert all(len(line) <= 80 for line in text.replace(str(picture), "").split("\n"))
    whole = _plan(capsys, study, "--rows", 4000, "--details")[1]
    assert "noise edge" in whole
    assert "What choices cost" in whole
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, document = _document(
        capsys, study, "--rows", 4000, "--rows", "west=10", "--epsilon", "0.3", "--delta", "1e-9"
    )
    assert code == 0
    assert document["rows"] == {"east": 4000, "west": 10}
    assert [(f["mechanism"], f["epsilon"]) for f in document["forecasts"]] == [
        ("laplace", "0.3"),
        ("laplace", "1"),
        ("gaussian", "0.3"),
        ("gaussian", "1"),
        ("matrix-laplace", "0.3"),
        ("matrix-laplace", "1"),
    ]
    assert document["requested"]["epsilon"] == "1"
    assert document["bytes_up"] == 104
    assert document["seconds"]["transfer"] > 0


def test_a_plan_counts_bins_that_would_lose_heaps_and_leaves_the_words_to_check(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    age = "{name: age, type: numeric, lower: 0, upper: 100, integer: true, bins: 9, histogram: true"
    for end, wide in (("}", ["age"]), (", spikes: [40]}", [])):
        study.write_text(
            _STUDY.replace("{name: age, type: numeric, lower: 0, upper: 100}", age + end)
        )
        arguments = (study, "--rows", 60, "--epsilon", 1)
        assert _document(capsys, *arguments)[1]["wide_bins"] == wide
        assert "spikes" not in _plan(capsys, *arguments)[1]


def test_a_plan_shows_what_choices_cost_and_warns_where_noise_hides_relations(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (study, "--rows", 60, "--epsilon", 1, "--target", "plan")
    code, text = _plan(capsys, *arguments)
    document = _document(capsys, *arguments)[1]
    assert code == 0
    unfolded = " ".join(text.split())
    choices = {each["choice"]: each for each in document["choices"]}
    half = choices["targets: [plan]"]
    assert half["target_product"]["rows"] == half["product"]["rows"] / 2
    assert half["product"]["share"] == half["product"]["rows"] / 120
    for words, each in choices.items():
        assert words in text
        assert f"{each['product']['rows']:.4g} (" in text
        assert all(line in unfolded for line in (*each["gains"], *each["costs"]))
    relations = document["relations"]
    assert " ".join(relations["warning"]) in unfolded
    assert f"epsilon {relations['epsilon']}, or {relations['rows_per_owner']} rows" in unfolded
    enough = _document(capsys, study, "--rows", relations["rows_per_owner"], "--epsilon", 1)[1]
    assert enough["relations"]["warning"] == []


@pytest.mark.parametrize(
    ("name", "content"),
    [("v.txt", "0.3\n0.2 0.1"), ("v.csv", "0.1,0.2,0.3\n"), ("v.json", "[0.2, 0.3, 0.1]")],
    ids=["txt", "csv", "json"],
)
def test_assumed_eigenvalues_come_from_a_file(
    study: Path, name: str, content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_text(content)
    code, document = _document(capsys, study, "--rows", 900, "--spectrum", path)
    assert code == 0
    assert document["assumption"]["eigenvalues"] == [0.3, 0.2, 0.1, 0.0, 0.0]
    assert name in document["assumption"]["source"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rows", "many"),
        ("--rows", "-3"),
        ("--rows", "5", "--rows", "6"),
        ("--rows", "5", "--rows", "north=6"),
        ("--rows", "east=6"),
        ("--rows", "5", "--spectrum", "power:one"),
        ("--rows", "5", "--spectrum", "power:1:2:3"),
        ("--rows", "5", "--spectrum", "power:"),
        ("--rows", "5", "--spectrum", "absent.npz"),
        ("--rows", "5", "--delta", "2"),
        ("--rows", "5", "--target", "absent"),
        ("--rows", "5", "--plot", "plan.what"),
        ("--rows", "5", "--plot", "absent/plan.png"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_setting_error(
    study: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = _document(capsys, study, *arguments)
    assert (code, document["error"]["class"]) == (10, "SettingError")


def test_of_an_earlier_result_what_stands_above_its_noise_is_assumed(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier = tmp_path / "earlier.npz"
    header = np.frombuffer(json.dumps({"noise_edge": 0.05}).encode(), np.uint8)
    np.savez(earlier, header=header, eigenvalues=np.array([0.3, 0.2, 0.04, 0.01, -0.1]))
    code, document = _document(capsys, study, "--rows", 900, "--spectrum", earlier)
    assert code == 0
    assert document["assumption"]["eigenvalues"] == [0.3, 0.2, 0.0, 0.0, 0.0]
    earlier.write_bytes(b"PK\x03\x04 nothing")
    code, document = _document(capsys, study, "--rows", 50, "--spectrum", earlier)
    assert (code, "holds no eigenvalues" in document["error"]["message"]) == (10, True)
