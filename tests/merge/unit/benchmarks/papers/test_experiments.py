"""Runs of experiments: kept one by one, never computed twice, never mixed up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.papers.experiments import EXPERIMENTS, find_experiment, run_cells
from benchmarks.papers.rows import PaperSource
from benchmarks.papers.trials import (
    PUBLISHED,
    SOUND,
    Experiment,
    Scope,
    Scored,
    Trial,
    TrialOutcome,
)
from dppca.common.errors import SettingError

CELLS = tuple(Trial(PaperSource("toy"), "m", PUBLISHED, "0.1", seed=seed) for seed in (1, 2, 3))


def experiment(compute: object) -> Experiment:
    return Experiment(
        name="toy",
        title="Toy",
        source="nobody",
        x="epsilon",
        grid=lambda _: CELLS,
        compute=compute,  # type: ignore[arg-type]
    )


def test_an_error_names_its_cell_and_keeps_its_class(tmp_path: Path) -> None:
    def fails(cell: Trial) -> TrialOutcome:
        raise SettingError(f"no such thing for {cell.method}")

    with pytest.raises(SettingError, match=r"toy: m published epsilon=0.1.*seed 1: no such"):
        run_cells(experiment(fails), CELLS, tmp_path / "toy.jsonl", jobs=1)


def test_cells_that_differ_in_anything_have_names_and_noise_of_their_own() -> None:
    cell = CELLS[0]
    others = [
        replace(cell, source=PaperSource("other")),
        replace(cell, variant=SOUND),
        replace(cell, epsilon="0.2"),
        replace(cell, delta="1e-9"),
        replace(cell, owners=3),
        replace(cell, rows=100),
        replace(cell, columns=5),
        replace(cell, components=5),
        replace(cell, target="t"),
        replace(cell, scored=Scored.TRAINING),
    ]
    assert len({each.name for each in [cell, *others]}) == len(others) + 1
    seeds = {each.noise_seed for each in [cell, *others, replace(cell, seed=2)]}
    assert len(seeds) == len(others) + 2


def test_every_published_experiment_is_there() -> None:
    papers = {"gu": (2, 3, 4), "huang": (1, 2, 3, 4), "zhang": (1, 2, 3, 4, 5, 6)}
    figures = {f"{paper}-fig{n}" for paper, numbers in papers.items() for n in numbers}
    assert set(EXPERIMENTS) == figures | {"sun-table4"}


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_a_grid_holds_no_run_twice_and_quick_asks_for_less(name: str, data_folder: Path) -> None:
    grid = find_experiment(name).grid
    full, quick = grid(Scope()), grid(Scope(quick=True))
    for cells in (full, quick):
        keys = [(cell.name, cell.seed) for cell in cells]
        assert len(set(keys)) == len(keys)
    assert len(quick) < len(full)
