"""Classifiers that may leave their site, and the files they are kept in.

What is in such a file is public once it leaves: released components, noised weights as integers on
a public grid, public settings, the number of rows, and a receipt. Nothing else may ever be added
that is computed from rows: no accuracy on them, no count of missing targets, no word on how the
solver fared.

Rows are projected on the components and brought into the ball of radius R, as they were for
training (`owner.model_release`); a constant column makes the intercept. One machine decides
between two labels; of more machines, one label against the rest each, the largest score wins.

Limits: the receipt is as true as whoever hands over the file. That the weights are those that the
receipt names is checked, that their noise was drawn is not checkable.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import skops.io
from numpy.typing import NDArray
from pydantic import ValidationError

from common.methods.dpsvm import with_constant
from common.privacy.labels import Label
from common.schema import Binary, Categorical, Column, Schema
from common.schema.document import canonical_json
from owner.models import LOADING_ERRORS, FeatureSpace, features_of

METHOD = "dp-svm"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ModelReceipt:
    """What a third party needs to check a model's claim. Decimals are text; digests hexadecimal.

    ``l1`` and ``l2_squared`` are for one changed row, in steps of the grid and their squares;
    ``scale`` (Laplace) and ``sigma_squared`` (Gaussian) likewise; ``step`` is one step in real
    units and ``sensitivity`` the L2 change of all weights in those. ``epsilon`` and ``delta`` are
    of the weights alone; ``components_epsilon`` and ``components_delta`` are what the federation
    claims for the components, which the weights are a further release to.
    """

    study_digest: str
    schema_digest: str
    release_id: str
    target: str
    n_rows: int
    n_components: int
    n_machines: int
    components_sha256: str
    components_epsilon: str
    components_delta: str
    weights_sha256: str
    C: float
    row_norm: float
    intercept_scaling: float
    solver_tolerance: float
    step: float
    sensitivity: float
    mechanism: str
    source: str
    relation: str
    max_rows_per_person: int
    resolution_bits: int
    l1: int
    l2_squared: int
    scale: int | None
    sigma_squared: int | None
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    split: str
    assumptions: tuple[str, ...]
    ledger_sequence: int
    software: str
    method: str = METHOD
    label: str = Label.RELEASED.value
    version: int = _VERSION

    def canonical_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(asdict(self))


@dataclass(frozen=True, slots=True)
class ReleasedModel:
    """A linear classifier with noise on its weights.

    Attributes
    ----------
    noised
        Weights in steps of the grid, int64, shape (K, k + 1); the last is the intercept's.
    components_receipt
        Canonical JSON of the components' countersigned receipt; None where they carry none.
    """

    schema: Schema
    target: str
    space: FeatureSpace
    noised: NDArray[np.int64]
    receipt: ModelReceipt
    label: Label = Label.RELEASED
    components_receipt: bytes | None = None

    @property
    def study_digest(self) -> str:
        """Of the study whose components it stands on."""
        return self.receipt.study_digest

    @property
    def target_attribute(self) -> Binary | Categorical:
        """The attribute that is predicted."""
        attribute = self.schema.attributes[self.schema.index_of(self.target)]
        assert isinstance(attribute, Binary | Categorical)  # noqa: S101 - seen to when made
        return attribute

    def classify(self, columns: list[Column]) -> NDArray[np.int64]:
        """Codes of the labels it gives to rows, shape (n_rows,)."""
        features = bounded_features(
            self.space.project(self.schema, columns),
            row_norm=self.receipt.row_norm,
            intercept_scaling=self.receipt.intercept_scaling,
        )
        scores = features @ (self.noised * self.receipt.step).T
        if scores.shape[1] == 1:
            return (scores[:, 0] > 0).astype(np.int64)
        codes: NDArray[np.int64] = scores.argmax(axis=1).astype(np.int64)
        return codes


def bounded_features(
    scores: NDArray[np.float64], *, row_norm: float, intercept_scaling: float
) -> NDArray[np.float64]:
    """Scores (n_rows, k) brought into the ball of radius R, and the intercept's column."""
    norms = np.linalg.norm(scores, axis=1)[:, None]
    inside = scores * (row_norm / np.maximum(norms, row_norm))
    return with_constant(inside, intercept_scaling)


def released_bytes(model: ReleasedModel) -> bytes:
    """A model's file. Not the same bytes twice: they carry the time, and are stored once."""
    metadata = {
        "kind": METHOD,
        "version": _VERSION,
        "label": model.label.value,
        "schema": model.schema.model_dump(mode="json"),
        "receipt": asdict(model.receipt),
        "components_receipt": None
        if model.components_receipt is None
        else json.loads(model.components_receipt),
    }
    content: bytes = skops.io.dumps(
        {
            "metadata": json.dumps(metadata),
            "columns": model.space.columns,
            "mean": model.space.mean,
            "components": model.space.components,
            "noised": model.noised,
        }
    )
    return content


def weights_digest(noised: NDArray[np.int64]) -> str:
    """SHA-256 of noised weights, row by row as little-endian int64."""
    return hashlib.sha256(noised.astype("<i8").tobytes()).hexdigest()


def model_of_archive(archive: dict[str, Any], metadata: dict[str, Any]) -> ReleasedModel | None:
    """The model in an opened archive; None where the parts do not make one."""
    try:
        if (metadata["version"], metadata["label"]) != (_VERSION, Label.RELEASED.value):
            return None
        found = dict(metadata["receipt"])
        found["assumptions"] = tuple(found["assumptions"])
        receipt = ModelReceipt(**found)
        model = ReleasedModel(
            schema=Schema.from_document(metadata["schema"]),
            target=receipt.target,
            space=FeatureSpace(archive["columns"], archive["mean"], archive["components"]),
            noised=archive["noised"],
            receipt=receipt,
        )
        return model if _is_sound(model) else None
    except (*LOADING_ERRORS, ValidationError):
        return None


def _is_sound(model: ReleasedModel) -> bool:
    """Whether all parts fit each other and the receipt."""
    schema, space, receipt = model.schema, model.space, model.receipt
    target = schema.attributes[schema.index_of(model.target)]
    if not isinstance(target, Binary | Categorical):
        return False
    features = features_of(schema, model.target).tolist()
    n_labels = len(target.labels)
    shape = (1 if n_labels == 2 else n_labels, receipt.n_components + 1)
    numbers = (receipt.step, receipt.row_norm, receipt.intercept_scaling)
    return (
        (receipt.label, receipt.method, receipt.version) == (Label.RELEASED.value, METHOD, _VERSION)
        and receipt.schema_digest == schema.digest
        and space.columns.tolist() == features
        and space.mean.shape == (len(features),)
        and space.components.shape == (receipt.n_components, len(features))
        and bool(np.isfinite(space.mean).all() and np.isfinite(space.components).all())
        and model.noised.dtype == np.int64
        and model.noised.shape == shape
        and receipt.n_machines == shape[0]
        and weights_digest(model.noised) == receipt.weights_sha256
        and all(isinstance(number, float) and 0 < number < np.inf for number in numbers)
    )
