"""A simulation refuses a division that could not end, before anybody is charged."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppca.common.errors import SettingError
from dppca.deploy.simulation.experiment import ExperimentRequest, simulate
from tests.support.latent_rows import make_latent_study, make_rows, save_rows


def test_a_division_that_leaves_an_owner_one_label_of_the_target_is_refused(
    tmp_path: Path,
) -> None:
    def unreached() -> None:
        raise AssertionError

    request = ExperimentRequest(
        command="run",
        study=make_latent_study(owners=["owner-1", "owner-2"]),
        data=save_rows(make_rows(100), tmp_path / "rows.parquet"),
        target="ill",
        seed=0,
        split="by:ill",
        output=tmp_path / "results",
    )
    with pytest.raises(SettingError, match="owner-1 would hold fewer than two labels of ill"):
        simulate(request, on_step=unreached)
    assert not (tmp_path / "results").exists()
