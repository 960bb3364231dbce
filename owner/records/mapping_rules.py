"""Rules by which a site's columns become a study's attributes, as a mapping file has them.

A rule says of which cells of a row an attribute's cell is made: another name, a table of labels, a
unit, cuts, parts of a day, the first of several columns, cases, a constant. It has no expression
and no pattern, and knows neither other rows nor counts, so that its result is a function of one
row. The study then reads that result as it reads a cell of a file (`mapping_cells`).

``recode`` and `cut` are the words of SPSS, Stata, R and DataSHIELD; ``first_of`` is SQL's coalesce,
``cases`` its CASE.
"""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import chain, pairwise
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dppca.common.kernel.documents.names import check_name
from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH, Finite, Name, label_text
from dppca.common.kernel.schema.texts import labels_of_one_number

MOST_LINES: Final = 10_000
"""Lines of one table of labels."""
MOST_COLUMNS: Final = 64
"""Columns that one rule may read."""
MOST_DEPTH: Final = 2
"""Depth to which ``first_of`` and ``cases`` may stand inside one another."""
UNDECIDED: Final = (
    "is not decided: write what it is, in place of DECIDE (an attribute that this site does not "
    "have is {absent: true})"
)
_LINEAR: Final = ("minus", "times", "over", "plus", "round")
_STEPS: Final = ("recode", "cut", "part", "age_on", "days_to")
_FORMS: Final = ("column", "constant", "absent", "first_of", "cases", "one_hot")


def _cell(value: object) -> str:
    if value is None:
        raise ValueError(UNDECIDED)
    if isinstance(value, datetime | list | dict):
        raise ValueError("must be a text, a number, a day, true or false; quote other words")  # noqa: TRY004 - pydantic's
    text = value.isoformat() if isinstance(value, date) else label_text(value)
    if not text or len(text) > MAX_LABEL_LENGTH:
        raise ValueError(f"must have 1 to {MAX_LABEL_LENGTH} characters")
    return check_name(text)


def _day_or_column(value: object) -> object:
    return (
        value.isoformat() if isinstance(value, date) and not isinstance(value, datetime) else value
    )


def _decided(value: object) -> object:
    if value is None:
        raise ValueError(UNDECIDED)
    return value


def _as_rule(value: object) -> object:
    """Read a column's name alone as the rule that it stands for."""
    return {"column": value} if isinstance(_decided(value), str) else value


def _keys_apart(value: object) -> object:
    """Refuse keys that are one cell, of which a table could only keep the last."""
    if isinstance(value, dict):
        _one_each([_cell(key) for key in value], "recode")
    return value


def _as_test(value: object) -> object:
    """Read a label, or a list of labels, as the test that it stands for."""
    if isinstance(value, list):
        return {"one_of": value}
    return value if isinstance(value, dict) else {"one_of": [_decided(value)]}


def _one_each(words: Sequence[str], what: str) -> None:
    if len(set(words)) < len(words):
        raise ValueError(f"{what}: a word is there twice")
    if same := labels_of_one_number(words):
        raise ValueError(f"{what}: {' and '.join(same[0])} are one number, list it once")


Cell = Annotated[str, BeforeValidator(_cell)]
"""A cell in its canonical text (`label_text`)."""
ColumnName = Annotated[Name, BeforeValidator(_decided)]
_DayOrColumn = Annotated[Name, BeforeValidator(_day_or_column)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Test(_Strict):
    """Test of one cell: labels, a range of numbers, or that it is missing.

    Attributes
    ----------
    one_of
        Labels of which the cell is one.
    at_least, below
        Range that the number lies in: its lower end belongs to it, its upper end does not.
    missing
        True: the cell is missing. No other test holds for a missing cell.
    """

    __test__ = False  # not one of pytest's

    one_of: Annotated[tuple[Cell, ...], Field(min_length=1, max_length=MOST_LINES)] | None = None
    at_least: Finite | None = None
    below: Finite | None = None
    missing: Literal[True] | None = None

    @model_validator(mode="after")
    def _require_one(self) -> Self:
        kinds = (self.one_of is not None, self.is_range, self.missing is not None)
        if sum(kinds) != 1:
            raise ValueError("a test is labels, at_least or below or both, or missing: true")
        if None not in (ends := (self.at_least, self.below)) and not ends[0] < ends[1]:  # type: ignore[operator]
            raise ValueError("at_least must be less than below")
        if self.one_of is not None:
            _one_each(self.one_of, "a test")
        return self

    @property
    def is_range(self) -> bool:
        """True for a range of numbers."""
        return self.at_least is not None or self.below is not None


class Cut(_Strict):
    """Labels of the parts into which edges cut the numbers.

    Attributes
    ----------
    edges
        Edges in ascending order. A number that equals one belongs to the part above it.
    labels
        A label for each part, from the lowest: one more than edges.
    """

    edges: Annotated[tuple[Finite, ...], Field(min_length=1, max_length=MOST_LINES)]
    labels: tuple[Cell, ...]

    @model_validator(mode="after")
    def _require_parts(self) -> Self:
        if any(a >= b for a, b in pairwise(self.edges)):
            raise ValueError("edges must be in ascending order")
        if len(self.labels) != len(self.edges) + 1:
            raise ValueError(
                f"cut needs one label more than edges: {len(self.edges)} edges make "
                f"{len(self.edges) + 1} parts, and {len(self.labels)} labels are listed"
            )
        return self


class Case(_Strict):
    """A rule for the rows in which all tests hold.

    Attributes
    ----------
    if
        A test for each of some columns.
    then
        Rule for these rows.
    """

    tests: Annotated[
        dict[ColumnName, Annotated[Test, BeforeValidator(_as_test)]],
        Field(alias="if", min_length=1, max_length=8),
    ]
    then: "Annotated[Rule, BeforeValidator(_as_rule)]"


class Rule(_Strict):
    """What an attribute's cell is made of: the name of a column, or a mapping with these fields.

    Attributes
    ----------
    column
        Column of the site. At most one step changes its cells: ``recode``, ``cut``, arithmetic,
        ``part``, ``age_on`` or ``days_to``.
    missing
        Codes that mean missing in it, in place of the file's.
    recode
        A cell of the study for each cell of the site. A cell that is not listed is unknown.
    otherwise
        Cell of the study for a cell that ``recode`` does not list; never for a missing one.
    cut
        Labels for ranges of numbers.
    minus, times, over, plus
        Numbers by which the column's are changed, in this order.
    round
        ``down``: then rounded down to a whole number.
    part
        ``year`` or ``month`` of a day.
    age_on
        Completed years from the day in the column to another day, or to that of another column.
    days_to
        Days from the day in the column to another day, or to that of another column.
    constant
        One cell for all rows.
    absent
        True: missing in all rows, of an attribute that may be missing.
    first_of
        Rules of which the first counts whose result is not missing.
    cases
        Rules with tests: the first counts whose tests all hold. Where none does it is missing.
    one_hot
        A label for each of several columns: the label of the one that is 1 where all others are 0;
        else missing.
    """

    column: ColumnName | None = None
    missing: Annotated[tuple[Cell, ...], Field(max_length=MAX_LABEL_LENGTH)] | None = None
    recode: (
        Annotated[
            dict[Cell, Cell],
            Field(min_length=1, max_length=MOST_LINES),
            BeforeValidator(_keys_apart),
        ]
        | None
    ) = None
    otherwise: Cell | None = None
    cut: Cut | None = None
    minus: Finite | None = None
    times: Finite | None = None
    over: Finite | None = None
    plus: Finite | None = None
    round: Literal["down"] | None = None
    part: Literal["year", "month"] | None = None
    age_on: _DayOrColumn | None = None
    days_to: _DayOrColumn | None = None
    constant: Cell | None = None
    absent: Literal[True] | None = None
    first_of: (
        Annotated[
            tuple["Annotated[Rule, BeforeValidator(_as_rule)]", ...],
            Field(min_length=2, max_length=16),
        ]
        | None
    ) = None
    cases: Annotated[tuple[Case, ...], Field(min_length=1, max_length=64)] | None = None
    one_hot: Annotated[dict[ColumnName, Cell], Field(min_length=2)] | None = None

    @model_validator(mode="after")
    def _require_form(self) -> Self:
        forms = [name for name in _FORMS if getattr(self, name) is not None]
        if len(forms) != 1:
            raise ValueError(f"give one of {', '.join(_FORMS)}")
        steps = [name for name in _STEPS if getattr(self, name) is not None]
        steps += ["arithmetic"] if self.is_linear else []
        if self.column is None and (steps or self.missing is not None):
            raise ValueError(f"{', '.join(steps) or 'missing'} is for a column")
        if len(steps) > 1:
            raise ValueError(f"{' and '.join(steps)}: a column has one of them")
        if self.otherwise is not None and self.recode is None:
            raise ValueError("otherwise is for recode")
        if self.over == 0:
            raise ValueError("over must not be 0")
        _one_each(self.missing or (), "missing")
        if self.one_hot is not None and len({*self.one_hot.values()}) < len(self.one_hot):
            raise ValueError("one_hot gives each column a label of its own")
        if self.depth > MOST_DEPTH:
            raise ValueError("first_of and cases stand inside one another two deep at most")
        if len({*self.columns}) > MOST_COLUMNS:
            raise ValueError(f"a rule reads {MOST_COLUMNS} columns at most")
        return self

    @property
    def is_linear(self) -> bool:
        """True for arithmetic with numbers."""
        return any(getattr(self, name) is not None for name in _LINEAR)

    @property
    def is_plain(self) -> bool:
        """True for a column as it is."""
        return self.column is not None and not (
            self.is_linear or any(getattr(self, name) is not None for name in _STEPS)
        )

    @property
    def other_column(self) -> str | None:
        """Column of the other day of ``age_on`` or ``days_to``; None for a public day."""
        other = self.age_on or self.days_to
        return None if other is None or read_day(other) is not None else other

    @property
    def inner(self) -> tuple["Rule", ...]:
        """Rules inside of it."""
        return (*(self.first_of or ()), *(case.then for case in self.cases or ()))

    @property
    def depth(self) -> int:
        """Number of ``first_of`` and ``cases`` that stand inside one another."""
        return 1 + max(each.depth for each in self.inner) if self.inner else 0

    @property
    def columns(self) -> Iterator[str]:
        """Columns that it reads; some may come twice."""
        yield from (each for each in (self.column, self.other_column) if each is not None)
        yield from self.one_hot or ()
        yield from chain.from_iterable(case.tests for case in self.cases or ())
        yield from chain.from_iterable(each.columns for each in self.inner)

    def walk(self) -> Iterator["Rule"]:
        """Yield it and all rules inside of it."""
        yield self
        for each in self.inner:
            yield from each.walk()


def read_day(text: str) -> date | None:
    """Return the day of a text such as ``2024-12-31``; None if it is the name of a column."""
    try:
        return date.fromisoformat(text) if len(text) == len("2024-12-31") else None
    except ValueError:
        return None


class MappingDocument(_Strict):
    """A mapping file: how a site's columns become the attributes of a study.

    Attributes
    ----------
    version
        Version of this format.
    missing
        Codes that mean missing, in each column that is read, unless its rule says its own.
    attributes
        A rule for each attribute whose column has another name or form. The others are read from
        the column of their own name.
    """

    version: Literal[1] = 1
    missing: Annotated[tuple[Cell, ...], Field(max_length=MAX_LABEL_LENGTH)] = ()
    attributes: Annotated[
        dict[Name, Annotated[Rule, BeforeValidator(_as_rule)]], BeforeValidator(_decided)
    ] = {}

    @model_validator(mode="after")
    def _require_codes(self) -> Self:
        _one_each(self.missing, "missing")
        return self
