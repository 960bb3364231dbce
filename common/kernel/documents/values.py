"""JSON documents that commands print or write, and the kinds of values that their keys hold.

A document is a dataclass that `to_document` writes by its `keys`, or a ``TypedDict``: the
dictionary that is written. Each key has its meaning as the last text of its ``Annotated`` type; a
text before it names the kind of value. A value that is absent is ``null``: no key is left out. From
all this, ``tools.json_reference`` makes the page of keys and the JSON Schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict, get_origin, get_type_hints

from dppca.common.kernel.documents.amounts import decimal_text, whole

DecimalText = Annotated[str, "decimal as text"]
DigestText = Annotated[str, "hexadecimal digits"]
TimeText = Annotated[str, "date and time (ISO 8601)"]
PathText = Annotated[str, "path"]


def canonical_json(document: object) -> bytes:
    """Serialize to JSON in one form only: sorted keys, no blanks, UTF-8, finite numbers."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


class JsonBytes(bytes):
    """JSON as it came, such as a study's canonical form; in a document, what it says."""


class Key(NamedTuple):
    """A key's attribute, and its function if it is a property."""

    attribute: str
    derived: Callable[..., Any] | None = None


@cache
def keys(kind: type[Any]) -> dict[str, Key]:
    """Keys of a dataclass: its fields, and its properties whose type is ``Annotated``.

    A field is called by its name, or by ``key`` in its metadata. They stand in the order of the
    class's signature: fields that are given by keyword come after all others.
    """
    derived = {
        name: Key(name, value.fget)
        for each in reversed(kind.__mro__)
        for name, value in vars(each).items()
        if isinstance(value, property)
        and value.fget is not None
        and _is_described(get_type_hints(value.fget, include_extras=True).get("return"))
    }
    ordered = sorted(fields(kind), key=lambda each: each.kw_only is True)
    own = {each.metadata.get("key", each.name): Key(each.name) for each in ordered}
    return {**own, **derived}


def _is_described(kind: Any) -> bool:
    return get_origin(kind) is Annotated


def to_document(value: Any) -> Any:
    """JSON of a value: a dataclass by `keys`, times in ISO 8601, numbers exact, bytes in hex."""
    kind = type(value)
    if is_dataclass(kind):
        return {
            name: to_document(getattr(value, key.attribute)) for name, key in keys(kind).items()
        }
    if isinstance(value, JsonBytes):
        return json.loads(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        return decimal_text(value)
    if kind is int:
        return whole(value)
    if isinstance(value, Mapping):
        return {key: to_document(each) for key, each in value.items()}
    if isinstance(value, (Path, Fraction)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [to_document(each) for each in value]
    return value


class Document(TypedDict):
    """Document that a command prints with ``--json``."""

    command: Annotated[str, "the command's name, without that of the program"]


class ErrorDocument(TypedDict):
    """Document that a failed command prints with ``--json``; the exit code is the same."""

    error: Annotated[Fault, "what went wrong"]


Fault = TypedDict(
    "Fault",
    {
        "class": Annotated[str, "name of the error's class, or `UsageError` or `Interrupted`"],
        "message": Annotated[str, "what was wrong, as it is shown to people"],
        "exit_code": Annotated[int, "exit code of the process"],
    },
)


def differing_keys(ours: Mapping[str, object], theirs: Mapping[str, object]) -> Iterator[str]:
    """Keys whose values differ in two documents, ascending; of an object within, as ``KEY.KEY``.

    Values are compared as text: 1, 1.0 and true are equal numbers, but not one document. Whole
    numbers that are text today (`dppca.common.kernel.documents.amounts.whole`) were numbers in
    0.1.0: both are the same.
    """
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if isinstance(mine, dict) and isinstance(other, dict):
            yield from (f"{key}.{place}" for place in differing_keys(mine, other))
        elif (key in ours) is not (key in theirs) or _text(mine) != _text(other):
            yield key


def _text(value: object) -> str:
    return json.dumps(whole(value) if type(value) is int else value, sort_keys=True)
