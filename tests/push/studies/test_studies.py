"""One study by real processes under each kind of trust, from `init` to files that verify."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.transport.testbed import LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.deploy.simulation.runner import SiteDriver
from dppca.owner.ledger.database import open_ledger
from tests.support.census import census_rows
from tests.support.curator import Curator
from tests.support.federations import study_of_sites
from tests.support.noise import seed_noise
from tests.support.sites import OwnerSite, make_enrolled_site
from tests.support.studies import make_study

N_ROWS = 300
OWNERS = ["owner-1", "owner-2", "owner-3"]
COUNTED: dict[str, Any] = {
    "tables": [{"table": ["sex", "work"]}],
    "random_trees": {"count": 2, "leaves": 4, "target": "sex", "seed": 1},
}
NOISES: dict[str, dict[str, Any]] = {
    "owner": {"square_weight": 2},
    "aggregate": {"square_weight": 2},
    "added": {"square_weight": 2, "neighbours": "added"},
    "matrix-laplace": {"mechanism": "matrix-laplace", "sum_weight": 0.75},
}


@pytest.mark.parametrize("kind", NOISES)
def test_a_study_comes_to_files_that_verify(kind: str, tmp_path: Path) -> None:
    asked = COUNTED | NOISES[kind] | {"epsilon": "3"}
    with Processes() as live:
        federation = LocalFederation(live, tmp_path, make_authority(tmp_path / "authority"))
        federation.start()
        drivers = [SiteDriver(federation, name) for name in OWNERS]
        live.each(drivers, SiteDriver.join)
        sites = [OwnerSite(federation.site(name), name) for name in OWNERS]
        alone = kind == "owner"
        study = make_study(owners=OWNERS, **asked) if alone else study_of_sites(sites, **asked)
        (tmp_path / "study.yaml").write_bytes(study.canonical_bytes())
        federation.operate("study", "create", tmp_path / "study.yaml", "--yes")
        for name in OWNERS:
            pa.csv.write_csv(census_rows(N_ROWS), tmp_path / f"{name}.csv")
        live.each(drivers, lambda each: each.contribute([study], tmp_path / f"{each.name}.csv"))
        live.each(drivers, lambda each: each.open_sum(study))
        drivers[-1].use_result(study, None)

    for site in sites:
        assert len(site.history.charges) == len(site.history.commitments) == 1
    made = sorted((sites[-1].folder / "studies" / study.name).glob("*.[np]*"))
    assert {path.suffix for path in made} == {".npz", ".parquet", ".json"}, "files and envelopes"
    for path in made:
        code, verified = sites[-1].run("verify", str(path))
        assert (code, verified["label"], verified["guarantee"]["epsilon"]) == (0, "released", "3")
    elsewhere = ("--output", str(tmp_path / "elsewhere"))
    drawn = ("synthesize", study.name, "--rows", "50", "--form", "decoded")
    assert sites[-1].run(*drawn)[0] == SettingError.exit_code, "other rows were signed and sent"
    code, said = sites[-1].run(*drawn, *elsewhere)
    assert (code, said["decoded_by"]) == (0, "field")
    assert 0 < said["tables"]["worth"] <= 1
    assert said["tables"]["missed"] < 3


def test_all_noise_of_a_contribution_comes_from_the_operating_system(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noised = []
    for seed in (1, 1, 2):
        site = make_enrolled_site(curator, tmp_path)
        study = curator.begin(site.name, "absent")
        seed_noise(monkeypatch, seed=seed)
        assert site.run("contribute", study.name, "--yes")[0] == 0
        with open_ledger(site.folder / "ledger.sqlite", lock=site.folder / "site.lock") as ledger:
            noised.append(ledger.stored(study.digest).payload)
    assert noised[0] == noised[1] != noised[2]
