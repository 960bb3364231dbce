"""Reads studies: YAML that a person writes, or the canonical JSON that is sent and stored."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from itertools import chain
from typing import Any

import yaml
from pydantic import ValidationError

from dppca.common.errors import StudyError
from dppca.common.schema.attributes import STORED
from dppca.common.study import Study
from dppca.common.study_faults import explain_faults

MAX_DOCUMENT_BYTES = 4 << 20


def study_from_mapping(document: Mapping[str, Any], *, stored: bool = False) -> Study:
    """Validate a document; `StudyError` names every field at fault.

    ``stored`` accepts any names, since the document was in use before names were checked.
    """
    try:
        return Study.model_validate(dict(document), context=STORED if stored else None)
    except ValidationError as error:
        raise StudyError(explain_faults(error, document)) from error


def study_from_yaml(text: str) -> Study:
    """Read a study file. ``No`` and ``010`` are labels, not false and 8."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise StudyError(f"the study file is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = load_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StudyError(f"the study file is not YAML: {_explain_yaml(error)}") from error
    if not isinstance(document, dict):
        raise StudyError(
            "the study file must be a mapping with name, owners, privacy, components, schema"
        )
    return study_from_mapping(document)


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


def load_yaml(text: str) -> object:
    """Read YAML: only ``true`` and ``false`` are booleans, and no key may come twice.

    Raises
    ------
    yaml.YAMLError, ValueError
        Not YAML of that kind.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, see below


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, without the surprises of YAML 1.1.

    ``No`` and ``on`` are text, as are numbers with leading zeros (octal there), colons (base 60)
    and underscores: they are labels such as ``010``.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse a text that its aliases make larger than one without any can be.

        Ten lines that each name the line before ten times would be ten thousand million labels.
        """
        event: object = self.peek_event()  # type: ignore[no-untyped-call] # of types-PyYAML
        node = super().compose_node(parent, index)
        if node is None or (isinstance(event, yaml.AliasEvent) and id(node) in self._sizes):
            return node
        parts = chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value
        size = 1
        if isinstance(node, yaml.CollectionNode):
            size += sum(self._sizes.get(id(part), 0) for part in parts)
        if size > MAX_DOCUMENT_BYTES or isinstance(event, yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                None,
                None,
                "an alias refers to itself, or makes the text too large",
                node.start_mark,
            )
        self._sizes[id(node)] = size
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key given twice: the last would silently win, also over a privacy parameter."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = sorted(key for key, count in Counter(keys).items() if count > 1)
        if twice:
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(twice)} given twice", node.start_mark
            )
        return super().construct_mapping(node, deep=deep)


_PLAIN_SCALARS = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:int": (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(0|[1-9][0-9]*)?\.[0-9]+([eE][-+]?[0-9]+)?|[-+]?(0|[1-9][0-9]*)\.",
        "-+.0123456789",
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _PLAIN_SCALARS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, (_pattern, _first) in _PLAIN_SCALARS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def _explain_yaml(error: Exception) -> str:
    """Where it is, and what to look for."""
    if isinstance(error, yaml.constructor.ConstructorError | yaml.composer.ComposerError):
        words = error.problem or "a value that YAML cannot hold"
    else:
        words = (
            "look there and just above for a quote or bracket that is not closed, a tab, a colon "
            "with no blank behind it, or lines of one list that begin at different columns"
        )
    mark = getattr(error, "problem_mark", None)
    return words if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {words}"
