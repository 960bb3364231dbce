"""A model that may leave, by an estimator of `dppca.common`: its request, price and release.

PCA-DPSVM and PrivateSVM take this way. What is private about each, and why, is in its module and in
its ``guarantee_``. As in
`dppca.owner.release.weights`:

* every row takes part; a target that is missing or unknown is coded by the schema's public rule,
  and all labels of the schema are classes whether they occur or not, so no row, and no target of a
  single label, can make the release happen or not;
* the same request is charged, and drawn, once; the price follows from public numbers;
* rows are read, and whatever can refuse does so, before the charge
(`dppca.common.estimators.base.releasable`).

Limits: rows in memory, n times the coded columns. PCA-DPSVM trains on its own noised components,
so after the charge; what float64 might be unable to certify is refused before, from public numbers.
Were its solver to fail all the same, the charge would stand, nothing would be stored, and the same
command would draw again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dppca.common.attestation.estimators import (
    EstimatorClaims,
    EstimatorReceipt,
    claim_estimator,
    state_digest,
)
from dppca.common.errors import LedgerError, SettingError
from dppca.common.estimators.base.guarantee import Guarantee
from dppca.common.estimators.base.releasable import ReleasableClassifier
from dppca.common.privacy.noise.entropy import EntropySource
from dppca.common.study import Study
from dppca.owner.ledger.entries import ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.estimators import OWN_METHODS, describe_settings, make_estimator
from dppca.owner.models.features import find_target, list_features, make_reader
from dppca.owner.models.model import (
    Model,
    count_components,
    describe_guarantee,
    pack_model,
)
from dppca.owner.models.training import read_rows, require_features
from dppca.owner.records import Table
from dppca.owner.release.path import (
    FileRelease,
    code_missing_targets,
    digest_request,
    make_file_release,
    require_planned,
    require_reserved,
)


@dataclass(frozen=True, slots=True)
class EstimatorRequest:
    """All that a model is asked for with; ``estimator`` is unfitted and holds the settings."""

    study: Study
    data_set: str
    target: str
    method: str
    kernel: str
    estimator: ReleasableClassifier

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of the request's one form; never that of a study."""
        return digest_request(
            "model",
            self.study,
            self.data_set,
            method=self.method,
            target=self.target,
            settings=describe_settings(self.estimator),
        )


@dataclass(frozen=True, slots=True)
class EstimatorRelease:
    """A request together with what is public of the release: everything but the rows."""

    model_request: EstimatorRequest
    n_rows: int
    guarantee: Guarantee

    def request(self, *, account: Account, command: str) -> ReleaseRequest:
        """As `dppca.owner.release.path.FilePlan.request`."""
        model_request, promised = self.model_request, self.guarantee
        if promised.charge is None or promised.epsilon is None or promised.delta is None:
            raise SettingError(f"{model_request.method} makes no model that may leave")
        return ReleaseRequest(
            kind=ReleaseKind.MODEL,
            account=account,
            study=model_request.study.name,
            request_digest=model_request.digest,
            mechanism=promised.noise[0].mechanism.value,
            charge=promised.charge,
            epsilon=promised.epsilon,
            delta=promised.delta,
            name=f"{model_request.method} for {model_request.target}",
            command=command,
        )

    def prepare(self, table: Table, *, progress: Callable[[int], None] | None = None) -> Any:
        """Read all rows of a table, whatever they hold, and do all that can fail.

        *Not* private: for `draw` only.

        Raises
        ------
        SchemaMismatchError
            The table was opened with another schema than the study's, or has other rows than
            planned.
        DataError
            The file is damaged.
        SettingError
            The solver cannot certify what the noise is calibrated for.
        """
        model_request, schema = self.model_request, self.model_request.study.table
        require_planned(table, schema, self.n_rows)
        reader = make_reader(schema, model_request.target)
        features, codes = read_rows(table, model_request.target, reader, progress=progress)
        codes = code_missing_targets(codes, find_target(schema, model_request.target))
        return model_request.estimator.prepare(features, codes)

    def draw(
        self,
        prepared: Any,
        reservation: Reservation,
        *,
        entropy: EntropySource,  # noqa: ARG002 - an estimator takes the operating system's itself
    ) -> FileRelease[EstimatorClaims]:
        """As `dppca.owner.release.path.ReleasePlan.draw`.

        Raises
        ------
        SettingError
            The reservation is of another release; nothing was drawn.
        LedgerError
            The model would cost, or promise, something else than was charged; it is not stored.
        """
        model_request, planned = self.model_request, self.guarantee
        require_reserved(reservation, model_request.digest)
        fitted = model_request.estimator.release(prepared)
        kept: Guarantee = fitted.guarantee_
        if (kept.charge, kept.epsilon, kept.delta) != (
            planned.charge,
            planned.epsilon,
            planned.delta,
        ):
            raise LedgerError(
                "the model's guarantee is not the one that was charged; it is not stored"
            )
        claims, noise = claim_estimator(
            fitted,
            describe_settings(fitted),
            model_request.study.table,
            method=model_request.method,
            target=model_request.target,
            kernel=model_request.kernel,
            n_rows=self.n_rows,
            n_components=count_components(fitted),
            state_sha256=state_digest(OWN_METHODS[model_request.method].take_state(fitted)),
        )

        def pack(receipt: EstimatorReceipt) -> bytes:
            model = Model(
                study_digest=model_request.study.digest,
                schema=model_request.study.table,
                target=model_request.target,
                method=model_request.method,
                kernel=model_request.kernel,
                estimator=fitted,
                label=kept.label,
                guarantee=describe_guarantee(kept),
                receipt=receipt,
            )
            return pack_model(model)

        return make_file_release(
            model_request.study,
            reservation,
            digest=model_request.digest,
            n_rows=self.n_rows,
            claims=claims,
            noise=noise,
            pack=pack,
        )


def request_estimator(
    resolved: ResolvedMethod, options: TrainOptions, study: Study, *, data_set: str, target: str
) -> EstimatorRequest:
    """Check what was asked for; `SettingError` where something is missing or out of range."""
    find_target(study.table, target)
    estimator = make_estimator(resolved, options, study.table, target)
    if not isinstance(estimator, ReleasableClassifier):
        raise SettingError(f"{resolved.method.name} makes no model that may leave")
    estimator.check_settings()  # before a digest is made of them
    return EstimatorRequest(
        study, data_set, target, resolved.method.name, resolved.kernel, estimator
    )


def plan_estimator(model_request: EstimatorRequest, *, n_rows: int) -> EstimatorRelease:
    """What the release would be, from public numbers.

    Raises
    ------
    SettingError, RangeError, DataError
        As `ReleasableClassifier.planned_guarantee`.
    """
    n_features = len(
        require_features(
            list_features(model_request.study.table, model_request.target), model_request.target
        )
    )
    promised = model_request.estimator.planned_guarantee(n_rows=n_rows, n_features=n_features)
    return EstimatorRelease(model_request, n_rows, promised)
