"""The curator's use of noised pair counts: correlations, a first network, a frontier.

**Correlation** of two attributes with shares p and q, from their noised table T of n rows:

    D = T/n - p q^T,        w = max(0, |D|_F^2 - noise) / ((1 - |p|^2) (1 - |q|^2))             (1)

which is the squared correlation of two binaries, and 0 for independent attributes of any sizes.
With noise of variance v in every cell of T, to first order,

    noise = (v/n^2) (r - 2 + r |p|^2) (s - 2 + s |q|^2)                                         (2)

is the mean that the noise adds to |D|_F^2, for r and s values. Without (2) the pairs with most
cells would seem to be the most dependent ones.

**First network.** The attribute with the largest sum of correlations comes first. The next one is
always the attribute with the largest correlation with a placed one. Its parents are the placed
attributes in order of their correlation with it, each taken if the family's table then has no more
cells than the limit.

**Search frontier** of an attribute: the attributes placed before it that correlate most with it, as
many as it has parents and ``reach`` more. Its candidates are the largest sets of these whose
family's table is within the limit.

*Our reading.* The paper says that correlations of pairs give a first network and a search frontier
that guides the parties; the sources available to us do not print its constructions.

Source: Cheng and others (2020), abstract.
"""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dppca.common.papers.networks.network import Family, Network, count_table_cells
from dppca.common.papers.networks.noised_counts import Attributes, PooledCounts

Matrix = NDArray[np.float64]


def correlate_pairs(pooled: PooledCounts, sizes: tuple[int, ...]) -> Matrix:
    """Return correlations (1) of all pairs, symmetric, shape (d, d); 0 on the diagonal."""
    d = len(sizes)
    correlations = np.zeros((d, d))
    for i, j in combinations(range(d), 2):
        block = next(each for each in pooled.tables if {i, j} <= set(each))
        summed = count_table_cells(block, sizes) // (sizes[i] * sizes[j])
        variance = pooled.cell_variance * summed
        w = correlation(pooled.marginal((i, j)), cell_variance=variance)
        correlations[i, j] = correlations[j, i] = w
    return correlations


def correlation(table: NDArray[np.int64], *, cell_variance: float) -> float:
    """Correlation (1) of a noised table (r, s); 0 if one value has all rows or there are none."""
    n = float(table.sum())
    if n <= 0:
        return 0.0
    joint = table / n
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    spread = (1 - (p**2).sum()) * (1 - (q**2).sum())
    if p.min() < 0 or q.min() < 0 or spread <= 0:
        p, q = (np.maximum(each, 0) / np.maximum(each, 0).sum() for each in (p, q))
        spread = (1 - (p**2).sum()) * (1 - (q**2).sum())
        if spread <= 0:
            return 0.0
    r, s = table.shape
    noise = cell_variance / n**2 * (r - 2 + r * (p**2).sum()) * (s - 2 + s * (q**2).sum())
    square = ((joint - np.outer(p, q)) ** 2).sum()
    return float(max(square - noise, 0.0) / spread)


def first_network(correlations: Matrix, sizes: tuple[int, ...], *, most_cells: int) -> Network:
    """Build the curator's first network."""
    first = int(correlations.sum(axis=0).argmax())
    families = [Family(first, ())]
    placed = [first]
    rest = [each for each in range(len(sizes)) if each != first]
    while rest:
        child = max(rest, key=lambda each: (correlations[each, placed].max(), -each))
        parents: list[int] = []
        for parent in _by_correlation(correlations, child, placed):
            if count_table_cells((child, *parents, parent), sizes) <= most_cells:
                parents.append(parent)
        families.append(Family(child, tuple(sorted(parents))))
        placed.append(child)
        rest.remove(child)
    return Network(tuple(families))


def search_frontier(
    network: Network,
    correlations: Matrix,
    sizes: tuple[int, ...],
    *,
    most_cells: int,
    reach: int,
) -> tuple[tuple[Attributes, ...], ...]:
    """Return candidates for the parents of each family's child, in the network's order."""
    placed: list[int] = []
    frontier = []
    for family in network.families:
        near = _by_correlation(correlations, family.child, placed)
        near = sorted(near[: len(family.parents) + reach])
        limit = most_cells // sizes[family.child]
        frontier.append(largest_sets(near, sizes, most_cells=limit, most_members=len(near)))
        placed.append(family.child)
    return tuple(frontier)


def largest_sets(
    near: list[int], sizes: tuple[int, ...], *, most_cells: int, most_members: int
) -> tuple[Attributes, ...]:
    """Return the allowed sets of attributes that no other allowed set contains.

    A set is allowed if its joint table has at most ``most_cells`` cells and it has at most
    ``most_members`` members; the empty set is allowed.
    """
    if not near or not most_members:
        return ((),)
    *rest, last = near
    size = sizes[last]
    with_last: tuple[Attributes, ...] = ()
    if size <= most_cells:
        with_last = largest_sets(
            rest, sizes, most_cells=most_cells // size, most_members=most_members - 1
        )
    without = largest_sets(rest, sizes, most_cells=most_cells, most_members=most_members)
    return (
        *((*each, last) for each in with_last),
        *(
            each
            for each in without
            if len(each) == most_members or count_table_cells(each, sizes) * size > most_cells
        ),
    )


def _by_correlation(correlations: Matrix, child: int, placed: list[int]) -> list[int]:
    return sorted(placed, key=lambda each: (-correlations[child, each], each))
