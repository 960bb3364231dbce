"""Trees of the public schema, drawn from a seed: they need no rows, and a study may name them.

Leaves are split in the order in which they arose, so a tree is as even as its splits are. A split
takes an attribute other than the target, at random among those that can still divide the leaf, and
a threshold between two of its cells, or one label, at random.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from random import Random
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dppca.common.analysis.growing_trees import CandidateSplit, GrowingNode, can_split, list_splits
from dppca.common.kernel.documents.stated_fields import WHOLE
from dppca.common.kernel.schema.attributes import Name
from dppca.common.kernel.schema.partitions import MAX_LEAVES, MAX_TABLES
from dppca.common.kernel.schema.splits import Public, Reach, divide, find_reach

MAX_RANDOM_LEAVES = 1 << 14
"""Largest number of leaves of all trees: each is a sum that a release has to hold."""


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
