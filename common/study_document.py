"""Reads studies: YAML that a person writes, or the canonical JSON that is sent and stored.

And where two of them differ: the places, never what stands there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dppca.common.document_faults import explain_faults
from dppca.common.documents import differing_keys
from dppca.common.errors import StudyError
from dppca.common.schema.attributes import STORED
from dppca.common.study import Study
from dppca.common.yaml_documents import MAX_DOCUMENT_BYTES, NotYamlError, load_yaml

_SHOWN = 8


def study_from_mapping(
    document: Mapping[str, Any], *, stored: bool = False, text: str = ""
) -> Study:
    """Validate a document; `StudyError` names every field at fault.

    ``stored`` accepts any names, since the document was in use before names were checked. ``text``
    is the YAML that it was read from, if any: its lines are named.
    """
    try:
        return Study.model_validate(dict(document), context=STORED if stored else None)
    except ValidationError as error:
        said = explain_faults(error, document, kind=Study, title="the study", text=text)
        raise StudyError(said) from error


def study_from_yaml(text: str | Path) -> Study:
    """Read a study file, by its text or its path. ``No`` and ``010`` are labels, not false and 8.

    Raises
    ------
    StudyError
        It is no study, or cannot be read; the message names every field at fault.
    """
    if isinstance(text, Path):
        try:
            text = text.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            raise StudyError(f"the study file {text} cannot be read: {why}") from error
    if len(text) > MAX_DOCUMENT_BYTES:
        raise StudyError(f"the study file is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = load_yaml(text)
    except NotYamlError as error:
        raise StudyError(f"the study file is not YAML: {error}") from error
    if not isinstance(document, dict):
        hint = ""
        if isinstance(document, str):
            hint = "; this is a word: give the file's text, or its pathlib.Path"
            if "\n" in text.strip():
                hint = "; this is other text, such as a table: a study is YAML"
        raise StudyError(
            f"the study file must be a mapping with name, owners, privacy, components, schema{hint}"
        )
    return study_from_mapping(document, text=text)


def study_from_canonical(content: bytes, *, stored: bool = False) -> Study:
    """Read a canonical document; refused unless its own canonical form is the same bytes.

    ``stored`` accepts any names, since the document was in use before names were checked.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StudyError("the study document is not JSON") from error
    if not isinstance(document, dict):
        raise StudyError("the study document is not an object")
    study = study_from_mapping(document, stored=stored)
    if study.canonical_bytes() != content:
        raise StudyError("the study document is not in canonical form")
    return study


def differences(ours: Study, theirs: Study) -> str:
    """Names of the fields that differ, the first few of them; empty where the documents are one.

    Attributes go by their name.
    """
    documents = [json.loads(each.canonical_bytes()) for each in (ours, theirs)]
    mine, other = (
        {each["name"]: each for each in document["schema"].pop("attributes")}
        for document in documents
    )
    places = list(differing_keys(*documents))
    for name in sorted({*mine, *other}):
        if name not in mine or name not in other:
            places.append(f"attribute {name} (only one side has it)")
        elif mine[name] != other[name]:
            places.append(f"attribute {name}")
    if list(mine) != list(other) and set(mine) == set(other):
        places.append("the order of the attributes")
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
