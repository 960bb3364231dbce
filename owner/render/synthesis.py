"""Document and text of `synthesize`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.analysis.field.tilt import TiltQuality
from dppca.common.kernel.attestation.claims import use_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.privacy.labels import Label
from dppca.owner.synthesis.visible_relations import VisibleRelations

TIMES = 4
"""Rows that are advised for each row of a result: half of the chance error of drawing."""
_MOST_ADVISED = 1_000_000  # rows; where more would be needed, none are advised


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisDocument:
    """Synthetic rows that were drawn."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    label: Annotated[Label, "where the files may go"]
    rows: Annotated[int, "rows of each table"]
    advised_rows: Annotated[int, "four times as many rows as the result is of"]
    kept: Annotated[list[str], "forms that lay there, signed, and were not drawn again"]
    trace_scale: Annotated[float, "factor that gives the model the trace of the covariance"]
    decoded_by: Annotated[str | None, "how decoded rows were made; null if none were drawn now"]
    misfit: Annotated[float | None, "what the fitted field leaves, in standard deviations"]
    tables: Annotated[
        TiltQuality | None,
        "how decoded rows meet the study's tables; null without tables, or if none were drawn now",
    ]
    missed: Annotated[
        list[Missed],
        "what the release knows and decoded rows miss, the largest difference first",
    ]
    relations: Annotated[
        VisibleRelations | None,
        "what the release shows of relations; null where no field can be fitted",
    ]
    forms: Annotated[dict[Form, Path], "path of the table in each form"]
    replicates: Annotated[list[Path], "replicates that `--replicates` asked for, as files"]
    published: Annotated[list[str], "forms that were sent to the curator"]
    bytes: Annotated[int, "bytes that were sent"]
    seconds: Annotated[float, "time that the command took"]


def synthesis_text(document: SynthesisDocument) -> str:
    """Return the files of the rows, and the relations that they show."""
    lines = [f"{many(document.rows, 'synthetic rows')} (released, may go anywhere):"]
    lines += [
        f"  {form}: {path}" + (" (signed before, and not drawn again)" * (form in document.kept))
        for form, path in document.forms.items()
    ]
    if document.replicates:
        lines.append(
            f"  {len(document.replicates)} replicates, to be used only together, by `combine`: "
            f"from {document.replicates[0]} on"
        )
    if document.rows < document.advised_rows <= _MOST_ADVISED:
        lines.append(
            f"  tables counted on {document.advised_rows} rows (--rows {document.advised_rows}) "
            "would have less chance error. They tell no more about people"
        )
    lines.append(f"Note: {use_text(None)}")
    if document.decoded_by is not None:
        lines.append(f"Decoded rows were made by: {document.decoded_by}")
    if document.tables is not None:
        lines.append(
            f"They differ from the counts of the study's tables by {document.tables.missed:.2f} "
            "standard deviations of the noise. Their weighted rows are worth "
            f"{100 * document.tables.worth:.0f} % as many rows without weights"
        )
    if document.missed:
        lines.append(f"warning: {missed_text(document.missed)}")
    if document.relations is not None:
        lines.append(document.relations.summary)
    if document.published:
        lines.append(f"Published: {', '.join(document.published)} ({document.bytes} bytes)")
    return "\n".join(lines)
