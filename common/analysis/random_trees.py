"""Trees of the public schema, drawn from a seed: they need no rows, and a study may name them.

Leaves are split in the order in which they arose, so a tree is as even as its splits are. A split
takes an attribute other than the target, at random among those that can still divide the leaf, and
a threshold between two of its cells, or one label, at random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any, Generic, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from dppca.common.kernel.documents.stated_fields import WHOLE
from dppca.common.kernel.schema.attributes import Date, Name, Numeric, Ordinal
from dppca.common.kernel.schema.cells import encode_numeric
from dppca.common.kernel.schema.partitions import MAX_LEAVES, MAX_TABLES
from dppca.common.kernel.schema.splits import Public, Reach, divide, find_reach

MAX_RANDOM_LEAVES = 1 << 14


class RandomTrees(BaseModel):
    """How a study file asks for trees of the public schema; the study itself holds the trees.

    Attributes
    ----------
    count
        Number of trees.
    leaves
        Leaves of each, or fewer if the schema cannot be divided further.
    target
        The attribute that divides each leaf, such as one that a classifier predicts.
    seed
        Decides the trees. It protects nothing.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Annotated[int, Field(ge=1, le=MAX_TABLES), WHOLE]
    leaves: Annotated[int, Field(ge=2, le=MAX_LEAVES), WHOLE]
    target: Name
    seed: Annotated[int, Field(ge=0, lt=1 << 63), WHOLE]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.count * self.leaves > MAX_RANDOM_LEAVES:
            raise ValueError(f"count times leaves must be at most {MAX_RANDOM_LEAVES}")
        return self


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


def draw_trees(asked: RandomTrees, public: Public) -> list[dict[str, Any]]:
    """Draw trees, as entries of ``tables``; `ValueError` if the target is no attribute."""
    rng = Random(asked.seed)  # noqa: S311 - it protects nothing
    target = public.place(asked.target)
    others = [index for index in range(len(public.attributes)) if index != target]
    splits = {index: list_splits(index, public) for index in others}
    reach = {index: find_reach(index, public) for index in others}
    trees = (_draw_tree(asked.leaves, reach, splits, rng) for _ in range(asked.count))
    return [{"tree": list(tree.nodes()), "target": asked.target} for tree in trees]


def _draw_tree(
    n_leaves: int,
    reach: Mapping[int, Reach],
    splits: Mapping[int, Sequence[CandidateSplit]],
    rng: Random,
) -> GrowingNode[Mapping[int, Reach]]:
    root, others = GrowingNode(reach), list(reach)
    leaves, found = deque([root]), 1
    while leaves and found < n_leaves:
        leaf = leaves.popleft()
        rng.shuffle(others)
        choices = ([each for each in splits[k] if can_split(leaf.known[k], each)] for k in others)
        possible = next(filter(None, choices), [])
        if not possible:
            continue
        chosen = rng.choice(possible)
        parts = divide(leaf.known[chosen.index], chosen.rule)
        leaf.split(chosen.node, ({**leaf.known, chosen.index: part} for part in parts))
        leaves += leaf.branches
        found += 1
    return root


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
