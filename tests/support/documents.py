"""Check of a command's printed document against its JSON Schema, without additional keys."""

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator

from tools.json_reference import schema_page


def require_documented(program: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return the document; fail unless the reference of ``program`` describes it."""
    command = None if "error" in document else f"{program} {document['command']}"
    validator(command).validate(document)
    return document


@functools.cache
def validator(command: str | None) -> Draft202012Validator:
    """Validator of a command's documents, by its full name; None for an error of any command."""
    whole = json.loads(schema_page())
    for definition in whole["$defs"].values():
        definition["additionalProperties"] = False
    kinds = whole["commands"][command] if command else [{"$ref": "#/$defs/ErrorDocument"}]
    return Draft202012Validator({"$defs": whole["$defs"], "anyOf": kinds})
