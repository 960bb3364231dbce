"""A model that may leave, by an estimator of `common.methods`: its request, price and release.

Three methods take this way: PCA-DPSVM, PrivateSVM, and DPSVD with noised labels. What is private
about each, and why, is in its module and in its ``guarantee_``. As in `owner.model_release`:

* every row takes part; a target that is missing or unknown is coded by the schema's public rule,
  and all labels of the schema are classes whether they occur or not, so no row, and no target of a
  single label, can make the release happen or not;
* the same request is charged, and drawn, once; the price follows from public numbers;
* rows are read, and whatever can refuse does so, before the charge (`common.methods.releasing`).

Limits: rows in memory, n times the coded columns. PCA-DPSVM trains on its own noised components,
so after the charge; what float64 might be unable to certify is refused before, from public numbers.
Were its solver to fail all the same, the charge would stand, nothing would be stored, and the same
command would draw again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from common.errors import LedgerError, SchemaMismatchError, SettingError
from common.methods.guarantee import Guarantee
from common.methods.releasing import Releasing
from common.methods.settings import delta_of, epsilon_of
from common.privacy.accounting import Budget, Charge
from common.privacy.mechanisms import Mechanism
from common.privacy.release import SOFTWARE
from common.proof.estimators import law_document, state_digest
from common.schema.document import canonical_json
from common.study import Study, decimal_text
from owner.estimator_models import (
    EstimatorModel,
    EstimatorReceipt,
    components_of,
    estimator_bytes,
    guarantee_document,
    state_of,
)
from owner.estimators import estimator_for, features_reader, settings_of
from owner.ledger.entries import Reservation, Wanted
from owner.methods import RBF, Asked, Choice
from owner.models import features_of
from owner.records import Table
from owner.releasing import FileRelease
from owner.training import MAX_RBF_ROWS, read_rows, require_features, target_of


@dataclass(frozen=True, slots=True)
class EstimatorRequest:
    """All that a model is asked for with; ``estimator`` is unfitted and holds the settings."""

    study: Study
    data_set: str
    target: str
    method: str
    kernel: str
    estimator: Releasing

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of the request's one form; never that of a study."""
        document = {
            "kind": "model",
            "version": 1,
            "method": self.method,
            "study_digest": self.study.digest,
            "data_set": self.data_set,
            "target": self.target,
            "settings": settings_of(self.estimator),
        }
        return hashlib.sha256(canonical_json(document)).hexdigest()

    @property
    def title(self) -> str:
        """What the model is called in the ledger and in messages."""
        return f"{self.method} for {self.target}"


@dataclass(frozen=True, slots=True)
class EstimatorPlan:
    """A request together with what is public of the release: everything but the rows."""

    request: EstimatorRequest
    n_rows: int
    n_features: int
    charge: Charge
    epsilon: Decimal
    delta: Decimal
    mechanism: str


def request_estimator(
    choice: Choice, asked: Asked, study: Study, *, data_set: str, target: str
) -> EstimatorRequest:
    """Check what was asked for; `SettingError` where something is missing or out of range."""
    target_of(study.table, target)
    estimator = estimator_for(choice, asked, study.table, target)
    if not isinstance(estimator, Releasing):
        message = f"{choice.method.name} makes no model that may leave"
        raise SettingError(message)
    estimator._check_settings()  # before a digest is made of them
    return EstimatorRequest(study, data_set, target, choice.method.name, choice.kernel, estimator)


def plan_estimator(request: EstimatorRequest, *, n_rows: int) -> EstimatorPlan:
    """What the release would be, from public numbers.

    Raises
    ------
    SettingError, RangeError, DataError
        As `Releasing.planned_charge`; or a machine that would hold a file's worth of rows.
    """
    schema, settings = request.study.table, request.estimator.get_params(deep=False)
    n_features = len(require_features(features_of(schema, request.target), request.target))
    if request.method == "dpsvd" and request.kernel == RBF and n_rows > MAX_RBF_ROWS:
        message = (
            f"there are {n_rows} rows, and an rbf machine on noised rows holds nearly all of them "
            f"and takes time with their square: at most {MAX_RBF_ROWS}; use --kernel linear"
        )
        raise SettingError(message)
    charge = request.estimator.planned_charge(n_rows=n_rows, n_features=n_features)
    epsilon = epsilon_of(settings["epsilon"])
    labels = settings.get("label_epsilon")
    law = Mechanism.LAPLACE if settings["delta"] is None else Mechanism.GAUSSIAN
    return EstimatorPlan(
        request=request,
        n_rows=n_rows,
        n_features=n_features,
        charge=charge,
        epsilon=epsilon if labels is None else epsilon + epsilon_of(labels),
        delta=Decimal(0) if settings["delta"] is None else delta_of(settings["delta"]),
        mechanism=law.value + ("" if labels is None else " and randomised response"),
    )


def wanted_for_estimator(plan: EstimatorPlan, *, budget: Budget) -> Wanted:
    """The charge that a model asks for."""
    request = plan.request
    return Wanted(
        data_set=request.data_set,
        study=request.study.name,
        study_digest=request.digest,
        mechanism=plan.mechanism,
        charge=plan.charge,
        epsilon=plan.epsilon,
        delta=plan.delta,
        budget=budget,
        model=request.title,
    )


def prepare_estimator(
    plan: EstimatorPlan, table: Table, *, progress: Callable[[int], None] | None = None
) -> Any:
    """Read all rows of a table, whatever they hold, and do all that can fail.

    *Not* private: for `draw_estimator` only.

    Raises
    ------
    SchemaMismatchError
        The table was opened with another schema than the study's, or has other rows than planned.
    DataError
        The file is damaged.
    SettingError
        The solver cannot certify what the noise is calibrated for.
    """
    request, schema = plan.request, plan.request.study.table
    if table.schema.digest != schema.digest or table.n_rows != plan.n_rows:
        message = "the table is not the one that the release was planned for"
        raise SchemaMismatchError(message)
    attribute = target_of(schema, request.target)
    features, codes = read_rows(
        table, request.target, features_reader(schema, request.target), progress=progress
    )
    codes = np.where(codes < 0, attribute.missing_code, codes)
    return request.estimator.prepare(features, codes)


def draw_estimator(
    plan: EstimatorPlan, prepared: Any, reservation: Reservation
) -> FileRelease[EstimatorReceipt]:
    """Draw the noise of a model, by its estimator, after its charge has been reserved.

    Raises
    ------
    SettingError
        The reservation is of another release; nothing was drawn.
    LedgerError
        The model would cost, or promise, something else than was charged; it is not stored.
    """
    request = plan.request
    if reservation.wanted.study_digest != request.digest:
        message = "the reservation is of another release; nothing was drawn"
        raise SettingError(message)
    fitted = request.estimator.release(prepared)
    found: Guarantee = fitted.guarantee_
    claimed = (found.charge, found.epsilon, found.delta)
    if claimed != (plan.charge, plan.epsilon, plan.delta):
        message = "the model's guarantee is not the one that was charged; it is not stored"
        raise LedgerError(message)
    receipt = _receipt(plan, reservation, fitted)
    model = EstimatorModel(
        study_digest=request.study.digest,
        schema=request.study.table,
        target=request.target,
        method=request.method,
        kernel=request.kernel,
        estimator=fitted,
        label=found.label,
        guarantee=guarantee_document(found),
        fit=None,
        receipt=receipt,
    )
    return FileRelease(
        digest=request.digest,
        release_id=reservation.release_id,
        n_rows=plan.n_rows,
        receipt=receipt,
        content=estimator_bytes(model),
    )


def _receipt(plan: EstimatorPlan, reservation: Reservation, fitted: Releasing) -> EstimatorReceipt:
    request, found = plan.request, fitted.guarantee_
    labels = settings_of(fitted).get("label_epsilon")
    person = found.max_rows_per_person
    return EstimatorReceipt(
        study_digest=request.study.digest,
        schema_digest=request.study.table.digest,
        release_id=reservation.release_id.hex(),
        method=request.method,
        ground=found.source,
        target=request.target,
        n_rows=plan.n_rows,
        n_features=plan.n_features,
        n_components=components_of(fitted),
        n_labels=len(fitted.classes_),
        kernel=request.kernel,
        settings=settings_of(fitted),
        state_sha256=state_digest(state_of(request.method, fitted)),
        noise=tuple(law_document(each) for each in found.noise),
        label_epsilon="" if labels is None else decimal_text(epsilon_of(labels)),
        relation=found.relation.value,
        max_rows_per_person=person,
        epsilon=decimal_text(plan.epsilon),
        delta=decimal_text(plan.delta),
        charged_epsilon=decimal_text(plan.charge.epsilon),
        charged_rho=decimal_text(plan.charge.rho),
        split=found.split,
        assumptions=(
            f"no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        ),
        ledger_sequence=reservation.sequence,
        software=SOFTWARE,
        label=found.label.value,
    )
