"""What commands about models print for people; as `owner.render`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from owner.contribution import Standing, Step
from owner.render import standing_text


def training_text(document: Mapping[str, Any]) -> str:
    """How well a model that stays fits, and why it stays."""
    printed = document["variant"] == "published"
    form = f"{document['method']}{' as printed' if printed else ''} ({document['kernel']})"
    k = document["n_components"]
    lines = [
        f"Trained {form} for {document['target']} on {document['rows']} rows"
        + ("" if k is None else f" in {k} components"),
        f"  right on {document['training_accuracy']:.1%} of the rows it was trained on",
    ]
    if not document["converged"]:
        lines.append("  the solver stopped before it converged: try a smaller --C")
    guarantee = document["guarantee"]
    if guarantee is not None and guarantee["private"] and not printed:
        lines.append(
            f"  noise was drawn for {guarantee['private']} (epsilon {guarantee['epsilon']}, delta "
            f"{guarantee['delta']}); nothing was charged, so no part of the model may leave"
        )
    if printed:
        claimed = f"its paper claims epsilon {guarantee['claimed_epsilon']} for the whole"
        exposed = guarantee["not_private"]
        lines += [
            f"  {claimed}; that does NOT hold. Not private: {exposed}"
            if exposed
            else f"  {claimed}, for noise of real numbers; this noise is of floating point, and "
            "the claim is NOT this file's",
            f"  saved (PUBLISHED-METHOD, for benchmarks on public data only): {document['model']}",
        ]
    else:
        lines.append(f"  saved (SITE-ONLY, it must not leave): {document['model']}")
    return "\n".join(lines)


def model_review_text(found: Mapping[str, Any], standing: Standing, step: Step) -> str:
    """What a model that may leave would hold, and what it costs."""
    person = found["max_rows_per_person"]
    charged = _charge_text(found)
    again = "" if step is Step.RESERVE else ", at no further charge: it was charged before"
    lines = [
        f"A classifier of {found['target']} that may leave, study {found['study']}, data set "
        f"{found['data_set']}, {found['rows']} rows",
        "",
        "What could leave this site, once:",
        f"  {found['leaves']}",
        f"  the number of rows, {found['rows']}, exactly, and a receipt of the guarantee",
        f"What that costs, {found['beside']}:",
        f"  {found['mechanism']} noise: epsilon {found['epsilon']}, delta {found['delta']}; "
        f"charged: {charged}",
        *([f"  epsilon is split: {found['split']}"] if found["split"] else []),
        f"  {standing_text(found['data_set'], standing)}",
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        f"Next: train, charge, draw the noise, and store the model{again}",
    ]
    return "\n".join(lines)


def _charge_text(document: Mapping[str, Any]) -> str:
    """A model's charge, which may be of both kinds."""
    parts = [f"epsilon {document['charged_epsilon']}", f"rho {document['charged_rho']} (zCDP)"]
    amounts = (document["charged_epsilon"], document["charged_rho"])
    return " and ".join(part for part, amount in zip(parts, amounts, strict=True) if amount != "0")


def released_model_text(document: Mapping[str, Any]) -> str:
    """Where a model that may leave is, and what it cost."""
    charged = _charge_text(document)
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
        f"  charged once to data set {document['data_set']}: {charged}",
        f"  saved (released, may go anywhere): {document['model']}",
        "  how often it is right on rows of this site is site-only: see `predict`",
    ]
    return "\n".join(lines)


def prediction_text(document: Mapping[str, Any]) -> str:
    """What came out."""
    accuracy = document["accuracy"]
    known = "" if accuracy is None else f", right on {accuracy:.1%} of those with a known target"
    return (
        f"Classified {document['rows']} rows{known}\n"
        f"  saved (SITE-ONLY, it must not leave): {document['output']}"
    )
