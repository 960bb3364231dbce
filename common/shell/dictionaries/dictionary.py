"""Content of a data dictionary about its columns, independent of the file format."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from itertools import chain
from typing import Annotated

from dppca.common.kernel.errors import SettingError

Codes = tuple[tuple[str, str], ...]
"""Codes that mean missing, each with its words for people."""


class EntryType(StrEnum):
    """Type of a column's values."""

    NUMBER = "number"
    INTEGER = "integer"
    DATE = "date"
    LABEL = "label"
    ORDINAL = "ordinal"


@dataclass(frozen=True, slots=True)
class Entry:
    """One column.

    ``lower`` and ``upper`` are bounds as text for a study file, None if the dictionary gives none.
    ``labels`` are those in the data, of a `LABEL` or an `ORDINAL`, empty if none are listed;
    ``unknown`` is an extra label for values that are missing or not listed. ``note`` is the meaning
    of the column, ``unit`` what its numbers count, and ``concept`` its code in a vocabulary.
    ``meanings`` are what labels that are codes mean. ``one_hot`` are the columns that stand for the
    labels, in their order; empty if a column holds the labels. ``missing`` are codes that mean
    missing; None for those of the dictionary. ``nullable`` is True if the dictionary says that a
    number may be missing. ``decide`` says why a person has to write the labels: files may hold
    several words for one.
    """

    name: str
    kind: EntryType
    lower: str | None = None
    upper: str | None = None
    labels: tuple[str, ...] = ()
    unknown: str | None = None
    note: str = ""
    unit: str = ""
    concept: str = ""
    meanings: Codes = ()
    one_hot: tuple[str, ...] = ()
    missing: Codes | None = None
    nullable: bool = False
    decide: str = ""


@dataclass(frozen=True, slots=True)
class OneHotColumn:
    """A column that is 1 in rows with one ``label`` of an ``attribute``, and 0 in other rows."""

    name: str
    attribute: str
    label: str
    unknown: str | None = None
    note: str = ""
    concept: str = ""


@dataclass(frozen=True, slots=True)
class Omission:
    """A column of the dictionary that became no attribute."""

    name: Annotated[str, "name of the column"]
    reason: Annotated[str, "why it was left out"]


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A parsed dictionary; every column of it is an entry or an omission.

    ``missing`` are its codes for missing. ``notes`` say what no study can hold; ``written`` is what
    a site's policy has to say of its files, as ``format``. ``repeating`` are columns, or what the
    form of the dictionary brings, by which a person may have several rows.
    """

    form: str
    entries: tuple[Entry, ...]
    omitted: tuple[Omission, ...]
    missing: Codes = ()
    notes: tuple[str, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)
    repeating: tuple[str, ...] = ()


FREE_TEXT = "free text"
IDENTIFIER = "it identifies people"
ONE_LABEL = "it has one label, and a constant tells nothing"
ONE_VALUE = "its bounds are one value, and a constant tells nothing"


def make_dictionary(
    form: str,
    columns: Sequence[Entry | Omission | OneHotColumn],
    *,
    missing: Codes = (),
    notes: Sequence[str] = (),
    written: Mapping[str, str] | None = None,
    repeating: Sequence[str] = (),
) -> Dictionary:
    """Separate entries from omissions, and join one-hot columns into one entry per attribute.

    A label that is a code for missing is left out, with a note. A column that can have one value
    only becomes an omission.

    Raise `SettingError` for equal names, no entry, or one-hot columns that make no attribute.
    """
    from dppca.common.shell.repeated_rows import find_repeating  # not for a command's help

    numbers: dict[str, int] = {}
    for number, column in enumerate(columns, start=1):
        first = numbers.setdefault(column.name, number)
        if first < number:
            raise SettingError(
                f"the {form} has one name for its columns {first} and {number}: give each its own"
            )
    said = [*notes]
    columns = [_without_codes(each, missing, said) for each in columns]
    columns = [_constant(each) or each for each in columns]
    entries = tuple(_join_one_hot(form, columns))
    if not entries:
        raise SettingError(
            f"the {form} has no column that a study can use: numbers, dates, or labels that are "
            "listed"
        )
    omitted = tuple(column for column in columns if isinstance(column, Omission))
    repeating = (*repeating, *find_repeating(column.name for column in columns))
    return Dictionary(form, entries, omitted, missing, tuple(said), written or {}, repeating)


def _without_codes(
    column: Entry | Omission | OneHotColumn, missing: Codes, notes: list[str]
) -> Entry | Omission | OneHotColumn:
    """Return a column without labels that are codes for missing; add a note for each."""
    from dppca.common.kernel.schema.texts import label_finder  # not for a command's help

    if not isinstance(column, Entry):
        return column
    codes = missing if column.missing is None else column.missing
    find = label_finder(tuple(code for code, _ in codes))
    kept = tuple(label for label in column.labels if find(label) is None)
    notes += [
        f"{column.name}: {label} is listed as a label and as missing; it counts as missing"
        for label in column.labels
        if label not in kept
    ]
    return replace(column, labels=kept)


def _constant(column: Entry | Omission | OneHotColumn) -> Omission | None:
    """Return the omission of a column that can have one value only; None for any other."""
    if not isinstance(column, Entry):
        return None
    if len({*column.labels, *([column.unknown] if column.unknown else [])}) == 1 and column.labels:
        return Omission(column.name, ONE_LABEL)
    if column.lower is not None and column.lower == column.upper:
        return Omission(column.name, ONE_VALUE)
    return None


def _join_one_hot(form: str, columns: Sequence[Entry | Omission | OneHotColumn]) -> Iterator[Entry]:
    """Yield entries; an attribute of one-hot columns stands where its first column does."""
    groups: dict[str, list[OneHotColumn]] = {}
    for column in columns:
        if isinstance(column, OneHotColumn):
            groups.setdefault(column.attribute, []).append(column)
    others = {column.name for column in columns}
    for column in columns:
        if isinstance(column, Entry):
            yield column
        elif isinstance(column, OneHotColumn) and groups[column.attribute][0] is column:
            group = groups[column.attribute]
            labels = tuple(each.label for each in group)
            unknown = {each.unknown for each in group if each.unknown is not None}
            if len(group) < 2 or len({*labels}) < len(labels) or len(unknown) > 1:
                raise SettingError(
                    f"the {form} has one-hot columns that make no attribute: {column.attribute} "
                    "needs two columns or more, a label of its own for each, and one unknown label "
                    "at most"
                )
            if column.attribute in others:
                raise SettingError(
                    f"the {form} has a column called {column.attribute}, which one-hot columns "
                    "are joined into: give one of them another name"
                )
            note, concept = (
                next((text for each in group if (text := getattr(each, name))), "")
                for name in ("note", "concept")
            )
            yield Entry(
                column.attribute,
                EntryType.LABEL,
                labels=labels,
                unknown=next(iter(unknown), None),
                note=note,
                concept=concept,
                one_hot=tuple(each.name for each in group),
            )


def number_text(value: object) -> str | None:
    """Format a bound for a study file; None if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    from dppca.common.kernel.schema.texts import number_of_text  # not for a command's help

    try:
        number = number_of_text(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):  # a whole number of JSON has any length
        return None
    if not math.isfinite(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def date_text(value: object) -> str | None:
    """Format a bound such as ``2020-01-31``, without time of day; None if it is no date."""
    try:
        return date.fromisoformat(str(value)[:10]).isoformat()
    except ValueError:
        return None


def bound_text(kind: EntryType, value: object) -> str | None:
    """Format a bound of one kind of column."""
    return date_text(value) if kind is EntryType.DATE else number_text(value)


def name_labels(pairs: Sequence[tuple[str, str]]) -> str:
    """Meanings of codes, for a note; empty if each code stands for itself."""
    labels = [f"{code} = {meaning}" for code, meaning in pairs if meaning not in ("", code)]
    return "; ".join(labels)


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty on one line."""
    return ". ".join(" ".join(note.split()).rstrip(".") for note in notes if note.strip())


def read_codes(text: str) -> Codes:
    """Read codes for missing as REDCap writes choices: ``-99, Refused | 98, Not known | 97``.

    Raise `SettingError` where a number and its words have no comma between them.
    """
    parts = [part.partition(",") for part in text.split("|")]
    codes = [(code.strip(), words.strip()) for code, _, words in parts]
    for code, _ in codes:
        if match := re.match(r"(-?[0-9.]+)[\s:=]+(\D.*)", code):
            raise SettingError(
                f"codes for missing need a comma between them and words: {match[1]}, {match[2]}"
            )
    return join_codes(codes)


def join_codes(*lists: Sequence[tuple[str, str]]) -> Codes:
    """Join codes for missing: each number or text once, with the first words; none that is blank.

    An empty cell is missing without being listed.
    """
    from dppca.common.kernel.schema.texts import label_number  # not for a command's help

    found: dict[object, tuple[str, str]] = {}
    for code, words in chain(*lists):
        if code:
            number = label_number(code)
            found.setdefault(code if number is None else number, (code, words))
    return tuple(found.values())
