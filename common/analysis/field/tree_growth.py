"""Decision trees grown on rows that are public, as tables of a schema.

Trees that predict a target on published synthetic rows have their leaves where the target changes.
A study that counts real rows in these leaves learns what pairs of attributes do not show
(`dppca.common.analysis.field.tilt`). Growing them is post-processing of what was published.

Each tree takes a random part of the attributes and of the rows. The leaf whose best split gains
most is split next, and a split takes one of a random half of the tree's attributes: the threshold
between two cells, or the labels with the smallest shares of the target's commonest label, that
lower the Gini impurity most, ::

    gain = sum_k l_k^2 / l + sum_k r_k^2 / r - sum_k n_k^2 / n                              (1)

with l_k, r_k and n_k the rows with label k of the target in the branches and the leaf. Counts are
integers, each operation on them is rounded alike everywhere, and of equal gains the first is taken,
so anybody with the rows and the seed grows the same trees.

Reference: L. Breiman, Random forests, Machine Learning 45 (2001) 5-32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.growing_trees import GrowingNode, list_splits
from dppca.common.kernel.schema import Column, Numeric, Schema, row_codes

_ATTRIBUTES = 0.6  # share of the attributes that a tree may ask, so that trees differ
_PER_SPLIT = 0.5  # share of these that one split may ask
_MOST_ROWS = 40_000  # of the published rows that a tree is grown on
_LEAST_ROWS = 100
"""In each branch of a split."""

Codes = NDArray[np.int64]


def grow_trees(
    schema: Schema, columns: Sequence[Column], target: str, *, count: int, leaves: int, seed: int
) -> list[dict[str, Any]]:
    """Grow trees that predict a target, as entries of a schema's ``tables``.

    ``columns`` are rows' values, as `dppca.common.kernel.schema.encode` takes them. ``seed``
    decides which attributes and rows each tree takes. A tree has fewer leaves if no split is left.
    """
    rng = Random(seed)  # noqa: S311 - it protects nothing
    rows, index = row_codes(schema, columns), schema.find_index(target)
    n_labels = schema.public.n_own(index)
    others = [each for each in range(len(schema.attributes)) if each != index]
    features = {each: _Feature.of(schema, each, rows.coded(each)) for each in others}
    truth = rows.own(index).astype(np.int64)
    n_attributes = max(3, round(len(others) * _ATTRIBUTES))
    trees = []
    for _ in range(count):
        own = sorted(rng.sample(others, min(n_attributes, len(others))))
        some = np.array(sorted(rng.sample(range(len(truth)), min(len(truth), _MOST_ROWS))))
        root = _grow_tree([features[each] for each in own], truth, n_labels, some, leaves, rng)
        trees.append({"tree": list(root.nodes()), "target": target})
    return trees


@dataclass(frozen=True, slots=True)
class _Feature:
    """An attribute by which rows are split: the bucket of each row, and how splits are written."""

    name: str
    buckets: Codes
    n_buckets: int
    thresholds: tuple[Mapping[str, Any], ...]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, index: int, coded: NDArray[np.int32]) -> _Feature:
        attribute = schema.attributes[index]
        if not isinstance(attribute, Numeric):
            labels = attribute.labels
            return cls(attribute.name, coded.astype(np.int64), len(labels), (), labels)
        splits = list_splits(index, schema.public)
        codes = [each.rule for each in splits if isinstance(each.rule, int)]
        buckets = np.searchsorted(np.array(codes, np.int32), coded, side="left")
        thresholds = tuple(each.node for each in splits)
        return cls(attribute.name, buckets.astype(np.int64), len(splits) + 1, thresholds, ())

    def write(self, order: Codes, n_first: int) -> Mapping[str, Any]:
        """Return the node whose first branch has the first buckets of an order."""
        if self.labels:
            return {"by": self.name, "labels": [self.labels[k] for k in sorted(order[:n_first])]}
        return self.thresholds[n_first - 1]


@dataclass(frozen=True, slots=True)
class _Division:
    gain: float
    feature: _Feature
    order: Codes
    n_first: int


def _grow_tree(
    features: Sequence[_Feature],
    truth: Codes,
    n_labels: int,
    rows: Codes,
    n_leaves: int,
    rng: Random,
) -> GrowingNode[Codes]:
    root, found = GrowingNode(rows), 1
    waiting: list[tuple[float, int, GrowingNode[Codes], _Division]] = []

    def consider(leaf: GrowingNode[Codes], number: int) -> None:
        some = rng.sample(features, max(1, round(len(features) * _PER_SPLIT)))
        best = _best_division(some, truth, n_labels, leaf.known)
        if best is not None:
            heappush(waiting, (-best.gain, number, leaf, best))

    consider(root, 0)
    while waiting and found < n_leaves:
        _, _, leaf, division = heappop(waiting)
        chosen = np.zeros(division.feature.n_buckets, bool)
        chosen[division.order[: division.n_first]] = True
        first = chosen[division.feature.buckets[leaf.known]]
        node = division.feature.write(division.order, division.n_first)
        leaf.split(node, (leaf.known[first], leaf.known[~first]))
        for number, each in enumerate(leaf.branches):
            consider(each, 2 * found + number)
        found += 1
    return root


def _best_division(
    features: Sequence[_Feature], truth: Codes, n_labels: int, rows: Codes
) -> _Division | None:
    best: _Division | None = None
    for feature in features:
        size = feature.n_buckets * n_labels
        cells = feature.buckets[rows] * n_labels + truth[rows]
        counts = np.bincount(cells, minlength=size).reshape(-1, n_labels)
        order = np.arange(feature.n_buckets)
        if feature.labels:
            order = _order_labels(counts)
        first = counts[order].cumsum(axis=0)[:-1]
        total = counts.sum(axis=0)
        other, n = total - first, int(total.sum())
        n_first = first.sum(axis=1)
        possible = (n_first >= _LEAST_ROWS) & (n - n_first >= _LEAST_ROWS)
        if not possible.any():
            continue
        score = (first**2).sum(axis=1) / np.maximum(n_first, 1)
        score += (other**2).sum(axis=1) / np.maximum(n - n_first, 1)
        score = np.where(possible, score, -1.0)
        place = int(score.argmax())
        gain = float(score[place]) - int((total**2).sum()) / n
        if gain > 0 and (best is None or gain > best.gain):
            best = _Division(gain, feature, order, place + 1)
    return best


def _order_labels(counts: Codes) -> Codes:
    """Return labels by ascending share of the commonest target; those without rows come last."""
    commonest = counts[:, int(counts.sum(axis=0).argmax())]
    total = counts.sum(axis=1)
    share = np.where(total > 0, commonest / np.maximum(total, 1), 2.0)
    return np.argsort(share, kind="stable")
