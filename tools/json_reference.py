"""Reference of every JSON document that a command prints: the page, and the JSON Schema of each.

Both are made from the types that `dppca.common.shell.console.prints` gives a command.
"""

import functools
import json
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from dppca.common.kernel.documents.values import (
    DecimalText,
    DigestText,
    Document,
    ErrorDocument,
    JsonBytes,
    Key,
    PathText,
    TimeText,
    keys,
)
from dppca.common.shell.console import JsonOption
from tools.markdown import slug
from tools.reference import programs, walk

_HEAD = """# JSON output

Made from the types of the commands. The tests that run the commands hold every document against its
schema, which is in [json-output.schema.json](json-output.schema.json).

With `--json` a command prints one JSON document to standard output: what its section says or, where
it fails, an [error](#error). Keys may be added in a later version; none changes its meaning. A
decimal is text, because an amount of privacy is an exact number; so is a whole number from 2^53 on.
A path is written as it was given, or below the site's folder. A value that is not known or does not
apply is `null`; "optional" keys, which may be left out, are those of a ledger's entries, and
`command` in a document within another.

"""
_KINDS = {each.__metadata__[0] for each in (DecimalText, DigestText, TimeText, PathText)}  # type: ignore[attr-defined]
_PLAIN = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    datetime: "string",
    Decimal: "string",
    JsonBytes: "object",
    Path: "string",
    Fraction: "string",
    bytes: "string",
}
_WORDS: dict[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    datetime: TimeText.__metadata__[0],  # type: ignore[attr-defined]
    Decimal: DecimalText.__metadata__[0],  # type: ignore[attr-defined]
    JsonBytes: "object",
    Fraction: "fraction as text",
    Path: PathText.__metadata__[0],  # type: ignore[attr-defined]
    bytes: DigestText.__metadata__[0],  # type: ignore[attr-defined]
    object: "any",
}


@functools.cache
def documents() -> dict[str, tuple[type, ...]]:
    """Return the documents that each command may print, by the command's full name."""
    kinds_by_command: dict[str, tuple[type, ...]] = {}
    for program, group in programs().items():
        for context in walk(program, group):
            for option in context.command.params:
                if isinstance(option, JsonOption):
                    kinds_by_command[context.command_path] = option.documents
    return kinds_by_command


def page() -> str:
    """Return the page `reference/json-output.md` of the site."""
    commands = documents()
    lines = [_HEAD, "| command | prints |\n| --- | --- |\n"]
    for name, kinds in commands.items():
        lines.append(f"| `{name}` | {' or '.join(_link(kind) for kind in kinds)} |\n")
    return "".join([*lines, *map(_section, _parts(commands))])


def schema_page() -> str:
    """Return the site's `reference/json-output.schema.json`: a definition for each document."""
    commands = documents()
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What commands print with --json",
        "commands": {
            name: [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds]
            for name, kinds in commands.items()
        },
        "$defs": {kind.__name__: _object_schema(kind) for kind in _parts(commands)},
    }
    return _with_lines(whole, depth=2) + "\n"


def _with_lines(value: object, depth: int) -> str:
    """Format JSON with each key of the upper levels at the start of a line."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    keys = (f"{json.dumps(key)}: {_with_lines(each, depth - 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(keys) + "\n}"


def make_schema(annotation: object) -> dict[str, Any]:
    """Make the JSON Schema of a type; a document is a reference to its definition."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Annotated, typing.NotRequired}:
        return make_schema(arguments[0])
    if origin in {UnionType, typing.Union}:
        return {"anyOf": [make_schema(each) for each in arguments]}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in {list, tuple, Sequence}:
        return {"type": "array", "items": make_schema(arguments[0])}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": make_schema(arguments[1])}
    if annotation is NoneType:
        return {"type": "null"}
    if annotation is object:
        return {}
    if _is_document(annotation):
        return {"$ref": f"#/$defs/{getattr(annotation, '__name__', '')}"}
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return {"enum": [member.value for member in annotation]}
    return {"type": _PLAIN[annotation]}  # type: ignore[index] # another kind is a KeyError


def _parts(commands: Mapping[str, tuple[type, ...]]) -> list[type]:
    """All documents and their parts, each once; raise `ValueError` if two have one name."""
    documents = _in_order([ErrorDocument, *(kind for kinds in commands.values() for kind in kinds)])
    names = [_title(kind) for kind in documents]
    if len(set(names)) < len(names):
        raise ValueError(f"two documents have one name: {sorted(names)}")
    return documents


def _object_schema(kind: type) -> dict[str, Any]:
    hints = _hints(kind)
    return {
        "type": "object",
        "properties": {
            key: {**make_schema(hint), "description": _meaning(hint)} for key, hint in hints.items()
        },
        "required": [key for key, hint in hints.items() if not _is_optional(kind, hint)],
    }


def _section(kind: type) -> str:
    rows = []
    for key, hint in _hints(kind).items():
        words = _describe(hint) + (", optional" if _is_optional(kind, hint) else "")
        rows.append(f"| `{key}` | {words} | {_meaning(hint)} |\n")
    summary = (kind.__doc__ or "").partition("\n\n")[0].replace("``", "`")
    summary = f"{' '.join(summary.split())}\n\n" if summary else ""
    head = "| key | type | meaning |\n| --- | --- | --- |\n"
    return f"\n## {_title(kind)}\n\n{summary}{head}{''.join(rows)}"


def _describe(annotation: object) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.NotRequired:
        return _describe(arguments[0])
    if origin is typing.Annotated:
        kinds: tuple[str, ...] = getattr(annotation, "__metadata__", ())
        named = kinds[0] if arguments[0] is str and (len(kinds) > 1 or kinds[0] in _KINDS) else None
        return named or _describe(arguments[0])
    if origin in {UnionType, typing.Union}:
        return " or ".join(_describe(each) for each in arguments)
    if origin is typing.Literal:
        return " or ".join(f"`{each}`" for each in arguments)
    if origin in {list, tuple, Sequence}:
        return f"list of {_describe(arguments[0])}"
    if origin in {dict, Mapping}:
        return f"object, by name: {_describe(arguments[1])}"
    if annotation is NoneType:
        return "null"
    if _is_document(annotation):
        return _link(annotation)
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(f"`{member}`" for member in annotation)
    return _WORDS[annotation]


def _meaning(hint: object) -> str:
    if typing.get_origin(hint) is typing.NotRequired:
        return _meaning(typing.get_args(hint)[0])
    meaning: str = hint.__metadata__[-1]  # type: ignore[attr-defined] # a key without one: an error
    return meaning


def _is_document(annotation: object) -> bool:
    return typing.is_typeddict(annotation) or (
        isinstance(annotation, type) and is_dataclass(annotation)
    )


def _hints(kind: type) -> dict[str, Any]:
    """Keys of a document with their types; `emit` adds the command's name to a dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        hints = {name: _hint(hints, key) for name, key in keys(kind).items()}
    if is_dataclass(kind) and any(kind in kinds for kinds in documents().values()):
        named = typing.get_type_hints(Document, include_extras=True)
        if kind in _nested():
            named = {key: typing.NotRequired[hint] for key, hint in named.items()}
        return {**named, **hints}
    return hints


def _hint(hints: Mapping[str, Any], key: Key) -> Any:
    """Type of a dataclass's key."""
    if key.derived is not None:
        return typing.get_type_hints(key.derived, include_extras=True)["return"]
    return hints[key.attribute]


@functools.cache
def _nested() -> set[type]:
    """Kinds of documents within others: there they are printed without the command's name."""
    left, found = [kind for kinds in documents().values() for kind in kinds], set[type]()
    while left:
        for hint in typing.get_type_hints(left.pop(), include_extras=True).values():
            fresh = set(_documents_in(hint)) - found
            found |= fresh
            left += fresh
    return found


def _is_optional(kind: type, hint: object) -> bool:
    return typing.get_origin(hint) is typing.NotRequired or not getattr(kind, "__total__", True)


def _in_order(kinds: list[type]) -> list[type]:
    """Documents and, after each, the documents within it; each once."""
    ordered: dict[type, None] = {}
    for kind in kinds:
        if kind not in ordered:
            ordered[kind] = None
            hints = _hints(kind).values()
            inner = [part for hint in hints for part in _documents_in(hint)]
            ordered |= dict.fromkeys(_in_order([part for part in inner if part not in ordered]))
    return list(ordered)


def _documents_in(annotation: object) -> Iterator[type]:
    if _is_document(annotation):
        yield annotation  # type: ignore[misc]
    for each in typing.get_args(annotation):
        yield from _documents_in(each)


def _title(kind: type) -> str:
    words = "".join(f" {c.lower()}" if c.isupper() else c for c in kind.__name__).strip()
    return words.removesuffix(" document").capitalize()


def _link(kind: Any) -> str:
    return f"[{_title(kind).lower()}](#{slug(_title(kind))})"
