"""Models by estimators that may leave: what their receipt claims, computed anew.

Such a model is a release of its owner's rows of its own, beside no components: what it costs
follows from its settings, the number of rows, and the schema in the file.

Limits: of the study only its digest is in the file, so that the schema is the study's is the
owner's word; whose, the seal says.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from common.errors import AlteredError, ReceiptError
from common.methods import DPSVD, PCADPSVM, PrivateSVM
from common.methods.releasing import Releasing
from common.privacy.accounting import Charge
from common.privacy.mechanisms import Calibration
from common.privacy.release import SOURCES
from common.proof.claims import require_equal
from common.schema import Binary, Categorical, Schema
from common.study import decimal_text

KIND = "estimator"
_METHODS: dict[str, type[Releasing]] = {
    "pca-dpsvm": PCADPSVM,
    "private-svm": PrivateSVM,
    "dpsvd": DPSVD,
}


def check_estimator(archive: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    """Check a released estimator's receipt; the receipt.

    Raises
    ------
    AlteredError
        The state is not the one that the receipt names.
    ReceiptError
        It claims what does not follow from its settings; names the fields.
    KeyError, TypeError, ValueError, DppcaError
        It lacks what a receipt has, or holds settings that nobody could ask for.
    """
    receipt: dict[str, Any] = metadata["receipt"]
    schema = Schema.from_document(metadata["schema"])
    if schema.digest != receipt["schema_digest"]:
        message = "the schema in the model does not have the digest in its receipt"
        raise AlteredError(message)
    if state_digest(archive["state"]) != receipt["state_sha256"]:
        message = "array state: what was learned is not what the receipt names"
        raise AlteredError(message)
    kind = _METHODS.get(receipt["method"])
    if kind is None:
        message = f"this version cannot compute the noise of method {receipt['method']} anew"
        raise ReceiptError(message)
    follows = _claims(kind, receipt, schema, archive["state"])
    said = {key: receipt.get(key) for key in follows}
    require_equal(follows, said, what="the receipt of the model")
    return receipt


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


def law_document(noise: Calibration) -> dict[str, Any]:
    """One law of noise, as receipts have it."""
    return {
        "mechanism": noise.mechanism.value,
        "source": SOURCES[noise.mechanism],
        "resolution_bits": noise.sensitivity.resolution_bits,
        "l1": noise.sensitivity.l1,
        "l2_squared": noise.sensitivity.l2_squared,
        "scale": noise.scale,
        "sigma_squared": noise.sigma_squared,
        "epsilon": decimal_text(noise.epsilon),
        "delta": decimal_text(noise.delta),
        "charged_epsilon": decimal_text(noise.charge.epsilon),
        "charged_rho": decimal_text(noise.charge.rho),
    }


def largest_norm(schema: Schema, target: str) -> float:
    """No coded row is longer in the columns other than the target's."""
    if schema.row_norm is not None:
        return 1.0
    others = [a for a in schema.attributes if a.name != target]
    return math.sqrt(sum(1.0 if isinstance(a, Categorical) else 0.25 for a in others))


def _claims(
    kind: type[Releasing], receipt: dict[str, Any], schema: Schema, state: dict[str, Any]
) -> dict[str, Any]:
    index = schema.index_of(receipt["target"])
    target = schema.attributes[index]
    if not isinstance(target, Binary | Categorical):
        message = f"the receipt's target {receipt['target']} has no labels"
        raise ReceiptError(message)
    n_labels, n_rows = len(target.labels), receipt["n_rows"]
    d = schema.layout.n_columns - len(range(*schema.layout.groups[index]))
    public = {
        "classes": list(range(n_labels)),
        "max_rows_per_person": schema.max_rows_per_person,
        "variant": "sound",
    }
    if "row_norm" in receipt["settings"]:
        public["row_norm"] = largest_norm(schema, receipt["target"])
    settings = {**receipt["settings"], **public}
    estimator = kind(**{**settings, "classes": tuple(range(n_labels))})
    charge = estimator.planned_charge(n_rows=n_rows, n_features=d)
    k = len(state["components_"]) if "components_" in state else None
    laws = estimator._planned(n_rows, d, n_labels)
    if isinstance(estimator, PCADPSVM) and k is not None:
        machines = 1 if n_labels == 2 else n_labels
        weights = estimator._weight_plan(k + 1, n_machines=machines, n_rows=n_rows)
        laws = (laws[0], weights.calibration)
    beside: Charge = estimator._beside()
    return {
        "label": "released",
        "settings": settings,
        "n_features": d,
        "n_components": k,
        "n_labels": n_labels,
        "noise": [law_document(law) for law in laws],
        "relation": laws[0].sensitivity.relation.value,
        "max_rows_per_person": schema.max_rows_per_person,
        "epsilon": decimal_text(sum((law.epsilon for law in laws), start=beside.epsilon)),
        "delta": decimal_text(sum((law.delta for law in laws[1:]), start=laws[0].delta)),
        "charged_epsilon": decimal_text(charge.epsilon),
        "charged_rho": decimal_text(charge.rho),
    }
