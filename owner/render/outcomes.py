"""Documents and texts of `components` and `synthesize`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.analysis.field.tilt import TiltQuality
from dppca.common.analysis.loadings import KeptComponent, component_lines
from dppca.common.analysis.nothing_found import nothing_found
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import DecimalText, DigestText, PathText
from dppca.common.kernel.privacy.labels import Label
from dppca.owner.synthesis.visible_relations import VisibleRelations


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsDocument:
    """Joint components of a study."""

    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    count: Annotated[int, "components that were kept"]
    rows: Annotated[int, "rows of all owners together"]
    eigenvalues: Annotated[list[float], "all of them, descending, squared coded units"]
    noise_edge: Annotated[float, "largest eigenvalue that noise alone reaches"]
    components: Annotated[tuple[KeptComponent, ...], "each that was kept, by attribute and label"]
    epsilon: Annotated[DecimalText, "epsilon of the guarantee over all owners"]
    delta: Annotated[DecimalText, "delta of the guarantee over all owners"]
    assumptions: Annotated[tuple[str, ...], "conditions under which the guarantee holds"]
    contributed: Annotated[list[str], "owners that took part"]
    missing: Annotated[tuple[str, ...], "owners that did not take part"]
    disowned: Annotated[str | None, "why this site disowned the contribution under its name"]
    path: Annotated[Path, "the file"]
    plots: Annotated[
        dict[str, PathText],
        "pictures (PNG) that `--plots` asked for; an SVG of the same name stands beside each",
    ]
    bytes: Annotated[int, "its size"]
    seconds: Annotated[float, "time that the command took"]
    label: Annotated[Label, "where the file may go"] = Label.RELEASED


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisDocument:
    """Synthetic rows that were drawn."""

    study: Annotated[str, "name of the study"]
    digest: Annotated[DigestText, "digest of the study"]
    label: Annotated[Label, "where the files may go"]
    rows: Annotated[int, "rows of each table"]
    kept: Annotated[list[str], "forms that lay there, signed, and were not drawn again"]
    trace_scale: Annotated[float, "factor that gives the model the trace of the covariance"]
    decoded_by: Annotated[str | None, "how decoded rows were made; null if none were drawn now"]
    misfit: Annotated[float | None, "what the fitted field leaves, in standard deviations"]
    tables: Annotated[
        TiltQuality | None,
        "how decoded rows meet the study's tables; null without tables, or if none were drawn now",
    ]
    relations: Annotated[
        VisibleRelations | None,
        "what the release shows of relations; null where no field can be fitted",
    ]
    forms: Annotated[dict[Form, Path], "path of the table in each form"]
    published: Annotated[list[str], "forms that were sent to the curator"]
    bytes: Annotated[int, "bytes that were sent"]
    seconds: Annotated[float, "time that the command took"]


_COUNTS = "the counts of its tables; `synthesize` makes rows of them and of the study before it"


def components_text(document: ComponentsDocument, *, details: bool = False) -> str:
    """Return a summary of the result; with ``details`` components below the noise edge, too."""
    values = document.eigenvalues
    above = sum(value > document.noise_edge for value in values)
    found = f"{document.count} components of {len(values)}"
    lines = [
        f"Study {document.study} is {document.state}: {found if values else _COUNTS}, from "
        f"{document.rows} rows of {', '.join(document.contributed)}",
    ]
    if values:
        lines += [
            f"  largest eigenvalues: {'  '.join(f'{value:.4g}' for value in values[:8])}",
            f"  noise edge: {document.noise_edge:.4g}; eigenvalues above it: {above}; negative, "
            f"which only noise can be: {sum(value < 0 for value in values)}",
            *(f"  {line}" for line in component_lines(document.components, details=details)),
            "  (largest loadings; a numeric counts in widths of its bounds; the sign of a whole "
            "component means nothing)",
        ]
    lines += [
        f"  guarantee: epsilon {document.epsilon}, delta {document.delta}, provided that:",
        *(f"    {assumption}" for assumption in document.assumptions),
        f"  saved (released, may go anywhere): {document.path}",
        *(f"  {name} plot (released): {path}" for name, path in document.plots.items()),
    ]
    if document.missing:
        lines.insert(1, f"  did not take part: {', '.join(document.missing)}")
    if document.disowned is not None:
        lines.insert(
            1,
            "  NOT FROM THIS SITE: the contribution under this site's name was disowned "
            f"({document.disowned}). The guarantee holds; the components may be worth nothing",
        )
    nothing = nothing_found(values, document.noise_edge, document.epsilon)
    first = [] if nothing is None else [nothing]
    return "\n".join(map(one_line, (*first, *document.stated.lines(), *lines)))


def synthesis_text(document: SynthesisDocument) -> str:
    """Return the files of the rows, and the relations that they show."""
    lines = [f"{document.rows} synthetic rows (released, may go anywhere):"]
    lines += [
        f"  {form}: {path}" + (" (signed before, and not drawn again)" * (form in document.kept))
        for form, path in document.forms.items()
    ]
    if document.decoded_by is not None:
        lines.append(f"Decoded rows were made by: {document.decoded_by}")
    if document.tables is not None:
        lines.append(
            f"They differ from the counts of the study's tables by {document.tables.missed:.2f} "
            "standard deviations of the noise. Their weighted rows are worth "
            f"{100 * document.tables.worth:.0f} % as many rows without weights"
        )
    if document.relations is not None:
        lines.append(document.relations.summary)
    if document.published:
        lines.append(f"Published: {', '.join(document.published)} ({document.bytes} bytes)")
    return "\n".join(lines)
