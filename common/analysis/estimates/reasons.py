"""What can no longer be asked of a study's result, before anything is spent: reasons by question.

Each reason is a test of the schema by which an estimate itself refuses the question (`Variable`).
So this list needs no release, and does not differ from what `estimate` answers.

Limits: reasons that lie in one number or date. Pairs whose products a study does not release, and
questions that the noise hides, are not among them.
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
    from dppca.common.kernel.schema import Attribute, Schema

_TESTS: Final = {
    "correlation": ("require_column", "require_complete"),
    "ols of it": ("require_column", "require_complete"),
    "ols by it": ("require_column",),
    "mean by group": ("require_column",),
}
"""For each question about a number, tests of `Variable` that it needs; the first rules out more."""
_BY_BINS: Final = "ols by it"
"""The one of these that bins allow: each is a regressor, like a label."""
_OF_BINS: Final = "enters products by its bins: ask for its mean, or for shares of its bins"


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
    by_value = tuple(
        RuledOut(questions, tuple(attributes), reason)
        for (questions, reason), attributes in found.items()
    )
    return by_value if schema.unit is Unit.ROW else (*by_value, _of_people(schema.rows_counted))


def _of_people(c: int) -> RuledOut:
    """Return what is not known where people weigh alike however many rows they have."""
    return RuledOut(
        ("counts, rates and costs per visit or year", "whether something ever happened"),
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

    if not isinstance(attribute, Numeric):
        return
    if attribute.name in names.schema.products_of_bins:
        yield from ((question, _OF_BINS) for question in _TESTS if question != _BY_BINS)
        return
    variable = names.variable(attribute.name)
    for question, tests in _TESTS.items():
        try:
            for test in tests:
                getattr(variable, test)()
        except SettingError as refusal:
            yield question, str(refusal).removeprefix(f"{attribute.name} ")
