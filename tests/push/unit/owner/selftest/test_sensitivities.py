"""Bugs that make a person move more than the charge are found, in sums of a file and in models."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dppca.common.kernel.moments.people import WHOLE, PeopleSums
from dppca.owner.records import people
from dppca.owner.release import weights
from dppca.owner.selftest import sensitivities
from dppca.owner.selftest.kinds import CODINGS

PEOPLE = ("people", "people of up to 3 rows", "people of up to 3 rows, replaced")
Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def few_codings(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: CODINGS[name] for name in ("binaries", *PEOPLE)}
    monkeypatch.setattr(sensitivities, "CODINGS", few)


def _rows_weigh_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """Weights are ignored."""
    patch.setattr(PeopleSums, "_factor", lambda _, __: WHOLE)
    whole = weights.weights_on_grid

    def unweighed(*arguments: Any, rows_of_person: Any) -> Any:
        del rows_of_person
        return whole(*arguments, rows_of_person=None)

    patch.setattr(weights, "weights_on_grid", unweighed)


def _a_person_is_two(patch: pytest.MonkeyPatch) -> None:
    """Each text of a key is a person."""
    patch.setattr(people, "key_texts", lambda cells: cells.cast(pa.large_binary()))
    patch.setattr("dppca.owner.records.keys.key_texts", lambda cells: cells.cast(pa.large_binary()))


def _the_cap_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """All rows of a person count where up to c should."""
    patch.setattr(
        PeopleSums,
        "_factor",
        lambda sums, k: WHOLE if sums._counted > 1 else WHOLE // k,
    )


def test_what_one_person_can_change_is_charged_in_every_coding(tmp_path: Path) -> None:
    found = sensitivities.check_sensitivities(tmp_path)
    assert [each.says for each in found if not each.passed] == []
    assert len(found) == 3


@pytest.mark.usefixtures("few_codings")
@pytest.mark.parametrize(
    ("plant", "wrong", "of_models"),
    [
        (_rows_weigh_as_they_are, PEOPLE, True),
        (_a_person_is_two, PEOPLE, True),
        (_the_cap_is_ignored, PEOPLE[1:], False),
    ],
)
def test_a_person_who_weighs_more_than_the_study_says_is_found(
    plant: Patch,
    wrong: tuple[str, ...],
    of_models: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    _, of_file, models = sensitivities.check_sensitivities(tmp_path)
    assert {each.partition(":")[0] for each in of_file.figures["faults"]} == set(wrong)
    assert models.passed is not of_models
    if of_models:
        assert all("people, k = " in each for each in models.figures["faults"])
