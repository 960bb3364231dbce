"""Files of models that are estimators of `common.methods`, with any of the three labels.

An archive of skops' like the others (`owner.models`): metadata as JSON, and the *state*, the few
fitted values that predictions need, as arrays or one of scikit-learn's machines. The estimator is
made anew from its settings and given its state, so no class of ours has to be trusted in a file.

A `released` one has a receipt, whose digest is that of the state, and nothing else that is computed
from rows. The others say how many rows they were trained on, and how well they fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

import numpy as np
import skops.io
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from common.errors import ArtefactError, InputError
from common.methods.classifier import Classifier
from common.methods.guarantee import Guarantee
from common.privacy.labels import Label
from common.proof.estimators import KIND as KIND
from common.proof.estimators import state_digest
from common.schema import Binary, Categorical, Column, Schema
from common.schema.document import canonical_json
from common.study import decimal_text
from owner.estimators import KINDS, settings_of
from owner.models import LOADING_ERRORS, coded_features, features_of

_VERSION = 1
_COMMON = ("classes_",)
STATE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dppca-svm": ("components_", "machine_"),
        "ag-svm": ("components_", "machine_"),
        "mod-sulq-svm": ("components_", "machine_"),
        "pca-dpsvm": ("components_", "coef_", "intercept_"),
        "private-svm": ("frequencies_", "coef_"),
        "dpsvd": ("components_", "machine_", "only_"),
        "dpsvmdvp": ("support_vectors_", "dual_coef_", "intercept_", "gamma_"),
        "svm": ("machine_",),
    }
)
_MACHINES = (LinearSVC, SVC)


@dataclass(frozen=True, slots=True)
class EstimatorReceipt:
    """What a third party needs to check the claim of a model that may leave.

    Decimals are text; digests hexadecimal. ``noise`` has one entry per law that noise was drawn
    from, in integers as `owner.released_models.ModelReceipt` has them; ``label_epsilon`` is what
    randomised response on the labels costs beside it, empty where there is none.
    """

    study_digest: str
    schema_digest: str
    release_id: str
    method: str
    ground: str
    target: str
    n_rows: int
    n_features: int
    n_components: int | None
    n_labels: int
    kernel: str
    settings: dict[str, Any]
    state_sha256: str
    noise: tuple[dict[str, Any], ...]
    label_epsilon: str
    relation: str
    max_rows_per_person: int
    epsilon: str
    delta: str
    charged_epsilon: str
    charged_rho: str
    split: str
    assumptions: tuple[str, ...]
    ledger_sequence: int
    software: str
    label: str = Label.RELEASED.value
    version: int = _VERSION

    def canonical_bytes(self) -> bytes:
        """Canonical JSON."""
        return canonical_json(asdict(self))


@dataclass(frozen=True, slots=True)
class Fit:
    """How a model that stays was trained. Site-only.

    ``n_unlabelled`` rows were left out because their target is missing or unknown.
    """

    n_rows: int
    n_unlabelled: int
    training_accuracy: float
    converged: bool


@dataclass(frozen=True, slots=True)
class EstimatorModel:
    """A fitted estimator and all that is needed to use it on rows of its schema.

    Attributes
    ----------
    guarantee
        The estimator's, as JSON.
    fit
        None for one that may leave.
    receipt
        Of one that may leave, and of no other.
    """

    study_digest: str
    schema: Schema
    target: str
    method: str
    kernel: str
    estimator: Classifier
    label: Label
    guarantee: dict[str, Any]
    fit: Fit | None
    receipt: EstimatorReceipt | None

    @property
    def n_components(self) -> int | None:
        """k; None for a method without components."""
        return components_of(self.estimator)

    @property
    def target_attribute(self) -> Binary | Categorical:
        """The attribute that is predicted."""
        attribute = self.schema.attributes[self.schema.index_of(self.target)]
        assert isinstance(attribute, Binary | Categorical)  # noqa: S101 - seen to when made
        return attribute

    def classify(self, columns: list[Column]) -> NDArray[np.int64]:
        """Codes of the labels it gives to rows, shape (n_rows,)."""
        features = features_of(self.schema, self.target)
        found = self.estimator.predict(coded_features(self.schema, columns, features))
        return found.astype(np.int64)


def components_of(estimator: Classifier) -> int | None:
    """How many components an estimator has; None without any."""
    found = getattr(estimator, "components_", None)
    return None if found is None else len(found)


def state_of(method: str, estimator: Classifier) -> dict[str, Any]:
    """The fitted values that predictions need."""
    return {name: getattr(estimator, name) for name in (*_COMMON, *STATE[method])}


def guarantee_document(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee as JSON: what is private, how far, and what is not."""

    def text(name: str) -> str | None:
        amount = getattr(guarantee, name)
        return None if amount is None else decimal_text(amount)

    return {
        "method": guarantee.method,
        "source": guarantee.source,
        "variant": None if guarantee.variant is None else guarantee.variant.value,
        "private": guarantee.private,
        "not_private": guarantee.not_private,
        **{name: text(name) for name in ("epsilon", "delta", "claimed_epsilon", "claimed_delta")},
        "relation": guarantee.relation.value,
        "max_rows_per_person": guarantee.max_rows_per_person,
        "sensitivity": guarantee.sensitivity,
        "sensitivity_of": guarantee.sensitivity_of,
        "split": guarantee.split,
    }


def estimator_bytes(model: EstimatorModel) -> bytes:
    """A model's file. Not the same bytes twice: they carry the time."""
    metadata = {
        "kind": KIND,
        "version": _VERSION,
        "label": model.label.value,
        "study_digest": model.study_digest,
        "schema": model.schema.model_dump(mode="json"),
        "target": model.target,
        "method": model.method,
        "kernel": model.kernel,
        "settings": settings_of(model.estimator),
        "guarantee": model.guarantee,
        "fit": None if model.fit is None else asdict(model.fit),
        "receipt": None if model.receipt is None else asdict(model.receipt),
        "scikit_learn": version("scikit-learn"),
        "software": f"dppca {version('dppca')}",
    }
    content: bytes = skops.io.dumps(
        {"metadata": json.dumps(metadata), "state": state_of(model.method, model.estimator)}
    )
    return content


def model_of_archive(archive: dict[str, Any], metadata: dict[str, Any]) -> EstimatorModel | None:
    """The model in an opened archive; None where the parts do not make one.

    Raises
    ------
    ArtefactError
        It was trained with another minor version of scikit-learn.
    """
    try:
        trained_by, here = metadata["scikit_learn"], version("scikit-learn")
        if trained_by.split(".")[:2] != here.split(".")[:2]:
            message = f"it was trained with scikit-learn {trained_by} and this is {here}"
            raise ArtefactError(message)
        found, fit = metadata["receipt"], metadata["fit"]
        if found is not None:
            found = EstimatorReceipt(
                **{
                    **found,
                    "noise": tuple(found["noise"]),
                    "assumptions": tuple(found["assumptions"]),
                }
            )
        model = EstimatorModel(
            study_digest=str(metadata["study_digest"]),
            schema=Schema.from_document(metadata["schema"]),
            target=str(metadata["target"]),
            method=str(metadata["method"]),
            kernel=str(metadata["kernel"]),
            estimator=_rebuilt(metadata, archive["state"]),
            label=Label(metadata["label"]),
            guarantee=dict(metadata["guarantee"]),
            fit=None if fit is None else Fit(**fit),
            receipt=found,
        )
        sound = metadata["version"] == _VERSION and _is_sound(model)
    except (*LOADING_ERRORS, ValidationError, InputError) as error:
        if isinstance(error, ArtefactError):
            raise
        return None
    return model if sound else None


def _rebuilt(metadata: dict[str, Any], state: dict[str, Any]) -> Classifier:
    method = metadata["method"]
    if set(state) != {*_COMMON, *STATE[method]}:
        message = "the state is not that of the method"
        raise ValueError(message)
    kind = KINDS[method]
    settings = {**metadata["settings"]}
    if settings.get("classes") is not None:
        settings["classes"] = tuple(settings["classes"])
    estimator = kind(**settings)
    for name, value in state.items():
        setattr(estimator, name, value)
    schema = Schema.from_document(metadata["schema"])
    estimator.n_features_in_ = len(features_of(schema, metadata["target"]))
    return estimator


def _is_sound(model: EstimatorModel) -> bool:
    """Whether all parts fit each other, the label and the receipt."""
    estimator, state = model.estimator, state_of(model.method, model.estimator)
    target = model.schema.attributes[model.schema.index_of(model.target)]
    if not isinstance(target, Binary | Categorical):
        return False
    labels = target.labels
    classes = estimator.classes_
    if not (isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2):
        return False
    machine = state.get("machine_")
    if "machine_" in state and machine is not None:
        steps = [step for _, step in machine.steps] if isinstance(machine, Pipeline) else [machine]
        if type(steps[-1]) not in _MACHINES or not all(
            type(s) is StandardScaler for s in steps[:-1]
        ):
            return False
    # A file whose arrays do not fit each other fails here, not when it is used.
    answer = estimator.predict(np.zeros((1, estimator.n_features_in_)))
    if not (np.isin(answer, classes).all() and np.isin(classes, range(len(labels))).all()):
        return False
    receipt = model.receipt
    if model.label is not Label.RELEASED:
        return receipt is None and model.fit is not None
    return (
        receipt is not None
        and model.fit is None
        and (receipt.label, receipt.version) == (Label.RELEASED.value, _VERSION)
        and (receipt.method, receipt.target, receipt.kernel)
        == (model.method, model.target, model.kernel)
        and receipt.schema_digest == model.schema.digest
        and receipt.study_digest == model.study_digest
        and receipt.settings == settings_of(estimator)
        and receipt.state_sha256 == state_digest(state)
    )
