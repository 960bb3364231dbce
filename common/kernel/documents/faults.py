"""Faults of a document that a person writes, in words of our own, by field and line.

Documents are studies, a site's settings and its policy. The validator says where a fault is and of
which kind; what is printed is ours.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from dppca.common.kernel.documents.amounts import POINTED, pointed
from dppca.common.kernel.documents.names import nearest_name, one_line
from dppca.common.kernel.documents.yaml_text import compose_tree, find_line

_MOST_FAULTS, _MOST_CHARACTERS = 50, 100  # listed, and shown of each
_JOINT = re.compile(r"[:=@/]")
_SAID = {
    "bool": "must be true or false",
    "date": "must be a date and time such as 2030-01-31T12:00:00+00:00",
    "dict": "must be a mapping of names to values",
    "enum": "must be {expected}",
    "finite": "must be finite",
    "float": "must be a number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "int": "must be a whole number",
    "is_instance": "must be a mapping with fields of its own",
    "less_than": "must be below {lt}",
    "less_than_equal": "must be {le} or less",
    "list": "must be a list",
    "literal": "must be {expected}",
    "model": "must be a mapping with fields of its own",
    "missing": "is missing",
    "string": "must be text",
    "string_pattern": "has characters that are not allowed there",
    "string_too_long": "must have {max_length} characters or fewer",
    "string_too_short": "must have {min_length} characters or more",
    "timezone": "must have a zone: +00:00 at its end, for instance",
    "too_long": "must have {max_length} entries or fewer",
    "too_short": "must have {min_length} entries or more",
    "tuple": "must be a list",
}
_FIELDS = "; the fields are "


def explain_faults(
    error: ValidationError,
    document: Mapping[str, Any],
    *,
    kind: type[BaseModel],
    title: str,
    text: str = "",
) -> str:
    """One line for each field at fault; texts are ours, never the validator's.

    ``document`` is what was validated, in which attributes have names, as a ``kind``; ``title`` is
    what it is called, such as ``policy.yaml``; ``text`` is the YAML that it was read from, whose
    lines are named, empty for another source.
    """
    words_by_place: dict[str, list[str]] = {}
    forms: dict[str, set[object]] = {}
    tree = compose_tree(text) if text else None
    faults = _without_echoes(error.errors(include_url=False, include_input=False))
    missing = _group_missing(faults)
    for fault in faults[:_MOST_FAULTS]:
        parts, words = _describe(fault, document, kind)
        if fault["type"] == "missing":
            words = missing[tuple(parts)]
        line = find_line(tree, fault["loc"])
        place = _place(parts, document) or title
        place = place if line is None else f"line {line}, {place}"
        of_fields = fault["type"] in {"missing", "extra_forbidden"}
        forms.setdefault(place, set()).add(fault["loc"][:-1] if of_fields else words)
        messages = words_by_place.setdefault(place, [])
        if words not in messages:
            messages.append(words)
    lines = [
        # Faults of one form all hold; those of several forms, or of a value, are alternatives.
        one_line(f"{place}: {_each_of(words) if len(forms[place]) == 1 else ', or '.join(words)}")
        for place, words in words_by_place.items()
    ]
    if len(faults) > _MOST_FAULTS:
        lines.append(f"and {len(faults) - _MOST_FAULTS:,} faults more")
    return f"{title} is not valid:\n  " + "\n  ".join(lines)


def _each_of(words: Sequence[str]) -> str:
    """Faults of one place that all hold; the fields that it may have are said once."""
    parts = [each.partition(_FIELDS) for each in words]
    fields = [f"{_FIELDS}{known}" for _, _, known in parts if known]
    return "; ".join(first for first, _, _ in parts) + "".join(fields[-1:])


Parts = Sequence[str | int]


def _without_echoes(faults: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Faults, except of lists that are too short only because of faults of their entries."""
    places = [fault["loc"] for fault in faults]

    def echoes(fault: ErrorDetails) -> bool:
        depth = len(fault["loc"])
        inside = (len(each) > depth and each[:depth] == fault["loc"] for each in places)
        return fault["type"] == "too_short" and any(inside)

    return [fault for fault in faults if not echoes(fault)]


def _group_missing(faults: Sequence[ErrorDetails]) -> dict[tuple[str | int, ...], str]:
    """Missing fields of each place, in one text."""
    names: dict[tuple[str | int, ...], list[str]] = {}
    for fault in faults[:_MOST_FAULTS]:
        if fault["type"] == "missing":
            *place, last = fault["loc"]
            names.setdefault(tuple(place), []).append(
                f"entry {last + 1}" if isinstance(last, int) else last
            )
    return {
        place: f"{each[0]} is missing" if len(each) == 1 else f"{', '.join(each)} are missing"
        for place, each in names.items()
    }


def _describe(
    fault: Mapping[str, Any], document: Mapping[str, Any], model: type[BaseModel]
) -> tuple[Parts, str]:
    """Return the place of a fault, and its words."""
    kind, context, parts = fault["type"], fault.get("ctx", {}), fault["loc"]
    if kind == "extra_forbidden":
        fields = [name for each in _models(model, parts[:-1]) for name in _fields(each)]
        return parts[:-1], _unknown(str(parts[-1]), fields)
    if kind.startswith("union_tag"):
        name = str(context["discriminator"]).strip("'")
        known = [_tag(each, name) for each in _models(model, parts)]
        if kind == "union_tag_not_found":
            return parts, f"{name} is missing: {', '.join(known)}"
        near = _near(str(context["tag"]), known)
        return parts, f"{name} must be one of {', '.join(known)}{near}"
    if kind == "missing":
        return parts[:-1], _SAID["missing"]
    if kind == "value_error":
        return parts, str(context["error"])
    at = next((at for _, at in reversed(list(_steps(parts, document)))), document)
    if at is None:
        comma = str(parts[-1]).isdigit()  # 1,5 in a mapping of one line is 1, and 5 without a value
        return parts, f"is not a field{POINTED}" if comma else "is blank: fill it in"
    return parts, _words(kind, context) + pointed(at)


def _words(kind: str, context: Mapping[str, Any]) -> str:
    """The longest key that the validator's name of a fault begins with."""
    if kind.endswith("too_short") and context["min_length"] == 1:
        return "must not be empty"
    keys = [key for key in _SAID if kind.startswith(key)]
    return _SAID[max(keys, key=len)].format_map(context) if keys else "is not of the right kind"


def _steps(parts: Parts, document: object) -> Iterator[tuple[str | int, object]]:
    """The parts that the document has, each with what stands there.

    The others are names of kinds, which the validator puts in between.
    """
    at = document
    for part in parts:
        if isinstance(at, Mapping) and part in at:
            at, part = at[part], str(part)
        elif not isinstance(at, Mapping) and _has_entry(at, part):
            at = cast("Sequence[object]", at)[cast("int", part)]
        else:
            continue
        yield part, at


def _has_entry(at: object, part: str | int) -> bool:
    return isinstance(part, int) and isinstance(at, list | tuple) and part < len(at)


def _place(parts: Parts, document: Mapping[str, Any]) -> str:
    """Such as ``privacy.epsilon``, or ``attribute age, lower``; empty for the whole document."""
    steps = list(_steps(parts, document))
    names = [part for part, _ in steps]
    if names[:2] == ["schema", "attributes"] and len(names) > 2:
        names, steps = names[1:], steps[1:]
    if names[:1] == ["attributes"] and any(isinstance(name, int) for name in names[1:2]):
        attribute = steps[1][1]
        name = attribute.get("name") if isinstance(attribute, Mapping) else None
        called = name if isinstance(name, str) and name else f"number {int(names[1]) + 1}"
        return ", ".join(filter(None, [f"attribute {called}", _dotted(names[2:])]))
    return _dotted(names)


def _dotted(names: Parts) -> str:
    """Names with points between; an entry of a list by its number, from 1."""
    words = (
        f" entry {name + 1}" if isinstance(name, int) else f".{_begin(name)}" for name in names
    )
    return "".join(words).lstrip(".")


def _models(model: type[BaseModel], parts: Parts) -> list[type[BaseModel]]:
    """The models of a place in a document; the names of kinds in between choose one, or nothing."""
    kinds: list[Any] = [model]
    for part in parts:
        kinds = [inner for kind in kinds for inner in _inside(kind, part)] or kinds
    return [kind for kind in kinds if _is_model(kind)]


def _inside(kind: Any, part: str | int) -> list[Any]:
    """The kinds of what stands under a key, a number of a list, or the name of a kind."""
    if _is_model(kind):
        fields = kind.model_fields
        matches = [field for name, field in fields.items() if (field.alias or name) == part]
        tags = [get_args(field.annotation) for field in fields.values()]
        tagged = [kind] if not matches and (part,) in tags else []
        return tagged + [inner for field in matches for inner in _choices(field.annotation)]
    values = get_args(kind)
    if get_origin(kind) is dict and isinstance(part, str):
        return _choices(values[1])
    if get_origin(kind) in (list, tuple) and isinstance(part, int):
        return _choices(values[0])
    return []


def _choices(annotation: Any) -> list[Any]:
    """The kinds that a value may be of."""
    if get_origin(annotation) is Annotated:
        return _choices(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [kind for each in get_args(annotation) for kind in _choices(each)]
    return [annotation]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _tag(model: type[BaseModel], name: str) -> str:
    return str(get_args(model.model_fields[name].annotation)[0])


def _fields(model: type[BaseModel]) -> list[str]:
    hidden = getattr(model, "HIDDEN", ())
    fields = model.model_fields.items()
    return [field.alias or name for name, field in fields if name not in hidden]


def _unknown(name: str, known: Sequence[str]) -> str:
    """That a field is not known; ``password:secret`` is a key to YAML, and not repeated."""
    begin = _begin(name)
    if begin != name:
        return f"put a colon and a space after `{begin[:_MOST_CHARACTERS]}`"
    near, name = _near(name, known), name[:_MOST_CHARACTERS]
    known_fields = f"{_FIELDS}{', '.join(known)} (text with a comma or colon needs quotes)"
    return f"`{name}` is not a field" + (near or (POINTED if name.isdigit() else known_fields))


def _begin(key: str) -> str:
    """A key, or what stands before a sign that no key should have."""
    return _JOINT.split(key)[0]


def _near(name: str, known: Sequence[str]) -> str:
    near = nearest_name(name, known)
    return "" if near is None else f"; did you mean `{near}`?"
