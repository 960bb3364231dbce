"""The largest change of one row is found among rows of a grid, and is no larger than claimed."""

import pytest

from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.selftest.changes import change_of_weights, find_change, grid_rows
from dppca.owner.selftest.kinds import CODINGS, laws_of
from dppca.owner.selftest.releases import make_study, privacy_of

ATTAINED = (
    "products", "binaries", "sums of weight 2", "targets of weight 2", "trees",
    "rows added: products", "rows added: all together",
)  # fmt: skip


@pytest.mark.parametrize("coding", sorted(CODINGS))
@pytest.mark.parametrize("copies", [1, 2])
def test_no_change_that_is_found_is_above_the_claim(coding: str, copies: int) -> None:
    study = make_study("s", privacy_of(laws_of(coding)[0]), **CODINGS[coding](copies))
    found, claimed = find_change(study, copies=copies), calibrate(study).sensitivity
    assert 0 < found.l1 <= claimed.l1
    assert 0 < found.l2_squared <= claimed.l2_squared
    if copies == 1 and coding in ATTAINED:
        assert (found.l1, found.l2_squared) == (claimed.l1, claimed.l2_squared)


def test_copies_of_the_attributes_are_searched_along_equal_rows() -> None:
    study = make_study("s", privacy_of("laplace"), **CODINGS["binaries"](2))
    rows = grid_rows(study.table, copies=2)
    assert len(rows) == 2**3
    assert all(row[:3] == row[3:] for row in rows)


def test_the_change_of_weights_is_equation_two_rounded_down() -> None:
    found = change_of_weights(4, 3, tolerance=0.01)
    one = 1024 * 1.02 + 2
    assert (found.l1, found.l2_squared) == (int(3 * 2 * one), int(3 * one**2))
