"""One study by real processes under each kind of trust, from `init` to files that verify."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.support.documents import require_documented
from tests.support.patience import run_watched
from tests.support.sites import OwnerSite
from tests.support.studies import CENSUS, study_document

N_ROWS = 1200
TRUST = {
    "owner": [],
    "aggregate": ["--trust", "aggregate", "--colluders", "1", "--openers", "3", "--spares", "1"],
}


@pytest.mark.parametrize("trust", TRUST)
def test_a_study_comes_to_files_that_verify(trust: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    columns = (
        rng.integers(17, 90, N_ROWS),
        rng.choice(["Female", "Male"], N_ROWS),
        rng.choice(["private", "state", "other"], N_ROWS),
    )
    rows = (",".join(map(str, row)) for row in zip(*columns, strict=True))
    (tmp_path / "rows.csv").write_text("\n".join(["age,sex,work", *rows]) + "\n")
    owners = [f"owner-{number}" for number in (1, 2, 3)]
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study_document(CENSUS, owners=owners)))
    done = run_watched(
        [
            *(sys.executable, "-m", "dppca.deploy.simulation.cli", "run", "--json", "--keep"),
            *("--study", tmp_path / "study.yaml", "--data", tmp_path / "rows.csv"),
            *("--owners", "3", "--output", tmp_path / "results", *TRUST[trust]),
        ]
    )
    assert done.returncode == 0, done.stderr
    report = require_documented("dppca-simulate", json.loads(done.stdout))
    opened = ["open"] if trust == "aggregate" else []
    steps = [step["name"] for step in report["steps"]]
    assert steps == ["init", "contribute", *opened, "components", "synthesize"]
    assert [owner["charged"]["epsilon"] for owner in report["owners"]] == ["1"] * 3
    assert report["privacy"]["federation"]["epsilon"] == "1"

    site = OwnerSite(Path(report["files"]["parties"]) / "sites/owner-2", "owner-2")
    assert len(site.history.charges) == len(site.history.commitments) == 1
    for file in sorted((site.folder / "studies/study").iterdir()):
        if file.suffix in (".npz", ".parquet"):
            code, verified = site.run("verify", str(file))
            assert (code, verified["study_name"]) == (0, "study"), file
