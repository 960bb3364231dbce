"""Dictionaries that are JSON: Frictionless table schemas and JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dppca.common.errors import SettingError
from dppca.curator.planning.dictionaries.dictionary import (
    FREE_TEXT,
    Dictionary,
    Entry,
    EntryType,
    Omission,
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
_MOST_REFERENCES = 20


def read_json(document: object) -> Dictionary:
    """Read a dictionary that is JSON.

    Raises
    ------
    SettingError
        It is of no such form.
    """
    if not isinstance(document, dict):
        raise SettingError(NO_DICTIONARY)
    fields = _frictionless_fields(document)
    if fields is not None:
        return make_dictionary("Frictionless table schema", [_frictionless(f) for f in fields])
    rows = document.get("items") if "properties" not in document else document
    properties = rows.get("properties") if isinstance(rows, dict) else None
    if not isinstance(properties, dict) or not properties:
        raise SettingError(NO_DICTIONARY)
    return make_dictionary("JSON Schema", list(_json_schema(document, properties)))


def _frictionless_fields(document: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """The fields of a table schema, or of the one table of a data package."""
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


def _frictionless(field: Mapping[str, Any]) -> Entry | Omission:
    name, kind = field["name"], field.get("type", "string")
    note = join_notes(_word(field.get("title")), _word(field.get("description")))
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


def _json_schema(
    whole: Mapping[str, Any], properties: Mapping[str, Any]
) -> Iterator[Entry | Omission]:
    for name, said in properties.items():
        rule = _followed(whole, said)
        note = join_notes(_word(rule.get("title")), _word(rule.get("description")))
        for choices in (rule.get("anyOf"), rule.get("oneOf"), rule.get("allOf")):
            rule = _one_of(whole, rule, choices)
        kinds = rule.get("type")
        kinds = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
        kinds = [kind for kind in kinds if kind != "null"]
        pairs = rule.get("pairs") or _pairs(rule.get("enum"), "", "")
        if kinds == ["boolean"]:
            pairs = [("false", ""), ("true", "")]
        if pairs:
            yield _labels(name, pairs, note, ordered=False)
        elif kinds == ["string"] and rule.get("format") in ("date", "date-time"):
            bounds = (rule.get("formatMinimum", ""), rule.get("formatMaximum", ""))
            lower, upper = (bound_text(EntryType.DATE, bound) for bound in bounds)
            yield Entry(name, EntryType.DATE, lower, upper, note=note)
        elif kinds in (["integer"], ["number"]):
            kind = EntryType(kinds[0])
            lower, upper = _number_bound(rule, kind, "inimum"), _number_bound(rule, kind, "aximum")
            yield Entry(name, kind, lower, upper, note=note)
        else:
            free = kinds == ["string"]
            yield Omission(name, FREE_TEXT if free else "a type that a study has not")


def _number_bound(rule: Mapping[str, Any], kind: EntryType, end: str) -> str | None:
    """A bound; for whole numbers the one next to a bound that is itself excluded."""
    bound = number_text(rule.get(f"m{end}"))
    if bound is not None:
        return bound
    excluded = number_text(rule.get(f"exclusiveM{end}"))
    if excluded is None or kind is not EntryType.INTEGER:
        return excluded
    return number_text(float(excluded) + (1 if end == "inimum" else -1))


def _one_of(whole: Mapping[str, Any], rule: Mapping[str, Any], choices: Any) -> Mapping[str, Any]:
    """The one choice that is not null, or constants with their titles as pairs."""
    if not isinstance(choices, list):
        return rule
    others = [_followed(whole, choice) for choice in choices]
    others = [choice for choice in others if choice.get("type") != "null"]
    if len(others) == 1 and "const" not in others[0]:
        return {**rule, **others[0]}
    pairs = _pairs(others, "const", "title")
    return {**rule, "pairs": pairs} if pairs and all("const" in each for each in others) else rule


def _followed(whole: Mapping[str, Any], rule: Any) -> Mapping[str, Any]:
    """A rule, or the one in the same document that it refers to."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(rule, dict):
            return {}
        reference = rule.get("$ref")
        if not isinstance(reference, str):
            return rule
        target: Any = whole
        for part in reference.removeprefix("#/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, dict) else None
        rule = target
    raise SettingError("the JSON Schema has references that lead to each other")


def _labels(name: str, pairs: Sequence[tuple[str, str]], note: str, *, ordered: bool) -> Entry:
    labels = tuple(code for code, _ in pairs)
    kind = EntryType.ORDINAL if ordered and len(labels) > 2 else EntryType.LABEL
    return Entry(name, kind, labels=labels, note=join_notes(note, name_labels(pairs)))


def _pairs(values: Any, code: str, meaning: str) -> list[tuple[str, str]]:
    """Labels and what they stand for; null stands for what is missing and is none."""
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
