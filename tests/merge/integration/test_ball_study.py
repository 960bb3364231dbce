"""Rows in the unit ball, with products of halved variance, from `contribute` to `verify`."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.privacy.release import calibrate
from dppca.common.transport.testbed import LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.deploy.simulation.runner import SiteDriver
from tests.support.federations import study_of_sites
from tests.support.sites import OwnerSite
from tests.support.studies import make_study

OWNERS = ["owner-1", "owner-2", "owner-3"]
BALL: list[dict[str, Any]] = [
    {"name": name, "type": "numeric", "centre": 0, "scale": 4} for name in ("x", "y", "z")
]


@pytest.mark.parametrize("trust", ["owner", "aggregate"])
def test_halved_products_come_to_a_result_that_verifies(trust: str, tmp_path: Path) -> None:
    norm: dict[str, Any] = {"row_norm": {"halved_products": True}, "delta": "1e-9"}
    with Processes() as live:
        federation = LocalFederation(live, tmp_path, make_authority(tmp_path / "authority"))
        federation.start()
        drivers = [SiteDriver(federation, name) for name in OWNERS]
        live.each(drivers, SiteDriver.join)
        sites = [OwnerSite(federation.site(name), name) for name in OWNERS]
        study = (
            study_of_sites(sites, attributes=BALL, **norm)
            if trust == "aggregate"
            else make_study(BALL, owners=OWNERS, **norm)
        )
        (tmp_path / "study.yaml").write_bytes(study.canonical_bytes())
        federation.operate("study", "create", tmp_path / "study.yaml", "--yes")
        rng = np.random.default_rng(0)
        table = {each["name"]: rng.normal(size=4000) for each in BALL}
        for name in OWNERS:
            pa.csv.write_csv(pa.table(table), tmp_path / f"{name}.csv")
        live.each(drivers, lambda each: each.contribute([study], tmp_path / f"{each.name}.csv"))
        live.each(drivers, lambda each: each.open_sum(study))
        drivers[-1].use_result(study, None)
    (components,) = (sites[-1].folder / "studies" / study.name).glob("components*.npz")
    code, verified = sites[-1].run("verify", str(components))
    assert code == 0
    parameters = calibrate(study).law.parameters()
    assert verified["mechanism"]["parameters"] == parameters
    assert parameters["variance"] == 2 * parameters["product_variance"]
