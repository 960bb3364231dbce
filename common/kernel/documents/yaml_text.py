"""Reads YAML that a person writes, and says on which line something stands."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Self

import yaml

MAX_DOCUMENT_BYTES = 4 << 20  # of a file that a person writes


class WrittenFloat(float):
    """A number whose text says more than the number, such as the code 1.10: a label keeps it."""

    def __new__(cls, value: float, written: str) -> Self:
        """Make a number that remembers its text."""
        number = super().__new__(cls, value)
        number.written = written
        return number

    written: str


class NotYamlError(ValueError):
    """A text is not YAML as we read it; says where and why, and repeats nothing of it."""


def load_yaml(text: str) -> object:
    """Read YAML: only ``true`` and ``false`` are booleans, and no key may come twice.

    Raise `NotYamlError` if it is not YAML of that kind.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader, see below
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise NotYamlError(_explain(error)) from None


def compose_tree(text: str) -> yaml.Node | None:
    """The nodes of a text that `load_yaml` has read, for `find_line`; None for an empty text."""
    return yaml.compose(text, Loader=_Loader)


def find_line(tree: yaml.Node | None, parts: Sequence[str | int]) -> int | None:
    """The line, from 1, on which a part of a document stands.

    ``parts`` are keys and places in lists, from the outermost; those that the text lacks are passed
    over. The line is that of the last one that it has; None where it has none of them.
    """
    node, line = tree, None
    for part in parts:
        if isinstance(node, yaml.MappingNode):
            nodes = [(key, value) for key, value in node.value if key.value == str(part)]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            nodes = [(each, each) for each in node.value[part : part + 1]]
        else:
            nodes = []
        for key, value in nodes:
            node, line = value, key.start_mark.line + 1
    return line


class _OursError(yaml.MarkedYAMLError):
    """A fault that is said in words of ours."""


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
            raise _OursError(
                None,
                None,
                "an alias refers to itself, or makes the text too large",
                node.start_mark,
            )
        self._sizes[id(node)] = size
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """Refuse what a tag alone calls a number: ``!!int 1_0`` would be 10."""
        pattern = _PLAIN_SCALARS.get(node.tag, ("",))[0]
        if pattern and isinstance(node.value, str) and not re.fullmatch(pattern, node.value):
            raise _OursError(None, None, "a tag makes no number: remove it", node.start_mark)
        return super().construct_scalar(node)

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Keep the text of a number that would lose a zero at its end, or digits."""
        value: float = super().construct_yaml_float(node)
        fraction = node.value.partition(".")[2]
        if fraction[1:].endswith("0") or Decimal(node.value) != Decimal(repr(value)):
            return WrittenFloat(value, node.value)
        return value

    def construct_yaml_timestamp(self, node: yaml.ScalarNode) -> Any:
        """Refuse what has a date's form and is none, such as 2023-13-45."""
        try:
            return super().construct_yaml_timestamp(node)
        except ValueError:
            words = "no calendar has this day: correct the date, or put a label into quotes"
            raise _OursError(None, None, words, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse a key given twice: the last would silently win, also over a privacy parameter."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        twice = sorted(key for key, count in Counter(keys).items() if count > 1)
        if twice:
            raise _OursError(None, None, f"{', '.join(twice)} given twice", node.start_mark)
        made = super().construct_mapping(node, deep=deep)
        if len(made) < len(keys) and "<<" not in keys:  # 1, 1.0 and true are one key to Python
            words = "two keys are one number: list it once, or put texts into quotes"
            raise _OursError(None, None, words, node.start_mark)
        return made


_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_timestamp)
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


def _explain(error: Exception) -> str:
    """Return the place of an error, and advice."""
    if isinstance(error, _OursError):
        words = str(error.problem)
    elif isinstance(error, yaml.constructor.ConstructorError | yaml.composer.ComposerError):
        words = "put text that begins with * & or ! into quotes; a key must be a text or a number"
    else:
        words = (
            "look here and just above for a quote or bracket that is not closed, a tab, a colon "
            "with no space after it, or lines of one list that begin at different columns"
        )
    mark = getattr(error, "problem_mark", None)
    return words if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: {words}"
