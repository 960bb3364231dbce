"""Trees while they are made, and the splits that a public schema allows: drawn or grown alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from dppca.common.kernel.schema.attributes import Date, Numeric, Ordinal
from dppca.common.kernel.schema.cells import encode_numeric
from dppca.common.kernel.schema.splits import Public, Reach

_Known = TypeVar("_Known")


@dataclass(slots=True)
class GrowingNode(Generic[_Known]):
    """A node of a tree that is being made: a leaf, until it is split.

    ``known`` is what decides its next split; ``node`` is how a document writes it.
    """

    known: _Known
    node: Mapping[str, Any] = field(default_factory=dict)
    branches: tuple[GrowingNode[_Known], ...] = ()

    def split(self, node: Mapping[str, Any], parts: Iterable[_Known]) -> None:
        """Split the leaf; ``parts`` are what is known of its first and its second branch."""
        self.node, self.branches = node, tuple(GrowingNode(part) for part in parts)

    def nodes(self) -> Iterator[Mapping[str, Any]]:
        """Yield this node and all below it in the order of a document."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one.node
            waiting += reversed(one.branches)


@dataclass(frozen=True, slots=True)
class CandidateSplit:
    """A split of an attribute between two of its own cells or levels, or of one label.

    ``node`` is how a document writes it, ``rule`` how rows are compared (`read_split`).
    """

    index: int
    node: Mapping[str, Any]
    rule: int | frozenset[int]


def list_splits(index: int, public: Public) -> list[CandidateSplit]:
    """Return all splits of an attribute, those of a numeric by ascending threshold.

    A numeric is split between its intervals, and on both sides of each of its spikes.
    """
    attribute, cells = public.attributes[index], public.cells[index]
    if not isinstance(attribute, Numeric):
        return [
            CandidateSplit(index, {"by": attribute.name, "labels": [label]}, frozenset({code}))
            for code, label in enumerate(attribute.labels)
        ]
    assert cells is not None  # noqa: S101 - tables need bounds
    spikes = np.array(cells.spikes)
    below = (encode_numeric(attribute, spikes, 2 * public.half) - 1) / (2 * public.half)
    values = np.concatenate([cells.edges[1:-1], cells.scale.values(below), spikes])
    if cells.missing:
        values = np.append(values, attribute.bounds[1])
    if attribute.integer:
        values = np.floor(values)
    codes = encode_numeric(attribute, values, 2 * public.half).tolist()
    written = {code: _write(attribute, value) for code, value in zip(codes, values, strict=True)}
    return [
        CandidateSplit(index, {"by": attribute.name, "at_most": written[code]}, code)
        for code in sorted(written)
    ]


def can_split(reach: Reach, split: CandidateSplit) -> bool:
    """Return True if both branches have values that rows of a leaf can have."""
    if isinstance(split.rule, int):
        return min(reach) <= split.rule < max(reach)
    assert isinstance(reach, frozenset)  # noqa: S101 - labels have a set
    return len(reach) > 1 and split.rule <= reach


def _write(attribute: Numeric, value: float) -> float | str:
    """Return a threshold as a document writes it: a level, a date or a number."""
    as_text = isinstance(attribute, Ordinal | Date)
    return attribute.format_value(value) if as_text else float(value)
