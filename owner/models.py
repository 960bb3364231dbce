"""Classifiers trained at a site, and the files they are kept in.

A model of this module is `site-only`: its weights are computed from raw rows without noise, and an
RBF machine holds support vectors, which are such rows in a released basis. It may be used at its
site; there is no way to publish one. Those that may leave are `owner.released_models`.

The file is skops' format, a zip archive of arrays and names of classes; loading it runs no code
of the file's own, unlike a pickle. Only classes of scikit-learn and NumPy are accepted, and only
in the one shape that `save_model` writes.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import skops.io
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from skops.io.exceptions import UnsupportedTypeException, UntrustedTypesFoundException

from common.errors import ArtefactError
from common.methods.components import project
from common.privacy.labels import Label
from common.schema import Binary, Categorical, Column, Schema, encode

METHOD = "dppca-svm"
_VERSION = 1


class Model(Protocol):
    """What every kind of model is to whoever predicts with it."""

    @property
    def study_digest(self) -> str:
        """Of the study whose schema, or components, it stands on."""

    @property
    def schema(self) -> Schema:
        """Of the rows it takes."""

    @property
    def target(self) -> str:
        """Name of the attribute that is predicted."""

    @property
    def target_attribute(self) -> Binary | Categorical:
        """The attribute that is predicted."""

    def classify(self, columns: list[Column]) -> NDArray[np.int64]:
        """Codes of the labels it gives to rows, shape (n_rows,)."""


class Kernel(StrEnum):
    """Of the support vector machine."""

    LINEAR = "linear"
    RBF = "rbf"


@dataclass(frozen=True, slots=True)
class FeatureSpace:
    """Released components of all coded columns but the target's; free post-processing.

    Attributes
    ----------
    columns
        Indices of the coded columns that are features, shape (f,).
    mean
        Released mean of the features, shape (f,), coded units; zeros where there is none.
    components
        Shape (k, f): rows are eigenvectors of the features' released covariance.
    """

    columns: NDArray[np.int64]
    mean: NDArray[np.float64]
    components: NDArray[np.float64]

    def project(self, schema: Schema, columns: list[Column]) -> NDArray[np.float64]:
        """Scores of rows, shape (n_rows, k). Site-only: raw rows in a released basis."""
        return project(coded_features(schema, columns, self.columns), self.components, self.mean)


def features_of(schema: Schema, target: str) -> NDArray[np.int64]:
    """Indices of the coded columns of all attributes but ``target``, shape (f,)."""
    start, stop = schema.layout.groups[schema.index_of(target)]
    return np.array([c for c in range(schema.layout.n_columns) if not start <= c < stop], np.int64)


def coded_features(
    schema: Schema, columns: list[Column], features: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Coded values of some columns of rows, shape (n_rows, f), in real units. Site-only."""
    coded: NDArray[np.float64] = encode(schema, columns)[:, features] / 2.0**schema.resolution_bits
    return coded


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A classifier and all that is needed to use it at its site.

    Attributes
    ----------
    target
        Attribute that is predicted: binary or categorical.
    space
        Where rows are projected before they are classified.
    pipeline
        ``StandardScaler`` and ``LinearSVC`` or ``SVC``, fitted on codes of the target's labels.
    n_rows
        Rows it was trained on.
    n_unlabelled
        Rows left out because their target is missing or unknown.
    training_accuracy
        Share of the training rows that it gets right.
    converged
        False where the solver stopped at its limit of iterations.
    """

    study_digest: str
    schema: Schema
    target: str
    kernel: Kernel
    C: float
    space: FeatureSpace
    pipeline: Any
    n_rows: int
    n_unlabelled: int
    training_accuracy: float
    converged: bool
    label: Label = Label.SITE_ONLY

    @property
    def n_components(self) -> int:
        """k, the number of components that rows are projected on."""
        return len(self.space.components)

    def classify(self, columns: list[Column]) -> NDArray[np.int64]:
        """Codes of the labels it gives to rows, shape (n_rows,)."""
        codes: NDArray[np.int64] = self.pipeline.predict(self.space.project(self.schema, columns))
        return codes.astype(np.int64)

    @property
    def target_attribute(self) -> Binary | Categorical:
        """The attribute that is predicted."""
        attribute = self.schema.attributes[self.schema.index_of(self.target)]
        assert isinstance(attribute, Binary | Categorical)  # noqa: S101 - seen to when made
        return attribute


def save_model(model: TrainedModel, path: Path) -> None:
    """Write a model so that only its owner may read it; an existing file is replaced at once."""
    write_model(model_bytes(model), path)


def model_bytes(model: TrainedModel) -> bytes:
    """A model's file. Not the same bytes twice: they carry the time."""
    metadata = {
        "kind": METHOD,
        "version": _VERSION,
        "label": model.label.value,
        "study_digest": model.study_digest,
        "schema": model.schema.model_dump(mode="json"),
        "target": model.target,
        "kernel": model.kernel.value,
        "C": model.C,
        "n_rows": model.n_rows,
        "n_unlabelled": model.n_unlabelled,
        "training_accuracy": model.training_accuracy,
        "converged": model.converged,
        "scikit_learn": version("scikit-learn"),
        "software": f"dppca {version('dppca')}",
    }
    content: bytes = skops.io.dumps(
        {
            "metadata": json.dumps(metadata),
            "columns": model.space.columns,
            "mean": model.space.mean,
            "components": model.space.components,
            "pipeline": model.pipeline,
        }
    )
    return content


def write_model(content: bytes, path: Path) -> None:
    """Write a model's bytes; `ArtefactError` where that is not possible."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        unfinished.replace(path)
    except OSError as error:
        message = f"the model cannot be written to {path}: {error.strerror}"
        raise ArtefactError(message) from error


def load_model(path: Path) -> TrainedModel:
    """Read a model that `save_model` wrote.

    Raises
    ------
    ArtefactError
        Not such a file, damaged, with classes other than scikit-learn's and NumPy's, or trained
        by another version of scikit-learn.
    """
    archive, metadata = open_archive(path)
    try:
        if metadata["kind"] != METHOD or metadata["version"] != _VERSION:
            raise not_a_model(path)
        trained_by, here = metadata["scikit_learn"], version("scikit-learn")
        if trained_by.split(".")[:2] != here.split(".")[:2]:
            message = (
                f"{path} was trained with scikit-learn {trained_by} and this is {here}: "
                "train it again"
            )
            raise ArtefactError(message)
        model = TrainedModel(
            study_digest=str(metadata["study_digest"]),
            schema=Schema.from_document(metadata["schema"]),
            target=str(metadata["target"]),
            kernel=Kernel(metadata["kernel"]),
            C=float(metadata["C"]),
            space=FeatureSpace(archive["columns"], archive["mean"], archive["components"]),
            pipeline=archive["pipeline"],
            n_rows=int(metadata["n_rows"]),
            n_unlabelled=int(metadata["n_unlabelled"]),
            training_accuracy=float(metadata["training_accuracy"]),
            converged=bool(metadata["converged"]),
        )
        sound = metadata["label"] == Label.SITE_ONLY.value and _is_sound(model)
    except (*LOADING_ERRORS, ValidationError) as error:
        raise not_a_model(path) from error
    if not sound:
        raise not_a_model(path)
    return model


def open_archive(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the metadata in a model's file, as they are; nothing but form is checked.

    Raises
    ------
    ArtefactError
        Not an archive, or with classes other than scikit-learn's and NumPy's.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        message = f"the model {path} cannot be read: {error.strerror}"
        raise ArtefactError(message) from error
    try:
        foreign = skops.io.get_untrusted_types(data=content)
    except LOADING_ERRORS as error:
        raise not_a_model(path) from error
    if foreign:
        message = f"{path} holds {', '.join(foreign)}, which no model of ours does: do not trust it"
        raise ArtefactError(message)
    try:
        archive = skops.io.loads(content, trusted=[])
        metadata = json.loads(archive["metadata"])
    except LOADING_ERRORS as error:
        raise not_a_model(path) from error
    if not isinstance(archive, dict) or not isinstance(metadata, dict):
        raise not_a_model(path)
    return archive, metadata


LOADING_ERRORS = (
    UntrustedTypesFoundException,
    UnsupportedTypeException,
    zipfile.BadZipFile,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ImportError,
    OSError,
    EOFError,
    RecursionError,
)
"""What skops and its readers raise on archives that are damaged or made by hand."""


def not_a_model(path: Path) -> ArtefactError:
    """The error for a file that is none of ours."""
    return ArtefactError(f"{path} is not a model of this software, or is damaged: train it again")


def _is_sound(model: TrainedModel) -> bool:
    target = model.schema.attributes[model.schema.index_of(model.target)]
    features = features_of(model.schema, model.target).tolist()
    space, pipeline = model.space, model.pipeline
    machine = LinearSVC if model.kernel is Kernel.LINEAR else SVC
    return (
        isinstance(target, Binary | Categorical)
        and space.columns.tolist() == features
        and space.mean.shape == (len(features),)
        and space.components.ndim == 2
        and space.components.shape[1] == len(features)
        and isinstance(pipeline, Pipeline)
        and [type(step) for _, step in pipeline.steps] == [StandardScaler, machine]
        and pipeline.n_features_in_ == len(space.components)
        and all(0 <= code < len(target.labels) for code in pipeline.classes_.tolist())
    )
