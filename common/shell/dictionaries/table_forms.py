"""Reader for dictionaries that are tables: DPPCA's own, and REDCap's.

Only the header identifies a table. No message quotes a cell, because the file may turn out to hold
rows of people.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.dictionaries.dictionary import (
    FREE_TEXT,
    IDENTIFIER,
    Codes,
    Dictionary,
    Entry,
    EntryType,
    Omission,
    OneHotColumn,
    bound_text,
    join_notes,
    make_dictionary,
    name_labels,
    read_codes,
)
from dppca.common.shell.dictionaries.other_forms import (
    HEADER,
    NO_DICTIONARY,
    OWN_COLUMNS,
    name_header,
)

_OWN_KINDS = {
    **{kind.value: kind for kind in EntryType},
    "numeric": EntryType.NUMBER,
    "binary": EntryType.LABEL,
    "categorical": EntryType.LABEL,
    "int": EntryType.INTEGER,
    "float": EntryType.NUMBER,
}
_ONE_HOT = "one-hot"
_LEFT_OUT = {"text": FREE_TEXT, "id": IDENTIFIER, "identifier": IDENTIFIER}
_REDCAP_REPEATS = ("redcap_event_name", "redcap_repeat_instrument")  # if the project has them
_REDCAP = {  # the header of the file, and the names of its API
    "Variable / Field Name": "field_name",
    "Field Type": "field_type",
    "Field Label": "field_label",
    "Choices, Calculations, OR Slider Labels": "select_choices_or_calculations",
    "Text Validation Type OR Show Slider Number": "text_validation_type_or_show_slider_number",
    "Text Validation Min": "text_validation_min",
    "Text Validation Max": "text_validation_max",
    "Identifier?": "identifier",
    "Field Annotation": "field_annotation",
    "Branching Logic (Show field only if...)": "branching_logic",
}
_TWO = {"yesno": ("No", "Yes"), "truefalse": ("False", "True")}


def read_table(text: str, *, missing: Codes = ()) -> Dictionary:
    """Read a dictionary separated by commas, semicolons or tabs; the header decides which.

    ``missing`` are codes that mean missing in every column that has none of its own.

    Raise `SettingError` if the header is of no dictionary, or a line does not match it.
    """
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    try:
        lines = list(csv.reader(StringIO(text), delimiter=separator, strict=True))
    except csv.Error as error:
        raise SettingError(
            "this is not a CSV file: a quote is not closed, or stands alone"
        ) from error
    names = [_REDCAP.get(name.strip(), name.strip().lower()) for name in lines[0]] if lines else []
    if (known := name_header({name.lower() for name in names})) is not None:
        raise SettingError(known)
    read: Callable[[_Rows], Iterator[Entry | Omission | OneHotColumn]]
    if {"field_name", "field_type"} <= set(names):
        read, form = _read_redcap, "data dictionary of REDCap"
    elif {"name", "type"} <= set(names):
        read, form = _read_own, "data dictionary"
        if len(set(names)) < len(names):
            raise SettingError("the header of the data dictionary has a column twice")
    elif len({"name", "type"} & set(names)) == 1 and len(set(OWN_COLUMNS) & set(names)) > 2:
        lacked = "type" if "name" in names else "name"
        raise SettingError(f"the header of the data dictionary lacks {lacked}: it is {HEADER}")
    else:
        raise SettingError(NO_DICTIONARY)
    rows = [
        (number, dict(zip(names, (cell.strip() for cell in line), strict=False)))
        for number, line in enumerate(lines[1:], start=2)
        if any(line)
    ]
    if any(len(line) > len(names) for line in lines):
        raise SettingError(f"the {form} has a line with more fields than its header")
    repeating = _REDCAP_REPEATS if read is _read_redcap else ()
    return make_dictionary(form, list(read(rows)), missing=missing, repeating=repeating)


def is_header(line: str) -> bool:
    """Return True unless `read_table` takes a file for rows by this header."""
    try:
        read_table(line)
    except SettingError as error:
        return str(error) != NO_DICTIONARY
    return True


_Rows = Sequence[tuple[int, Mapping[str, str]]]


def _read_own(rows: _Rows) -> Iterator[Entry | Omission | OneHotColumn]:
    for number, row in rows:
        name, word = row.get("name", ""), row.get("type", "").lower()
        if name and word in _LEFT_OUT:
            yield Omission(name, _LEFT_OUT[word])
            continue
        if name and word == _ONE_HOT:
            yield _one_hot_column(number, row)
            continue
        kind = _OWN_KINDS.get(word)
        if kind is None or not name:
            raise SettingError(
                f"line {number} of the data dictionary: name must not be empty, and type is one of "
                f"{', '.join(EntryType)}, {_ONE_HOT}, or text or id for a column that is left "
                "out. A file that holds rows of people is no dictionary"
            )
        labels = tuple(filter(None, (label.strip() for label in row.get("labels", "").split("|"))))
        bounds = {}
        for side in ("lower", "upper"):
            bounds[side] = bound_text(kind, row.get(side, ""))
            if row.get(side) and bounds[side] is None:
                wanted = (
                    "a date such as 2020-01-31"
                    if kind is EntryType.DATE
                    else "a number such as 10.5"
                )
                raise SettingError(f"line {number} of the data dictionary: {side} must be {wanted}")
        unknown = row.get("unknown") or None
        if unknown is not None and kind in (EntryType.DATE, EntryType.ORDINAL):
            raise SettingError(
                f"line {number} of the data dictionary: unknown is of numbers, which may be "
                "missing, and of columns of type label; a study has no missing dates or levels"
            )
        if unknown in labels:
            raise SettingError(
                f"line {number} of the data dictionary: unknown is a label of its own: take it out "
                "of labels"
            )
        yield Entry(
            name,
            kind,
            lower=bounds["lower"],
            upper=bounds["upper"],
            labels=labels,
            unknown=unknown,
            note=row.get("description", ""),
            missing=read_codes(row["missing_values"]) if row.get("missing_values") else None,
            unit=row.get("unit", ""),
            concept=row.get("concept", ""),
            nullable=unknown is not None,
        )


def _one_hot_column(number: int, row: Mapping[str, str]) -> OneHotColumn:
    attribute, label = row.get("attribute", ""), row.get("labels", "")
    if not attribute or not label or "|" in label:
        raise SettingError(
            f"line {number} of the data dictionary: a column of type {_ONE_HOT} needs, under "
            "attribute, the name of what its group says, and, under labels, the one label that it "
            "stands for"
        )
    words = (row.get(each, "") for each in ("description", "concept"))
    return OneHotColumn(row["name"], attribute, label, row.get("unknown") or None, *words)


def _read_redcap(rows: _Rows) -> Iterator[Entry | Omission]:
    """Yield columns; labels are codes, as in an export of raw values, with meanings as notes."""
    for number, row in rows:
        name, kind = row.get("field_name", ""), row.get("field_type", "").lower()
        if not name:
            raise SettingError(f"line {number} of the data dictionary has no field name")
        if name == "record_id" or row.get("identifier", "").lower() in ("y", "yes", "1"):
            yield Omission(name, IDENTIFIER)
        elif kind == "checkbox":
            for code, meaning in _choices(row):
                column = f"{name}___{code.lower().replace('-', '_')}"
                note = join_notes(row.get("field_label", ""), meaning)
                entry = Entry(column, EntryType.LABEL, labels=("0", "1"), note=note)
                yield _as_annotated(entry, row)
        else:
            yield _as_annotated(_redcap_entry(name, kind, row), row)


def _as_annotated(column: Entry | Omission, row: Mapping[str, str]) -> Entry | Omission:
    """Return a field that may be missing, or without codes for it, as its row says."""
    if isinstance(column, Entry) and row.get("branching_logic"):  # not asked of everybody
        column = replace(column, nullable=True)
    off = "@NOMISSING" in row.get("field_annotation", "").upper()
    return replace(column, missing=()) if off and isinstance(column, Entry) else column


def _redcap_entry(name: str, kind: str, row: Mapping[str, str]) -> Entry | Omission:
    label, check = row.get("field_label", ""), _redcap_check(row)
    if kind in _TWO:
        pairs = list(zip(("0", "1"), _TWO[kind], strict=True))
    elif kind in ("radio", "dropdown"):
        pairs = _choices(row)
    elif kind == "calc":
        return Entry(name, EntryType.NUMBER, note=label)
    elif kind == "slider":
        lower, upper = row.get("text_validation_min"), row.get("text_validation_max")
        return Entry(name, EntryType.INTEGER, lower or "0", upper or "100", note=label)
    elif kind == "text" and check is not None:
        lower, upper = (
            bound_text(check, row.get(f"text_validation_{side}", "").replace(",", "."))
            for side in ("min", "max")
        )
        return Entry(name, check, lower, upper, note=label)
    else:
        return Omission(name, FREE_TEXT if kind in ("text", "notes") else f"a field of type {kind}")
    labels = tuple(code for code, _ in pairs)
    said = join_notes(label, name_labels(pairs))
    return Entry(name, EntryType.LABEL, labels=labels, note=said, meanings=tuple(pairs))


def _redcap_check(row: Mapping[str, str]) -> EntryType | None:
    check = row.get("text_validation_type_or_show_slider_number", "").lower()
    if check == "integer":
        return EntryType.INTEGER
    if check.startswith("number"):
        return EntryType.NUMBER
    return EntryType.DATE if check.startswith("date") else None


def _choices(row: Mapping[str, str]) -> list[tuple[str, str]]:
    """Codes and meanings of ``1, Never | 2, Often``."""
    choices = row.get("select_choices_or_calculations", "").split("|")
    parts = [choice.partition(",") for choice in choices if choice.strip()]
    return [(code.strip(), meaning.strip()) for code, _, meaning in parts]
