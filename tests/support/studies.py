"""Studies of named attributes; every unset part is as small as possible."""

from collections.abc import Iterable
from typing import Any

from dppca.common.analysis.study_file import SchemaOfFile, schema_from_document, study_from_document
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study

Attributes = Iterable[dict[str, Any]]
CENSUS: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
    {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
    {"name": "work", "type": "categorical", "categories": ["private", "state", "other"]},
]
COLOURS = ("red", "green", "blue")
_LATENT: Attributes = [
    *({"name": f"x{i}", "type": "numeric", "lower": -2, "upper": 2} for i in range(4)),
    {"name": "ill", "type": "binary", "values": ["no", "yes"]},
    {"name": "colour", "type": "categorical", "categories": list(COLOURS)},
]
_SMALL: Attributes = [
    {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    {"name": "sex", "type": "binary", "values": ["f", "m"]},
    {"name": "plan", "type": "categorical", "categories": ["a", "b", "c"]},
]
_KINDS: dict[str, dict[str, Any]] = {
    "census": {
        "attributes": CENSUS,
        "name": "census",
        "owners": ["owner-1", "owner-2", "owner-3"],
        "components": {"count": 2},
        "max_rows": 1_000_000,
        "resolution_bits": 6,
    },
    "latent": {
        "attributes": _LATENT,
        "name": "site-test",
        "components": {"contribution_rate": 0.95},
    },
    "small": {"attributes": _SMALL, "name": "study-1", "resolution_bits": 4},
}
_OF_PRIVACY = ("mechanism", "epsilon", "delta", "trust", "colluders")


def study_document(attributes: Attributes, /, **changes: Any) -> dict[str, Any]:
    """A document of one owner at epsilon 1, Laplace or, with a delta, Gaussian noise.

    Changes are fields of the study, of its schema or of its privacy.
    """
    schema: dict[str, Any] = {"max_rows_per_person": 1, "attributes": list(attributes)}
    for name in SchemaOfFile.model_fields.keys() & changes.keys():
        schema[name] = changes.pop(name)
    privacy = {"mechanism": "gaussian" if "delta" in changes else "laplace", "epsilon": "1.0"}
    for name in _OF_PRIVACY:
        if name in changes:
            privacy[name] = changes.pop(name)
    return {
        "name": "study",
        "owners": ["owner-1"],
        "privacy": privacy,
        "components": {"count": 1},
        "schema": schema,
        **changes,
    }


def make_study(kind: str | Attributes = "census", /, **changes: Any) -> Study:
    """Make a study of given attributes, or of a kind.

    A kind is ``census`` (three owners, four kinds of entries), ``latent`` (the rows are
    `tests.support.latent_rows`) or ``small`` (fast enough for hundreds). Changes are those of
    `study_document`.
    """
    given = _KINDS[kind] if isinstance(kind, str) else {"attributes": kind}
    fields = {**given, **changes}
    secret = fields.get("neighbours") == "added" or fields.get("rows_counted", 1) > 1
    if secret and "max_rows" not in changes:
        fields.pop("max_rows", None)  # where numbers are secret it is not small
    return study_from_document(study_document(fields.pop("attributes"), **fields))


def numeric_of(name: str, lower: object, upper: object, /, **more: object) -> dict[str, Any]:
    return {"name": name, "type": "numeric", "lower": lower, "upper": upper, **more}


def binary_of(name: str, values: object, /, **more: object) -> dict[str, Any]:
    return {"name": name, "type": "binary", "values": values, **more}


def categorical_of(name: str, categories: object, /, **more: object) -> dict[str, Any]:
    return {"name": name, "type": "categorical", "categories": categories, **more}


def make_schema(attributes: Attributes, /, **settings: object) -> Schema:
    return schema_from_document({"attributes": list(attributes), **settings})
