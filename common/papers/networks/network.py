"""Bayesian networks over codes: their structure, tables from noised counts, and drawn rows.

A network is a list of families, each an attribute with its parents, parents before children. It
represents the distribution

    P(x_1, ..., x_d) = product over families of  P(x_child | x_parents).                        (1)

Tables of (1) are computed from noised counts: negative ones are set to 0, and each parents' cell is
divided by its sum. If a cell is then empty, the child has the distribution of all cells together.
Nothing here reads a row without noise.

Source: Zhang and others (2017), "PrivBayes", sections 3 and 5.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import SettingError
from dppca.common.papers.networks.noised_counts import Attributes, joint_codes


@dataclass(frozen=True, slots=True)
class Family:
    """An attribute and its parents, in ascending order."""

    child: int
    parents: Attributes

    @property
    def members(self) -> Attributes:
        """Child and parents, in ascending order."""
        return tuple(sorted((self.child, *self.parents)))


@dataclass(frozen=True, slots=True)
class Network:
    """Families of all attributes, parents before children."""

    families: tuple[Family, ...]

    def __post_init__(self) -> None:
        placed: set[int] = set()
        for family in self.families:
            if not placed.issuperset(family.parents) or family.child in placed:
                raise SettingError(f"the network's family of {family.child} is out of order")
            placed.add(family.child)

    @property
    def edges(self) -> frozenset[frozenset[int]]:
        """Pairs of a parent and its child."""
        return frozenset(
            frozenset((family.child, parent))
            for family in self.families
            for parent in family.parents
        )


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """A network with its tables.

    ``sizes`` are the numbers of values of the d attributes. ``tables`` has one per family: the
    child's distribution for each joint value of the parents, shape (product of the parents' sizes,
    size of the child).
    """

    network: Network
    sizes: tuple[int, ...]
    tables: tuple[NDArray[np.float64], ...]

    def sample(self, n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw codes of rows from (1), shape (n_rows, d)."""
        codes = np.zeros((n_rows, len(self.sizes)), np.int64)
        for family, table in zip(self.network.families, self.tables, strict=True):
            levels = np.cumsum(table, axis=1)
            given = joint_codes(codes, family.parents, self.sizes)
            drawn = rng.random(n_rows)[:, None] * levels[given, -1:]
            codes[:, family.child] = (levels[given, :-1] <= drawn).sum(axis=1)
        return codes


def fit_tables(
    network: Network,
    sizes: tuple[int, ...],
    counts: Callable[[Attributes], NDArray[np.int64]],
) -> NetworkModel:
    """Fit a network's tables from noised counts of each family's members, in ascending order."""
    tables = []
    for family in network.families:
        members = counts(family.members)
        child_last = np.moveaxis(members, family.members.index(family.child), -1)
        each = np.maximum(child_last, 0).reshape(-1, sizes[family.child]).astype(np.float64)
        tables.append(_shares(each))
    return NetworkModel(network, sizes, tuple(tables))


def count_table_cells(attributes: Attributes, sizes: tuple[int, ...]) -> int:
    """Number of cells in the table of a set of attributes."""
    return prod(sizes[each] for each in attributes)


def _shares(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    overall = counts.sum(axis=0)
    overall = overall / overall.sum() if overall.any() else np.full_like(overall, 1 / len(overall))
    sums = counts.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.where(sums > 0, counts / np.maximum(sums, 1.0), overall)
    return shares
