"""A study's request for a site's rows, in the words that its steward reads before consent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dppca.common.kernel.schema.attributes import Date, Numeric, Ordinal, Score, describe_values
from dppca.common.kernel.schema.document import Schema
from dppca.common.kernel.schema.units import Unit
from dppca.common.kernel.study import Study


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedAttribute:
    """Attribute of the rows that a study asks for."""

    name: Annotated[str, "name of the column"]
    kind: Annotated[str, "what it is, in words"]
    values: Annotated[tuple[str, ...], "values that count: `LOWER to UPPER`, or all labels"]
    used_for: Annotated[tuple[str, ...], "what it is used for, besides sums and products"]
    description: Annotated[str | None, "what the operator says that it is"]
    why: Annotated[str | None, "why the study needs it, as the operator says"]
    unit: Annotated[str | None, "what the operator says that its numbers count"]
    concept: Annotated[str | None, "its code in a public vocabulary, as the operator says"]

    @property
    def words(self) -> str:
        """The operator's words; empty without any."""
        unit, why = self.unit and f"in {self.unit}", self.why and f"needed: {self.why}"
        return ", ".join(filter(None, (self.description, unit, self.concept, why)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedEntries:
    """Numbers of one kind that would leave."""

    what: Annotated[str, "their kind, in words"]
    count: Annotated[int, "how many"]


def describe_entries(study: Study) -> tuple[ReviewedEntries, ...]:
    """Return each kind of number in a release, with its count; together they are all of it.

    Where a study protects people, a cell has the weights of their rows and no count of them.
    """
    layout, of_people = study.table.layout, study.table.unit is Unit.PERSON
    counted = "weights of people" if of_people else "counts of rows"
    kinds = {
        "sums of coded columns": layout.n_sums,
        "sums of their squares and of products of two": layout.n_products,
        f"{counted} in cells of histograms": sum(cells for _, cells in layout.histograms),
        f"{counted} in cells of tables and trees": sum(layout.tables),
        number_of_all(study.unit.counts): int(layout.with_count),
    }
    return tuple(ReviewedEntries(what=what, count=kinds[what]) for what in kinds if kinds[what])


def number_of_all(counts: str) -> str:
    """Return what the entry is that counts all rows, people or weights."""
    return f"number of all {counts}"


def entries_text(kinds: Sequence[ReviewedEntries]) -> str:
    """Return what leaves, such as "12 sums of coded columns; 66 sums of ..."."""
    return "; ".join(f"{each.count:,} {each.what}" for each in kinds)


def describe_attributes(schema: Schema) -> tuple[ReviewedAttribute, ...]:
    """Return the attributes of the rows that a study asks for, in its order."""
    used: dict[str, list[str]] = {each.name: [] for each in schema.attributes}
    for index, cells in schema.histograms:
        used[schema.attributes[index].name].append(f"histogram of {cells.n_cells} cells")
    for name in schema.products_of_bins:
        used[name].append("products by its bins")
    for name in schema.targets:
        used[name].append("target")
    described = []
    for each in schema.attributes:
        if isinstance(each, Ordinal) or not isinstance(each, Numeric):
            kind = f"one of {len(each.labels)}{', in order' if isinstance(each, Ordinal) else ''}"
        elif each.scale is not None:
            kind = "number"
        else:
            kind = "whole number" if each.integer else "number"
            kind = "date" if isinstance(each, Date) else kind
            kind += ", on a log scale" if each.score is Score.LOG else ""
        described.append(
            ReviewedAttribute(
                name=each.name,
                kind=kind,
                values=describe_values(each),
                used_for=tuple(used[each.name]),
                description=each.description,
                why=each.why,
                unit=each.unit if isinstance(each, Numeric) else None,
                concept=each.concept,
            )
        )
    return tuple(described)


def describe_components(study: Study) -> str:
    """Return what comes out of a study, in words."""
    rule = study.components
    if rule is None:
        return "the joint counts"
    if rule.count is not None:
        return f"{rule.count} joint component{'s' if rule.count > 1 else ''}"
    if rule.contribution_rate is not None:
        return f"the joint components with {rule.contribution_rate:.3g} of the variance"
    return "the joint components above the noise"
