"""Reader for dictionaries in JSON: Frictionless table schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

from dppca.common.kernel.errors import SettingError
from dppca.curator.planning.dictionaries.dictionary import (
    FREE_TEXT,
    Dictionary,
    Entry,
    EntryType,
    Omission,
    OneHotColumn,
    bound_text,
    join_notes,
    make_dictionary,
    name_labels,
    number_text,
)
from dppca.curator.planning.dictionaries.table_forms import NO_DICTIONARY

_FRICTIONLESS_KINDS = {
    "integer": EntryType.INTEGER,
    "year": EntryType.INTEGER,
    "number": EntryType.NUMBER,
    "date": EntryType.DATE,
    "datetime": EntryType.DATE,
}


def read_json(document: object) -> Dictionary:
    """Read a dictionary in JSON; raise `SettingError` if its form is not known."""
    fields = _frictionless_fields(document) if isinstance(document, dict) else None
    if fields is None:
        raise SettingError(NO_DICTIONARY)
    return make_dictionary("Frictionless table schema", [_frictionless(f) for f in fields])


def _frictionless_fields(document: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Fields of a table schema, or of the one table of a data package."""
    resources = document.get("resources")
    if isinstance(resources, list):
        if len(resources) != 1 or not isinstance(resources[0], dict):
            raise SettingError(
                "the data package has several tables: give the schema of the one that owners hold"
            )
        document = resources[0].get("schema") or {}
    fields = document.get("fields") if isinstance(document, dict) else None
    if not isinstance(fields, list):
        return None
    if not all(isinstance(field, dict) and _word(field.get("name")) for field in fields):
        raise SettingError("every field of a table schema needs a name")
    return fields


def _frictionless(field: Mapping[str, Any]) -> Entry | Omission | OneHotColumn:
    name, kind = field["name"], field.get("type", "string")
    note = join_notes(_word(field.get("title")), _word(field.get("description")))
    if (joined := field.get("oneHot")) is not None:
        return _one_hot_column(name, joined, note)
    rules = field.get("constraints")
    rules = rules if isinstance(rules, dict) else {}
    pairs = _pairs(field.get("categories"), "value", "label") or _pairs(rules.get("enum"), "", "")
    if kind == "boolean":
        pairs = [
            (_label(_first(field.get(key)) or default), "")
            for key, default in (("falseValues", "false"), ("trueValues", "true"))
        ]
    if pairs:
        return _labels(name, pairs, note, ordered=field.get("categoriesOrdered") is True)
    known = _FRICTIONLESS_KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        return Omission(name, FREE_TEXT if kind == "string" else "a type that a study has not")
    lower, upper = (bound_text(known, rules.get(side, "")) for side in ("minimum", "maximum"))
    return Entry(name, known, lower, upper, note=note)


def _one_hot_column(name: str, joined: object, note: str) -> OneHotColumn:
    said = joined if isinstance(joined, dict) else {}
    attribute, label = _word(said.get("attribute")).strip(), _word(said.get("label")).strip()
    if not attribute or not label:
        raise SettingError(
            'oneHot of a field is {"attribute": NAME, "label": LABEL}: what its group says, and '
            "the label that the field stands for"
        )
    return OneHotColumn(name, attribute, label, _word(said.get("unknown")) or None, note)


def _labels(name: str, pairs: Sequence[tuple[str, str]], note: str, *, ordered: bool) -> Entry:
    labels = tuple(code for code, _ in pairs)
    kind = EntryType.ORDINAL if ordered and len(labels) > 2 else EntryType.LABEL
    return Entry(name, kind, labels=labels, note=join_notes(note, name_labels(pairs)))


def _pairs(values: Any, code: str, meaning: str) -> list[tuple[str, str]]:
    """Labels and their meanings; null means a missing value and is no label."""
    pairs = []
    for value in values if isinstance(values, list) else []:
        held = value.get(code) if isinstance(value, dict) else value
        if held is not None:
            said = value.get(meaning) if isinstance(value, dict) else None
            pairs.append((_label(held), _word(said)))
    return pairs


def _label(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return number_text(value) or "" if isinstance(value, float) else str(value).strip()


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _first(values: Any) -> Any:
    return values[0] if isinstance(values, list) and values else None
