"""Document and text of `review`; every figure of the text is in the JSON, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from dppca.common.documents.amounts import decimal_text
from dppca.common.documents.messages import StudyState
from dppca.common.documents.values import DigestText, TimeText
from dppca.common.estimators.relations import relations_lines
from dppca.common.privacy.collusion import foresee_collusion
from dppca.common.privacy.composition import ComposedGuarantee, describe_overlap
from dppca.common.synthesis.refinement import Regrown
from dppca.owner.records import CheckReport
from dppca.owner.release.contribution import BudgetStatus, Forecast, NextStep, Review
from dppca.owner.render.charges import ChargedCost, charge_text, other_owners, standing_lines
from dppca.owner.site.agreement import Agreement

_NEXT = {
    NextStep.RESERVE: "charge it, then draw the noise and send",
    NextStep.DRAW: "charged already; an earlier attempt was cut off before anything was sent: draw "
    "and send, at no further charge",
    NextStep.NOTHING: "nothing: the curator holds a release, which was recovered or disowned",
    NextStep.SEND: "charged and stored already: send the same bytes again, at no further charge",
}


_GROWN = {
    Regrown.SAME: "the trees were grown again on the file of rows: they are the same",
    Regrown.DIFFERENT: "THE TREES ARE DIFFERENT from those that the file of rows gives: ask the "
    "operator how they were chosen",
    Regrown.UNCHECKED: "the trees were not compared: give the file of rows with --grown-on",
}
_MASKED = (
    "  masked: random words, of which the openers' answers show the sum over all owners alone; "
    "this site adds a share of the noise"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedAggregate:
    """Owners that make a masked sum, and the parties that it is protected against."""

    quorum: Annotated[int, "least number of owners in the sum"]
    colluders: Annotated[int, "owners that may work together with the curator"]
    honest: Annotated[int, "owners, this one among them, that must not"]
    openers: Annotated[tuple[str, ...], "owners that take the masks away, once, after the deadline"]
    spares: Annotated[int, "openers that may be gone for good"]
    open_by: Annotated[TimeText, "when the study stops waiting for openers"]
    epsilon_one_more: Annotated[
        Decimal | None, "epsilon if one more owner colludes; null: less than promised"
    ]
    epsilon_all_others: Annotated[
        Decimal | None, "epsilon if all other owners collude; null: no protection"
    ]
    keys_verified: Annotated[bool, "whether the keys of all owners are verified"]
    unverified: Annotated[tuple[str, ...], "owners whose keys are not"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDocument(ChargedCost):
    """Content and cost of a contribution before it is made."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    data_set: Annotated[str, "data set that it would be computed from"]
    rows: Annotated[int, "rows of the data set"]
    entries: Annotated[int, "noised sums that would leave"]
    bytes: Annotated[int, "their size"]
    counted: Annotated[tuple[str, ...], "what has cells in which the rows are counted"]
    mechanism: Annotated[str, "noise: `laplace` or `gaussian`"]
    nominal_epsilon: Annotated[Decimal | None, "the study's epsilon where the charge differs"]
    federation: Annotated[ComposedGuarantee, "the guarantee over all owners"]
    aggregate: Annotated[ReviewedAggregate | None, "with trust: aggregate; null else"]
    relation: Annotated[str, "which tables are neighbours"]
    max_rows_per_person: Annotated[int, "most rows of one person that are protected"]
    parameters: Annotated[dict[str, int], "integers of the noise's law, in integer units"]
    resolution_bits: Annotated[int, "binary digits of a coded value"]
    budget: Annotated[BudgetStatus, "the population's lifetime budget"]
    next: Annotated[NextStep, "what `contribute` would do next, where it is not refused"]
    forecast: Annotated[
        Forecast | None, "what may be found; null for a study that continues another"
    ]
    grown: Annotated[
        Regrown | None,
        "whether the trees are those that their file of rows gives; null if none were grown",
    ]
    refused: Annotated[
        str | None, "why `contribute` would refuse it, all reasons; null if it would not"
    ]
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]


def review_aggregate(found: Review, agreement: Agreement) -> ReviewedAggregate:
    """Return the owners of a masked contribution, and its protection against collusion."""
    terms, study = agreement.terms, found.study
    against = foresee_collusion(study, found.calibration)
    return ReviewedAggregate(
        quorum=terms.quorum,
        colluders=terms.colluders,
        honest=terms.honest,
        openers=tuple(terms.openers),
        spares=terms.spares,
        open_by="" if study.open_by is None else study.open_by.isoformat(),
        epsilon_one_more=None if against is None else against.one_more,
        epsilon_all_others=None if against is None else against.all_others,
        keys_verified=agreement.is_verified,
        unverified=agreement.unknown,
    )


def _aggregate_lines(found: Review, agreement: Agreement) -> list[str]:
    """Return lines on the protection, its conditions, and the figures if more owners collude."""
    terms, claim = review_aggregate(found, agreement), found.calibration
    against = foresee_collusion(found.study, claim)
    more = [] if against is None else [f"  {against.words}"]
    spares = f", {terms.spares} of whom may be gone for good" if terms.spares else ""
    return [
        "Against whom (trust: aggregate):",
        f"  epsilon {decimal_text(claim.epsilon)}, delta {decimal_text(claim.delta)} against the "
        f"curator together with any {other_owners(terms.colluders)}, as long as "
        f"{terms.honest} owners, this one among them, run this software",
        *more,
        "  computational: rests on X25519 or ML-KEM-768, on AES-256, HKDF-SHA256 and ECDSA P-256",
        f"  openers, who come back once by {terms.open_by}: {', '.join(terms.openers)}{spares}",
        f"  {_verified_line(agreement)}",
        "  digest of the document that this site was sent, to be read to other owners' stewards, "
        f"who compare it with theirs: {found.study.digest}",
    ]


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
    *,
    refusals: Sequence[str] = (),
    grown: Regrown | None = None,
) -> str:
    """Return what would leave, its cost, the guarantee, and a forecast of its use."""
    request, study = found.request, found.study
    person = found.calibration.max_rows_per_person
    lines = [
        f"Study {study.name} ({state.value}), data set {request.data_set}, {found.n_rows} rows",
        "",
        "What would leave this site, once:",
        *_content_lines(found),
        *([] if grown is None else [f"  {_GROWN[grown]}"]),
        *([] if agreement is None else [_MASKED]),
        f"  the number of rows, {found.n_rows}, exactly",
        "  a receipt of the guarantee; the length and last hash of this site's ledger",
        "What that costs:",
        f"  {request.mechanism} noise: epsilon {decimal_text(request.epsilon)}, "
        f"delta {decimal_text(request.delta)}; charged: {charge_text(request.charge)}",
        *standing_lines(found.budget_status),
        "The guarantee holds if:",
        f"  no person has more than {person} row{'s' if person > 1 else ''} in this data set",
        f"  {describe_overlap(study)}",
        "  then one person's loss in the whole federation is at most epsilon "
        f"{found.federation.epsilon}, delta {found.federation.delta}",
        *([] if agreement is None else _aggregate_lines(found, agreement)),
    ]
    if refusals:
        lines += ["Next: nothing, `contribute` would refuse:", *(f"  {each}" for each in refusals)]
    else:
        lines.append(f"Next: {_NEXT[found.step]}")
    if expected is not None:
        lines += _forecast_lines(found, expected)
    return "\n".join(lines)


def _content_lines(found: Review) -> list[str]:
    table = found.study.table
    if found.study.continues is not None:
        return [
            f"  {found.n_entries} noised counts of rows ({found.n_bytes} bytes)",
            *(f"  the rows in each cell of {each}" for each in table.counted),
            "  it continues a study that was published: synthetic rows are made of both, and what "
            "both cost a person adds up",
        ]
    return [
        f"  {found.n_entries} noised sums of coded columns and of their products "
        f"({found.n_bytes} bytes)",
        *(f"  among them the rows in each cell of {each}" for each in table.counted),
    ]


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
    return [*lines, *(f"  {line}" for line in relations_lines(expected.relations))]
