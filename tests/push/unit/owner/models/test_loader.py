"""Files of earlier versions are opened by the one loader, and refused where their parts differ."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io

from dppca.common.errors import ArtefactError
from dppca.common.privacy.labels import Label
from dppca.owner.models.loader import load_model
from dppca.owner.models.model import pack_model
from tests.support.checkout import ROOT

GOLDEN = ROOT / "tests/golden"
OLD = {
    "ag-svm": ("unoffered-models", "model-sex-ag-svm"),
    "dp-svm": ("edition-1", "model-sex-dp-svm"),
    "dppca-svm": ("edition-1", "model-sex-rbf"),
    "pca-dpsvm": ("edition-1", "model-sex-pca-dpsvm"),
}
"""By method: the golden archive, and the name of the file in it."""


@pytest.fixture(params=sorted(OLD))
def method(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def _old_file(method: str, folder: Path) -> Path:
    edition, name = OLD[method]
    path = folder / "model.skops"
    with tarfile.open(GOLDEN / f"{edition}.tar.xz") as archive:
        member = archive.extractfile(f"hospital/studies/plain/{name}.skops")
        assert member is not None
        path.write_bytes(member.read())
    return path


def _change(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    members = skops.io.load(path, trusted=[])
    metadata = json.loads(members["metadata"])
    change(members, metadata)
    path.write_bytes(skops.io.dumps({**members, "metadata": json.dumps(metadata)}))


def _answer_with(members: dict[str, Any], codes: list[int]) -> None:
    members["pipeline"][-1].classes_ = np.array(codes)


def test_a_file_of_an_earlier_version_is_the_model_that_this_version_writes(
    method: str, tmp_path: Path
) -> None:
    old = load_model(_old_file(method, tmp_path))
    assert old.method == method
    again = tmp_path / "again.skops"
    again.write_bytes(pack_model(old))
    new = load_model(again)
    assert set(skops.io.load(again, trusted=[])) == {"metadata", "state", "space"}
    assert (new.label, new.target, new.fit) == (old.label, old.target, old.fit)
    assert (new.receipt, new.guarantee) == (old.receipt, old.guarantee)
    rng = np.random.default_rng(1)
    columns = [rng.uniform(17, 90, 500), rng.integers(0, 2, 500), rng.integers(0, 3, 500)]
    np.testing.assert_array_equal(new.classify(columns), old.classify(columns))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("label", "published", "not a model"),
        ("kind", "nothing", "not a model"),
        ("version", 9, "not a model"),
        ("schema", {}, "not a model"),
    ],
)
def test_an_earlier_file_with_changed_metadata_is_refused(
    method: str, field: str, value: object, says: str, tmp_path: Path
) -> None:
    path = _old_file(method, tmp_path)
    _change(path, lambda _, metadata: metadata.update({field: value}))
    with pytest.raises(ArtefactError, match=says):
        load_model(path)


def test_no_earlier_file_takes_another_label(method: str, tmp_path: Path) -> None:
    path = _old_file(method, tmp_path)
    other = {"released": "site-only", "site-only": "released"}
    _change(path, lambda _, metadata: metadata.update(label=other[metadata["label"]]))
    with pytest.raises(ArtefactError, match="not a model"):
        load_model(path)


@pytest.mark.parametrize("method", ["ag-svm", "dppca-svm"])
def test_a_machine_of_another_scikit_learn_is_refused(method: str, tmp_path: Path) -> None:
    path = _old_file(method, tmp_path)
    _change(path, lambda _, metadata: metadata.update(scikit_learn="0.1.0"))
    with pytest.raises(ArtefactError, match=r"trained with scikit-learn 0\.1\.0.*train it again"):
        load_model(path)


@pytest.mark.parametrize("method", ["dp-svm", "pca-dpsvm"])
@pytest.mark.parametrize("field", ["study_digest", "schema_digest", "target", "method", "label"])
def test_a_receipt_of_another_model_is_refused(method: str, field: str, tmp_path: Path) -> None:
    path = _old_file(method, tmp_path)
    _change(path, lambda _, metadata: metadata["receipt"].update({field: "other"}))
    if (method, field) == ("dp-svm", "study_digest"):
        # Such a file says so once, in its receipt; the seal and the components' receipt bind it.
        assert load_model(path).study_digest == "other"
        return
    with pytest.raises(ArtefactError, match="not a model"):
        load_model(path)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("dp-svm", lambda members: members.update(noised=members["noised"] + 1)),
        ("dp-svm", lambda members: members.update(noised=members["noised"][:, :-1])),
        ("dp-svm", lambda members: members.update(components=members["components"] * np.nan)),
        ("dppca-svm", lambda members: members.update(columns=members["columns"][::-1])),
        ("dppca-svm", lambda members: members.update(components=members["components"][:, :-1])),
        ("dppca-svm", lambda members: members.update(pipeline=members["pipeline"][0])),
        ("dppca-svm", lambda members: _answer_with(members, [0, 2**40])),
        ("dppca-svm", lambda members: _answer_with(members, [-1, 1])),
        ("ag-svm", lambda members: members["state"].update(machine_=np.zeros(3))),
        ("ag-svm", lambda members: members["state"].update(classes_=np.array([0, 7]))),
        ("ag-svm", lambda members: members["state"].pop("components_")),
        ("pca-dpsvm", lambda members: members["state"].update(coef_=np.zeros((1, 2)))),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(
    method: str, change: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    path = _old_file(method, tmp_path)
    _change(path, lambda members, _: change(members))
    with pytest.raises(ArtefactError, match="not a model"):
        load_model(path)


def test_a_released_model_opens_with_its_receipt_and_no_word_of_its_rows(tmp_path: Path) -> None:
    model = load_model(_old_file("dp-svm", tmp_path))
    assert model.label is Label.RELEASED
    assert model.receipt is not None
    assert (model.fit, model.receipt.claims.method) == (None, "dp-svm")
