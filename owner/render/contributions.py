"""Document and text of `contribute`."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.documents.amounts import decimal_text, left_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.study_words import show_state
from dppca.owner.records.faults import CheckReport
from dppca.owner.render.charges import ChargedCost


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCharge(ChargedCost):
    """Release that the ledger stores, with the rest of the budget that it was charged to."""

    study: Annotated[str, "name of the study"]
    data_set: Annotated[str, "data set that it was computed from"]
    population: Annotated[str, "population that was charged"]
    remaining: Annotated[
        Decimal | None, "epsilon that is left to it; null if policy.yaml does not state it now"
    ]
    rows: Annotated[int, "rows that it was computed from; 0: secret"]
    bytes: Annotated[int, "size of what may leave"]
    mechanism: Annotated[str, "noise: name of its law, such as `laplace`"]
    release_id: Annotated[DigestText, "identifier of the release"]
    already_stored: Annotated[bool, "whether it was made, or at the curator, before"]
    coded_by_rule: Annotated[
        CheckReport | None, "values that coding replaced (site-only); null if no row was read"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionDocument(StoredCharge):
    """Contribution that the curator holds."""

    digest: Annotated[DigestText, "digest of the study"]
    owner: Annotated[str, "name of this site"]
    entries: Annotated[int, "noised sums that were sent"]
    counts: Annotated[str, "what `rows` counts: rows or people"]
    opens: Annotated[bool, "whether this site is an opener, and comes back once"]
    acknowledgement: Annotated[Path, "the curator's signed one"]
    state: Annotated[StudyState, "state of the study"]
    seconds: Annotated[
        dict[str, float],
        "time of each step: `read` (and code) rows, `draw` (charge, noise, store), `send`; 0 where "
        "it was not needed",
    ]


def contribution_text(document: ContributionDocument) -> str:
    """Return the number of bytes sent, their charge, and the next step."""
    again = " (the curator already had it)" if document.already_stored else ""
    counts = document.counts
    rows = many(document.rows, counts) if document.rows else f"a secret number of {counts}"
    return (
        f"Sent {document.bytes} bytes on {rows} to study {document.study}"
        f"{again}.\nIt was {charged_text(document)}.\n"
        f"State of the study: {show_state(document.state)}.\n"
        f"The curator's signed acknowledgement: {document.acknowledgement}.\n"
        f"Next: dppca-owner {'open' if document.opens else 'components'} {document.study}"
    )


def charged_text(stored: StoredCharge) -> str:
    """Return the charge as the study states it, the population, and the rest of its budget."""
    known = (
        "policy.yaml does not state its budget now"
        if stored.remaining is None
        else f"{left_text(stored.remaining)} is left"
    )
    cost = f"epsilon {decimal_text(stored.epsilon)}"
    cost += f", delta {decimal_text(stored.delta)}" if stored.delta else ""
    return f"charged once to population {stored.population}: {cost}; {known}"
