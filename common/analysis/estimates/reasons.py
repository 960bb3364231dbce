"""What can no longer be asked of a study's result, before anything is spent: reasons by question.

Each reason is a test of the schema: the one by which an estimate itself refuses the question
(`Variable`), or whether the cells are counted that it would look for. So this list needs no
release; a test asks each question of a release and compares.

Limits: reasons that lie in one number or date. Interactions, which need a table with the outcome,
and questions that the noise hides are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema.units import Unit

if TYPE_CHECKING:
    from dppca.common.analysis.estimates.variables import Names
    from dppca.common.kernel.schema import Attribute, Numeric, Schema

_TESTS: Final = {
    "correlation": ("require_column", "require_complete"),
    "regression of it": ("require_column", "require_complete"),
    "regression by it": ("require_column",),
    "mean by group": ("require_column",),
}
"""For each question about a number, tests of `Variable` that it needs; the first rules out more."""
_BY_BINS: Final = "regression by it"
"""The one of these that bins allow: each is a regressor, like a label."""
_OF_BINS: Final = "enters products by its bins: ask for its mean, or for shares of its bins"
_NO_CELLS: Final = "no cells of it are counted: `histogram: true` releases them"
_IN_BALL: Final = "numbers with centre and scale have no cells: give it bounds"
_NO_TABLE: Final = "no table counts it beside labels: release one in `tables`"
_NO_SUMS: Final = "rows in a ball release no sums: say `include_sums: true` in row_norm"
_BY_TABLE: Final = ("median and SD by group", "adjusted odds ratios by it")
_OF_TIMES: Final = "survival by it"


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Questions that one choice rules out, of some attributes."""

    questions: Annotated[tuple[str, ...], "questions that get no answer, such as `correlation`"]
    attributes: Annotated[tuple[str, ...], "attributes that they are about"]
    reason: Annotated[str, "why, and what to ask or to choose instead"]


def ruled_out(schema: Schema) -> tuple[RuledOut, ...]:
    """Return which questions the schema's choices rule out."""
    from dppca.common.analysis.estimates.variables import Names  # not for a command's help

    names = Names(schema)
    found: dict[tuple[tuple[str, ...], str], list[str]] = {}
    for attribute in schema.attributes:
        reasons: dict[str, list[str]] = {}
        for question, reason in _reasons(names, attribute):
            reasons.setdefault(reason, []).append(question)
        for reason, questions in reasons.items():
            found.setdefault((tuple(questions), reason), []).append(attribute.name)
    if schema.row_norm is not None and not schema.layout.with_sums:
        found[tuple(_TESTS), _NO_SUMS] = [each.name for each in schema.attributes]
    by_value = tuple(
        RuledOut(questions, tuple(attributes), reason)
        for (questions, reason), attributes in found.items()
    )
    return by_value if schema.unit is Unit.ROW else (*by_value, _of_people(schema.rows_counted))


def _of_people(c: int) -> RuledOut:
    """Return what is not known where people weigh alike however many rows they have."""
    return RuledOut(
        (
            "counts, rates and costs per visit or year",
            "whether something ever happened",
            "survival",
        ),
        ("rows of a person",),
        f"all rows of a person weigh as {'one' if c == 1 else f'up to {c}'}: for these, give one "
        "row for each person, with such numbers as attributes",
    )


def ruled_out_lines(schema: Schema) -> list[str]:
    """Return lines for people; none if every number can be asked about."""
    return [*map(describe_ruled_out, ruled_out(schema))]


def describe_ruled_out(found: RuledOut) -> str:
    """Return one line for people."""
    return one_line(
        f"CANNOT BE ASKED of {', '.join(found.attributes)}: {', '.join(found.questions)}; "
        f"{found.reason}"
    )


def _reasons(names: Names, attribute: Attribute) -> Iterator[tuple[str, str]]:
    """Yield questions about a number that are refused, with the reason."""
    from dppca.common.kernel.schema import Numeric

    schema = names.schema
    if not (isinstance(attribute, Numeric) and schema.layout.with_products):
        return  # tables alone are of a study whose answers come from the first one, too
    if attribute.name in schema.products_of_bins:
        yield from ((question, _OF_BINS) for question in _TESTS if question != _BY_BINS)
        return
    variable = names.variable(attribute.name)
    for question, tests in _TESTS.items():
        try:
            for test in tests:
                getattr(variable, test)()
        except SettingError as refusal:
            yield question, str(refusal).removeprefix(f"{attribute.name} ")
    yield from _of_cells(names, attribute)


def _of_cells(names: Names, attribute: Numeric) -> Iterator[tuple[str, str]]:
    """Yield questions that need counts of a number's cells, where the study has none."""
    from dppca.common.kernel.schema.attributes import list_labels

    schema, place = names.schema, names.attribute(attribute.name)
    tables = [each for each in schema.tables if attribute.name in each.table]
    targets = [each.target for each in schema.tables]
    in_histogram = place in [own for own, _ in schema.histograms] or attribute.name in targets
    reason = _NO_CELLS if schema.cells[place] is not None else _IN_BALL
    if not (in_histogram or any(attribute.name not in each.cells for each in tables)):
        yield "shares of its values", reason
    if not (in_histogram or tables):
        yield "median and quantiles", reason
    labelled = {each.name for each in schema.attributes if list_labels(each) is not None}
    labelled -= {attribute.name}
    if labelled and not any(labelled & {*each.table} for each in tables):
        of_times = () if schema.unit is Unit.PERSON else (_OF_TIMES,)
        yield from ((question, _NO_TABLE) for question in (*_BY_TABLE, *of_times))
