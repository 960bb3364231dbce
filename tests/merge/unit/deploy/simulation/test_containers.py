"""What a folder that has run must hold for a report."""

import json
from pathlib import Path

import pytest

from dppca.common.kernel.errors import ArtefactError
from dppca.deploy.simulation.containers.answer import report_folder
from tests.support.studies import make_study

CHARGE = {
    "rows": 5,
    "bytes": 700,
    "epsilon": "1",
    "delta": "0",
    "charged_epsilon": "1",
    "charged_rho": "0",
}


def test_a_folder_whose_rows_are_gone_is_said(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "components.npz").touch()
    document = json.loads(make_study().canonical_bytes())
    (results / "study.json").write_text(json.dumps({"document": document}))
    for owner in make_study().owners:
        (results / owner).mkdir()
        accounts = {
            "contribute": CHARGE,
            "synthesize": {"rows": 5, "decoded_by": "field", "misfit": 0.5},
            "milliseconds": {"contribute": 1500, "synthesize": 900},
        }
        for name, document in accounts.items():
            (results / owner / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "trial.json").write_text('{"target": null, "seed": 1, "split": "iid"}')
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)
    (tmp_path / "rows" / make_study().owners[0]).mkdir(parents=True)
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)
