"""What commands about models print for people; every figure is in the JSON document, too."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from dppca.common.documents.values import DigestText, Document, PathText
from dppca.common.estimators.base.weight_noise import split_over
from dppca.common.privacy.labels import Label
from dppca.common.privacy.receipts import CostFields
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.records import CheckReport
from dppca.owner.release.contribution import BudgetStatus, NextStep
from dppca.owner.release.weights import WeightRelease
from dppca.owner.render.charges import charge_text, charged_text, standing_lines


class PredictionDocument(Document):
    """Rows that a model classified."""

    target: Annotated[str, "attribute that was predicted"]
    rows: Annotated[int, "rows that were classified"]
    output: Annotated[PathText, "file that holds them"]
    label: Annotated[Label, "where the file may go"]
    accuracy: Annotated[float | None, "share of right predictions, where the target is known"]
    majority: Annotated[float | None, "share of the commonest label there"]
    seconds: Annotated[float, "time that the command took"]


class TrainedDocument(Document):
    """A model that stays at the site."""

    study: Annotated[str, "name of the study"]
    target: Annotated[str, "attribute that it predicts"]
    method: Annotated[str, "the method"]
    kernel: Annotated[str, "kernel of the SVM"]
    model: Annotated[PathText, "the model's file"]
    label: Annotated[Label, "where the file may go"]
    rows: Annotated[int, "rows that it was trained on"]
    unlabelled: Annotated[int, "rows that were left out because their target is not known"]
    training_accuracy: Annotated[float, "share of those rows that it classifies rightly"]
    majority: Annotated[float | None, "share of those rows with the commonest label"]
    n_components: Annotated[int | None, "components that rows are projected on"]
    converged: Annotated[bool, "whether the solver converged"]
    charged_epsilon: Annotated[Literal["0"], "nothing is charged, for nothing leaves"]
    charged_rho: Annotated[Literal["0"], "nothing is charged"]
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]
    seconds: Annotated[float, "time that the command took"]


class ReleasedModelDocument(Document, CostFields):
    """A model that may leave, as the ledger stores it."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that was charged"]
    remaining: Annotated[
        Decimal | None, "epsilon that is left to it; null if policy.yaml does not state it now"
    ]
    label: Annotated[Label, "where the file may go"]
    rows: Annotated[int, "rows that it was computed from"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    release_id: Annotated[DigestText, "identifier of the release"]
    bytes: Annotated[int, "size of the file"]
    receipt: Annotated[Mapping[str, object], "the receipt that the file holds"]
    already_stored: Annotated[bool, "whether it was made and charged before"]
    coded_by_rule: Annotated[
        CheckReport | None, "values that coding replaced (site-only); null if no row was read"
    ]
    target: Annotated[str, "attribute that it predicts"]
    method: Annotated[str, "the method"]
    kernel: Annotated[str, "kernel of the SVM"]
    model: Annotated[PathText, "the model's file"]
    training_accuracy: Annotated[None, "not computed: it would say something of rows without noise"]
    n_components: Annotated[int | None, "components; null for a method without any"]
    split: Annotated[str, "how epsilon is divided; empty if it is not"]
    seconds: Annotated[float, "time that the command took"]


def training_text(document: TrainedDocument) -> str:
    """How well a model that stays fits, and where it is."""
    lines = [
        f"Trained {document['method']} ({document['kernel']}) for {document['target']} on "
        f"{document['rows']} rows in {document['n_components']} components",
        f"  right on {document['training_accuracy']:.1%} of the rows it was trained on"
        + _beside(document["majority"]),
    ]
    if not document["converged"]:
        lines.append("  the solver stopped before it converged: try a smaller --C")
    lines.append(f"  saved (SITE-ONLY, it must not leave): {document['model']}")
    return "\n".join(lines)


def model_offer_text(
    release: WeightRelease, request: ReleaseRequest, status: BudgetStatus, step: NextStep
) -> str:
    """What a model that may leave would hold, and what it costs; before anybody is asked."""
    machines, k = release.weights.n_machines, release.weights.D - 1
    person, n_rows = release.model_request.study.max_rows_per_person, release.n_rows
    split = split_over(machines)
    again = "" if step is NextStep.RESERVE else ", at no further charge: it was charged before"
    cost = request.cost_fields()
    lines = [
        f"A classifier of {release.model_request.terms.target} that may leave, study "
        f"{request.study}, data set {request.data_set}, {n_rows} rows",
        "",
        "What could leave this site, once:",
        f"  noised weights of {machines} linear machine{'s' if machines > 1 else ''} on {k} "
        "components, which are released already",
        f"  the number of rows, {n_rows}, exactly, and a receipt of the guarantee",
        "What that costs, on top of the components:",
        f"  {request.mechanism} noise: epsilon {cost['epsilon']}, delta {cost['delta']}; "
        f"charged: {charge_text(cost)}",
        *([f"  epsilon is split: {split}"] if split else []),
        *standing_lines(status),
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        f"Next: train, charge, draw the noise, and store the model{again}",
    ]
    return "\n".join(lines)


def released_model_text(document: ReleasedModelDocument) -> str:
    """Where a model that may leave is, and what it cost."""
    charged = charge_text(document)
    k, of = document["n_components"], "weights" if document["method"] == "dp-svm" else "model"
    again = (
        " (it was stored already; these are the same bytes)" if document["already_stored"] else ""
    )
    lines = [
        f"Made {document['method']} for {document['target']} from {document['rows']} rows"
        + ("" if k is None else f" in {k} components")
        + again,
        f"  guarantee of the {of}: epsilon {document['epsilon']}, delta {document['delta']}",
        *([f"  split: {document['split']}"] if document["split"] else []),
        f"  {charged_text(document['population'], document['remaining'])}: {charged}",
        f"  saved (released, may go anywhere): {document['model']}",
        "  how often it is right on rows of this site is site-only: see `predict`",
    ]
    return "\n".join(lines)


def prediction_text(document: PredictionDocument) -> str:
    """How many rows were classified, and where they are."""
    accuracy = document["accuracy"]
    known = ""
    if accuracy is not None:
        known = f", right on {accuracy:.1%} of those with a known target"
        known += _beside(document["majority"])
    return (
        f"Classified {document['rows']} rows{known}\n"
        f"  saved (SITE-ONLY, it must not leave): {document['output']}"
    )


def _beside(majority: float | None) -> str:
    """What an accuracy has to be held against."""
    return "" if majority is None else f"; always the commonest label: {majority:.1%}"
