"""Documents and texts of commands on models; every figure is in the JSON, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from dppca.common.analysis.estimators.base.weight_noise import split_over
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.schema.units import Person
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.records.faults import CheckReport
from dppca.owner.release.contribution import BudgetStatus
from dppca.owner.release.dialogue import Outline
from dppca.owner.release.next_step import NextStep
from dppca.owner.release.weights import WeightRelease
from dppca.owner.render.charges import standing_lines
from dppca.owner.render.contributions import StoredCharge, charged_text
from dppca.owner.render.faults import (
    alarm_lines,
    counts_line,
    counts_text,
    mapping_lines,
    with_counts,
)

if TYPE_CHECKING:
    from dppca.owner.models.training import Prediction, TrainingRows


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedDocument:
    """Model that stays at the site."""

    study: Annotated[str, "name of the study"]
    target: Annotated[str, "attribute that it predicts"]
    method: Annotated[str, "the method"]
    kernel: Annotated[str, "kernel of the SVM"]
    model: Annotated[Path, "the model's file"]
    label: Annotated[Label, "where the file may go"]
    rows: Annotated[int, "rows that it was trained on"]
    unlabelled: Annotated[int, "rows that were left out because their target is not known"]
    training_accuracy: Annotated[float, "share of those rows that it classifies correctly"]
    majority: Annotated[float | None, "share of those rows with the commonest label"]
    n_components: Annotated[int | None, "components that rows are projected on"]
    converged: Annotated[bool, "whether the solver converged"]
    charged_epsilon: Annotated[Literal["0"], "nothing is charged, for nothing leaves"] = "0"
    charged_rho: Annotated[Literal["0"], "nothing is charged"] = "0"
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]
    seconds: Annotated[float, "time that the command took"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedModelDocument(StoredCharge):
    """Model that may leave, with its entry in the ledger."""

    label: Annotated[Label, "where the file may go"]
    receipt: Annotated[Mapping[str, object], "the receipt that the file holds"]
    target: Annotated[str, "attribute that it predicts"]
    method: Annotated[str, "the method"]
    kernel: Annotated[str, "kernel of the SVM"]
    model: Annotated[Path, "the model's file"]
    counts: Annotated[str, "what `rows` counts: rows or people"]
    training_accuracy: Annotated[
        None, "not computed: it would say something of rows without noise"
    ] = None
    n_components: Annotated[int | None, "components; null for a method without any"]
    split: Annotated[str, "how epsilon is divided; empty if it is not"]
    seconds: Annotated[float, "time that the command took"]


def training_text(document: TrainedDocument) -> str:
    """Return fit and file of a model that stays."""
    lines = [
        f"Trained {document.method} ({document.kernel}) for {document.target} on "
        f"{many(document.rows, 'rows')}{_of_components(document.n_components)}",
        f"  right on {document.training_accuracy:.1%} of the rows it was trained on"
        + _beside(document.majority),
    ]
    if not document.converged:
        lines.append("  the solver stopped before it converged: try a smaller --C")
    lines.append(f"  saved (SITE-ONLY, it must not leave): {document.model}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """What a steward is asked before a model is made (`dppca.owner.release.dialogue.ReleaseOffer`).

    Attributes
    ----------
    budget, step
        Budget before and after the charge, and what the ledger says is next.
    rows, counted
        Rows that were read, private, and their counts, which are site-only.
    """

    release: WeightRelease
    request: ReleaseRequest
    budget: BudgetStatus
    step: NextStep
    outline: Outline
    rows: TrainingRows
    counted: CheckReport

    @property
    def alarms(self) -> list[str]:
        """See `ReleaseOffer`."""
        return alarm_lines(self.counted)

    def private(self) -> bytes:
        """Return the features and codes of the rows (`ReleaseOffer`)."""
        features, codes, ks = self.rows
        return features.tobytes() + codes.tobytes() + (b"" if ks is None else ks.tobytes())

    def text(self) -> str:
        """Return content, cost and counts (`ReleaseOffer`)."""
        lines = [self._terms(), *mapping_lines(self.counted), counts_text(self.counted)]
        return "\n".join(lines)

    def question(self) -> str:
        """See `ReleaseOffer`."""
        return "Make this model?"

    def brief(self) -> str:
        """Return content and cost, and where the counts are listed (`ReleaseOffer`)."""
        return f"{self._terms()}\n{counts_line(self.counted, self.request.study)}"

    def _terms(self) -> str:
        return model_offer_text(self.release, self.request, self.budget, self.step)


def model_offer_text(
    release: WeightRelease, request: ReleaseRequest, status: BudgetStatus, step: NextStep
) -> str:
    """Return content and cost of a model that may leave, shown before consent."""
    machines, k = release.weights.n_machines, release.weights.D - 1
    unit, n_rows = release.model_request.study.unit, release.n_rows
    counts, most = unit.counts, unit.text
    holds = f"no person has more than {most} row{'s' if unit.weight > 1 else ''} in this data set"
    if isinstance(unit, Person):
        holds = "the data set's key tells people apart, who weigh as one row each"
    split = split_over(machines)
    again = (
        "" if step is NextStep.RESERVE else ", at no further charge, because it was charged before"
    )
    lines = [
        f"A classifier of {release.model_request.terms.target} that may leave, study "
        f"{request.study}, data set {request.data_set}, {many(n_rows, counts)}",
        "",
        "What could leave this site, once:",
        f"  noised weights of {many(machines, 'linear machines')} on {many(k, 'components')}, "
        "released already",
        f"  the number of {counts}, {n_rows}, exactly, and a receipt of the guarantee",
        "What it costs, in addition to the components:",
        f"  {request.mechanism} noise; charged: {request.price.claim_text}",
        *([f"  epsilon is split: {split}"] if split else []),
        *standing_lines(status, request.price.epsilon),
        "The guarantee holds if:",
        f"  {holds}",
        f"It would then train, charge, draw the noise, and store the model{again}",
    ]
    return "\n".join(lines)


def released_model_text(document: ReleasedModelDocument) -> str:
    """Return file and cost of a model that may leave."""
    k, of = document.n_components, "weights" if document.method == "dp-svm" else "model"
    again = " (it was stored already; these are the same bytes)" if document.already_stored else ""
    lines = [
        f"Made {document.method} for {document.target} from {many(document.rows, document.counts)}"
        + _of_components(k)
        + again,
        f"  guarantee of the {of}: epsilon {decimal_text(document.epsilon)}, delta "
        f"{decimal_text(document.delta)}",
        *([f"  split: {document.split}"] if document.split else []),
        f"  {charged_text(document)}",
        f"  saved (released, may go anywhere): {document.model}",
        "  its accuracy on rows of this site is site-only: see `predict`",
    ]
    return "\n".join(lines)


def prediction_text(prediction: Prediction) -> str:
    """Return the number of classified rows, their file, and the values that coding replaced."""
    known = ""
    if prediction.accuracy is not None:
        known = f", right on {prediction.accuracy:.1%} of those with a known target"
        known += _beside(prediction.majority)
    text = (
        f"Classified {many(prediction.rows, 'rows')}{known}\n"
        f"  saved (SITE-ONLY, it must not leave): {prediction.output}"
    )
    if prediction.other_mapping:
        text += (
            "\n  ANOTHER MAPPING: the model was trained on columns that another mapping had read. "
            "Do both mean the same? Else name that one (--mapping), or train again"
        )
    return with_counts(text, prediction.coded_by_rule)


def _of_components(number: int | None) -> str:
    return "" if number is None else f" in {many(number, 'components')}"


def _beside(majority: float | None) -> str:
    """Return the share of the commonest label, for comparison with an accuracy."""
    return "" if majority is None else f"; always the commonest label: {majority:.1%}"
