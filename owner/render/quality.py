"""Document and text of `report`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dppca.common.analysis.comparison import Variation
from dppca.common.analysis.estimates.answers import AnswerDocument
from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.values import PathText
from dppca.owner.records.faults import CheckReport
from dppca.owner.synthesis.report.comparison import Quality
from dppca.owner.synthesis.visible_relations import VisibleRelations


@dataclass(frozen=True, slots=True)
class QualityReport:
    """Comparison that stays at the site."""

    study: Annotated[str, "name of the study"]
    stated: Annotated[Stated, "what it is for, in its operator's words"]
    data_set: Annotated[str, "data set that was compared"]
    synthetic: Annotated[PathText, "file of synthetic rows"]
    page: Annotated[PathText, "the page with the plots"]
    quality: Annotated[Quality, "synthetic rows against the site's own"]
    coded_by_rule: Annotated[CheckReport, "values that coding replaced (site-only)"]
    relations: Annotated[
        VisibleRelations | None,
        "what the release shows of relations; null without components or a field",
    ]
    missed: Annotated[
        list[Missed],
        "what the release knows and the synthetic rows miss, the largest difference first; empty "
        "without components",
    ]
    questions: Annotated[
        tuple[AnswerDocument, ...],
        "answers to the study's own questions, with intervals for all of them together; empty "
        "without components",
    ]
    seconds: Annotated[float, "time that the command took"]


def quality_text(report: QualityReport) -> str:
    """Return a summary of a report."""
    found = report.quality
    pairs, distances = found.pair_summary, found.distances
    lines = [
        f"{found.n_synthetic} synthetic rows against {found.n_real} of data set {report.data_set}",
        "  SITE-ONLY: computed from raw rows without noise; nothing of this may leave the site",
        f"  classifier: pMSE {found.propensity.ratio:.1f} times that of rows of one "
        "distribution (1 is best)",
        *_worst("one attribute", found.marginals),
        *_worst("two attributes", found.pairs),
    ]
    if pairs.mean is not None:
        lines.append(
            f"  two attributes: {pairs.mean:.3f} on average ({pairs.by_chance:.3f} by chance)"
        )
    if found.tables.three_way is not None:
        lines.append(
            f"  three attributes: {found.tables.three_way:.3f} on average "
            f"({found.tables_by_chance.three_way:.3f} between two halves of this site's rows)"
        )
    if report.relations is not None:
        lines.append(f"  {report.relations.summary}")
    if report.missed:
        lines.append(f"  warning: {missed_text(report.missed)}")
    lines[1:1] = [f"  {each.verdict}" for each in found.accuracies[:1]]
    lines += [
        f"  {each.target}: right on {each.trained_on_synthetic:.1%} when trained on synthetic "
        f"rows, {each.trained_on_real:.1%} on real ones, {each.majority:.1%} by majority; trees on "
        f"{each.trees_on_synthetic:.1%} and {each.trees_on_real:.1%}. {each.verdict}"
        for each in found.accuracies
    ]
    lines += [
        f"  nearest record, median: {distances.synthetic[-1]:.3f} from synthetic to real, "
        f"{distances.real[-1]:.3f} from real to real",
        f"Page: {report.page}",
    ]
    return "\n".join(lines)


def _worst(name: str, found: Sequence[Variation]) -> list[str]:
    if not found:
        return []
    worst = max(found, key=lambda each: each.found)
    return [
        f"  {name}: total variation up to {worst.found:.3f} ({', '.join(worst.attributes)}; "
        f"{worst.by_chance:.3f} by chance)"
    ]
