"""How text files and workbooks of a data set are written: encoding, marks, dates, header.

A site states it, and nothing is guessed. `dppca.owner.records.text_cells` reads cells by it.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from dppca.common.kernel.schema.texts import day_of_text, number_of_text
from dppca.owner.records.date_forms import ISO, is_count, read_form

TEXT_SUFFIXES: Final = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""Suffixes of text files; with `WORKBOOK_SUFFIXES` those that a `TextFormat` is for."""
WORKBOOK_SUFFIXES: Final = (".xlsx", ".xlsm")
UTF_8: Final = "utf-8"
MOST_TITLE_LINES: Final = 1000  # above a table's header
ENCODINGS: Final = (
    UTF_8,
    *(f"windows-{number}" for number in range(1250, 1259)),
    *(f"iso-8859-{number}" for number in (1, 2, 15)),
)
"""Encodings of text files; but for UTF-8 each byte is one letter, and ASCII is itself."""
DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
HEADER_LINE: Final = "--format '{header: 3}' for a file, or `format: {header: 3}` in policy.yaml"
_BLANKS = (" ", "\u00a0", "\u202f")
_FORM = re.compile(r"[YMD]+[./ -]?[YMDON]+[./ -]?[YMDON]+|[a-z]+ since [0-9-]+")
_NAMES = {"\t": "tab", "'": "apostrophe"}
_GROUPS = {".": (".",), ",": (",",), "'": ("'", "\u2019"), " ": _BLANKS}


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The way in which text files are written, and texts in workbooks.

    Attributes
    ----------
    delimiter
        Character between cells.
    decimal
        Point or comma; a comma stands between quotes in cells that commas separate.
    thousands
        Character between groups of three digits; empty if there is none. A blank stands for
        no-break blanks, an apostrophe for a typographic one, too.
    dates
        Form of dates (`dppca.owner.records.date_forms`).
    missing
        Words that stand for a missing value, in any column.
    encoding
        Of text files, one of `ENCODINGS`.
    sheet
        Name of a workbook's sheet; empty for the only one with values.
    header
        Line or row that names the columns, from 1; those before it are not read.

    Raises
    ------
    ValueError
        A cell could have two meanings.
    """

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""
    dates: str = ISO
    missing: tuple[str, ...] = ()
    encoding: str = UTF_8
    sheet: str = ""
    header: int = 1

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise ValueError(f"encoding is one of {', '.join(ENCODINGS)}")
        if not 1 <= self.header <= MOST_TITLE_LINES:
            raise ValueError(f"header is the number of a line, 1 to {MOST_TITLE_LINES}")
        if self.delimiter not in DELIMITERS:
            raise ValueError("delimiter is comma, semicolon, tab or bar")
        if self.decimal not in (".", ","):
            raise ValueError("decimal is a point or a comma")
        if self.thousands and self.thousands not in _GROUPS:
            raise ValueError("thousands is a point, a comma, an apostrophe or a blank")
        if self.decimal == self.thousands:
            raise ValueError(
                f"decimal and thousands are both {self.decimal!r}: cells would have two meanings"
            )
        read_form(self.dates)
        for word in self.missing:
            self._check_word(word)

    def _check_word(self, word: str) -> None:
        plain = word.strip()
        if not plain:
            raise ValueError("missing: an empty cell is missing as it is")
        if math.isfinite(number_of_text(plain)) or self.number_text(plain) is not None:
            raise ValueError(
                f"missing: {plain} is a number, and a study says which numbers mean missing"
            )
        if math.isfinite(day_of_text(plain)) or self.day_text(plain) is not None:
            raise ValueError(f"missing: {plain} is a date")

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made, after JSON."""
        return cls(**{**document, "missing": tuple(document["missing"])})

    def to_yaml(self) -> str:
        """Return it as a mapping in one line, without what is usual."""
        usual = asdict(TextFormat())
        said = [(k, v) for k, v in asdict(self).items() if v != usual[k]]
        return f"{{{', '.join(f'{key}: {_quoted(value)}' for key, value in said)}}}"

    @property
    def has_usual_cells(self) -> bool:
        """True if its cells are written as usual, whatever stands around them."""
        return (self.decimal, self.thousands, self.dates, self.missing) == (".", "", ISO, ())

    @property
    def number_pattern(self) -> str:
        """Pattern of a number without outer blanks; its digits are all in groups, or none is.

        A first group has no leading zero, and no exponent follows: ``0.123`` and ``1.234e3`` are
        not in groups, whatever the mark.
        """
        mark, groups = re.escape(self.decimal), "|".join(map(re.escape, self.group_marks))
        plain = f"(?:[0-9]+(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?"
        grouped = f"|[1-9][0-9]{{0,2}}(?:(?:{groups})[0-9]{{3}})+(?:{mark}[0-9]*)?"
        return f"[+-]?(?:{plain}{grouped if groups else ''})"

    @property
    def group_marks(self) -> tuple[str, ...]:
        """Characters that may stand between groups of digits."""
        return _GROUPS.get(self.thousands, ())

    def number_text(self, word: str) -> str | None:
        """Return a number's text in the usual form; None if it is no number as stated."""
        if re.fullmatch(self.number_pattern, word.strip()) is None:
            return None
        for mark in self.group_marks:
            word = word.replace(mark, "")
        return word.replace(self.decimal, ".").strip()

    def day_text(self, word: str) -> str | None:
        """Return a date, and what follows it, in the usual form; None if it is none as stated."""
        number = self.number_text(word) if is_count(self.dates) else word
        return None if number is None else read_form(self.dates)(number)


USUAL: Final = TextFormat()


def _quoted(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, str) and _FORM.fullmatch(value):
        return value
    if value in _NAMES:  # an apostrophe would end the option's text in a shell
        return _NAMES[value]
    return json.dumps(value, ensure_ascii=False)
