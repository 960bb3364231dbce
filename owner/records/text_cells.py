"""Cells of a text file in the usual form, by the `TextFormat` that a site states.

Every cell becomes, alone, the text that the same value has in the usual form: ``1.234,5`` becomes
``1234.5``, ``31.01.2020`` becomes ``2020-01-31``, a word for missing becomes null. So
`dppca.common.kernel.schema.columns` alone still decides what a cell means. A cell that would be a
number or a date in the usual form, and is none in the stated one, gets a mark that makes it
neither. A label stays as it is; other cells of labels may be numbers, such as ``1,0`` for ``1``.
"""

import math
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.schema import Attribute
from dppca.common.kernel.schema.attributes import Date, list_labels
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.missing_codes import codes_of
from dppca.common.kernel.schema.texts import day_of_text, label_finder
from dppca.owner.records.date_forms import ISO
from dppca.owner.records.text_format import USUAL, TextFormat

_BLANKS: Final = r"[\s\v\x1c-\x1f\x{85}\p{Z}]*"  # what Python strips
_UNREAD: Final = "\0"  # no label, number or date begins with it


def usual_cells(form: TextFormat, cells: pa.Array, attribute: Attribute | None) -> pa.Array:
    """Return cells in the usual form.

    Parameters
    ----------
    cells
        Large binary, shape (n_rows,).
    attribute
        That of the column; without one it is a key, whose numbers are in the usual form, too.
    """
    if form.has_usual_cells:
        return cells
    text = cells.view(pa.large_string())  # not checked: a cell must not be able to raise
    if form.missing:
        found = _is_one_of(text, [word.strip() for word in form.missing])
        text = pc.if_else(found, pa.scalar(None, text.type), text)
    if isinstance(attribute, Date):
        text = _dates(form, text, codes_of(attribute))
    elif attribute is not None:
        labels, numbers = list_labels(attribute), _numbers(form, text)
        text = numbers if labels is None else pc.if_else(_is_one_of(text, labels), text, numbers)
    else:
        text = _numbers(form, text, unread="")
    return text.view(pa.large_binary())


def missing_labels(form: TextFormat, attributes: Sequence[Attribute]) -> list[str]:
    """Return which words for missing are labels, of which attribute; they have two meanings."""
    words = pa.array(form.missing, pa.string())
    return [
        f"{word} is a label of {attribute.name}"
        for attribute in attributes
        if form.missing and list_labels(attribute) is not None
        for word, code in zip(form.missing, parse_column(attribute, words), strict=True)
        if math.isfinite(code) and code >= 0
    ]


def _is_one_of(text: pa.Array, words: Sequence[str]) -> pa.Array:
    return pc.is_in(pc.ascii_trim_whitespace(text), value_set=pa.array(words, text.type))


def _numbers(form: TextFormat, text: pa.Array, unread: str = _UNREAD) -> pa.Array:
    if form.decimal == "." and not form.thousands:
        return text
    is_number = pc.match_substring_regex(text, _pattern(form))
    plain = text
    for mark in form.group_marks:
        plain = pc.replace_substring(plain, mark, "")
    plain = pc.replace_substring(plain, form.decimal, ".")
    before, nothing = (pa.scalar(each, text.type) for each in (unread, ""))
    marked = pc.binary_join_element_wise(before, text, nothing)
    other = pc.if_else(pc.match_substring_regex(text, _pattern(USUAL)), marked, text)
    return pc.if_else(is_number, plain, other)


def _pattern(form: TextFormat) -> str:
    return f"^{_BLANKS}{form.number_pattern}{_BLANKS}$"


def _dates(form: TextFormat, text: pa.Array, codes: tuple[str, ...]) -> pa.Array:
    """Read each distinct text once; a code for missing such as -99 is no number of days."""
    if form.dates == ISO:
        return text
    find = label_finder(codes)

    def day(word: str) -> str:
        found = word if find(word) is not None else form.day_text(word)
        if found is None and math.isfinite(day_of_text(word)):
            return _UNREAD + word
        return word if found is None else found

    listed = text.view(pa.large_binary()).dictionary_encode()
    words = [value.decode("utf-8", "replace").strip() for value in listed.dictionary.to_pylist()]
    return pa.array(map(day, words), text.type).take(listed.indices)
