"""Dictionaries of two sheets: of Opal, and the DataSchema of Maelstrom's Rmonize.

The sheet *Variables* has a line for each column of the data: ``name``, ``valueType``, ``unit``,
``label`` and ``description`` (``label:en`` for a language). *Categories* has one for each code:
``variable``, ``name``, ``missing`` (1 or 0) and ``label``. A concept stands in a column of that
name, or of a vocabulary's (`VOCABULARIES`), with any namespace before it.

Limits: neither form has bounds or an order of labels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Attribute, Schema
from dppca.common.kernel.schema.attributes import Categorical, Date, Numeric, list_labels
from dppca.common.shell.dictionaries.dictionary import (
    FREE_TEXT,
    Codes,
    Dictionary,
    Entry,
    EntryType,
    Omission,
    join_codes,
    join_notes,
    make_dictionary,
    name_labels,
)
from dppca.common.shell.dictionaries.other_forms import NO_DICTIONARY
from dppca.common.shell.sheets import Cell, Sheets, read_sheets, write_sheets

VOCABULARIES: Final = ("LOINC", "SNOMED", "OMOP", "DDI")
_KINDS: Final = {
    "integer": EntryType.INTEGER,
    "decimal": EntryType.NUMBER,
    "date": EntryType.DATE,
    "datetime": EntryType.DATE,
}
_TRUE: Final = ("1", "true", "yes", "y")
_FORM: Final = "dictionary of two sheets (Opal, DataSchema)"
_VARIABLES: Final = ("index", "name", "label", "description", "valueType", "unit", "concept")
_CATEGORIES: Final = ("variable", "name", "label", "missing")
_Line = Mapping[str, str]


def read_workbook(content: bytes, *, missing: Codes = ()) -> Dictionary:
    """Read a workbook with both sheets; ``missing`` are codes that mean missing everywhere.

    Raise `SettingError` if it has not both, or describes several tables; `DataError` if it is no
    workbook.
    """
    sheets = {name.lower(): rows for name, rows in read_sheets("the workbook", content).items()}
    variables = _lines(sheets.get("variables", []))
    if not variables or not {"name", "valuetype"} <= variables[0].keys():
        raise SettingError(NO_DICTIONARY)
    if len({line.get("table", "") for line in variables}) > 1:
        raise SettingError("its sheet Variables is of several tables: keep the lines of one")
    categories = dict[str, list[_Line]]()
    for line in _lines(sheets.get("categories", [])):
        categories.setdefault(line.get("variable", ""), []).append(line)
    columns = [_column(line, categories.get(line["name"], [])) for line in variables]
    names = {line["name"] for line in variables}
    notes = [f"{name}: it has categories, and is no variable" for name in categories.keys() - names]
    return make_dictionary(_FORM, columns, missing=missing, notes=sorted(notes))


def write_workbook(schema: Schema, more: Sheets = MappingProxyType({})) -> bytes:
    """Return a workbook of both sheets, and more, that says what a schema does but for bounds."""
    variables: list[list[Cell]] = [[*_VARIABLES]]
    categories: list[list[Cell]] = [[*_CATEGORIES]]
    codes = schema.missing_values
    for index, each in enumerate(schema.attributes, start=1):
        words = each.description or ""
        unit = each.unit if isinstance(each, Numeric) else None
        variables.append([index, each.name, words, words, _value_type(each), unit, each.concept])
        lacks = each.unknown if isinstance(each, Categorical) else None
        labels = list_labels(each) or ()
        categories += [[each.name, label, label, int(label == lacks)] for label in labels]
        own = codes if each.missing_values is None else each.missing_values
        categories += [[each.name, code, said or code, 1] for code, said in own]
    return write_sheets({"Variables": variables, "Categories": categories, **more})


def _value_type(attribute: Attribute) -> str:
    if list_labels(attribute) is not None:
        return "text"
    if isinstance(attribute, Date):
        return "date"
    return "integer" if isinstance(attribute, Numeric) and attribute.integer else "decimal"


def _lines(rows: Sequence[Sequence[str]]) -> list[_Line]:
    """Return the lines below a header, by its names in small letters; blank lines are left out."""
    header = [name.lower() for name in rows[0]] if rows else []
    return [dict(zip(header, row, strict=False)) for row in rows[1:] if any(row)]


def _column(line: _Line, categories: Sequence[_Line]) -> Entry | Omission:
    name, kind = line["name"], line.get("valuetype", "").lower()
    if not name:
        raise SettingError("a line of its sheet Variables has no name")
    if line.get("repeatable", "") in _TRUE:
        return Omission(name, "a person has several values of it")
    words = join_notes(*dict.fromkeys((_said(line, "label"), _said(line, "description"))))
    pairs = [(each.get("name", ""), _said(each, "label")) for each in categories]
    lacks = [each.get("missing", "").lower() in _TRUE for each in categories]
    codes = [pair for pair, is_missing in zip(pairs, lacks, strict=True) if is_missing]
    meanings = [pair for pair, is_missing in zip(pairs, lacks, strict=True) if not is_missing]
    missing = join_codes(codes) if codes else None
    if kind == "boolean" and not meanings:
        meanings = [("false", ""), ("true", "")]
    entry = Entry(
        name, EntryType.LABEL, note=words, unit=line.get("unit", ""), concept=_concept(line)
    )
    if meanings:
        labels = tuple(code for code, _ in meanings)
        said = join_notes(words, name_labels(meanings))
        return replace(entry, labels=labels, note=said, meanings=tuple(meanings), missing=missing)
    if kind not in _KINDS:
        return Omission(name, FREE_TEXT if kind == "text" else "a type that a study has not")
    return replace(entry, kind=_KINDS[kind], missing=missing)


def _said(line: _Line, name: str) -> str:
    """Return a text in English, else without a language, else in the first one."""
    others = (text for key, text in line.items() if key.startswith(f"{name}:") and text)
    return line.get(f"{name}:en") or line.get(name) or next(others, "")


def _concept(line: _Line) -> str:
    return next(_concepts(line), "")


def _concepts(line: _Line) -> Iterator[str]:
    """Yield codes of vocabularies, each with the vocabulary's name before it."""
    yield from filter(None, (line.get("concept"), line.get("rdftype")))
    for key, text in line.items():
        plain = key.rpartition("::")[2].partition(":")[0]
        for each in VOCABULARIES:
            if text and plain == each.lower():
                yield text if text.upper().startswith(each) else f"{each}:{text}"
