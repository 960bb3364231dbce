"""Document and text of ``study refine``."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from dppca.common.analysis.field.missed import Missed, missed_text
from dppca.common.kernel.documents.counts import many
from dppca.common.shell.console import steps_lines

_SMALL_GAIN = 64  # leaves


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinedStudyDocument:
    """Draft of a study that continues another."""

    study: Annotated[str, "name of the new study"]
    continues: Annotated[str, "name of the study that it continues"]
    path: Annotated[Path, "the draft"]
    rows: Annotated[Path, "file of the synthetic rows that the trees were grown on"]
    target: Annotated[str, "attribute that the trees predict"]
    trees: Annotated[int, "number of trees"]
    leaves: Annotated[int, "most leaves of each"]
    rule: Annotated[tuple[int, int], "trees and leaves by the rule"]
    rows_per_leaf: Annotated[float, "rows of all owners in a leaf, by the rule, on average"]
    noise: Annotated[float, "standard deviation of the noise of a count, in rows, by the rule"]
    missed: Annotated[
        list[Missed],
        "what the first study's release knows and these rows miss, the largest difference first",
    ]
    hidden: Annotated[bool, "whether the noise hides the counts: the budget is too small"]
    next: Annotated[list[str], "commands for what to do now, with remarks as a shell has them"]


def refined_text(drafted: RefinedStudyDocument) -> str:
    """Return what was drafted, what its trees were grown on and what to do now."""
    lines = [
        f"{drafted.path}: continues study {drafted.continues}; {many(drafted.trees, 'trees')} of "
        f"at most {drafted.leaves} leaves, by {drafted.target}.",
        f"  the rule for this budget: {many(drafted.rule[0], 'trees')} of {drafted.rule[1]} "
        f"leaves. A leaf has {drafted.rows_per_leaf:.0f} rows on average, a count noise of "
        f"{drafted.noise:.0f}",
        f"  the rows that the trees were grown on: {drafted.rows}",
        *steps_lines(drafted.next),
    ]
    if drafted.missed:
        lines.insert(3, f"  warning: {missed_text(drafted.missed)}")
    if drafted.leaves < _SMALL_GAIN:
        lines.insert(2, "  so few leaves gain little, unless three attributes decide together")
    if drafted.hidden:
        lines.insert(2, "  THE NOISE HIDES THE COUNTS: this budget is too small for a second study")
    return "\n".join(lines)
