"""What is wrong with a study document, in words of our own, by field and attribute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from dppca.common.names import one_line
from dppca.common.schema.attributes import Binary, Categorical, Date, Numeric, Ordinal
from dppca.common.schema.document import RowNorm, Schema
from dppca.common.study import (
    ComponentRule,
    FaultRule,
    GaussianPrivacy,
    LaplacePrivacy,
    OpenerEntry,
    Study,
)

_MODELS: Mapping[str, type[BaseModel]] = {
    "numeric": Numeric,
    "date": Date,
    "ordinal": Ordinal,
    "binary": Binary,
    "categorical": Categorical,
    "laplace": LaplacePrivacy,
    "gaussian": GaussianPrivacy,
    "components": ComponentRule,
    "faults": FaultRule,
    "openers": OpenerEntry,
    "schema": Schema,
    "row_norm": RowNorm,
}
"""The model of a place in a document, by the last of its parts that is a kind or a field."""
_TAGS = {
    "type": ("numeric", "date", "ordinal", "binary", "categorical"),
    "mechanism": ("laplace", "gaussian"),
}
_MOST_FAULTS, _MOST_CHARACTERS = 50, 100
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
    "string_too_long": "must have {max_length} characters or fewer",
    "string_too_short": "must have {min_length} characters or more",
    "timezone": "must have a zone: +00:00 at its end, for instance",
    "too_long": "must have {max_length} entries or fewer",
    "too_short": "must have {min_length} entries or more",
    "tuple": "must be a list",
}


def explain_faults(error: ValidationError, document: Mapping[str, Any]) -> str:
    """One line for each field at fault; texts are ours, never the validator's.

    Parameters
    ----------
    document
        What was validated, in which attributes have names.
    """
    found: dict[str, list[str]] = {}
    faults = error.errors(include_url=False, include_input=False)
    for fault in faults[:_MOST_FAULTS]:
        place, words = _describe(fault, document)
        said = found.setdefault(place, [])
        if words not in said:
            said.append(words)
    lines = [one_line(f"{place}: {', or '.join(words)}") for place, words in found.items()]
    if len(faults) > _MOST_FAULTS:
        lines.append(f"and {len(faults) - _MOST_FAULTS:,} faults more")
    return "the study is not valid:\n  " + "\n  ".join(lines)


def _describe(fault: Mapping[str, Any], document: Mapping[str, Any]) -> tuple[str, str]:
    kind, context = fault["type"], fault.get("ctx", {})
    parts = list(fault["loc"])
    if kind == "extra_forbidden":
        return _place(parts[:-1], document), _unknown(str(parts[-1]), _fields(parts[:-1]))
    if kind.startswith("union_tag"):
        name = str(context["discriminator"]).strip("'")
        known = _TAGS[name]
        if kind == "union_tag_not_found":
            words = f"{name} is missing: {', '.join(known)}"
        else:
            words = f"{name} must be one of {', '.join(known)}" + _near(str(context["tag"]), known)
        return _place(parts, document), words
    place = _place(parts, document)
    if kind == "missing":
        place = _place([*parts[:-1]], document)
        return place, f"{parts[-1]} is missing"
    if kind == "value_error":
        return place, str(context["error"])
    if _value(parts, document) is None:
        return place, "is blank: it has to be said"
    return place, _words(kind, context)


def _words(kind: str, context: Mapping[str, Any]) -> str:
    """The longest key that the validator's name of a fault begins with."""
    keys = [key for key in _SAID if kind.startswith(key)]
    return _SAID[max(keys, key=len)].format_map(context) if keys else "is not of the right kind"


def _steps(parts: Sequence[str | int], document: object) -> Iterator[tuple[str | int, object]]:
    """The parts that the document has, each with what stands there.

    The others are names of kinds, which the validator puts in between.
    """
    at = document
    for part in parts:
        if isinstance(at, Mapping) and part in at:
            at = at[part]
        elif not isinstance(at, Mapping) and _has_entry(at, part):
            at = cast("Sequence[object]", at)[cast("int", part)]
        else:
            continue
        yield part, at


def _has_entry(at: object, part: str | int) -> bool:
    return isinstance(part, int) and isinstance(at, list | tuple) and part < len(at)


def _value(parts: Sequence[str | int], document: object) -> object:
    return next((at for _, at in reversed(list(_steps(parts, document)))), document)


def _place(parts: Sequence[str | int], document: Mapping[str, Any]) -> str:
    """Such as ``privacy.epsilon``, or ``attribute age, lower``."""
    steps = list(_steps(parts, document))
    names = [part for part, _ in steps]
    if names[:2] == ["schema", "attributes"] and len(names) > 2:
        attribute = steps[2][1]
        name = attribute.get("name") if isinstance(attribute, Mapping) else None
        called = name if isinstance(name, str) and name else f"number {int(names[2]) + 1}"
        return ", ".join(filter(None, [f"attribute {called}", _dotted(names[3:])]))
    return _dotted(names) or "study"


def _dotted(names: Sequence[str | int]) -> str:
    """Names with points between; an entry of a list by its number, from 1."""
    words = (f" entry {name + 1}" if isinstance(name, int) else f".{name}" for name in names)
    return "".join(words).lstrip(".")


def _fields(parts: Sequence[str | int]) -> tuple[str, ...]:
    """Fields that there are at a place."""
    known = [part for part in parts if isinstance(part, str) and part in _MODELS]
    model = _MODELS[known[-1]] if known else Study
    hidden = getattr(model, "HIDDEN", ())
    fields = model.model_fields.items()
    return tuple(field.alias or name for name, field in fields if name not in hidden)


def _unknown(name: str, known: Sequence[str]) -> str:
    near, name = _near(name, known), name[:_MOST_CHARACTERS]
    return f"there is no field `{name}`" + (near or f"; there are {', '.join(known)}")


def _near(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name.lower(), known, n=1)
    return f"; did you mean `{near[0]}`?" if near else ""
