"""Cells of a study's attributes, from those of a site's columns: the rules of a mapping, applied.

Each rule is a function of the cells of one row, for batches of any size. Every column is read by
`parse_column`, which alone decides what a cell is: text in a column of numbers stays a fault of
that kind, an infinite number stays one, and a code is missing in the spellings in which a study's
codes are. Arithmetic is in float64, one rounding for each step. A result is what the study's
attribute makes of it, as if it stood in a converted file: its labels, its own codes for missing.

A column is read as one kind, whatever rules read it, since a text file's cells are read by kind
(`text_cells`): as numbers where a rule computes with it, cuts it or tests a range, as days where
one takes its parts or counts from it, as text where one lists words. Words that are all numbers may
stand in a column of numbers, too.

What is the same for all batches is made once (`MappedColumns`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.schema import MISSING, UNKNOWN, Attribute, Column, Numeric, Schema
from dppca.common.kernel.schema.attributes import Categorical, Date, count_days, list_labels
from dppca.common.kernel.schema.columns import KnownLists, absent_column, parse_column, parse_listed
from dppca.common.kernel.schema.missing_codes import codes_of, number_codes
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER, label_number
from dppca.owner.records.faults import CellOutcome
from dppca.owner.records.mapping_rules import MappingDocument, Rule, Test, read_day

Mask = NDArray[np.bool_]
_UNLISTED: Final = "\0"  # no label, number or date begins with it
_MARKS: Final = ("0", "false", "1", "true")
_FIRST_DAY, _LAST_DAY = -25_567, 47_846  # 1900 to 2100
_EARLIEST, _LATEST = map(float, map(count_days, (date.min, date.max)))


class CellKind(StrEnum):
    """Kind of value as which a column is read."""

    NUMBER = "a number"
    DAY = "a day"
    TEXT = "text"


@dataclass(frozen=True)
class MappedColumns:
    """A study's attributes by the rules of a mapping; ``rules`` has one for each that is read.

    ``schema`` is the study's; ``missing`` are the site's codes for all columns. An attribute
    without a rule is absent.
    """

    schema: Schema
    rules: Mapping[str, Rule]
    missing: tuple[str, ...] = ()
    _tables: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def _attributes(self) -> dict[str, Attribute]:
        return {attribute.name: attribute for attribute in self.schema.attributes}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the site that are read, each once."""
        return tuple(dict.fromkeys(c for rule in self.rules.values() for c in rule.columns))

    @property
    def plain(self) -> dict[str, str]:
        """Attributes that are a column as it is, and that column."""
        return {n: str(rule.column) for n, rule in self.rules.items() if rule.is_plain}

    def kinds(self) -> dict[str, list[CellKind]]:
        """Kinds as which each column is read, in the order of the rules; one if it is sound."""
        found: dict[str, list[CellKind]] = {column: [] for column in self.columns}
        for column, kind in self._uses():
            if kind not in found[column]:
                found[column].append(kind)
        for column in found:
            found[column] = found[column] or [CellKind.TEXT]
        return found

    def _uses(self) -> Iterator[tuple[str, CellKind]]:
        for name, outer in self.rules.items():
            attribute = self._attributes[name]
            for rule in outer.walk():
                for case in rule.cases or ():
                    for column, test in case.tests.items():
                        if test.is_range:
                            yield column, CellKind.NUMBER
                        elif test.one_of and not _are_numbers(test.one_of):
                            yield column, CellKind.TEXT
                if rule.other_column is not None:
                    yield rule.other_column, CellKind.DAY
                if rule.column is None:
                    continue
                if rule.is_plain:
                    yield rule.column, _kind_of(attribute)
                elif rule.is_linear or rule.cut is not None:
                    yield rule.column, CellKind.NUMBER
                elif rule.recode is None:
                    yield rule.column, CellKind.DAY
                elif not _are_numbers(rule.recode):
                    yield rule.column, CellKind.TEXT

    def forms(self) -> dict[str, Attribute]:
        """Form in which a text file's cells are read, by column (`Wanted.attributes`)."""
        return {column: self._form(column, kinds[0]) for column, kinds in self.kinds().items()}

    def texts(self) -> list[str]:
        """Columns that may come as dictionaries (`Wanted.labels`)."""
        return [column for column, kinds in self.kinds().items() if kinds == [CellKind.TEXT]]

    def _form(self, column: str, kind: CellKind) -> Attribute:
        codes = dict.fromkeys((*self.missing, *self._own_codes(column)))
        if kind is not CellKind.TEXT:
            return _reader(kind, column, (), tuple(codes))
        return _reader(kind, column, tuple(self.words(column)), tuple(codes))

    def words(self, column: str) -> dict[str, None]:
        """Words that some rule looks for in a column, in the order of the rules."""
        words: dict[str, None] = {}
        for name, outer in self.rules.items():
            attribute = self._attributes[name]
            for rule in outer.walk():
                if rule.column == column:
                    plain = (*(list_labels(attribute) or ()), *codes_of(attribute))
                    words |= dict.fromkeys(rule.recode or (plain if rule.is_plain else ()))
                if column in (rule.one_hot or ()):
                    words |= dict.fromkeys(_MARKS)
                for case in rule.cases or ():
                    words |= dict.fromkeys(getattr(case.tests.get(column), "one_of", None) or ())
        return words

    def _own_codes(self, column: str) -> Iterator[str]:
        for outer in self.rules.values():
            for rule in outer.walk():
                if column in (rule.column, rule.other_column):
                    yield from rule.missing or ()

    def table(self, key: object, make: Callable[[], Any]) -> Any:
        """Return what is the same for all batches, made once; several threads may ask."""
        if key not in self._tables:
            self._tables[key] = make()
        return self._tables[key]

    def convert(
        self,
        arrays: Mapping[str, pa.Array],
        n_rows: int,
        *,
        known: KnownLists | None = None,
        distinguish_missing: bool = True,
        counts: dict[str, Counter[CellOutcome]] | None = None,
    ) -> list[Column]:
        """Return the columns that `encode` takes, of arrays by the site's column.

        ``counts`` collects by attribute what the rules made of cells; the other arguments are those
        of `parse_column`.
        """
        batch = _Batch(self, arrays, n_rows, known, distinguish=distinguish_missing)
        found = []
        for attribute in self.schema.attributes:
            rule = self.rules.get(attribute.name)
            if rule is None:
                found.append(absent_column(attribute, n_rows))
                continue
            tally = None if counts is None else counts.setdefault(attribute.name, Counter())
            found.append(batch.result(rule, attribute, tally, None))
        return found


class _Batch:
    """A batch's columns, each read once in each way in which rules ask for it."""

    def __init__(
        self,
        mapped: MappedColumns,
        arrays: Mapping[str, pa.Array],
        n_rows: int,
        known: KnownLists | None,
        *,
        distinguish: bool,
    ) -> None:
        self._mapped, self._arrays, self._n_rows = mapped, arrays, n_rows
        self._known, self._distinguish = known, distinguish
        self._read: dict[object, Column] = {}

    def result(
        self,
        rule: Rule,
        attribute: Attribute,
        tally: Counter[CellOutcome] | None,
        rows: Mask | None,
    ) -> Column:
        """Return what a rule gives for an attribute; ``rows`` are those that ``tally`` counts."""
        if rule.constant is not None:
            last: Column = self._targets(attribute, (rule.constant,))[
                np.full(self._n_rows, UNKNOWN)
            ]
            return last
        if rule.absent:
            return absent_column(attribute, self._n_rows)
        if rule.one_hot is not None:
            return self._label_of_marks(rule.one_hot, attribute)
        if rule.first_of is not None:
            return self._first(rule.first_of, attribute, tally, rows)
        if rule.cases is not None:
            return self._case(rule, attribute, tally, rows)
        codes = self._mapped.missing if rule.missing is None else rule.missing
        column = str(rule.column)
        found = self._of_column(rule, column, attribute, codes)
        if tally is not None and codes:
            missing = self._is_missing(rule, column, codes, found)
            counted = np.flatnonzero(missing if rows is None else missing & rows)
            cells = self._arrays[column].take(pa.array(counted))
            # Those that the study calls missing, too, are counted as its own codes.
            without = self._reader_of(rule, column, attribute)
            still = missing_rows(parse_column(without, cells, distinguish_missing=True))
            tally[CellOutcome.CODE] += int((~still).sum())
        if tally is not None and rule.otherwise is not None:
            unlisted = self._places(column, tuple(rule.recode or ()), codes) == UNKNOWN
            tally[CellOutcome.OTHERWISE] += int(
                (unlisted if rows is None else unlisted & rows).sum()
            )
        return found

    def _of_column(
        self, rule: Rule, column: str, attribute: Attribute, codes: tuple[str, ...]
    ) -> Column:
        """Return what a column and its step give."""
        if rule.is_plain:
            return self._plain(column, attribute, codes)
        if rule.recode is not None:
            targets = (*rule.recode.values(), rule.otherwise or _UNLISTED)
            made = self._targets(attribute, targets)
            # Of a dictionary its few texts are recoded, not each cell.
            reader = self._reader(CellKind.TEXT, column, tuple(rule.recode), codes)
            listed = parse_listed(reader, self._arrays[column], known=self._known)
            if listed is not None:
                values, places = listed
                return made[values].take(places)
            return made[self._places(column, tuple(rule.recode), codes)]
        if rule.cut is not None:
            values = self._values(column, CellKind.NUMBER, codes)
            parts = np.searchsorted(np.array(rule.cut.edges), values, side="right")
            parts = np.where(np.isinf(values), UNKNOWN, parts)
            targets = (*rule.cut.labels, _UNLISTED)
            return self._targets(attribute, targets)[np.where(np.isnan(values), MISSING, parts)]
        return self._as_attribute(attribute, self._computed(rule, column, codes))

    def _is_missing(self, rule: Rule, column: str, codes: tuple[str, ...], found: Column) -> Mask:
        """Return the rows whose cell is missing."""
        if rule.is_plain:
            return missing_rows(found)
        return missing_rows(self._parsed(*_form_of(rule, column), codes))

    def _reader_of(self, rule: Rule, column: str, attribute: Attribute) -> Attribute:
        """Return what reads a rule's column where the site has no codes for missing."""
        if rule.is_plain:
            return attribute
        kind, _, words = form = _form_of(rule, column)
        made: Attribute = self._mapped.table(
            ("without", *form), lambda: _reader(kind, f"{_UNLISTED}{form}", words, ())
        )
        return made

    def _computed(self, rule: Rule, column: str, codes: tuple[str, ...]) -> NDArray[np.float64]:
        if rule.is_linear:
            return compute_linear(rule, self._values(column, CellKind.NUMBER, codes))
        days = self._values(column, CellKind.DAY, codes)
        if rule.part is not None:
            return take_part(days, rule.part)
        named = str(rule.age_on or rule.days_to)
        day = read_day(named)
        if day is None:
            other = self._values(named, CellKind.DAY, codes)
            return completed_years(days, other) if rule.age_on else days_between(days, other)
        public = float(count_days(day))
        if rule.days_to:
            return days_between(days, np.full(self._n_rows, public))
        return _ages_on(days, public)

    def _plain(self, column: str, attribute: Attribute, codes: tuple[str, ...]) -> Column:
        read = self._mapped.table(("plain", attribute.name, codes), lambda: _with(attribute, codes))
        return parse_column(
            read,
            self._arrays[column],
            distinguish_missing=self._distinguish,
            known=self._known,
        )

    def _first(
        self,
        rules: Sequence[Rule],
        attribute: Attribute,
        tally: Counter[CellOutcome] | None,
        rows: Mask | None,
    ) -> Column:
        found = self.result(rules[0], attribute, tally, rows)
        for rule in rules[1:]:
            open_ = missing_rows(found)
            if not open_.any():
                break
            counted = open_ if rows is None else open_ & rows
            found = np.where(open_, self.result(rule, attribute, tally, counted), found)
        return found

    def _case(
        self,
        rule: Rule,
        attribute: Attribute,
        tally: Counter[CellOutcome] | None,
        rows: Mask | None,
    ) -> Column:
        found, open_ = absent_column(attribute, self._n_rows), np.ones(self._n_rows, bool)
        for case in rule.cases or ():
            held = open_.copy()
            for column, test in case.tests.items():
                held &= self._holds(column, test)
            if held.any():
                counted = held if rows is None else held & rows
                found = np.where(held, self.result(case.then, attribute, tally, counted), found)
            open_ &= ~held
        if tally is not None:
            tally[CellOutcome.NO_CASE] += int((open_ if rows is None else open_ & rows).sum())
        return found

    def _holds(self, column: str, test: Test) -> Mask:
        codes, kind = (
            self._mapped.missing,
            self._mapped.table("kinds", self._mapped.kinds)[column][0],
        )
        if test.one_of is not None:
            held: Mask = self._places(column, test.one_of, codes) >= 0
            return held
        if test.is_range:
            values = self._values(column, CellKind.NUMBER, codes)
            least = -np.inf if test.at_least is None else test.at_least
            below = np.inf if test.below is None else test.below
            return np.isfinite(values) & (values >= least) & (values < below)
        if kind is not CellKind.TEXT:
            return np.isnan(self._values(column, kind, codes))
        words = self._mapped.table(("words", column), lambda: tuple(self._mapped.words(column)))
        missing: Mask = self._places(column, words, codes) == MISSING
        return missing

    def _label_of_marks(self, one_hot: Mapping[str, str], attribute: Attribute) -> Column:
        marks = np.column_stack([self._places(each, _MARKS, ()) for each in one_hot])
        ones = marks >= _MARKS.index("1")
        is_known = (marks >= 0).all(axis=1) & (ones.sum(axis=1) == 1)
        targets = self._targets(attribute, (*one_hot.values(), _UNLISTED))
        return targets[np.where(is_known, ones.argmax(axis=1), MISSING)]

    def _values(self, column: str, kind: CellKind, codes: tuple[str, ...]) -> NDArray[np.float64]:
        """Return numbers or days of a column; NaN, `NOT_A_NUMBER` or `INFINITE` for others."""
        values: NDArray[np.float64] = self._parsed(kind, column, (), codes)
        return values

    def _places(
        self, column: str, words: tuple[str, ...], codes: tuple[str, ...]
    ) -> NDArray[np.int32]:
        """Return the place of each cell among some words; `MISSING` or `UNKNOWN` for others."""
        places: NDArray[np.int32] = self._parsed(CellKind.TEXT, column, words, codes)
        return places

    def _parsed(
        self, kind: CellKind, column: str, words: tuple[str, ...], codes: tuple[str, ...]
    ) -> Any:
        key = kind, column, words, codes
        if key not in self._read:
            self._read[key] = parse_column(
                self._reader(*key),
                self._arrays[column],
                distinguish_missing=self._distinguish,
                known=self._known,
            )
        return self._read[key]

    def _reader(
        self, kind: CellKind, column: str, words: tuple[str, ...], codes: tuple[str, ...]
    ) -> Attribute:
        """Return what reads a column; a pass keeps values of dictionaries by its name."""
        key = kind, column, words, codes
        made: Attribute = self._mapped.table(
            key, lambda: _reader(kind, f"{_UNLISTED}{key}", words, codes)
        )
        return made

    def _targets(self, attribute: Attribute, targets: tuple[str, ...]) -> Column:
        """Return the value of each target, by its place.

        That of the last one stands last, for `UNKNOWN`, and a missing one before it, for `MISSING`.
        """

        def make() -> Column:
            values = parse_targets(attribute, targets)
            return np.concatenate([values[:-1], absent_column(attribute, 1), values[-1:]])

        made: Column = self._mapped.table((attribute.name, targets), make)
        return made

    def _as_attribute(self, attribute: Attribute, values: NDArray[np.float64]) -> Column:
        """Return computed numbers as cells of the attribute: its labels, its codes for missing."""
        if list_labels(attribute) is not None:
            other = np.isinf(values)
            column = parse_column(
                attribute, pa.array(np.where(other, np.nan, values), from_pandas=True)
            )
            unknown = parse_targets(attribute, (_UNLISTED,))[0]
            return np.where(other, unknown, column)
        assert isinstance(attribute, Numeric)  # noqa: S101 - all others have labels
        if len(codes := number_codes(attribute)):
            return np.where(np.isin(values, codes), np.nan, values)
        return values


def parse_targets(attribute: Attribute, targets: Sequence[str]) -> Column:
    """Return the values of cells that a rule gives."""
    return parse_column(attribute, pa.array(targets, pa.string()))


def missing_rows(column: Column) -> Mask:
    """Return the rows whose value is missing; one that is unknown, or text, is not."""
    missing: Mask = np.isnan(column) if column.dtype == np.float64 else column == MISSING
    return missing


def compute_linear(rule: Rule, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers changed by a rule's arithmetic, each step rounded once.

    What is missing, text or infinite stays what it is; a result that no float64 holds is infinite.
    """
    made = values
    with np.errstate(all="ignore"):
        for step, number in (
            (np.subtract, rule.minus),
            (np.multiply, rule.times),
            (np.divide, rule.over),
            (np.add, rule.plus),
        ):
            if number is not None:
                made = step(made, number, out=None if made is values else made)
        if rule.round is not None:
            made = np.floor(made)
    if np.isfinite(made).all():
        return made
    return np.where(np.isfinite(values), np.where(np.isfinite(made), made, INFINITE), values)


def take_part(days: NDArray[np.float64], part: str) -> NDArray[np.float64]:
    """Return the year or month of days since 1970."""
    year, month, _ = _calendar(days)
    return np.where(np.isfinite(days), year if part == "year" else month, days)


def completed_years(born: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return completed years; who was born on 29 February is older from 1 March in other years.

    Before the birth they are negative.
    """
    (year, month, day), (now, then, today) = _calendar(born), _calendar(at)
    return _of_both(born, at, now - year - (then * 100 + today < month * 100 + day))


def days_between(first: NDArray[np.float64], last: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the days from one to another; negative if the second is the earlier one."""
    with np.errstate(invalid="ignore"):
        return _of_both(first, last, last - first)


def _of_both(
    one: NDArray[np.float64], other: NDArray[np.float64], made: NDArray[Any]
) -> NDArray[np.float64]:
    """Return what was made of two days: missing if one of them is, text if one is no day."""
    both = np.where(np.isnan(one) | np.isnan(other), np.nan, NOT_A_NUMBER)
    return np.where(np.isfinite(one) & np.isfinite(other), made, both).astype(np.float64)


def _calendar(days: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Year, month and day of the month; any for what is no day."""
    day = np.where(np.isfinite(days), days, 0).astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    year = day.astype("datetime64[Y]")
    return year.astype(int) + 1970, month.astype(int) % 12 + 1, (day - month).astype(int) + 1


def _ages_on(born: NDArray[np.float64], day: float) -> NDArray[np.float64]:
    """Return completed years on a public day, by a table of days of birth where it has them."""
    first, last = born.min(initial=_LAST_DAY), born.max(initial=_FIRST_DAY)
    if not (first >= _FIRST_DAY and last <= _LAST_DAY):  # nor of what is no day
        return completed_years(born, np.full(len(born), day))
    return _table_of_ages(day)[(born - _FIRST_DAY).astype(np.intp)]


@lru_cache(maxsize=64)
def _table_of_ages(day: float) -> NDArray[np.float64]:
    born = np.arange(_FIRST_DAY, _LAST_DAY + 1, dtype=np.float64)
    return completed_years(born, np.full(len(born), day))


def _kind_of(attribute: Attribute) -> CellKind:
    if list_labels(attribute) is not None:
        return CellKind.TEXT
    return CellKind.DAY if isinstance(attribute, Date) else CellKind.NUMBER


def _form_of(rule: Rule, column: str) -> tuple[CellKind, str, tuple[str, ...]]:
    """Return how a rule that is not plain reads its column, and the words that it looks for."""
    if rule.recode is not None:
        return CellKind.TEXT, column, tuple(rule.recode)
    is_number = rule.is_linear or rule.cut is not None
    return CellKind.NUMBER if is_number else CellKind.DAY, column, ()


def _are_numbers(words: Iterable[str]) -> bool:
    return all(label_number(word) is not None for word in words)


def _reader(kind: CellKind, name: str, words: Collection[str], codes: tuple[str, ...]) -> Attribute:
    """Return an attribute by which a column is read; it may have any number of labels."""
    given: dict[str, Any] = {
        "name": name,
        "missing_values": tuple((code, "") for code in codes) or None,
    }
    if kind is CellKind.NUMBER:
        return Numeric.model_construct(**given)
    if kind is CellKind.DAY:
        return Date.model_construct(**given, lower=_EARLIEST, upper=_LATEST)
    return Categorical.model_construct(**given, categories=tuple(words))


def _with(attribute: Attribute, codes: tuple[str, ...]) -> Attribute:
    """Return an attribute with a site's codes for missing beside the study's."""
    if not codes:
        return attribute
    both = dict.fromkeys((*(attribute.missing_values or ()), *((code, "") for code in codes)))
    name = f"{_UNLISTED}{attribute.name} {codes}"  # by which `KnownLists` keeps values
    return attribute.model_copy(update={"missing_values": tuple(both), "name": name})


def plan_columns(
    schema: Schema, document: MappingDocument, absent: Collection[str] = ()
) -> MappedColumns:
    """Return the rules of all attributes; one that the file leaves out is the column of its name.

    ``absent`` are attributes that are not read.
    """
    rules = {
        attribute.name: document.attributes.get(attribute.name)
        or Rule(column=attribute.name.strip())
        for attribute in schema.attributes
        if attribute.name not in absent
    }
    return MappedColumns(schema, rules, document.missing)
