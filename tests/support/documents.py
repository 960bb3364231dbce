"""Holds a document that a command printed against its JSON Schema, letting no other key pass."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator

from tools.json_reference import schema_page


def require_documented(program: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the document; fail unless the reference of ``program`` describes it."""
    validator(program, document.get("command", "")).validate(document)
    return document


@functools.cache
def validator(program: str, command: str) -> Draft202012Validator:
    """Checks what one command may print: its documents and, always, an error."""
    whole = json.loads(schema_page())
    for definition in whole["$defs"].values():
        definition["additionalProperties"] = False
    error = {"$ref": "#/$defs/ErrorDocument"}
    kinds = whole["commands"].get(f"{program} {command}", [{}]) if command else [error]
    return Draft202012Validator({"$defs": whole["$defs"], "anyOf": kinds})
