"""A folder's answer has what each owner's commands reported, took and made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dppca.common.errors import ArtefactError
from dppca.deploy.simulation.containers.answer import _owner, report_folder
from tests.support.studies import make_study

CHARGE = {"rows": 5, "epsilon": "1", "delta": "0", "charged_epsilon": "1", "charged_rho": "0"}


def accounts(folder: Path, owner: str = "hospital") -> Path:
    own = folder / owner
    own.mkdir()
    took = {"contribute": 1500, "open": 20, "train": 300}
    documents = {
        "contribute": {**CHARGE, "bytes": 700},
        "open": {"bytes": 64},
        "predict": {"accuracy": 0.75},
        "milliseconds": took,
    }
    for name, document in documents.items():
        (own / f"{name}.json").write_text(json.dumps(document))
    return own


def test_a_folder_whose_rows_are_gone_is_said(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "components.npz").touch()
    document = json.loads(make_study().canonical_bytes())
    (results / "study.json").write_text(json.dumps({"document": document}))
    for owner in make_study().owners:
        accounts(results, owner)
    (tmp_path / "trial.json").write_text('{"target": null, "seed": 1, "split": "iid"}')
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)
    (tmp_path / "rows" / make_study().owners[0]).mkdir(parents=True)
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)


def test_an_owner_has_its_steps_and_the_accuracy_of_its_model(tmp_path: Path) -> None:
    own = accounts(tmp_path)
    found = _owner(own, target="ill")
    assert (found.name, found.rows, found.epsilon) == ("hospital", 5, 1)
    assert found.dppca_svm_accuracy == 0.75
    assert found.seconds == {"contribute": 1.5, "open": 0.02, "train": 0.3}
    assert found.bytes == {"contribute": 700, "open": 64, "train": 0}
    (own / "predict.json").unlink()
    assert _owner(own, target=None).dppca_svm_accuracy is None
    with pytest.raises(ArtefactError, match=r"predict\.json is missing"):
        _owner(own, target="ill")
