"""A model that may leave (``dppca-owner train``) as a kind of release (`dppca.owner.release.run`).

DP-SVM on the study's components. A model that is stored already is written again unchanged: that
needs neither rows, consent nor curator.
"""

import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.identity.tls import load_credentials
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.study import Study
from dppca.common.verification.models import sign_model
from dppca.owner.client.calls import require_newest_ledger
from dppca.owner.commands.budget_totals import stored_charge
from dppca.owner.engines.addresses import LOCAL
from dppca.owner.ledger.chain import History, admit_charge
from dppca.owner.ledger.database import Ledger, StoredRelease
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.pins import find_consent_of, require_pinned
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.model import write_model
from dppca.owner.models.training import TrainingRows
from dppca.owner.records.faults import CheckReport
from dppca.owner.records.table import Table, open_table
from dppca.owner.release.contribution import BudgetStatus, choose_data_set, compute_budget_status
from dppca.owner.release.dialogue import Dialogue, Outline, outline_release
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.release.reading import Reader, Reading, request_of_rows
from dppca.owner.release.run import ReleaseRun
from dppca.owner.release.weights import WeightRelease, WeightRequest, plan_release, request_weights
from dppca.owner.render.models import ModelOffer, ReleasedModelDocument
from dppca.owner.site.config import Site
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import make_folder, model_path
from dppca.owner.site.policy import DataSet, Policy, load_policy


def release_model(
    site: Site,
    study: Study,
    resolved: ResolvedMethod,
    options: TrainOptions,
    dialogue: Dialogue,
) -> ReleasedModelDocument:
    """Make a model that may leave, or find it; return the command's JSON document."""
    started, history = time.perf_counter(), read_history(site.ledger)
    asked = ask_model(site, study, resolved, options, history, started=started)
    return ReleaseRun(site, dialogue).carry_out(asked, history=history)


def ask_model(
    site: Site,
    study: Study,
    resolved: ResolvedMethod,
    options: TrainOptions,
    history: History,
    *,
    started: float,
) -> "AskedModel":
    """Return the request, once everything is there that its file needs: what fails costs nothing.

    ``history`` is the ledger's, and ``started`` the time when the command began. Raise as
    `load_policy`, `choose_data_set`, `request_weights`, `make_folder` and `kept_result` do.
    """
    policy = load_policy(site)
    data_set = choose_data_set(study, history, policy, options.data_set_name)
    request = request_weights(
        study,
        data_set=data_set.name,
        target=options.target,
        epsilon=options.epsilon,
        delta=options.delta,
        C=resolved.C,
    )
    path = options.output or model_path(site, study.name, options.target, resolved.method.name)
    signer = make_signer(load_credentials(site))
    make_folder(path.parent)
    return AskedModel(
        site=site,
        request=request,
        command=options.command(data_set.name),
        kernel=resolved.kernel,
        policy=policy,
        data_set=data_set,
        components=kept_result(site, study),
        signer=signer,
        path=path,
        started=started,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model as it was asked for (`dppca.owner.release.run.AskedRelease`).

    Attributes
    ----------
    command
        The command, after ``dppca-owner``, that repeats the request.
    components
        The study's components, and the digest of their file.
    signer, path
        Who signs the model's file, and where it is written.
    started
        Time of `time.perf_counter` when the command began.
    """

    site: Site
    request: WeightRequest
    command: str
    kernel: str
    policy: Policy
    data_set: DataSet
    components: tuple[Result, bytes]
    signer: Signer
    path: Path
    started: float

    @property
    def digest(self) -> str:
        """See `AskedRelease`."""
        return self.request.digest

    def open(self, history: History) -> "OpenedModel":
        """See `AskedRelease`; the curator is asked only if the ledger was never compared."""
        site, study, data_set = self.site, self.request.study, self.data_set
        require_newest_ledger(site)
        require_pinned(history.approvals, study, site.name)
        table = open_table(data_set.source, study.table)
        result, digest = self.components
        release = plan_release(
            self.request,
            result,
            n_rows=table.n_rows,
            components_sha256=digest.hex(),
            owner=site.name,
        )
        request = release.request(account=data_set.account, command=self.command)
        request = request_of_rows(request, table, LOCAL)
        budget, step = compute_budget_status(history, request), decide_step(history, self.digest)
        return OpenedModel(site, history, data_set, table, release, request, budget, step)

    def deliver(
        self,
        ledger: Ledger,
        stored: StoredRelease,
        counted: CheckReport | None,
        *,
        seconds: Mapping[str, float],  # noqa: ARG002 - a file's document has the command's time
    ) -> ReleasedModelDocument:
        """Write the file (`AskedRelease`); the same bytes each time."""
        receipt, envelope = json.loads(stored.receipt), self.components[0].envelope
        checkpoint("write")
        history, by = ledger.history(), stored.reservation.consent
        consent = find_consent_of(history.approvals, self.request.study, self.site.name, by)
        model = sign_model(self.path.name, stored.payload, receipt, envelope, self.signer, consent)
        write_model(model, self.path)
        return ReleasedModelDocument(
            **stored_charge(lambda: self.policy, history, stored),
            label=Label(receipt["label"]),
            receipt=receipt,
            already_stored=counted is None,
            coded_by_rule=None if counted is None else counted.without_values(),
            target=receipt["target"],
            method=receipt["method"],
            counts=self.request.study.unit.counts,
            kernel=self.kernel,
            model=self.path,
            n_components=receipt["n_components"],
            split=receipt["split"],
            seconds=round(time.perf_counter() - self.started, 6),
        )


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """A model whose data set is open (`dppca.owner.release.run.OpenedRelease`).

    Attributes
    ----------
    budget, step
        Budget before and after the charge, and what the ledger says is next, when it was opened.
    """

    site: Site
    history: History
    data_set: DataSet
    table: Table
    release: WeightRelease
    request: ReleaseRequest
    budget: BudgetStatus
    step: NextStep

    @property
    def study(self) -> Study:
        """See `OpenedRelease`."""
        return self.release.model_request.study

    @property
    def outline(self) -> Outline:
        """See `OpenedRelease`."""
        weights = self.release.weights
        return outline_release(
            self.study,
            self.request,
            self.budget,
            self.step,
            look="look at `dppca-owner budget`",
            numbers=weights.n_machines * weights.D,
            n_rows=self.table.n_rows,
            is_live=self.table.source.is_live,
        )

    def require_possible(self, reading: Reading[TrainingRows] | None) -> None:
        """See `OpenedRelease`; afterwards by the ledger as it is then."""
        history = self.history if reading is None else read_history(self.site.ledger)
        admit_charge(history, self.request)

    def reader(self) -> AbstractContextManager[Reader[TrainingRows]]:
        """See `OpenedRelease`; this process reads."""
        return nullcontext(self.release.read)

    def offer(self, reading: Reading[TrainingRows]) -> ModelOffer:
        """See `OpenedRelease`."""
        rows, counted = reading.rows, reading.counted
        release = self.plan(reading)
        return ModelOffer(
            release, self.request, self.budget, self.step, self.outline, rows, counted
        )

    def keep_consent(self, offer: ModelOffer) -> None:
        """Keep nothing: a site keeps one consent for each study, its contribution's."""

    def prepare(self, reading: Reading[TrainingRows]) -> NDArray[np.int64]:
        """Train, which may take minutes."""
        return self.release.prepare(reading.rows)

    def plan(self, reading: Reading[TrainingRows]) -> WeightRelease:
        """See `OpenedRelease`; of people, once they were counted."""
        key = reading.counted.key
        if key is None or key.people is None:
            return self.release
        return self.release.of_people(key.people)
