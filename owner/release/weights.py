"""A released classifier: its request, its cost, and its noise.

Output perturbation of a linear support vector machine
(`dppca.common.analysis.estimators.base.weight_noise`, which holds the sensitivity and its proof) on
the site's rows in the joint components:

* Every row takes part. A target that is missing or unknown is coded by the schema's public rule,
  as it was in the contribution, so the number of rows is the public one, and no row can decide
  whether the release happens.
* A row is coded, centred by the released mean, projected on the components of the columns other
  than the target's, and brought into the ball of radius R. ``R = sqrt(Q/4 + c)`` for Q numeric and
  binary and c categorical attributes other than the target, the largest norm of their coded rows;
  1 for unit-ball rows. R is public, and the map of one row depends on that row alone, to the last
  bit: the projection is an exact integer product, and each later step is one operation on the row's
  own numbers at a time (`dppca.common.kernel.moments.rowwise`). The proof takes all other rows to
  be equal.
* A constant column a = 1 makes the intercept, regularised like the others. Replacing one row moves
  the exact weights by at most ``2 C sqrt(R^2 + a^2)``; replacing `max_rows_per_person` rows moves
  them by at most that many times as much. With ``unit: person`` the hinges of a person with k rows
  weigh 1/k, and a replaced person moves the weights as a replaced row does, whatever k is.
* A target with K > 2 labels takes K machines, one label against the rest, in one release: each gets
  1/K of epsilon or of rho. All labels of the schema have one, even if no row has the label.

The components were charged when they were made; the weights are charged on top of them.

Limits: rows in memory, n (k + 1) floats, also while the steward is asked. The solver certifies its
distance from the minimum; if float64 cannot reach it (a C far too large), the command fails
*before* anything is charged, and only the steward may see that it failed. The site vouches for the
rows, as in a contribution.

Source: Chaudhuri, Monteleoni and Sarwate (2011), algorithm 1;
`dppca.common.analysis.estimators.base.weight_noise`.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.inputs import make_signs
from dppca.common.analysis.estimators.base.settings import (
    check_positive,
    parse_delta,
    parse_epsilon,
)
from dppca.common.analysis.estimators.base.weight_noise import WeightPlan, weights_on_grid
from dppca.common.analysis.estimators.dpsvm import append_constant
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import ArtefactError, DataError, SchemaMismatchError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.receipts import SOFTWARE, NoiseSection, Receipt
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study
from dppca.common.verification.weights import (
    METHOD,
    WeightReceipt,
    WeightTerms,
    claim_weights,
    plan_study_weights,
    weights_digest,
)
from dppca.owner.ledger.entries import ReleaseKind, ReleaseRequest, Reservation
from dppca.owner.ledger.populations import Account
from dppca.owner.models.catalogue import LINEAR
from dppca.owner.models.estimators import StoredDPSVM
from dppca.owner.models.features import FeatureSpace, find_target
from dppca.owner.models.model import Model, pack_model
from dppca.owner.models.training import TrainingRows, feature_space, read_rows, require_rows
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.table import Table, require_counted


@dataclass(frozen=True, slots=True)
class WeightRequest:
    """All settings of a requested model: the same request is charged, and drawn, once.

    ``data_set`` is its name in the policy.
    """

    study: Study
    data_set: str
    terms: WeightTerms

    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal, of the request in canonical form; never a study's digest."""
        terms = self.terms
        document = {
            "kind": "model",
            "version": 1,
            "study_digest": self.study.digest,
            "data_set": self.data_set,
            "method": METHOD,
            "target": terms.target,
            "epsilon": decimal_text(terms.epsilon),
            "delta": None if terms.delta is None else decimal_text(terms.delta),
            "C": terms.C,
            "intercept_scaling": terms.intercept_scaling,
            "solver_tolerance": terms.solver_tolerance,
        }
        usual = choose_law(None, terms.delta).name
        if terms.mechanism not in (None, usual):  # so that older requests keep their digests
            document["mechanism"] = terms.mechanism
        return hashlib.sha256(canonical_json(document)).hexdigest()


@dataclass(frozen=True, slots=True)
class NoisedModel:
    """A model with its noise, as the ledger stores it: a `NoisedRelease`.

    ``digest`` is its request's, ``content`` the archive.
    """

    digest: str
    release_id: bytes
    n_rows: int
    receipt: WeightReceipt
    content: bytes

    def payload(self) -> bytes:
        """Bytes of the archive."""
        return self.content


@dataclass(frozen=True, slots=True)
class WeightRelease:
    """A request together with all public facts of the release: everything but the rows.

    Rows are projected on the components of ``result``, whose file has the digest
    ``components_sha256``. ``row_norm`` is R; ``weights`` are noise and charge; ``owner`` is
    the site's name, which its model states. ``n_rows`` is that of people where they weigh as one
    row, and that of their rows until they were counted.
    """

    model_request: WeightRequest
    n_rows: int
    space: FeatureSpace
    result: Result
    components_sha256: str
    row_norm: float
    weights: WeightPlan
    owner: str | None = None

    def request(self, *, account: Account, command: str) -> ReleaseRequest:
        """Charge of the release; ``command`` is the one that makes the model."""
        return ReleaseRequest.from_calibration(
            ReleaseKind.MODEL,
            self.weights.calibration,
            account=account,
            study=self.model_request.study.name,
            request_digest=self.model_request.digest,
            name=f"{METHOD} for {self.model_request.terms.target}",
            command=command,
        )

    def read(
        self,
        table: Table,
        *,
        tally: FaultCounts | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> TrainingRows:
        """Read all rows of a table, once; they are private.

        ``tally`` and ``progress`` are as in `read_rows`. Raise `SchemaMismatchError` if the table
        has another schema than the study's, `DataError` if it has another number of rows than
        planned or is damaged, `SettingError` if a study protects people and nobody counted their
        rows.
        """
        schema, terms = self.model_request.study.table, self.model_request.terms
        if table.schema.digest != schema.digest:
            raise SchemaMismatchError("the table is not the one that the release was planned for")
        if table.n_rows != self.n_rows:
            raise DataError(
                f"{table.title} had {self.n_rows} rows when it was opened and {table.n_rows} when "
                "it was read: do not write to it meanwhile"
            )

        def features_of_batch(columns: list[Column]) -> NDArray[np.float64]:
            return append_constant(self.space.project(schema, columns), terms.intercept_scaling)

        require_counted(table)
        return read_rows(table, terms.target, features_of_batch, tally=tally, progress=progress)

    def of_people(self, n_people: int) -> Self:
        """Return the plan of a number of people; `DataError` if it is below that of components."""
        require_rows(n_people, len(self.space.components))
        study, terms = self.model_request.study, self.model_request.terms
        k = len(self.space.components)
        weights = plan_study_weights(study, terms, n_rows=n_people, n_components=k)
        return replace(self, n_rows=n_people, weights=weights)

    def prepare(self, rows: TrainingRows) -> NDArray[np.int64]:
        """Train on all rows; shape (K D,), in steps of the grid.

        *Not* private: for `draw` only, which adds the noise. Raise `SettingError` if the solver
        cannot certify the accuracy that the noise is calibrated for.
        """
        target = find_target(self.model_request.study.table, self.model_request.terms.target)
        codes = np.where(rows.codes < 0, target.missing_code, rows.codes)  # missing or unknown
        signs = make_signs(codes, len(target.labels))
        ks = rows.rows_of_person
        return weights_on_grid(rows.features, signs, self.weights, rows_of_person=ks)

    def draw(
        self, prepared: NDArray[np.int64], reservation: Reservation, *, entropy: EntropySource
    ) -> NoisedModel:
        """Add the noise, and return the model (`dppca.owner.ledger.path.ReleasePlan.draw`)."""
        model_request, weights, header = self.model_request, self.weights, self.result.header
        if reservation.request.request_digest != model_request.digest:
            raise SettingError("the reservation is of another release; nothing was drawn")
        if prepared.shape != (weights.n_machines * weights.D,):
            raise SettingError(
                f"weights of {prepared.size} entries for {weights.n_machines} x {weights.D}"
            )
        noised = add_noise(prepared, weights.calibration, entropy=entropy)
        noised = noised.reshape(weights.n_machines, weights.D)

        claims = claim_weights(
            model_request.study,
            model_request.terms,
            weights,
            components_sha256=self.components_sha256,
            components_epsilon=header.epsilon,
            components_delta=header.delta,
            assumptions=header.assumptions,
            weights_sha256=weights_digest(noised),
        )
        receipt = Receipt(
            study_digest=model_request.study.digest,
            schema_digest=model_request.study.table.digest,
            release_id=reservation.release_id.hex(),
            n_rows=self.n_rows,
            claims=claims,
            noise=NoiseSection.from_calibration(weights.calibration),
            ledger_sequence=reservation.sequence,
            software=SOFTWARE,
        )
        model = Model(
            study_digest=model_request.study.digest,
            schema=model_request.study.table,
            target=model_request.terms.target,
            method=METHOD,
            kernel=LINEAR,
            estimator=self._store(noised),
            label=Label.RELEASED,
            space=self.space,
            receipt=receipt,
            owner=self.owner,
        )
        return NoisedModel(
            model_request.digest, reservation.release_id, self.n_rows, receipt, pack_model(model)
        )

    def _store(self, noised: NDArray[np.int64]) -> StoredDPSVM:
        study, terms = self.model_request.study, self.model_request.terms
        estimator = StoredDPSVM(
            epsilon=decimal_text(terms.epsilon),
            delta=None if terms.delta is None else decimal_text(terms.delta),
            max_rows_per_person=study.table.max_rows_per_person,
            C=terms.C,
            row_norm=self.row_norm,
            intercept_scaling=terms.intercept_scaling,
            solver_tolerance=terms.solver_tolerance,
        )
        estimator.classes_ = np.arange(len(find_target(study.table, terms.target).labels))
        estimator.noised_ = noised
        return estimator


def request_weights(
    study: Study,
    *,
    data_set: str,
    target: str,
    epsilon: object,
    delta: object,
    C: float,
    mechanism: str | None = None,
) -> WeightRequest:
    """Check the settings of a requested model.

    ``epsilon`` and ``delta`` are numbers or text; ``delta`` is None for Laplace noise, unless
    ``mechanism`` names another law. Raise `SettingError` if a setting is missing or out of range.
    """
    find_target(study.table, target)
    if study.has_secret_rows:
        raise SettingError(
            f"study {study.name} keeps the number of rows secret, and a released model states it: "
            "train on synthetic rows, or keep the model at this site"
        )
    terms = WeightTerms(
        target=target,
        epsilon=parse_epsilon(epsilon),
        delta=None if delta is None else parse_delta(delta),
        C=check_positive("C", C),
        mechanism=mechanism,
    )
    choose_law(mechanism, terms.delta, joint=False)
    return WeightRequest(study, data_set, terms)


def plan_release(
    model_request: WeightRequest,
    result: Result,
    *,
    n_rows: int,
    components_sha256: str,
    owner: str | None = None,
) -> WeightRelease:
    """Plan the release from public numbers.

    Raise `SettingError` or `RangeError` as `dppca.owner.models.training.feature_space` and
    `dppca.common.analysis.estimators.base.weight_noise.plan_weights` do, `DataError` if there are
    fewer rows than components, `ArtefactError` if the components are not finite.
    """
    study, terms = model_request.study, model_request.terms
    row_norm = study.table.largest_norm(without=terms.target)
    space = replace(feature_space(result, study, terms.target), row_norm=row_norm)
    if not (np.isfinite(space.mean).all() and np.isfinite(space.components).all()):
        raise ArtefactError(
            "the components kept here are not finite: fetch them again with `components`"
        )
    k = len(space.components)
    require_rows(n_rows, k)
    return WeightRelease(
        model_request=model_request,
        n_rows=n_rows,
        space=space,
        result=result,
        components_sha256=components_sha256,
        row_norm=row_norm,
        weights=plan_study_weights(study, terms, n_rows=n_rows, n_components=k),
        owner=owner,
    )
