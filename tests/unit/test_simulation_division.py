"""A simulation refuses a division that could not end, before anybody is charged."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import SettingError
from deploy.simulation.experiment import Request, simulate
from tests.support.site import make_rows, make_study, save_rows


def test_a_division_that_leaves_an_owner_one_label_of_the_target_is_refused(
    tmp_path: Path,
) -> None:
    def unreached() -> None:
        raise AssertionError

    request = Request(
        command="run",
        study=make_study(owners=["owner-1", "owner-2"]),
        data=save_rows(make_rows(100), tmp_path / "rows.parquet"),
        target="ill",
        seed=0,
        split="by:ill",
        output=tmp_path / "results",
    )
    with pytest.raises(SettingError, match="owner-1 would hold fewer than two labels of ill"):
        simulate(request, on_step=unreached)
    assert not (tmp_path / "results").exists()
