"""A classifier that may leave: what is asked for, what it costs, and the release itself.

Output perturbation of a linear support vector machine (`common.methods.weights`, which holds the
sensitivity and its proof) on the site's rows in the joint components:

* Every row takes part. A target that is missing or unknown is coded by the schema's public rule,
  as it was in the contribution, so the number of rows is the one that is public, and no row can
  make the release happen or not.
* A row is coded, centred by the released mean, projected on the components of the columns other
  than the target's, and brought into the ball of radius R. ``R = sqrt(Q/4 + c)`` for Q numeric and
  binary and c categorical attributes other than the target, the largest norm of their coded rows;
  1 for unit-ball rows. R is public, and the map of one row depends on that row alone.
* A constant column a = 1 makes the intercept, regularised like the others. Replacing one row moves
  the exact weights by at most ``2 C sqrt(R^2 + a^2)``; `max_rows_per_person` of them that often.
* A target with K > 2 labels takes K machines, one label against the rest, in one release: each gets
  1/K of epsilon or of rho. All labels of the schema have one, whether they occur or not.

The components were charged when they were made; the weights are charged on top of them.

Limits: rows in memory, n (k + 1) floats. The solver certifies how near it came to the minimum;
where float64 cannot (a C far too large), the command fails *before* anything is charged, and that
it failed is for the steward's eyes. The rows are the site's to vouch for, as in a contribution.

Source: Chaudhuri, Monteleoni and Sarwate (2011), algorithm 1; `common.methods.weights`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from common.errors import ArtefactError, SchemaMismatchError, SettingError
from common.methods.dpsvm import split_over
from common.methods.settings import above_zero, delta_of, epsilon_of
from common.methods.table import signs_of
from common.methods.weights import WeightPlan, plan_weights, weights_on_grid
from common.privacy.accounting import Budget
from common.privacy.entropy import EntropySource
from common.privacy.mechanisms import add_noise
from common.privacy.release import SOFTWARE, noise_claims
from common.results import Result
from common.schema import Categorical, Column, Schema
from common.schema.document import canonical_json
from common.study import Study, decimal_text
from owner.ledger.entries import Reservation, Wanted
from owner.models import FeatureSpace
from owner.records import Table
from owner.released_models import (
    METHOD,
    ModelReceipt,
    ReleasedModel,
    bounded_features,
    released_bytes,
    weights_digest,
)
from owner.releasing import FileRelease
from owner.training import feature_space, read_rows, require_rows, target_of

INTERCEPT_SCALING = 1.0
SOLVER_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """All that a model is asked for with: the same request is charged, and drawn, once.

    Attributes
    ----------
    data_set
        Its name in the policy.
    delta
        For Gaussian noise; None for Laplace noise and pure epsilon.
    """

    study: Study
    data_set: str
    target: str
    epsilon: Decimal
    delta: Decimal | None
    C: float

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of the request's one form; never that of a study."""
        document = {
            "kind": "model",
            "version": 1,
            "method": METHOD,
            "study_digest": self.study.digest,
            "data_set": self.data_set,
            "target": self.target,
            "epsilon": decimal_text(self.epsilon),
            "delta": None if self.delta is None else decimal_text(self.delta),
            "C": self.C,
            "intercept_scaling": INTERCEPT_SCALING,
            "solver_tolerance": SOLVER_TOLERANCE,
        }
        return hashlib.sha256(canonical_json(document)).hexdigest()

    @property
    def title(self) -> str:
        """What the model is called in the ledger and in messages."""
        return f"{METHOD} for {self.target}"


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """A request together with what is public of the release: everything but the rows.

    Attributes
    ----------
    components_sha256, components_epsilon, components_delta
        Of the components that rows are projected on.
    row_norm
        R.
    components_receipt
        Of the components, countersigned; None where they carry none.
    weights
        Noise and charge.
    """

    request: ModelRequest
    n_rows: int
    space: FeatureSpace
    components_sha256: str
    components_epsilon: str
    components_delta: str
    assumptions: tuple[str, ...]
    row_norm: float
    weights: WeightPlan
    components_receipt: bytes | None = None

    @property
    def split(self) -> str:
        """How epsilon is divided; empty for one machine."""
        return split_over(self.weights.n_machines)


def request_model(
    study: Study, *, data_set: str, target: str, epsilon: object, delta: object, C: float
) -> ModelRequest:
    """Check what was asked for.

    Parameters
    ----------
    epsilon, delta
        Numbers or text; ``delta`` None for Laplace noise.

    Raises
    ------
    SettingError
        Something is missing or out of range.
    """
    target_of(study.table, target)
    return ModelRequest(
        study=study,
        data_set=data_set,
        target=target,
        epsilon=epsilon_of(epsilon),
        delta=None if delta is None else delta_of(delta),
        C=above_zero("C", C),
    )


def plan_model(
    request: ModelRequest, result: Result, *, n_rows: int, components_sha256: str
) -> ModelPlan:
    """What the release would be, from public numbers.

    Raises
    ------
    SettingError, RangeError
        As `owner.training.feature_space` and `common.methods.weights.plan_weights`.
    DataError
        There are fewer rows than components.
    ArtefactError
        The components are not finite.
    """
    schema = request.study.table
    space = feature_space(result, request.study, request.target)
    if not (np.isfinite(space.mean).all() and np.isfinite(space.components).all()):
        message = "the components kept here are not finite: fetch them again with `components`"
        raise ArtefactError(message)
    require_rows(n_rows, len(space.components), "components")
    n_labels = len(target_of(schema, request.target).labels)
    row_norm = largest_norm(schema, request.target)
    weights = plan_weights(
        len(space.components) + 1,
        n_machines=1 if n_labels == 2 else n_labels,
        n_rows=n_rows,
        C=request.C,
        radius=math.hypot(row_norm, INTERCEPT_SCALING),
        epsilon=request.epsilon,
        delta=request.delta,
        max_rows_per_person=schema.max_rows_per_person,
        solver_tolerance=SOLVER_TOLERANCE,
    )
    return ModelPlan(
        request=request,
        n_rows=n_rows,
        space=space,
        components_sha256=components_sha256,
        components_epsilon=result.header.epsilon,
        components_delta=result.header.delta,
        assumptions=result.header.assumptions,
        row_norm=row_norm,
        weights=weights,
        components_receipt=result.receipt,
    )


def largest_norm(schema: Schema, target: str) -> float:
    """R: no coded row is longer in the columns other than the target's."""
    if schema.row_norm is not None:
        return 1.0
    squares = (
        1.0 if isinstance(attribute, Categorical) else 0.25
        for attribute in schema.attributes
        if attribute.name != target
    )
    return math.sqrt(sum(squares))


def wanted_for_model(plan: ModelPlan, *, budget: Budget) -> Wanted:
    """The charge that a model asks for."""
    request, noise = plan.request, plan.weights.calibration
    return Wanted(
        data_set=request.data_set,
        study=request.study.name,
        study_digest=request.digest,
        mechanism=noise.mechanism.value,
        charge=noise.charge,
        epsilon=noise.epsilon,
        delta=noise.delta,
        budget=budget,
        model=request.title,
    )


def exact_weights(
    plan: ModelPlan, table: Table, *, progress: Callable[[int], None] | None = None
) -> NDArray[np.int64]:
    """Train on all rows of a table, whatever they hold; shape (K D,), in steps of the grid.

    *Not* private: for `draw_model` only, which puts the noise on.

    Raises
    ------
    SchemaMismatchError
        The table was opened with another schema than the study's, or has other rows than planned.
    DataError
        The file is damaged.
    SettingError
        The solver cannot certify what the noise is calibrated for.
    """
    schema, target = plan.request.study.table, plan.request.target
    if table.schema.digest != schema.digest or table.n_rows != plan.n_rows:
        message = "the table is not the one that the release was planned for"
        raise SchemaMismatchError(message)
    attribute = target_of(schema, target)

    def features_of_batch(columns: list[Column]) -> NDArray[np.float64]:
        return bounded_features(
            plan.space.project(schema, columns),
            row_norm=plan.row_norm,
            intercept_scaling=INTERCEPT_SCALING,
        )

    features, codes = read_rows(table, target, features_of_batch, progress=progress)
    codes = np.where(codes < 0, attribute.missing_code, codes)
    return weights_on_grid(features, signs_of(codes, len(attribute.labels)), plan.weights)


def draw_model(
    plan: ModelPlan,
    exact: NDArray[np.int64],
    reservation: Reservation,
    *,
    entropy: EntropySource,
) -> FileRelease[ModelReceipt]:
    """Draw the noise of a model: once, after its charge has been reserved.

    Parameters
    ----------
    exact
        `weights_on_grid` of the site's rows; private until the noise is on them.
    entropy
        `OperatingSystemEntropy`; anything else is for tests.
    """
    request, weights = plan.request, plan.weights
    if reservation.wanted.study_digest != request.digest:
        message = "the reservation is of another release; nothing was drawn"
        raise SettingError(message)
    if exact.shape != (weights.n_machines * weights.D,):
        message = f"weights of {exact.size} entries for {weights.n_machines} x {weights.D}"
        raise SettingError(message)
    noised = add_noise(exact, weights.calibration, entropy=entropy)
    noised = noised.reshape(weights.n_machines, weights.D)
    receipt = _receipt(plan, reservation, weights_digest(noised))
    model = ReleasedModel(
        request.study.table,
        request.target,
        plan.space,
        noised,
        receipt,
        components_receipt=plan.components_receipt,
    )
    return FileRelease(
        digest=request.digest,
        release_id=reservation.release_id,
        n_rows=plan.n_rows,
        receipt=receipt,
        content=released_bytes(model),
    )


def _receipt(plan: ModelPlan, reservation: Reservation, weights_sha256: str) -> ModelReceipt:
    request, weights, noise = plan.request, plan.weights, plan.weights.calibration
    return ModelReceipt(
        study_digest=request.study.digest,
        schema_digest=request.study.table.digest,
        release_id=reservation.release_id.hex(),
        target=request.target,
        n_rows=plan.n_rows,
        n_components=weights.D - 1,
        n_machines=weights.n_machines,
        components_sha256=plan.components_sha256,
        components_epsilon=plan.components_epsilon,
        components_delta=plan.components_delta,
        weights_sha256=weights_sha256,
        C=request.C,
        row_norm=plan.row_norm,
        intercept_scaling=INTERCEPT_SCALING,
        solver_tolerance=SOLVER_TOLERANCE,
        step=weights.step,
        sensitivity=weights.sensitivity,
        resolution_bits=noise.sensitivity.resolution_bits,
        **noise_claims(noise),
        split=plan.split,
        assumptions=plan.assumptions,
        ledger_sequence=reservation.sequence,
        software=SOFTWARE,
    )
