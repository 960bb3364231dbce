"""Models by estimators that may leave: what their receipt claims, computed again.

Such a model is a release of its owner's rows of its own, beside no components: what it costs
follows from its settings, the number of rows, and the schema in the file.

Limits: of the study only its digest is in the file, so that the schema is the study's is the
owner's word; whose, the seal says.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from dppca.common.amounts import decimal_text
from dppca.common.attestation.claims import require_equal
from dppca.common.errors import AlteredError, ReceiptError
from dppca.common.estimators import DPSVD, PCADPSVM, PrivateSVM
from dppca.common.estimators.base.releasable import ReleasableClassifier
from dppca.common.estimators.base.settings import parse_epsilon
from dppca.common.privacy.labels import Label
from dppca.common.privacy.receipts import Claims, NoiseSection, Receipt, read_receipt
from dppca.common.schema import Binary, Categorical, Schema

_METHODS: dict[str, type[ReleasableClassifier]] = {
    "pca-dpsvm": PCADPSVM,
    "private-svm": PrivateSVM,
    "dpsvd": DPSVD,
}


@dataclass(frozen=True, slots=True)
class EstimatorClaims(Claims):
    """What the receipt of a model by an estimator says besides its noise.

    ``label_epsilon`` is what randomised response on the labels costs beside the laws of noise,
    empty where there is none. ``ground`` and ``split`` are for people.
    """

    lists_noise: ClassVar[bool] = True

    method: str
    ground: str
    target: str
    n_features: int
    n_components: int | None
    n_labels: int
    kernel: str
    settings: dict[str, Any]
    state_sha256: str
    label_epsilon: str
    split: str
    assumptions: tuple[str, ...]


EstimatorReceipt = Receipt[EstimatorClaims]


def claim_estimator(
    estimator: ReleasableClassifier,
    settings: dict[str, Any],
    schema: Schema,
    *,
    method: str,
    target: str,
    kernel: str,
    n_rows: int,
    n_components: int | None,
    state_sha256: str,
) -> tuple[EstimatorClaims, NoiseSection]:
    """The one set of claims that a release by an estimator can make, and its noise.

    Parameters
    ----------
    settings
        The estimator's, as JSON.
    n_components
        What the fit kept; None for a method without components.

    Raises
    ------
    SettingError, RangeError, DataError
        Nobody could have asked for it.
    """
    n_labels, n_features = describe_target(schema, target)
    promised = estimator.planned_guarantee(
        n_rows=n_rows, n_features=n_features, n_components=n_components
    )
    labels = settings.get("label_epsilon")
    label_epsilon = None if labels is None else parse_epsilon(labels)
    person = promised.max_rows_per_person
    claims = EstimatorClaims(
        method=method,
        ground=promised.source,
        target=target,
        n_features=n_features,
        n_components=n_components,
        n_labels=n_labels,
        kernel=kernel,
        settings=settings,
        state_sha256=state_sha256,
        label_epsilon="" if label_epsilon is None else decimal_text(label_epsilon),
        split=promised.split,
        assumptions=(
            f"no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        ),
    )
    return claims, NoiseSection.from_calibrations(*promised.noise, label_epsilon=label_epsilon)


def check_estimator(state: Mapping[str, Any], metadata: Mapping[str, Any]) -> EstimatorReceipt:
    """Check a released estimator's receipt.

    Raises
    ------
    AlteredError
        The state is not the one that the receipt names.
    ReceiptError
        It claims what does not follow from its settings; names the fields.
    KeyError, TypeError, ValueError, DppcaError
        It lacks a field that every receipt has, or holds settings that nobody could ask for.
    """
    stated = read_receipt(metadata["receipt"], EstimatorClaims)
    claims = stated.claims
    schema = Schema.from_document(metadata["schema"], stored=True)
    if schema.digest != stated.schema_digest:
        raise AlteredError("the schema in the model does not have the digest in its receipt")
    if state_digest(state) != claims.state_sha256:
        raise AlteredError("array state: what was learned is not what the receipt names")
    kind = _METHODS.get(claims.method)
    if kind is None:
        raise ReceiptError(f"this version cannot compute the noise of method {claims.method} again")
    n_labels, _ = describe_target(schema, claims.target)
    settings: dict[str, Any] = {
        **claims.settings,
        "classes": list(range(n_labels)),
        "max_rows_per_person": schema.max_rows_per_person,
        "variant": "sound",
    }
    if "row_norm" in settings:
        settings["row_norm"] = schema.largest_norm(without=claims.target)
    expected, noise = claim_estimator(
        kind(**{**settings, "classes": tuple(range(n_labels))}),
        settings,
        schema,
        method=claims.method,
        target=claims.target,
        kernel=claims.kernel,
        n_rows=stated.n_rows,
        n_components=len(state["components_"]) if "components_" in state else None,
        state_sha256=claims.state_sha256,
    )
    # Versions may mend the wording for people.
    expected = replace(expected, ground=claims.ground, split=claims.split)
    receipt = replace(stated, claims=expected, noise=noise, label=Label.RELEASED.value)
    require_equal(receipt.document(), metadata["receipt"], what="the receipt of the model")
    return receipt


def describe_target(schema: Schema, name: str) -> tuple[int, int]:
    """How many labels a target has, and how many coded columns the other attributes.

    Raises
    ------
    ReceiptError
        It has no labels.
    """
    index = schema.find_index(name)
    target = schema.attributes[index]
    if not isinstance(target, Binary | Categorical):
        raise ReceiptError(f"the receipt's target {name} has no labels")
    own_columns = len(range(*schema.layout.groups[index]))
    return len(target.labels), schema.layout.n_columns - own_columns


def state_digest(state: Mapping[str, Any]) -> str:
    """SHA-256 of a state: of every number in it, in the order of the names."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype.str}{value.shape}".encode())
            digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, list | tuple):
            digest.update(f"[{len(value)}".encode())
            for each in value:
                add(each)
        elif isinstance(value, Pipeline | StandardScaler | LinearSVC | SVC):
            digest.update(type(value).__name__.encode())
            for name in sorted(vars(value)):
                digest.update(name.encode())
                add(vars(value)[name])
        else:
            digest.update(f"{value!s};".encode())

    for name in sorted(state):
        digest.update(name.encode())
        add(state[name])
    return digest.hexdigest()
