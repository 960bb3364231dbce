"""What commands print for people. Text only: every figure in it is in the JSON document, too."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypedDict

from dppca.common.amounts import decimal_text
from dppca.common.documents import (
    CodedByRule,
    ComponentFigures,
    DecimalText,
    DigestText,
    Document,
    PathText,
    RelationsDocument,
    TimeText,
)
from dppca.common.loadings import component_lines
from dppca.common.messages import StudyState
from dppca.common.names import one_line
from dppca.common.privacy.collusion import describe_collusion, foresee_collusion
from dppca.common.privacy.composition import describe_overlap
from dppca.common.privacy.labels import Label
from dppca.common.privacy.receipts import CostFields
from dppca.common.relations import relations_document, relations_warning
from dppca.common.study import Study
from dppca.owner.release.contribution import BudgetStatus, Forecast, NextStep, Review
from dppca.owner.site.agreement import Agreement

_MARKS = {"ok": "ok     ", "warning": "WARNING", "broken": "BROKEN ", "skipped": "skipped"}
_NEXT = {
    NextStep.RESERVE: "charge it, then draw the noise and send",
    NextStep.DRAW: "charged already; an earlier attempt was cut off before anything was sent: draw "
    "and send, at no further charge",
    NextStep.NOTHING: "nothing: the curator holds a release, which was recovered or disowned",
    NextStep.SEND: "charged and stored already: send the same bytes again, at no further charge",
}


_MASKED_LINES = (
    "  masked: random words, of which the openers' answers show the sum over all owners alone; "
    "this site adds a share of the noise",
)


class FederationGuarantee(TypedDict):
    """The guarantee to one person, over the releases of all owners."""

    epsilon: Annotated[DecimalText, "epsilon of all releases together"]
    delta: Annotated[DecimalText, "delta of all releases together"]
    assumptions: Annotated[list[str], "what has to hold for it"]


class ReviewedBudget(TypedDict):
    """The lifetime budget of a population, before and after the release."""

    population: Annotated[str, "population that is charged"]
    tied_to: Annotated[list[str], "populations that the charge counts for too"]
    epsilon: Annotated[DecimalText, "lifetime budget"]
    delta: Annotated[DecimalText, "delta of the budget"]
    spent_before: Annotated[DecimalText | None, "epsilon spent so far"]
    remaining_before: Annotated[DecimalText | None, "epsilon left so far"]
    spent_after: Annotated[DecimalText | None, "epsilon spent with the release"]
    remaining_after: Annotated[DecimalText | None, "epsilon left with the release"]
    admitted: Annotated[bool, "whether the budgets of all of them cover it"]


class ReviewForecast(TypedDict):
    """What may be found, from the study and the number of rows alone."""

    noise_edge: Annotated[float, "largest variance that noise alone reaches, squared coded units"]
    draws: Annotated[int, "simulated draws of noise behind it"]
    largest_variance: Annotated[float, "largest total variance that the schema allows"]
    assumed_spectrum: Annotated[str, "assumption about the eigenvalues"]
    assumed_first: Annotated[float, "first eigenvalue under that assumption"]
    assumed_components: Annotated[int, "eigenvalues above the noise edge under it"]
    owners: Annotated[int, "owners that are assumed to take part"]
    rows_per_owner: Annotated[int, "rows that each of them is assumed to bring"]
    relations: Annotated[
        RelationsDocument | None,
        "whether synthetic rows will show relations; null for unit-ball rows or one attribute",
    ]


class ReviewedAggregate(TypedDict):
    """Who makes a masked sum, and against whom it is protected."""

    quorum: Annotated[int, "least number of owners in the sum"]
    colluders: Annotated[int, "owners that may work together with the curator"]
    honest: Annotated[int, "owners, this one among them, that must not"]
    openers: Annotated[list[str], "owners that take the masks away, once, after the deadline"]
    spares: Annotated[int, "openers that may be gone for good"]
    open_by: Annotated[TimeText, "when the study stops waiting for openers"]
    epsilon_one_more: Annotated[
        DecimalText | None, "epsilon if one more owner colludes; null: less than promised"
    ]
    epsilon_all_others: Annotated[
        DecimalText | None, "epsilon if all other owners collude; null: no protection"
    ]
    keys_verified: Annotated[bool, "whether the keys of all owners are verified"]
    unverified: Annotated[list[str], "owners whose keys are not"]


class Reviewed(CostFields):
    """What would leave, and what it would cost."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    data_set: Annotated[str, "data set that it would be computed from"]
    rows: Annotated[int, "rows of the data set"]
    entries: Annotated[int, "noised sums that would leave"]
    bytes: Annotated[int, "their size"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    nominal_epsilon: Annotated[DecimalText | None, "the study's epsilon where the charge differs"]
    federation: Annotated[FederationGuarantee, "the guarantee over all owners"]
    aggregate: Annotated[ReviewedAggregate | None, "with trust: aggregate; null else"]
    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[int, "most rows of one person that are protected"]
    scale: Annotated[int | None, "scale of Laplace noise, in integer units"]
    sigma_squared: Annotated[int | None, "variance of Gaussian noise, in squared integer units"]
    resolution_bits: Annotated[int, "binary digits of a coded value"]
    budget: Annotated[ReviewedBudget, "the population's lifetime budget"]
    next: Annotated[NextStep, "what `contribute` would do next"]
    forecast: Annotated[ReviewForecast, "what may be found"]


class ReviewDocument(Document, Reviewed):
    """What a contribution would hold and cost."""

    refused: Annotated[str | None, "why policy.yaml refuses trust: aggregate; null if it does not"]
    coded_by_rule: Annotated[CodedByRule, "values that coding replaced (site-only)"]


class ContributionSeconds(TypedDict):
    """Time that the steps of a contribution took; 0 for a step that was not needed."""

    read: Annotated[float, "reading and coding the rows"]
    draw: Annotated[float, "charge, noise and storing"]
    send: Annotated[float, "sending"]


class ContributionDocument(Document, CostFields):
    """A contribution that the curator holds."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    owner: Annotated[str, "name of this site"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that was charged"]
    remaining: Annotated[
        DecimalText | None, "epsilon that is left to it; null if policy.yaml does not state it now"
    ]
    rows: Annotated[int, "rows that it was computed from"]
    entries: Annotated[int, "noised sums that were sent"]
    bytes: Annotated[int, "their size"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    release_id: Annotated[DigestText, "identifier of the release"]
    already_stored: Annotated[bool, "whether the curator had it before"]
    opens: Annotated[bool, "whether this site is an opener, and comes back once"]
    acknowledgement: Annotated[PathText | None, "the curator's signed one; null if it signed none"]
    state: Annotated[StudyState, "state of the study"]
    seconds: Annotated[ContributionSeconds, "time that the steps took"]
    coded_by_rule: Annotated[
        CodedByRule | None, "values that coding replaced (site-only); null if no row was read"
    ]


class ComponentsDocument(Document):
    """The joint components of a study."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    label: Annotated[Label, "where the file may go"]
    count: Annotated[int, "components that were kept"]
    rows: Annotated[int, "rows of all owners together"]
    eigenvalues: Annotated[list[float], "all of them, descending, squared coded units"]
    noise_edge: Annotated[float, "largest eigenvalue that noise alone reaches"]
    components: Annotated[list[ComponentFigures], "each that was kept, by attribute and label"]
    epsilon: Annotated[DecimalText, "epsilon of the guarantee over all owners"]
    delta: Annotated[DecimalText, "delta of the guarantee over all owners"]
    assumptions: Annotated[list[str], "what has to hold for the guarantee"]
    contributed: Annotated[list[str], "owners that took part"]
    missing: Annotated[list[str], "owners that took no part"]
    disowned: Annotated[str | None, "why this site disowned the contribution under its name"]
    path: Annotated[PathText, "the file"]
    plots: Annotated[
        dict[str, PathText],
        "pictures (PNG) that `--plots` asked for; an SVG of the same name stands beside each",
    ]
    bytes: Annotated[int, "its size"]
    seconds: Annotated[float, "time that the command took"]


class SynthesisDocument(Document):
    """Synthetic rows that were drawn."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    label: Annotated[Label, "where the files may go"]
    rows: Annotated[int, "rows that were drawn"]
    trace_scale: Annotated[float, "factor that gives the model the trace of the covariance"]
    decoded_by: Annotated[str | None, "how decoded rows were made; null without them"]
    misfit: Annotated[float | None, "what the fitted field leaves, in standard deviations"]
    forms: Annotated[dict[str, str], "path of the table in each form"]
    published: Annotated[list[str], "forms that were sent to the curator"]
    bytes: Annotated[int, "bytes that were sent"]
    seconds: Annotated[float, "time that the command took"]


DoctorFinding = TypedDict(
    "DoctorFinding",
    {
        "area": Annotated[str, "what was looked at"],
        "state": Annotated[str, "`ok`, `warning`, `broken` or `skipped`"],
        "message": Annotated[str, "what was found, and what to do"],
        "class": Annotated[str | None, "the error's class; null unless it is broken"],
        "exit_code": Annotated[int, "the error's exit code; 0 unless it is broken"],
    },
)


class DoctorDocument(Document):
    """What is right and what is wrong with a site."""

    site: Annotated[PathText, "the site's folder"]
    healthy: Annotated[bool, "whether nothing is broken"]
    findings: Annotated[list[DoctorFinding], "in the order in which to mend them"]


def optional_text(number: Decimal | None) -> str | None:
    """A decimal in full, or None."""
    return None if number is None else decimal_text(number)


def review_document(
    found: Review, state: StudyState, expected: Forecast, agreement: Agreement | None
) -> Reviewed:
    """Everything a review says, as JSON; the agreement is that of a study's keys."""
    request, status, calibration = found.request, found.budget_status, found.calibration
    return {
        "study": found.study.name,
        "digest": found.study.digest,
        "state": state,
        "data_set": request.data_set,
        "rows": found.n_rows,
        "entries": found.n_entries,
        "bytes": found.n_bytes,
        "mechanism": request.mechanism,
        **request.cost_fields(),
        "nominal_epsilon": optional_text(calibration.nominal),
        "federation": {
            "epsilon": found.federation.epsilon,
            "delta": found.federation.delta,
            "assumptions": list(found.federation.assumptions),
        },
        "aggregate": None if agreement is None else _aggregate_document(found, agreement),
        "relation": calibration.sensitivity.relation.value,
        "max_rows_per_person": calibration.max_rows_per_person,
        "scale": calibration.scale,
        "sigma_squared": calibration.sigma_squared,
        "resolution_bits": calibration.sensitivity.resolution_bits,
        "budget": {
            "population": status.population.name,
            "tied_to": [each.name for each in status.tied],
            "epsilon": decimal_text(status.population.budget.epsilon),
            "delta": decimal_text(status.population.budget.delta),
            "spent_before": optional_text(status.spent_before),
            "remaining_before": optional_text(status.remaining_before),
            "spent_after": optional_text(status.spent_after),
            "remaining_after": optional_text(status.remaining_after),
            "admitted": status.admitted,
        },
        "next": found.step,
        "forecast": {
            "noise_edge": expected.noise_edge,
            "draws": expected.draws,
            "largest_variance": expected.largest_variance,
            "assumed_spectrum": "eigenvalues in proportion to 1/i, their sum the largest variance",
            "assumed_first": expected.assumed_first,
            "assumed_components": expected.assumed_components,
            "owners": len(found.study.owners),
            "rows_per_owner": found.n_rows,
            "relations": relations_document(expected.relations),
        },
    }


def _histograms(study: Study) -> str:
    names = [study.table.attributes[index].name for index, _ in study.table.layout.histograms]
    names += study.table.products_of_bins
    return f"; among them the rows in each cell of {', '.join(names)}" if names else ""


def _aggregate_document(found: Review, agreement: Agreement) -> ReviewedAggregate:
    terms, study = agreement.terms, found.study
    against = foresee_collusion(study, found.calibration)
    return {
        "quorum": terms.quorum,
        "colluders": terms.colluders,
        "honest": terms.honest,
        "openers": list(terms.openers),
        "spares": terms.spares,
        "open_by": "" if study.open_by is None else study.open_by.isoformat(),
        "epsilon_one_more": optional_text(None if against is None else against.one_more),
        "epsilon_all_others": optional_text(None if against is None else against.all_others),
        "keys_verified": agreement.is_verified,
        "unverified": list(agreement.unknown),
    }


def _aggregate_lines(found: Review, agreement: Agreement) -> list[str]:
    """Against whom, as long as what, and what is left otherwise."""
    said, claim = _aggregate_document(found, agreement), found.calibration
    against = foresee_collusion(found.study, claim)
    more = [] if against is None else [f"  {describe_collusion(against)}"]
    spares = f", {said['spares']} of whom may be gone for good" if said["spares"] else ""
    return [
        "Against whom (trust: aggregate):",
        f"  epsilon {decimal_text(claim.epsilon)}, delta {decimal_text(claim.delta)} against the "
        f"curator together with any {_owners(said['colluders'])}, as long as {said['honest']} "
        "owners, this one among them, run this software",
        *more,
        "  computational: rests on X25519 or ML-KEM-768, on AES-256, HKDF-SHA256 and ECDSA P-256",
        f"  openers, who come back once by {said['open_by']}: {', '.join(said['openers'])}{spares}",
        f"  {_verified_line(agreement)}",
        "  digest of the document that this site was sent, to be read to other owners' stewards, "
        f"who compare it with theirs: {found.study.digest}",
    ]


def _owners(count: int) -> str:
    return f"{count} other owner{'s' if count > 1 else ''}"


def _verified_line(agreement: Agreement) -> str:
    if agreement.compared:
        return "the document has the digest that you gave; the owners' keys are in peers.yaml"
    if agreement.is_verified:
        return "the keys of all owners are verified (peers.yaml)"
    return (
        f"NOT VERIFIED: the keys of {', '.join(agreement.unknown)}. `contribute` needs --digest, "
        "64 digits, from another owner's steward; not from the curator or its operator"
    )


def review_text(
    found: Review,
    state: StudyState,
    expected: Forecast | None,
    agreement: Agreement | None = None,
) -> str:
    """What would leave, what it costs, against whom, what it may be good for."""
    request, study = found.request, found.study
    person = found.calibration.max_rows_per_person
    lines = [
        f"Study {study.name} ({state.value}), data set {request.data_set}, {found.n_rows} rows",
        "",
        "What would leave this site, once:",
        f"  {found.n_entries} noised sums of coded columns and of their products "
        f"({found.n_bytes} bytes){_histograms(study)}",
        *_MASKED_LINES[: 0 if agreement is None else None],
        f"  the number of rows, {found.n_rows}, exactly",
        "  a receipt of the guarantee; the length and last hash of this site's ledger",
        "What that costs:",
        f"  {request.mechanism} noise: epsilon {decimal_text(request.epsilon)}, "
        f"delta {decimal_text(request.delta)}; charged: "
        f"{charge_text(request.cost_fields())}",
        *standing_lines(found.budget_status),
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        *_federation_lines(found),
        *([] if agreement is None else _aggregate_lines(found, agreement)),
        f"Next: {_NEXT[found.step]}",
    ]
    if expected is not None:
        lines += _forecast_lines(found, expected)
    return "\n".join(lines)


def _federation_lines(found: Review) -> list[str]:
    """What the study says of overlapping people, and the figure that follows for all owners."""
    guarantee = found.federation
    return [
        f"  {describe_overlap(found.study)}",
        f"  then one person's loss in the whole federation is at most epsilon {guarantee.epsilon}, "
        f"delta {guarantee.delta}",
    ]


def charge_text(cost: CostFields) -> str:
    """A charge, which may be of both kinds."""
    parts = [f"epsilon {cost['charged_epsilon']}", f"rho {cost['charged_rho']} (zCDP)"]
    amounts = (cost["charged_epsilon"], cost["charged_rho"])
    return " and ".join(part for part, amount in zip(parts, amounts, strict=True) if amount != "0")


def standing_lines(status: BudgetStatus) -> list[str]:
    """What is left of a population's lifetime budget."""
    people, budget = status.population, status.population.budget
    whole = f"epsilon {decimal_text(budget.epsilon)} at delta {decimal_text(budget.delta)}"
    lines = [
        f"  it counts for population {each.name} too, which has charges in common"
        for each in status.tied
    ]
    if not status.admitted:
        return [
            *lines,
            f"  NOT COVERED by the lifetime budget of population {people.name}"
            f"{' or of one of these' if lines else ''}, {whole}: it would be refused",
        ]
    left = [optional_text(each) for each in (status.remaining_before, status.remaining_after)]
    named = f"{people.name} ({people.who})" if people.who else people.name
    return [
        f"  budget of population {named}, {whole}: {left[0]} left before, {left[1]} after",
        *lines,
    ]


def charged_text(population: str, left: str | None) -> str:
    """Whom a release was charged to, and what is left."""
    known = "policy.yaml does not state its budget now" if left is None else f"{left} is left"
    return f"charged once to population {population} ({known})"


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
    return [*lines, *(f"  {line}" for line in relations_warning(expected.relations))]


def contribution_text(document: ContributionDocument) -> str:
    """What was sent."""
    again = " (the curator had it already)" if document["already_stored"] else ""
    signed = (
        f"The curator's signed acknowledgement: {document['acknowledgement']}"
        if document["acknowledgement"]
        else "The curator signed no acknowledgement: it is of an earlier version, or says so"
    )
    return (
        f"Sent {document['bytes']} bytes on {document['rows']} rows to study {document['study']}"
        f"{again}.\nIt was {charged_text(document['population'], document['remaining'])}: "
        f"{charge_text(document)}. The study is {document['state']}.\n{signed}.\n"
        f"Next: dppca-owner {'open' if document['opens'] else 'components'} {document['study']}"
    )


def components_text(document: ComponentsDocument) -> str:
    """The result in short."""
    values = document["eigenvalues"]
    above = sum(value > document["noise_edge"] for value in values)
    lines = [
        f"Study {document['study']} is {document['state']}: {document['count']} components of "
        f"{len(values)}, from {document['rows']} rows of {', '.join(document['contributed'])}",
        f"  largest eigenvalues: {'  '.join(f'{value:.4g}' for value in values[:8])}",
        f"  noise edge: {document['noise_edge']:.4g}; eigenvalues above it: {above}; negative, "
        f"which only noise can be: {sum(value < 0 for value in values)}",
        *(f"  {line}" for line in component_lines(document["components"])),
        "  (largest loadings; a numeric counts in widths of its bounds; the sign of a whole "
        "component means nothing)",
        f"  guarantee: epsilon {document['epsilon']}, delta {document['delta']}, provided that:",
        *(f"    {assumption}" for assumption in document["assumptions"]),
        f"  saved (released, may go anywhere): {document['path']}",
        *(f"  {name} plot (released): {path}" for name, path in document["plots"].items()),
    ]
    if document["missing"]:
        lines.insert(1, f"  took no part: {', '.join(document['missing'])}")
    if document["disowned"] is not None:
        lines.insert(
            1,
            "  NOT FROM THIS SITE: what is in it under this site's name was disowned "
            f"({document['disowned']}). The guarantee holds; the components may be worth nothing",
        )
    return "\n".join(map(one_line, lines))


def synthesis_text(document: SynthesisDocument) -> str:
    """Where the rows are."""
    lines = [f"Drew {document['rows']} synthetic rows (released, may go anywhere):"]
    lines += [f"  {form}: {path}" for form, path in document["forms"].items()]
    if "decoded" in document["forms"]:
        lines.append(f"Decoded rows were made by: {document['decoded_by']}")
    if document["published"]:
        lines.append(f"Published: {', '.join(document['published'])} ({document['bytes']} bytes)")
    return "\n".join(lines)


def doctor_text(document: DoctorDocument) -> str:
    """Findings, one to a line."""
    lines = [f"{_MARKS[f['state']]}  {f['area']}: {f['message']}" for f in document["findings"]]
    return "\n".join([*lines, "Nothing is broken." if document["healthy"] else "See BROKEN above."])
