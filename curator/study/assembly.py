"""Assembly of a study file with its owners' keys, from the output of ``dppca-owner identity``.

Input and output are text. The lines that a person wrote stay unchanged; the keys come after them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from dppca.common.analysis.study_file import study_from_document, study_from_yaml
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.yaml_text import NotYamlError, load_yaml
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.study import Study, Trust, load_study_file

_SECTIONS = ("identities", "openers")
_STAND_IN = {"key": "AAAA", "signature": "AAAA"}


def read_draft(text: str) -> Study | None:
    """Return the study of a draft with ``trust: aggregate`` that lacks its owners' keys alone.

    Keys that are none stand in for them, so its digest means nothing.
    None if the file has keys, or another trust. Raise `StudyError` where anything else is wrong.
    """
    document, text = load_study_file(text)
    privacy, owners = document.get("privacy"), document.get("owners")
    masked = isinstance(privacy, dict) and privacy.get("trust") == Trust.AGGREGATE.value
    if not masked or any(document.get(name) for name in _SECTIONS):
        return None
    names = [each for each in owners if isinstance(each, str)] if isinstance(owners, list) else []
    keys = {
        "identities": dict.fromkeys(names, _STAND_IN["key"]),
        "openers": dict.fromkeys(names, _STAND_IN),
    }
    return study_from_document({**document, **keys}, text=text)


def fewest_openers(study: Study) -> int:
    """Return how many openers a study with ``trust: aggregate`` needs at least."""
    return (study.privacy.colluders or 0) + 1 + 2 * study.spares


def assemble_study(text: str, parts: Iterable[tuple[str, str]]) -> tuple[str, Study]:
    """Return the study file with the owners' keys, and the study that it describes.

    ``text`` is a study file (YAML) with ``trust: aggregate``, without keys. ``parts`` has for each
    owner a source, for messages, and the output of ``dppca-owner identity``: lines of YAML, or its
    ``--json``. Raise `StudyError` if a part is not valid, an owner comes twice, a key is not the
    owner's, or the whole is no study.
    """
    base = _mapping(text, "the study file")
    given = [name for name in _SECTIONS if name in base]
    if given:
        raise StudyError(f"the study file has {' and '.join(given)} already: leave them out")
    keys: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for source, content in parts:
        for name, entries in _read_part(content, source, str(base.get("name", ""))).items():
            twice = sorted(keys[name].keys() & entries.keys())
            if twice:
                raise StudyError(f"{source}: {one_line(twice[0])} has come before, in {name}")
            keys[name] |= entries
    ending = "" if text.endswith("\n") else "\n"
    whole = text + ending + yaml.safe_dump(keys, width=10_000, default_flow_style=False)
    if text.lstrip().startswith("{"):  # JSON, say: nothing can follow it
        whole = yaml.safe_dump({**base, **keys}, sort_keys=False, allow_unicode=True, width=10_000)
    study = study_from_yaml(whole)
    Terms.from_study(study)
    return whole, study


def _read_part(content: str, source: str, study: str) -> Mapping[str, dict[str, Any]]:
    """Entries of each section; raise `StudyError` if a part has another form or study."""
    document = _mapping(content, source)
    if document.get("command") == "identity":
        if document.get("study") != study:
            stated_study = one_line(str(document.get("study")))
            raise StudyError(f"{source}: these keys are for study {stated_study}, not for {study}")
        owner, opener = str(document.get("owner")), document.get("opener")
        part = {"identities": {owner: document.get("key")}}
        if isinstance(opener, dict):
            entry = {name: opener.get(name) for name in ("key", "signature")}
            part["openers"] = {owner: entry}
        return part
    if not document or not set(document) <= set(_SECTIONS):
        raise StudyError(f"{source} is not what `dppca-owner identity` prints")
    for name, entries in document.items():
        if not isinstance(entries, dict):
            raise StudyError(f"{source}: {name} is not a list of owners with their keys")
    return document


def _mapping(text: str, what: str) -> dict[str, Any]:
    try:
        document = load_yaml(text)
    except NotYamlError as error:
        raise StudyError(f"{what} is not YAML: {error}") from error
    if not isinstance(document, dict):
        raise StudyError(f"{what} is not a list of fields with their values")
    return document
