"""Noised weights on a study's components: their noise and their receipt.

The owner and a verifier compute both from the same public numbers: the study, the terms of the
model (`WeightTerms`), and the numbers of rows and components.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from dppca.common.analysis.estimators.base.weight_noise import (
    WeightPlan,
    count_machines,
    plan_weights,
    split_over,
)
from dppca.common.kernel.errors import ReceiptError
from dppca.common.kernel.privacy.receipts import Claims, Receipt
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.common.kernel.schema import Binary, Categorical, Schema
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import Study

METHOD = "dp-svm"
INTERCEPT_SCALING = 1.0  # the constant column
SOLVER_TOLERANCE = 0.01  # tau, the certified gap, as a share of the sensitivity
_CONTAINER_BYTES = 1 << 22  # of an archive besides its arrays


@dataclass(frozen=True, slots=True)
class WeightTerms:
    """The public terms of a model.

    ``mechanism`` names the law of the noise; None is the usual one of its kind, Gaussian with a
    ``delta`` and Laplace without.
    """

    target: str
    epsilon: Decimal
    delta: Decimal | None
    C: float
    intercept_scaling: float = INTERCEPT_SCALING
    solver_tolerance: float = SOLVER_TOLERANCE
    mechanism: str | None = None


@dataclass(frozen=True, slots=True)
class WeightClaims(Claims):
    """Claims of the receipt of noised weights, besides its noise.

    ``step`` is one step of the grid in real units and ``sensitivity`` the L2 change of all weights
    in those. The noise section covers the weights alone; ``components_epsilon`` and
    ``components_delta`` are the federation's claims for the components, a separate earlier release.
    """

    target: str
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
    split: str
    assumptions: tuple[str, ...]
    method: str = METHOD


WeightReceipt = Receipt[WeightClaims]


def plan_study_weights(
    study: Study, terms: WeightTerms, *, n_rows: int, n_components: int
) -> WeightPlan:
    """Calibrate the noise of a model on a study's components; raise as `plan_weights`.

    ``n_rows`` is the number of people, where they weigh as one row.
    """
    target = study.table.attributes[study.table.find_index(terms.target)]
    assert isinstance(target, Binary | Categorical)  # noqa: S101 - callers check it
    row_norm = study.table.largest_norm(without=terms.target)
    plan = plan_weights(
        n_components + 1,
        n_machines=count_machines(len(target.labels)),
        n_rows=n_rows,
        C=terms.C,
        radius=math.hypot(row_norm, terms.intercept_scaling),
        epsilon=terms.epsilon,
        delta=terms.delta,
        max_rows_per_person=study.unit.factor,
        solver_tolerance=terms.solver_tolerance,
        mechanism=terms.mechanism,
    )
    if not isinstance(study.unit, Person):
        return plan
    noise = plan.calibration
    sens = replace(noise.sensitivity, relation=Relation.REPLACE_PERSON)
    return replace(plan, calibration=replace(noise, sensitivity=sens, unit=study.unit))


def claim_weights(
    study: Study,
    terms: WeightTerms,
    plan: WeightPlan,
    *,
    components_sha256: str,
    components_epsilon: str,
    components_delta: str,
    assumptions: tuple[str, ...],
    weights_sha256: str,
) -> WeightClaims:
    """Return the only possible claims of such a release."""
    return WeightClaims(
        target=terms.target,
        n_components=plan.D - 1,
        n_machines=plan.n_machines,
        components_sha256=components_sha256,
        components_epsilon=components_epsilon,
        components_delta=components_delta,
        weights_sha256=weights_sha256,
        C=terms.C,
        row_norm=study.table.largest_norm(without=terms.target),
        intercept_scaling=terms.intercept_scaling,
        solver_tolerance=terms.solver_tolerance,
        step=plan.step,
        sensitivity=plan.sensitivity,
        split=split_over(plan.n_machines),
        assumptions=assumptions,
    )


def describe_target(schema: Schema, name: str) -> tuple[int, int]:
    """Return the numbers of a target's labels and of the other attributes' coded columns.

    Raise `ReceiptError` if the target has no labels.
    """
    index = schema.find_index(name)
    target = schema.attributes[index]
    if not isinstance(target, Binary | Categorical):
        raise ReceiptError(f"the receipt's target {name} has no labels")
    own_columns = len(range(*schema.layout.groups[index]))
    return len(target.labels), schema.layout.n_columns - own_columns


def largest_model(study: Study) -> int:
    """Return the size in bytes that no model on a study's components exceeds.

    Numbers: the components and the mean, and the weights of each label; texts: the schema, and the
    receipt with its assumptions, each escaped twice.
    """
    schema = study.table
    p = schema.layout.n_columns
    labels = max(
        (len(each.labels) for each in schema.attributes if isinstance(each, Binary | Categorical)),
        default=0,
    )
    numbers = (p + 1) * p + (labels + 1) * (p + 1)
    return 8 * numbers + 32 * len(study.canonical_bytes()) + _CONTAINER_BYTES


def weights_digest(noised: Any) -> str:
    """SHA-256 of noised weights, row by row as little-endian int64."""
    return hashlib.sha256(np.asarray(noised).astype("<i8").tobytes()).hexdigest()
