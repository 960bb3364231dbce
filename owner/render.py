"""What commands print for people. Text only: every figure in it is in the JSON document, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from common.conversation import StudyState
from common.privacy.federation import overlap_sentence
from common.study import decimal_text
from owner.contribution import Forecast, Review, Standing, Step
from owner.records import CheckReport
from owner.records.check import WARNING, TargetReport

_MARKS = {"ok": "ok     ", "warning": "WARNING", "broken": "BROKEN ", "skipped": "skipped"}
_NEXT = {
    Step.RESERVE: "charge it, then draw the noise and send",
    Step.DRAW: "charged already; an earlier attempt was cut off before anything was sent: draw and "
    "send, at no further charge",
    Step.SEND: "charged and stored already: send the same bytes again, at no further charge",
}


def optional_text(number: Decimal | None) -> str | None:
    """A decimal in full, or None."""
    return None if number is None else decimal_text(number)


def review_document(found: Review, state: StudyState, expected: Forecast) -> dict[str, Any]:
    """Everything a review says, as JSON."""
    wanted, standing, calibration = found.wanted, found.standing, found.calibration
    return {
        "study": found.study.name,
        "digest": found.study.digest,
        "state": state.value,
        "data_set": wanted.data_set,
        "rows": found.n_rows,
        "entries": found.n_entries,
        "bytes": found.n_bytes,
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "nominal_epsilon": optional_text(calibration.nominal),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "federation": {
            "epsilon": found.federation.epsilon,
            "delta": found.federation.delta,
            "assumptions": list(found.federation.assumptions),
        },
        "relation": calibration.sensitivity.relation.value,
        "max_rows_per_person": calibration.max_rows_per_person,
        "scale": calibration.scale,
        "sigma_squared": calibration.sigma_squared,
        "resolution_bits": calibration.sensitivity.resolution_bits,
        "budget": {
            "epsilon": decimal_text(standing.budget.epsilon),
            "delta": decimal_text(standing.budget.delta),
            "spent_before": optional_text(standing.spent_before),
            "remaining_before": optional_text(standing.remaining_before),
            "spent_after": optional_text(standing.spent_after),
            "remaining_after": optional_text(standing.remaining_after),
            "admitted": standing.admitted,
        },
        "next": found.step.value,
        "forecast": {
            "noise_edge": expected.noise_edge,
            "draws": expected.draws,
            "largest_variance": expected.largest_variance,
            "assumed_spectrum": "eigenvalues in proportion to 1/i, their sum the largest variance",
            "assumed_first": expected.assumed_first,
            "assumed_components": expected.assumed_components,
            "owners": len(found.study.owners),
            "rows_per_owner": found.n_rows,
        },
    }


def review_text(found: Review, state: StudyState, expected: Forecast | None) -> str:
    """What would leave, what it costs, what it may be good for."""
    wanted, study = found.wanted, found.study
    person = found.calibration.max_rows_per_person
    lines = [
        f"Study {study.name} ({state.value}), data set {wanted.data_set}, {found.n_rows} rows",
        "",
        "What would leave this site, once:",
        f"  {found.n_entries} noised sums of coded columns and of their products "
        f"({found.n_bytes} bytes)",
        f"  the number of rows, {found.n_rows}, exactly",
        "  a receipt of the guarantee; the length and last hash of this site's ledger",
        "What that costs:",
        f"  {wanted.mechanism} noise: epsilon {decimal_text(wanted.epsilon)}, "
        f"delta {decimal_text(wanted.delta)}; charged: {_charge(found)}",
        f"  {standing_text(wanted.data_set, found.standing)}",
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        *_federation_lines(found),
        f"Next: {_NEXT[found.step]}",
    ]
    if expected is not None:
        lines += _forecast_lines(found, expected)
    return "\n".join(lines)


def _federation_lines(found: Review) -> list[str]:
    """What the study says of overlapping people, and the figure that follows for all owners."""
    guarantee = found.federation
    return [
        f"  {overlap_sentence(found.study)}",
        f"  then one person's loss in the whole federation is at most epsilon {guarantee.epsilon}, "
        f"delta {guarantee.delta}",
    ]


def _charge(found: Review) -> str:
    charge = found.wanted.charge
    if charge.rho:
        return f"rho {decimal_text(charge.rho)} (zCDP)"
    return f"epsilon {decimal_text(charge.epsilon)}"


def standing_text(data_set: str, standing: Standing) -> str:
    """What is left of a data set's lifetime budget."""
    budget = standing.budget
    whole = f"epsilon {decimal_text(budget.epsilon)} at delta {decimal_text(budget.delta)}"
    if not standing.admitted:
        return f"NOT COVERED by the lifetime budget of {data_set}, {whole}: it would be refused"
    left = [optional_text(each) for each in (standing.remaining_before, standing.remaining_after)]
    return f"budget of {data_set}, {whole}: {left[0]} left before, {left[1]} after"


def _forecast_lines(found: Review, expected: Forecast) -> list[str]:
    lines = [
        f"Forecast, if all {len(found.study.owners)} owners bring {found.n_rows} rows each "
        "(from the study alone, not from your rows):",
        f"  the noise alone reaches variance {expected.noise_edge:.4g} in some direction; the "
        f"schema allows {expected.largest_variance:.4g} in all",
    ]
    if expected.noise_edge >= expected.largest_variance:
        lines.append("  NO table can show a component above this noise: use more rows or epsilon")
    else:
        lines.append(
            f"  were the variances in proportion to 1, 1/2, 1/3 ... (at most), "
            f"{expected.assumed_components} would stand above it"
        )
    return lines


def contribution_text(document: Mapping[str, Any]) -> str:
    """What was sent."""
    again = " (the curator had it already)" if document["already_stored"] else ""
    charged = (
        f"epsilon {document['charged_epsilon']}"
        if document["charged_rho"] == "0"
        else f"rho {document['charged_rho']}"
    )
    return (
        f"Sent {document['bytes']} bytes on {document['rows']} rows to study {document['study']}"
        f"{again}.\nCharged once to data set {document['data_set']}: {charged}. "
        f"The study is {document['state']}.\nNext: dppca-owner components {document['study']}"
    )


def components_text(document: Mapping[str, Any]) -> str:
    """The result in short."""
    values = document["eigenvalues"]
    above = sum(value > document["noise_edge"] for value in values)
    lines = [
        f"Study {document['study']} is {document['state']}: {document['count']} components of "
        f"{len(values)}, from {document['rows']} rows of {', '.join(document['contributed'])}",
        f"  largest eigenvalues: {'  '.join(f'{value:.4g}' for value in values[:8])}",
        f"  noise edge: {document['noise_edge']:.4g} ({above} eigenvalues are above it; "
        f"{sum(value < 0 for value in values)} are negative, which is the noise's doing)",
        f"  guarantee: epsilon {document['epsilon']}, delta {document['delta']}, provided that:",
        *(f"    {assumption}" for assumption in document["assumptions"]),
        f"  saved (released, may go anywhere): {document['path']}",
    ]
    if document["missing"]:
        lines.insert(1, f"  took no part: {', '.join(document['missing'])}")
    return "\n".join(lines)


def synthesis_text(document: Mapping[str, Any]) -> str:
    """Where the rows are."""
    lines = [f"Drew {document['rows']} synthetic rows (released, may go anywhere):"]
    lines += [f"  {form}: {path}" for form, path in document["forms"].items()]
    if document["published"]:
        lines.append(f"Published: {', '.join(document['published'])} ({document['bytes']} bytes)")
    return "\n".join(lines)


def check_text(report: CheckReport) -> str:
    """Every fault, by attribute."""
    lines = [f"{report.n_rows} rows"]
    if report.extra_columns:
        lines.append(
            f"  not read, since the schema does not name them: {len(report.extra_columns)}"
        )
    if report.malformed.count:
        lines.append(
            f"  {report.malformed.count} rows have a wrong number of fields: "
            f"{_rows(report.malformed.rows, report.malformed.count)}"
        )
    for attribute in report.attributes:
        for kind, found in attribute.found.items():
            allowed = " (the schema says what it counts as)" if attribute.faultless else ""
            lines.append(
                f"  {attribute.name}: {found.count} {kind.value}{allowed}: "
                f"{_rows(found.rows, found.count)}"
            )
    if report.target is not None:
        lines.append(_target_line(report.target))
    if report.faultless:
        lines.append("No faults: the data conform to the schema.")
    else:
        lines += [
            "A contribution would code these by the schema's public rules; it would not fail.",
            WARNING,
        ]
    return "\n".join(lines)


def _target_line(target: TargetReport) -> str:
    found = f"  {target.name}: {target.n_occurring} of {target.n_labels} labels occur"
    if target.trainable:
        return found
    return (
        f"{found}: a model that stays here cannot be trained on it; one that may leave would be, "
        "and always say the same"
    )


def _rows(rows: Sequence[int], count: int) -> str:
    more = f" and {count - len(rows)} more" if count > len(rows) else ""
    return f"rows {', '.join(str(row) for row in rows)}{more}" if rows else "rows not listed"


def doctor_text(document: Mapping[str, Any]) -> str:
    """Findings, one to a line."""
    lines = [f"{_MARKS[f['state']]}  {f['area']}: {f['message']}" for f in document["findings"]]
    return "\n".join([*lines, "Nothing is broken." if document["healthy"] else "See BROKEN above."])
