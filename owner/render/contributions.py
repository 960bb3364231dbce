"""Document and text of `contribute`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.study_words import show_state
from dppca.owner.render.charges import StoredCharge, charged_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ContributionDocument(StoredCharge):
    """Contribution that the curator holds."""

    digest: Annotated[DigestText, "digest of the study"]
    owner: Annotated[str, "name of this site"]
    entries: Annotated[int, "noised sums that were sent"]
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
    return (
        f"Sent {document.bytes} bytes on {document.rows} rows to study {document.study}"
        f"{again}.\nIt was {charged_text(document)}.\n"
        f"State of the study: {show_state(document.state)}.\n"
        f"The curator's signed acknowledgement: {document.acknowledgement}.\n"
        f"Next: dppca-owner {'open' if document.opens else 'components'} {document.study}"
    )
