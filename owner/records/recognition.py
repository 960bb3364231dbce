"""Proposals to a steward of how text files are written, if cells of them are not read.

Forms are tried on the first file's first rows, by the functions that read it. Those are proposed
that read the most cells, if the form in use reads fewer. A person decides, who knows what wrote
the file: no release tries a form. Of the cells only words of a fixed list are shown. `Site-only`.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import UNKNOWN, Attribute, Schema
from dppca.common.kernel.schema.attributes import Date, list_labels
from dppca.common.kernel.schema.columns import cell_texts, parse_column
from dppca.common.kernel.schema.texts import NOT_A_NUMBER
from dppca.owner.records.locations import Location
from dppca.owner.records.normal_forms import normal_form
from dppca.owner.records.source_facts import LineFault
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.table import find_delimiter
from dppca.owner.records.text_cells import missing_labels, usual_cells
from dppca.owner.records.text_format import DELIMITERS, USUAL, UTF_8, TextFormat

_BATCH_ROWS: Final = 1 << 14  # looked at, of each batch
_BATCHES: Final = 8  # looked at
_NUMBERS: Final = tuple(
    {"decimal": decimal, "thousands": mark}
    for decimal, marks in ((".", ("", ",", "'", " ")), (",", ("", ".", "'", " ")))
    for mark in marks
)
_ORDERS: Final = (
    ("DD", "MM", "YYYY"),
    ("MM", "DD", "YYYY"),
    ("D", "M", "YYYY"),
    ("M", "D", "YYYY"),
    ("YYYY", "MM", "DD"),
    ("DD", "MON", "YYYY"),
)
_COUNTS: Final = (
    "seconds since 1582-10-14",  # SPSS
    "days since 1960-01-01",  # SAS, Stata
    "seconds since 1960-01-01",  # SAS
    "milliseconds since 1960-01-01",  # Stata
    "days since 1899-12-30",  # spreadsheets
)
_DATES: Final = tuple(
    {"dates": form}
    for form in (
        *(mark.join(order) for order in _ORDERS for mark in "./-"),
        "YYYYMMDD",
        "DDMONYYYY",
        *_COUNTS,
    )
)
_MISSING: Final = ("-", "--", "---", "?", "*", "n/a", "N/A", "n.a.", "N.A.", "k.A.", "unknown")

_USUAL_ENCODING: Final = "windows-1252"  # of Excel in Western Europe; a person knows others

_HEADERS: Final = 20  # lines among which the header is sought
_SEPARATORS: Final = re.compile("[,;\t|]")

_Counted = Sequence[tuple[Attribute, pa.Array, Any]]
"""Distinct cells of each attribute, as they are in the file, and how often each occurs."""


def propose_formats(
    location: Location, schema: Schema, *, likely: Mapping[str, Attribute] = MappingProxyType({})
) -> tuple[TextFormat, ...]:
    """Return formats that read the most cells of a location's text files.

    ``likely`` are columns of other names that may be attributes, which are tried, too.
    None if the one in use does; several if they read as many cells, as other values. Raise
    `DataError` or `SettingError` as `Location.open`.
    """
    used = form = location.text_format
    if used is None or form is None:
        return ()
    columns = {attribute.name.strip(): attribute for attribute in schema.attributes}
    if location.mapping is not None:
        from dppca.owner.records.mapping_files import read_mapping  # few data sets have one

        columns = read_mapping(location.mapping).rules(schema).forms()
    columns = {**columns, **likely}
    form = _with_header(location, form, [*columns])
    first = location.written(form).open().parts[0]
    mark = _delimiter(first.names, [*columns])
    if mark is not None:
        form = replace(form, delimiter=mark)
        first = location.written(form).open().parts[0]
    if LineFault.ENCODING in first.facts.malformed and form.encoding == UTF_8:
        form = replace(form, encoding=_USUAL_ENCODING)
    raw = TextFormat(form.delimiter, encoding=form.encoding, sheet=form.sheet, header=form.header)
    first = location.written(raw).open().parts[0]
    counted = _count_cells(first, columns)
    dates = [each for each in counted if isinstance(each[0], Date)]
    others = [each for each in counted if not isinstance(each[0], Date)]
    formats = tuple(
        _with_words(each, counted)
        for numbers in _best(form, _NUMBERS, others, stated=mark is None)
        for each in _best(numbers, _DATES, dates)
    )
    return () if used in formats else formats


def _delimiter(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return what separates a header's names; None for what the format says already."""
    found = find_delimiter([*map(str.casefold, names)], [*map(str.casefold, wanted)])
    if found is None and len(names) == 1:
        found = max(DELIMITERS, key=names[0].count)
        found = found if found in names[0] else None
    return found


def _with_header(location: Location, form: TextFormat, wanted: Sequence[str]) -> TextFormat:
    """Return the format with the line that names the most columns, if the stated one names none.

    Raise `DataError` as `Location.open` if no line does.
    """
    forms = {normal_form(name) for name in wanted}

    def named(header: int) -> tuple[int, int]:
        """Count the names that are wanted, and all names."""
        try:
            names = location.written(replace(form, header=header)).open().parts[0].names
        except DataError:
            return 0, 0
        parts = [part.strip(' "') for name in names for part in _SEPARATORS.split(name)]
        return sum(normal_form(part) in forms for part in parts), sum(map(bool, parts))

    if form.header != USUAL.header or named(form.header)[1] > 1:
        return form
    best = max(range(1, _HEADERS + 1), key=named)
    return replace(form, header=best) if named(best)[1] > 1 else form


def _changed(form: TextFormat, changes: Mapping[str, Any]) -> TextFormat | None:
    with suppress(ValueError):
        return replace(form, **changes)
    return None


def _count_cells(source: Source, columns: Mapping[str, Attribute]) -> _Counted:
    """Count the first cells of the columns that are texts."""
    found = {name: each for name, each in columns.items() if name in source.names}
    if not found:
        return []
    wanted = Wanted([*found], _BATCH_ROWS, (), {})
    batches = list(islice(source.read(wanted), _BATCHES))
    counted: list[tuple[Attribute, pa.Array, Any]] = []
    if not batches:  # of no rows
        return counted
    for attribute, arrays in zip(found.values(), zip(*batches, strict=True), strict=True):
        texts = [each for each in arrays if pa.types.is_large_binary(each.type)]
        if texts:
            counts = pa.concat_arrays(texts).value_counts()
            counted.append((attribute, counts.field("values"), counts.field("counts").to_numpy()))
    return counted


def _best(
    form: TextFormat,
    changes: Sequence[Mapping[str, Any]],
    counted: _Counted,
    *,
    stated: bool = True,
) -> list[TextFormat]:
    """Return the forms with the fewest unread cells, each with other values; or the one in use.

    The one in use counts for more if it was ``stated`` of these cells, not of lines that are
    separated otherwise: then ``1.234`` may be either number.
    """
    n_now, values = _read(form, counted)
    found, least = {values: form}, n_now
    if not n_now and stated:
        return [form]
    for each in filter(None, (_changed(form, change) for change in changes)):
        n_unread, values = _read(each, counted)
        if n_unread < least:
            least, found = n_unread, {}
        if n_unread == least:
            found.setdefault(values, each)
    return [form] if least == n_now and stated else [*found.values()]


def _read(form: TextFormat, counted: _Counted) -> tuple[int, bytes]:
    """Count the unread cells, and return what the others are."""
    n_unread, values = 0, b""
    for attribute, cells, counts in counted:
        column = parse_column(attribute, usual_cells(form, cells, attribute))
        n_unread += int(counts[_unread(attribute, column)].sum())
        values += column.tobytes()
    return n_unread, values


def _unread(attribute: Attribute, column: Any) -> Any:
    """Mask of cells that are not read; a date outside of the bounds counts as one."""
    if isinstance(attribute, Date):
        lower, upper = attribute.bounds
        return (column < lower) | (column > upper)
    if list_labels(attribute) is None or column.dtype == np.float64:
        return column == NOT_A_NUMBER
    return column == UNKNOWN


def _with_words(form: TextFormat, counted: _Counted) -> TextFormat:
    """Add words for missing that stand in columns of numbers and dates and are no label."""
    found = {
        word
        for attribute, cells, _ in counted
        if list_labels(attribute) is None
        for word in map(str.strip, cell_texts(cells))
        if word in _MISSING
    }
    attributes, words = [each[0] for each in counted], form.missing
    for word in _MISSING:
        labelled = missing_labels(TextFormat(missing=(word,)), attributes)
        if word in found and word not in words and not labelled:
            words = (*words, word)
    return replace(form, missing=words)
