"""Study documents; what a test does not say is as small as it can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dppca.common.schema import Schema


def study_document(attributes: Iterable[dict[str, Any]], /, **changes: Any) -> dict[str, Any]:
    """One owner and Laplace noise at epsilon 1; fields of the study or its schema as given."""
    schema: dict[str, Any] = {"max_rows_per_person": 1, "attributes": list(attributes)}
    for name in Schema.model_fields.keys() & changes.keys():
        schema[name] = changes.pop(name)
    return {
        "name": "study",
        "owners": ["owner-1"],
        "privacy": {"mechanism": "laplace", "epsilon": "1.0"},
        "components": {"count": 1},
        "schema": schema,
        **changes,
    }
