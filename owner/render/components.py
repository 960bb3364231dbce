"""Document and text of `components`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.analysis.loadings import KeptComponent, component_lines
from dppca.common.analysis.nothing_found import nothing_found
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import DecimalText, DigestText, PathText
from dppca.common.kernel.privacy.labels import Label
from dppca.common.shell.study_header import StudyHeader
from dppca.common.shell.study_words import released_number, show_state


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentsDocument:
    """Joint components of a study."""

    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    digest: Annotated[DigestText, "digest of the study"]
    state: Annotated[StudyState, "state of the study"]
    count: Annotated[int, "components that were kept"]
    rows: Annotated[int, "rows of all owners together"]
    counts: Annotated[str, "what `rows` counts: `rows`, `people` or `weighted rows`"]
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


_COUNTS = "the counts of its tables; `synthesize` makes rows of them and of the study before it"


def components_text(
    document: ComponentsDocument, header: StudyHeader, *, details: bool = False
) -> str:
    """Return a summary of the result; with ``details`` components below the noise edge, too."""
    values = document.eigenvalues
    above = sum(value > document.noise_edge for value in values)
    found = f"{many(document.count, 'components')} of {len(values)}"
    lines = [
        f"Study {document.study}, {show_state(document.state)}: {found if values else _COUNTS}, "
        f"from {released_number(header.study, document.rows)} of {', '.join(document.contributed)}",
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
    return "\n".join(map(one_line, (*first, *header.lines(), *lines)))
