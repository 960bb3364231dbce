"""Reader for dictionaries in JSON: Frictionless table schemas."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.dictionaries.dictionary import (
    FREE_TEXT,
    Codes,
    Dictionary,
    Entry,
    EntryType,
    Omission,
    OneHotColumn,
    bound_text,
    join_codes,
    join_notes,
    make_dictionary,
    name_labels,
    number_text,
)
from dppca.common.shell.dictionaries.other_forms import NO_DICTIONARY, other_form
from dppca.common.shell.dictionaries.written import left_aside, usual_text, written_fields

_FRICTIONLESS_KINDS = {
    "integer": EntryType.INTEGER,
    "year": EntryType.INTEGER,
    "number": EntryType.NUMBER,
    "date": EntryType.DATE,
    "datetime": EntryType.DATE,
}


_FIELD_KEYS = {
    *["name", "type", "title", "description", "unit", "example", "examples", "rdfType", "oneHot"],
    "concept",
    *["constraints", "categories", "categoriesOrdered", "missingValues", "format"],
    *["trueValues", "falseValues", "decimalChar", "groupChar", "bareNumber"],
}
_TRUTHS = {
    "falseValues": ("false", "False", "FALSE", "0"),
    "trueValues": ("true", "True", "TRUE", "1"),
}
"""The words that a field has if it names none (Frictionless, Table Schema)."""
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SCHEMA_KEYS = {
    *["fields", "missingValues", "primaryKey", "name", "title", "description", "$schema"],
    *["fieldsMatch"],
}


def read_json(document: object, *, missing: Codes = ()) -> Dictionary:
    """Read a dictionary in JSON; raise `SettingError` if its form is not known.

    ``missing`` are codes that mean missing, besides its own.
    """
    resource, schema = _find_table(document) if isinstance(document, dict) else ({}, {})
    fields = schema.get("fields")
    if not isinstance(fields, list):
        raise SettingError(name_json(document) or NO_DICTIONARY)
    if not all(isinstance(field, dict) and _word(field.get("name")) for field in fields):
        raise SettingError("every field of a table schema needs a name")
    codes = join_codes(missing, _missing(schema))
    key = schema.get("primaryKey")
    keys = [key] if isinstance(key, str) else _list(key)
    columns = [_frictionless(field, codes, missing, keys) for field in fields]
    used = [
        field
        for field, column in zip(fields, columns, strict=True)
        if not isinstance(column, Omission)
    ]
    written, notes = written_fields(used, resource)
    for field in used:
        notes += _field_notes(field)
    aside = left_aside(schema, _known_keys(schema, _SCHEMA_KEYS))
    notes += [f"{key} is left aside" for key in aside]
    if len(keys) > 1:
        notes.append("the columns of primaryKey tell rows apart: leave out what names a person")
    encoding = _word(resource.get("encoding"))
    if encoding.lower().replace("-", "") not in ("", "utf8"):
        notes.append(f"the encoding is {encoding}: save the rows in UTF-8")
    return make_dictionary(
        "Frictionless table schema", columns, missing=codes, notes=notes, written=written
    )


def _find_table(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the resource and the schema of a table schema, a resource, or a package of one."""
    resources = document.get("resources")
    if isinstance(resources, list):
        if len(resources) != 1 or not isinstance(resources[0], dict):
            raise SettingError(
                "the data package has several tables: give the schema of the one that owners hold"
            )
        document = resources[0]
    schema = document.get("schema", document)
    if isinstance(schema, str):
        raise SettingError("the schema of this resource is in a file of its own: give that file")
    return document, schema if isinstance(schema, dict) else {}


def name_json(document: object) -> str | None:
    """Return what a document of another known form is, and what to do; None for others."""
    if not isinstance(document, dict):
        return None
    context = str(document.get("@context", ""))
    if "recordSet" in document or "mlcommons.org/croissant" in context:
        return other_form("croissant")
    if "ns/csvw" in context or "tableSchema" in document:
        return other_form("csvw")
    return None


def _frictionless(
    field: Mapping[str, Any], codes: Codes, more: Codes, keys: Sequence[object]
) -> Entry | Omission | OneHotColumn:
    name, kind = field["name"], field.get("type", "string")
    note = join_notes(_word(field.get("title")), _word(field.get("description")))
    concept = _word(field.get("concept")) or _word(field.get("rdfType"))
    if (joined := field.get("oneHot")) is not None:
        return _one_hot_column(name, joined, note, concept)
    rules = _rules(field)
    if keys == [name] or rules.get("unique") is True:
        return Omission(name, "each row has its own")
    own = join_codes(more, _missing(field)) if "missingValues" in field else None
    own = None if own == codes else own
    pairs = _field_labels(field)
    if pairs:
        ordered = field.get("categoriesOrdered") is True
        decide = _several_words(field)
        found = _labels(name, pairs, note, ordered=ordered)
        return replace(found, concept=concept, missing=own, decide=decide)
    if (known := _kind(field)) is None:
        return Omission(name, FREE_TEXT if kind == "string" else "a type that a study has not")
    lower, upper = (_bound(known, field, side) for side in ("Minimum", "Maximum"))
    nullable, unit = rules.get("required") is False, _word(field.get("unit"))
    found = Entry(name, known, lower, upper, note=note, unit=unit, concept=concept)
    return replace(found, missing=own, nullable=nullable)


def _kind(field: Mapping[str, Any]) -> EntryType | None:
    """Return the kind of a field without labels; None for one that a study has not."""
    kind = field.get("type")
    return _FRICTIONLESS_KINDS.get(kind) if isinstance(kind, str) else None


def _field_labels(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    if field.get("type") == "boolean":
        return [(words[0], "") for words in _truths(field)]
    enum = _rules(field).get("enum")
    return _pairs(field.get("categories"), "value", "label") or _pairs(enum, "", "")


def _truths(field: Mapping[str, Any]) -> list[list[str]]:
    """Return the words that files may hold for false, and for true."""
    return [[*map(_label, _list(field.get(key)))] or [*usual] for key, usual in _TRUTHS.items()]


def _unread(field: Mapping[str, Any]) -> list[list[str]]:
    """Return the words for false and true that no study reads whose labels are the first ones."""
    from dppca.common.kernel.schema.texts import label_finder  # not for a command's help

    truths = _truths(field) if field.get("type") == "boolean" else []
    find = label_finder(tuple(words[0] for words in truths))
    return [[word for word in words if find(word) != i] for i, words in enumerate(truths)]


def _several_words(field: Mapping[str, Any]) -> str:
    """Return what to decide of a field whose files may hold words that no label reads."""
    if not any(_unread(field)):
        return ""
    false, true = (" or ".join(words) for words in _truths(field))
    return f"two words; a file may say {false}, and {true}. Any other word would be coded as false"


def _bound(kind: EntryType, field: Mapping[str, Any], side: str) -> str | None:
    """Return a bound as text; an exclusive one of whole numbers is the next number inside."""
    rules = _rules(field)
    plain, beyond = (
        bound_text(kind, usual_text(field, rules.get(key, "")))
        for key in (side.lower(), f"exclusive{side}")
    )
    if plain is not None or beyond is None:
        return plain
    if kind is not EntryType.INTEGER or "." in beyond or "e" in beyond:
        return beyond
    return str(int(beyond) + (1 if side == "Minimum" else -1))


def _field_notes(field: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a field says of its cells that no study can hold."""
    name, rules = field["name"], _rules(field)
    labelled = bool(_field_labels(field))
    aside = left_aside(field, _known_keys(field, _FIELD_KEYS))
    aside += left_aside(rules, ("enum",) if labelled else _BOUNDS)
    if (known := _kind(field)) is not None and not labelled:
        said = [key for key in _BOUNDS if rules.get(key) is not None]
        aside += [key for key in said if bound_text(known, usual_text(field, rules[key])) is None]
    if (
        field.get("type") not in ("date", "datetime")
        and field.get("format", "default") != "default"
    ):
        aside.append("format")
    if aside:
        yield f"{name}: {', '.join(aside)} is left aside"
    for words, others in zip(_truths(field), _unread(field), strict=False):
        if others:
            yield (
                f"{name}: the file may also say {', '.join(others)} for {words[0]}, which a study "
                "does not know: write one word"
            )


def _missing(said: Mapping[str, Any]) -> Codes:
    """Return the codes for missing of a schema or a field, with their labels."""
    return join_codes(_pairs(said.get("missingValues"), "value", "label"))


def _known_keys(said: Mapping[str, Any], keys: set[str]) -> set[str]:
    """Return the keys that are read; codes for missing are, if they are a list."""
    return keys if isinstance(said.get("missingValues"), list) else keys - {"missingValues"}


def _rules(field: Mapping[str, Any]) -> Mapping[str, Any]:
    rules = field.get("constraints")
    return rules if isinstance(rules, dict) else {}


def _one_hot_column(name: str, joined: object, note: str, concept: str) -> OneHotColumn:
    said = joined if isinstance(joined, dict) else {}
    attribute, label = _word(said.get("attribute")).strip(), _word(said.get("label")).strip()
    if not attribute or not label:
        raise SettingError(
            'oneHot of a field is {"attribute": NAME, "label": LABEL}: what its group says, and '
            "the label that the field stands for"
        )
    unknown = _word(said.get("unknown")) or None
    return OneHotColumn(name, attribute, label, unknown, note, concept)


def _labels(name: str, pairs: Sequence[tuple[str, str]], note: str, *, ordered: bool) -> Entry:
    labels = tuple(code for code, _ in pairs)
    kind = EntryType.ORDINAL if ordered and len(labels) > 2 else EntryType.LABEL
    said = join_notes(note, name_labels(pairs))
    return Entry(name, kind, labels=labels, note=said, meanings=tuple(pairs))


def _pairs(values: Any, code: str, meaning: str) -> list[tuple[str, str]]:
    """Labels and their meanings; null means a missing value and is no label."""
    pairs = []
    for value in _list(values):
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


def _list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else []
