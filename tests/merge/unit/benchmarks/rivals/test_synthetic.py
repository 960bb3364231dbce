"""Contestants, their cells, and what comes out of a guest."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rivals.judging import draw_values, judge_rows
from benchmarks.rivals.neighbours import Neighbours
from benchmarks.rivals.synthetic import (
    CONTESTANTS,
    EPSILONS,
    HERE,
    OURS,
    SUBJECTS,
    SUBN3,
    Contestant,
    list_cells,
    run_contestant,
)
from benchmarks.synthesis.judging import attribute_cells, split_rows
from benchmarks.synthesis.subjects import load_subject


def test_no_cell_is_listed_twice_and_every_split_has_all() -> None:
    for subject in SUBJECTS:
        keys = [cell.key for cell in list_cells(subject, splits=3, only="", neighbours="")]
        assert len(set(keys)) == len(keys)
        private = sum(bool(who.neighbours) for who in CONTESTANTS)
        assert len(keys) == 3 * (private * len(EPSILONS) + len(CONTESTANTS) - private)


def test_a_relation_leaves_out_ours_of_the_other_and_nobody_else() -> None:
    def found(neighbours: str) -> set[tuple[str, str]]:
        cells = list_cells("demo", splits=1, only="", neighbours=neighbours)
        return {(str(c.facts["contestant"]), str(c.facts["neighbours"])) for c in cells}

    assert found("") - found(Neighbours.ADDED) == {(who, Neighbours.REPLACED) for who in HERE}
    assert found("") - found(Neighbours.REPLACED) == {(OURS, Neighbours.ADDED)}


def test_values_that_are_made_of_cells_are_in_these_cells() -> None:
    subject = load_subject("fair")
    codes, _ = attribute_cells(subject, subject.columns)
    values = draw_values(subject, np.column_stack(codes).astype(float), np.random.default_rng(0))
    assert (np.column_stack(attribute_cells(subject, values)[0]) == np.column_stack(codes)).all()


def test_the_real_rows_have_no_distance_from_themselves() -> None:
    subject = load_subject("fair")
    training, _ = split_rows(subject.n_rows, 0)
    found = judge_rows("fair", [column[training] for column in subject.columns], 0)
    assert (found.singles, found.pairs) == (0.0, 0.0)
    assert found.linear["affair"] == pytest.approx(0.73, abs=0.02)
    assert found.rbf["affair"] == pytest.approx(0.73, abs=0.02)


@pytest.mark.parametrize(
    "who", [Contestant(OURS, Neighbours.ADDED, owners=2), Contestant(SUBN3, Neighbours.REPLACED)]
)
def test_a_guest_of_this_software_makes_rows_that_resemble_the_real_ones(who: Contestant) -> None:
    found = run_contestant("fair", who, "100", 0)
    assert found["singles"] < 0.1
    assert found["seconds"] > 0
    assert 50 < found["mib"] < 5000
