"""Every coding is searched and read whole: what one person can change is charged, and no more."""

from pathlib import Path

import pytest

from dppca.common.kernel.moments.people import WHOLE, PeopleSums
from dppca.owner.selftest.sensitivities import check_sensitivities


def test_what_one_person_can_change_is_charged_in_every_coding(tmp_path: Path) -> None:
    found = check_sensitivities(tmp_path)
    assert [each.says for each in found if not each.passed] == []
    assert len(found) == 3


def test_people_whose_rows_all_count_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PeopleSums, "_factor", lambda *_: WHOLE)
    _, sums, _ = check_sensitivities(tmp_path)
    wrong = {fault.split(":")[0] for fault in sums.figures["faults"]}
    assert wrong == {"people", "people in the unit ball, halved products"}
