"""Study files: a study as a person writes one, which may ask for trees of the public schema.

The study itself, which has a digest and that all parties agree on, holds the trees written out as
``tables``. They are drawn here, when a file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from dppca.common.analysis.random_trees import RandomTrees, draw_trees
from dppca.common.kernel.documents.faults import explain_faults
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study, load_study_file, study_from_mapping


class SchemaOfFile(Schema):
    """Attributes with public bounds and categories, and the coding of rows as integers.

    Attributes
    ----------
    random_trees
        In a study file: trees of the public schema, drawn from a seed. They are written out as
        ``tables`` when the study is made.
    """

    random_trees: RandomTrees | None = None

    @model_validator(mode="before")
    @classmethod
    def _trees_written_out(cls, document: Any) -> Any:
        return document

    @model_validator(mode="after")
    def _possible_trees(self) -> Self:
        if self.random_trees is not None:
            if self.row_norm is not None:
                raise ValueError("random_trees is for attributes with bounds or labels")
            self.public.place(self.random_trees.target)
        return self


class StudyFile(Study):
    """Everything the parties agree on before a row is read."""

    table: Annotated[SchemaOfFile, Field(alias="schema")]


def study_from_yaml(text: str | Path) -> Study:
    """Read a study file, by its text or its path. ``No`` and ``010`` are labels, not false and 8.

    The ``random_trees`` of a file are drawn and written out as ``tables``. `dppca.Study.from_yaml`
    reads a file whose trees are written out, and draws none.

    Raises
    ------
    StudyError
        It is no study, or cannot be read; the message names every field at fault.
    """
    document, text = load_study_file(text)
    return study_from_document(document, text=text)


def study_from_document(document: Mapping[str, Any], *, text: str = "") -> Study:
    """Return the study of a file's fields, its random trees written out.

    ``text`` is the YAML that it was read from, if any: its lines are named. Raise as
    `study_from_yaml`.
    """
    schema = document.get("schema")
    if not isinstance(schema, Mapping) or "random_trees" not in schema:
        return study_from_mapping(document, text=text)
    try:
        written = write_out_trees(schema, StudyFile.model_validate(dict(document)).table)
    except ValidationError as error:
        explanation = explain_faults(error, document, kind=StudyFile, title="the study", text=text)
        raise StudyError(explanation) from error
    return study_from_mapping({**document, "schema": written}, text=text)


def schema_from_document(document: Mapping[str, Any]) -> Schema:
    """Return the schema of a file's ``schema``; raise as `Schema.from_document`."""
    if "random_trees" not in document:
        return Schema.from_document(document)
    return Schema.from_document(write_out_trees(document, SchemaOfFile.from_document(document)))


def write_out_trees(document: Mapping[str, Any], schema: SchemaOfFile) -> dict[str, Any]:
    """Return a schema's document with the trees that it asks for among its ``tables``."""
    asked = schema.random_trees
    trees = [] if asked is None else draw_trees(asked, schema.public)
    tables = [*(document.get("tables") or ()), *trees]
    return {name: document[name] for name in document if name != "random_trees"} | {
        "tables": tables
    }
