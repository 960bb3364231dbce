"""One study by real processes under each kind of trust, from `init` to files that verify."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.runner import run_federation
from tests.support.census import census_rows
from tests.support.sites import OwnerSite
from tests.support.studies import make_study

N_ROWS = 300


@pytest.mark.parametrize(
    "aggregation", [None, Aggregation(colluders=1, openers=2)], ids=["owner", "aggregate"]
)
def test_a_study_comes_to_files_that_verify(
    aggregation: Aggregation | None, tmp_path: Path
) -> None:
    study = make_study(owners=["owner-1", "owner-2", "owner-3"][: 3 if aggregation else 2])
    rows = {name: tmp_path / f"{name}.csv" for name in study.owners}
    for path in rows.values():
        pa.csv.write_csv(census_rows(N_ROWS), path)
    ran = run_federation(
        study,
        aggregation=aggregation,
        rows=rows,
        held_out=tmp_path / "none.csv",
        target=None,
        folder=tmp_path,
        output=tmp_path,
        on_step=lambda: None,
    )
    assert [owner.n_rows for owner in ran.owners] == [N_ROWS] * len(study.owners)
    assert [owner.charged_epsilon for owner in ran.owners] == ["1"] * len(study.owners)
    site = OwnerSite(tmp_path / "sites/owner-2", "owner-2")
    assert len(site.history.charges) == len(site.history.commitments) == 1
    for file in (ran.components, ran.coded, ran.decoded):
        code, verified = site.run("verify", str(file))
        assert (code, verified["label"]) == (0, "released"), file
        assert verified["guarantee"]["epsilon"] == "1"
