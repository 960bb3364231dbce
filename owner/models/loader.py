"""Loading of a model's file, of any method and any label.

Only classes of scikit-learn and NumPy are accepted in a file, and only in the shapes that
`dppca.owner.models.model.pack_model` writes. The estimator is made again from its settings and then
gets its state.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.analysis.estimators.base.weight_noise import count_machines
from dppca.common.kernel.errors import ArtefactError, InputError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.receipts import read_receipt
from dppca.common.kernel.schema import Binary, Categorical, Schema
from dppca.common.verification.model_archives import ARCHIVE_ERRORS, ModelArchive, open_archive
from dppca.common.verification.weights import WeightClaims, WeightReceipt, weights_digest
from dppca.owner.models.catalogue import LINEAR, METHODS
from dppca.owner.models.estimators import KINDS, StoredDPSVM
from dppca.owner.models.features import FeatureSpace, list_features
from dppca.owner.models.model import Fit, Model


def load_model(path: Path) -> Model:
    """Read a model.

    Raise `ArtefactError` if the file is no model, is damaged, has classes that are not
    scikit-learn's or NumPy's, has parts that do not fit each other or the receipt, or holds a
    machine of another version of scikit-learn.
    """
    try:
        archive = open_archive(path.read_bytes())
        _require_version(archive)
    except OSError as error:
        raise ArtefactError(f"the model {path} cannot be read: {error.strerror}") from error
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}") from error
    try:
        model = _rebuild(archive)
        sound = _is_sound(model)
    except (*ARCHIVE_ERRORS, InputError) as error:
        raise _not_a_model(path) from error
    if not sound:
        raise _not_a_model(path)
    return model


def _not_a_model(path: Path) -> ArtefactError:
    return ArtefactError(f"{path} is not a model of this software, or is damaged: train it again")


def _require_version(archive: ModelArchive) -> None:
    """Refuse a machine of another minor version of scikit-learn."""
    trained_by, here = str(archive.metadata.get("scikit_learn")), version("scikit-learn")
    if "machine_" in archive.state and trained_by.split(".")[:2] != here.split(".")[:2]:
        raise ArtefactError(
            f"it was trained with scikit-learn {trained_by} and this is {here}: train it again"
        )


def _rebuild(archive: ModelArchive) -> Model:
    metadata = archive.metadata
    schema = Schema.from_document(metadata["schema"])
    target, fit = str(metadata["target"]), metadata["fit"]
    receipt = _read_receipt(archive)
    norm = None if receipt is None else receipt.claims.row_norm
    space = FeatureSpace(**archive.space, row_norm=norm)
    return Model(
        study_digest=str(metadata["study_digest"]),
        schema=schema,
        target=target,
        method=str(metadata["method"]),
        kernel=str(metadata["kernel"]),
        estimator=_rebuild_estimator(archive, receipt),
        label=Label(metadata["label"]),
        space=space,
        fit=None if fit is None else Fit(**fit),
        receipt=receipt,
        owner=metadata.get("owner"),
        mapping_sha256=str(metadata.get("mapping_sha256", "")),
    )


def _read_receipt(archive: ModelArchive) -> WeightReceipt | None:
    document = archive.metadata["receipt"]
    return None if document is None else read_receipt(document, WeightClaims)


def _rebuild_estimator(archive: ModelArchive, receipt: WeightReceipt | None) -> Classifier:
    metadata, state = archive.metadata, archive.state
    kind = KINDS[metadata["method"]]
    if set(state) != {"classes_", *kind.state}:
        raise ValueError("the state is not that of the method")
    settings = {**metadata["settings"]}
    if settings.get("classes") is not None:
        settings["classes"] = tuple(settings["classes"])
    estimator = kind.make(settings)
    for name, value in state.items():
        setattr(estimator, name, value)
    if isinstance(estimator, StoredDPSVM) and receipt is not None:
        estimator.set_params(intercept_scaling=receipt.claims.intercept_scaling)
        estimator.step_ = receipt.claims.step
    estimator.n_features_in_ = len(archive.space["components"])
    return estimator


def _is_sound(model: Model) -> bool:
    """Return True if all parts fit each other, the label and the receipt."""
    estimator = model.estimator
    target = model.schema.attributes[model.schema.find_index(model.target)]
    classes = estimator.classes_
    if not (
        isinstance(target, Binary | Categorical)
        and isinstance(classes, np.ndarray)
        and classes.ndim == 1
        and len(classes) >= 2
        and np.isin(classes, range(len(target.labels))).all()
        and _is_machine(getattr(estimator, "machine_", None), model.kernel)
        and _is_space(model.space, model)
    ):
        return False
    # A file whose arrays do not fit each other fails here, not when it is used.
    answer = estimator.predict(np.zeros((1, estimator.n_features_in_)))
    if not np.isin(answer, classes).all():
        return False
    if model.label is not Label.RELEASED:
        return model.receipt is None and model.fit is not None
    return model.receipt is not None and model.fit is None and _is_receipt_of(model, model.receipt)


def _is_machine(machine: Any, kernel: str) -> bool:
    """Return True for a machine of scikit-learn, scaled or not, and for None."""
    if machine is None:
        return True
    *scalers, last = (
        [each for _, each in machine.steps] if isinstance(machine, Pipeline) else [machine]
    )
    return type(last) is (LinearSVC if kernel == LINEAR else SVC) and all(
        type(each) is StandardScaler for each in scalers
    )


def _is_space(space: FeatureSpace, model: Model) -> bool:
    features = list_features(model.schema, model.target).tolist()
    return (
        METHODS[model.method].label is model.label
        and space.columns.tolist() == features
        and space.mean.shape == (len(features),)
        and space.components.ndim == 2
        and space.components.shape[1] == len(features)
        and bool(np.isfinite(space.mean).all() and np.isfinite(space.components).all())
    )


def _is_receipt_of(model: Model, receipt: WeightReceipt) -> bool:
    claims, estimator = receipt.claims, model.estimator
    if not (
        (receipt.label, receipt.version) == (Label.RELEASED.value, 1)
        and (claims.method, claims.target) == (model.method, model.target)
        and receipt.schema_digest == model.schema.digest
        and receipt.study_digest == model.study_digest
    ):
        return False
    n_labels, noised = len(model.target_attribute.labels), estimator.noised_
    numbers = (claims.step, claims.row_norm, claims.intercept_scaling)
    return (
        estimator.classes_.tolist() == list(range(n_labels))
        and claims.n_components == model.n_components
        and claims.n_machines == count_machines(n_labels)
        and noised.dtype == np.int64
        and noised.shape == (claims.n_machines, claims.n_components + 1)
        and weights_digest(noised) == claims.weights_sha256
        and all(isinstance(number, float) and 0 < number < np.inf for number in numbers)
    )
