"""Rivals: cells and their page, rules by which components are joined, noise for added rows."""

import json
import math
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.rivals import page, synthetic
from benchmarks.rivals.merging import (
    SiteSums,
    distributed_components,
    merged_components,
    published_deviation,
    published_sites,
    sound_sites,
)
from benchmarks.rivals.neighbours import Neighbours, make_study
from benchmarks.rivals.ours_guest import pool_rows
from benchmarks.rivals.synthetic import OURS, SUBN3, Contestant, judge_table, run_contestant
from benchmarks.synthesis.judging import split_rows
from benchmarks.synthesis.subjects import load_subject
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import calibrate
from tests.support.studies import make_schema

MACHINE = dict.fromkeys(("processor", "cores", "memory", "Python", "numpy"), "?")


def section(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"command": "python -m benchmarks.rivals x", "machine": MACHINE, "cells": list(cells)}


def synthetic_cell(**changes: Any) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "subject": "nltcs",
        "contestant": "DPPCA",
        "owners": 3,
        "neighbours": "one row replaced",
        "epsilon": "0.2",
        "runs": 3,
        "faults": {},
        "linear": {"money": [0.8, 0.01]},
        "rbf": {"money": [0.7, 0.0]},
        "trees": {"money": [0.75, 0.0]},
        "triples": [0.3, 0.0],
        "workload": [0.4, 0.0],
        "singles": [0.1, 0.0],
        "pairs": [0.2, 0.0],
        "seconds": [12.34, 0.0],
        "mib": [1234.5, 1.0],
    }
    return cell | changes


def test_a_figure_that_an_older_cell_lacks_is_a_dash() -> None:
    older = {name: value for name, value in synthetic_cell().items() if name != "trees"}
    text = page.section_text("nltcs", section(synthetic_cell(epsilon="1"), older))
    assert "| money, trees | one-way | two-way | three-way | workload | seconds |" in text
    assert text.count("| 0.750 | 0.100 | 0.200 | 0.300 | 0.400 | 12.3 |") == 1
    assert text.count("| – | 0.100 | 0.200 | 0.300 | 0.400 | 12.3 |") == 1


def test_every_cell_of_a_full_run_is_in_the_file() -> None:
    sections = json.loads(page.JSON_FILE.read_text())
    for name in page.NAMES:
        cells, by = page.list_cells(name, splits=1, only="")
        asked = {tuple(cell.facts[each] for each in by) for cell in cells}
        kept = {tuple(cell[each] for each in by) for cell in sections[name]["cells"]}
        assert kept == asked, name


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JSON_FILE", "PAGE"):
        copied = shutil.copy(getattr(page, name), tmp_path)
        monkeypatch.setattr(page, name, Path(copied))
    page.keep("nltcs", section(synthetic_cell(), synthetic_cell(contestant="MST", runs=1)))


@pytest.mark.usefixtures("committed")
def test_cells_of_other_contestants_stay_in_their_places() -> None:
    again = section(synthetic_cell(runs=2), synthetic_cell(contestant="AIM"))
    merged = page.merge("nltcs", again, synthetic.BY)["cells"]
    assert [(cell["contestant"], cell["runs"]) for cell in merged] == [
        ("DPPCA", 2),
        ("MST", 1),
        ("AIM", 3),
    ]


@pytest.mark.usefixtures("committed")
def test_a_kept_section_says_how_it_was_measured_and_is_on_the_page() -> None:
    kept = json.loads(page.JSON_FILE.read_text())["nltcs"]
    assert kept["how"].startswith("DPPCA is a study")
    assert (len(kept["cells"]), kept["machine"]) == (2, MACHINE)
    assert "| DPPCA | 1 | – |" in page.PAGE.read_text()


@pytest.mark.usefixtures("committed")
def test_cells_of_two_machines_are_not_mixed() -> None:
    elsewhere = section(synthetic_cell()) | {"machine": MACHINE | {"processor": "another"}}
    with pytest.raises(SettingError, match="run all here"):
        page.merge("nltcs", elsewhere, synthetic.BY)


def test_real_rows_in_another_order_have_no_distance_from_themselves() -> None:
    subject = load_subject("fair")
    training = split_rows(subject.n_rows, 0)[0][::-1]
    found = judge_table("fair", [column[training] for column in subject.columns], 0)
    assert [found[name] for name in ("singles", "pairs", "triples", "workload")] == [0.0] * 4
    assert found["trees"]["affair"] == pytest.approx(0.71, abs=0.03)
    assert found["linear"]["affair"] == pytest.approx(0.73, abs=0.02)
    assert found["rbf"]["affair"] == pytest.approx(0.73, abs=0.02)


@pytest.mark.parametrize(
    "who", [Contestant(OURS, Neighbours.ADDED, owners=2), Contestant(SUBN3, Neighbours.REPLACED)]
)
def test_a_guest_of_this_software_makes_rows_that_resemble_the_real_ones(who: Contestant) -> None:
    found = run_contestant("fair", who, "100", 0)
    assert found["singles"] < 0.1
    assert found["seconds"] > 0
    assert 50 < found["mib"] < 5000


RNG = np.random.default_rng(132)
SHAPES = RNG.standard_normal((3, 6, 6)) * np.array([3.0, 2.0, 1.0, 0.5, 0.3, 0.1])
TABLES = [RNG.standard_normal((40 * (i + 1), 6)) @ shape for i, shape in enumerate(SHAPES)]
PARTS = [rows / np.linalg.norm(rows, axis=1).max() for rows in TABLES]
SITES = [SiteSums(len(rows), np.cov(rows, rowvar=False, bias=True)) for rows in PARTS]


def assert_same_space(left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    assert np.allclose(left.T @ left, right.T @ right, atol=1e-9)


def leading(matrix: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    return np.linalg.eigh(matrix)[1][:, ::-1][:, :k].T


def test_sites_that_send_everything_count_the_same_in_dpdispca() -> None:
    found = distributed_components(SITES, k=3, intermediate=6, signed=True)
    assert_same_space(found, leading(sum(site.matrix for site in SITES) / 3, 3))


def test_a_negative_eigenvalue_is_sent_as_printed_and_left_out_in_the_sound_form() -> None:
    site = SiteSums(10, np.diag([1.0, 0.5, -2.0]))
    assert_same_space(
        distributed_components([site], k=1, intermediate=2, signed=False), np.eye(3)[2:]
    )
    assert_same_space(
        distributed_components([site], k=1, intermediate=2, signed=True), np.eye(3)[:1]
    )


def test_merged_subspaces_of_full_rank_count_rows() -> None:
    pooled = sum(site.n_rows * site.matrix for site in SITES)
    found = merged_components(SITES, k=6)
    assert found.shape == (6, 6)
    assert_same_space(found[:2], leading(pooled, 2))


def test_merging_keeps_no_more_than_it_is_asked_for() -> None:
    lost = merged_components(
        [SiteSums(1, np.diag([2.0, 1.9, 0.0])), SiteSums(1, np.diag([0, 1.9, 2.0]))], k=1
    )
    assert not np.allclose(np.abs(lost), [[0, 1, 0]]), "the sum's leading vector was cut off"


def test_sound_sites_without_noise_have_their_rows_covariances() -> None:
    schema = make_schema(
        [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(6)],
        resolution_bits=14,
        row_norm={},
    )
    packed = [accumulate_moments(schema, list(rows.T)).packed for rows in PARTS]
    for site, expected in zip(
        sound_sites(schema, packed, [len(rows) for rows in PARTS]), SITES, strict=True
    ):
        assert site.n_rows == expected.n_rows
        assert np.abs(site.matrix - expected.matrix).max() < 1e-3


def test_published_noise_is_symmetric_and_as_wide_as_printed() -> None:
    epsilon, delta = 0.5, 1e-5
    assert published_deviation(200, epsilon, delta) == pytest.approx(
        math.sqrt(2 * math.log(1.25 / delta)) / (200 * epsilon)
    )
    none = [np.zeros((200, 60))]
    (site,) = published_sites(none, epsilon=epsilon, delta=delta, rng=np.random.default_rng(1))
    assert (site.matrix == site.matrix.T).all()
    found = site.matrix[np.triu_indices(60)].std()
    # 1830 draws: the estimate's own deviation is 1.7 %, so five of them.
    assert found == pytest.approx(published_deviation(200, epsilon, delta), rel=0.085)


def test_a_study_for_one_row_more_is_the_products_own() -> None:
    given = {"attributes": [{"name": name, "type": "binary", "values": [0, 1]} for name in "ab"]}
    privacy = {"epsilon": "0.5", "delta": "1e-9"}
    for neighbours in Neighbours:
        study = make_study(given, **privacy, owners=2, neighbours=neighbours)
        assert study.has_secret_rows is (neighbours is Neighbours.ADDED)
        assert calibrate(study).epsilon == Decimal("0.5")
        header = pool_rows(study, np.eye(2).repeat(500, axis=0), 7).header
        assert (header.estimated_rows is None) is (neighbours is Neighbours.REPLACED)
        assert abs(header.n_rows - 1000) < 200
