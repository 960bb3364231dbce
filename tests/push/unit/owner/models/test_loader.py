"""Model files are opened by the one loader, and refused where their parts differ."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io

from dppca.common.kernel.errors import ArtefactError
from dppca.common.kernel.privacy.labels import Label
from dppca.owner.models.loader import load_model
from tests.support.sites import make_trained_site

OPTIONS = {"dp-svm": ("--method", "dp-svm", "--epsilon", "1", "--yes"), "dppca-svm": ()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A model's file by each method."""
    site = make_trained_site(tmp_path_factory.mktemp("models") / "site")[0]
    files = {}
    for method, options in OPTIONS.items():
        code, document = site.run("train", "site-test", "--target", "ill", *options)
        assert code == 0, document
        files[method] = Path(document["model"]).read_bytes()
    return files


@pytest.fixture
def method() -> str:
    """What a test overrides."""
    return "dp-svm"


@pytest.fixture
def path(made: dict[str, bytes], method: str, tmp_path: Path) -> Path:
    """The file of a method."""
    file = tmp_path / "model.skops"
    file.write_bytes(made[method])
    return file


def _change(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> None:
    members = skops.io.load(path, trusted=[])
    metadata = json.loads(members["metadata"])
    change(members, metadata)
    path.write_bytes(skops.io.dumps({**members, "metadata": json.dumps(metadata)}))


def _refused(path: Path) -> str:
    with pytest.raises(ArtefactError) as refused:
        load_model(path)
    return str(refused.value)


@pytest.mark.parametrize("method", OPTIONS)
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("label", "published", "is not a model"),
        ("kind", "nothing", "a nothing of version 1, and this software reads a model of version 1"),
        ("version", 2, "a model of version 2, and this software reads a model of version 1"),
        ("schema", {}, "is not a model"),
        ("method", "private-svm", "is not a model"),
        ("target", "x0", "is not a model"),
        ("target", "nobody", "is not a model"),
    ],
)
def test_changed_metadata_is_refused(path: Path, field: str, value: object, says: str) -> None:
    _change(path, lambda _, metadata: metadata.update({field: value}))
    assert says in _refused(path)


@pytest.mark.parametrize("method", OPTIONS)
def test_no_file_takes_another_label(path: Path) -> None:
    other = {"released": "site-only", "site-only": "released"}
    _change(path, lambda _, metadata: metadata.update(label=other[metadata["label"]]))
    assert "is not a model" in _refused(path)


@pytest.mark.parametrize("method", ["dppca-svm"])
def test_a_machine_of_another_scikit_learn_is_refused(path: Path) -> None:
    _change(path, lambda _, metadata: metadata.update(scikit_learn="0.1.0"))
    assert "trained with scikit-learn 0.1.0" in _refused(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, "other") for name in ("study_digest", "schema_digest", "method", "label")),
        ("target", "x0"),
        ("step", -1.0),
    ],
)
def test_a_receipt_of_another_model_is_refused(path: Path, field: str, value: object) -> None:
    _change(path, lambda _, metadata: metadata["receipt"].update({field: value}))
    assert "is not a model" in _refused(path)


def test_a_model_that_may_leave_without_its_receipt_is_refused(path: Path) -> None:
    _change(path, lambda _, metadata: metadata.update(receipt=None))
    assert "is not a model" in _refused(path)


def _with_space(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], object]:
    return lambda members: members["space"].update({name: change(members["space"][name])})


def _with_state(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], object]:
    return lambda members: members["state"].update({name: change(members["state"][name])})


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("dp-svm", _with_state("noised_", lambda noised: noised + 1)),
        ("dp-svm", _with_state("noised_", lambda noised: noised[:, :-1])),
        ("dp-svm", _with_state("classes_", lambda classes: classes[::-1])),
        ("dp-svm", _with_space("components", lambda components: components * np.nan)),
        ("dp-svm", lambda members: members.update(space=None)),
        ("dppca-svm", _with_space("columns", lambda columns: columns[::-1])),
        ("dppca-svm", _with_space("components", lambda components: components[:, :-1])),
        ("dppca-svm", _with_state("machine_", lambda machine: machine[0])),
        ("dppca-svm", _with_state("machine_", lambda _: np.zeros(3))),
        ("dppca-svm", _with_state("classes_", lambda _: np.array([0, 7]))),
        ("dppca-svm", _with_state("classes_", lambda _: np.array([-1, 1]))),
        ("dppca-svm", lambda members: members["state"].pop("machine_")),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(
    path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    _change(path, lambda members, _: change(members))
    assert "is not a model" in _refused(path) or "not a model of this software" in _refused(path)


def test_a_released_model_opens_with_its_receipt_and_no_word_of_its_rows(path: Path) -> None:
    model = load_model(path)
    assert model.label is Label.RELEASED
    assert model.receipt is not None
    assert (model.fit, model.receipt.claims.method) == (None, "dp-svm")
