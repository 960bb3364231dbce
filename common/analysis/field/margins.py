"""Shares of single attributes' values that released tables and trees count.

A table that counts an attribute's values beside others also counts the values alone: the sum over
the other axes, with the noise of as many cells. A tree counts its target so. For a numeric that has
no histogram, nothing else of the release says more about its shape.

A numeric may enter a table by parts of its range that cut its own cells. A cell that is cut lies in
a part as far as its values, spread evenly, do; so the part's share is known only to what the cut
cells may hold, which counts as noise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.cell_values import CellValues
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.schema import Partition
from dppca.common.kernel.schema.partitions import TableCells

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Margin:
    """Released shares of an attribute's values, or of parts of them, shape (L,).

    ``noise``, shape (L,), has their standard deviations. ``functionals``, shape (L, K), has the
    part of each of K values, or cells, that each share counts; it is None if share l is value l.
    """

    shares: Vector
    noise: Vector
    functionals: Vector | None = None

    def counts(self, n: int) -> Vector:
        """Return the functionals of n values, shape (L, n)."""
        return np.eye(n) if self.functionals is None else self.functionals


def margins_of(
    numerics: Sequence[CellValues | None], tables: Sequence[tuple[Partition, Counted]]
) -> tuple[tuple[Margin, ...], ...]:
    """Return what the tables count of each attribute alone; ``numerics`` is None for labels."""
    found: list[list[Margin]] = [[] for _ in numerics]
    for partition, counted in tables:
        for index, parts, shares, merged in _axes(partition, counted.shares):
            # All cells add up to one: what is too much or too little is noise of all alike.
            level = shares + (1 - shares.sum()) / len(shares)
            noise = np.full(len(shares), counted.noise * np.sqrt(merged))
            numeric = numerics[index]
            if not parts or numeric is None:
                found[index].append(Margin(level, noise))
                continue
            functionals = numeric.parts(parts)
            noise = np.hypot(noise, _of_cut_cells(functionals, level, numeric))
            found[index].append(Margin(level, noise, functionals))
    return tuple(map(tuple, found))


def _axes(partition: Partition, shares: Vector) -> Iterator[tuple[int, int, Vector, float]]:
    """Index, parts (0: own values), shares, and how many cells each of them adds up."""
    if not isinstance(partition, TableCells):
        by_target = shares.reshape(-1, partition.n_target)
        yield partition.target, 0, by_target.sum(axis=0), len(by_target)
        return
    table = shares.reshape(partition.sizes)
    for axis, (index, parts) in enumerate(zip(partition.attributes, partition.coarse, strict=True)):
        others = tuple(each for each in range(table.ndim) if each != axis)
        yield index, parts, table.sum(axis=others), table.size / table.shape[axis]


def _of_cut_cells(functionals: Vector, shares: Vector, numeric: CellValues) -> Vector:
    """Deviation of each part's share that cells bring which lie only partly in it, shape (L,)."""
    spread = spread_evenly(functionals, shares, numeric)
    cut: Vector = ((functionals * (1 - functionals)) * spread).sum(axis=1)
    return cut


def spread_evenly(functionals: Vector | None, shares: Vector, numeric: CellValues) -> Vector:
    """Shares of the own cells, shape (K,), if each part's rows are spread evenly over its cells."""
    positive = np.clip(shares, 0.0, 1.0)
    if functionals is None:
        return positive
    sizes = np.ones(functionals.shape[1])
    sizes[: len(numeric.widths)] = numeric.widths * len(numeric.widths)
    within = functionals * sizes
    total = within.sum(axis=1, keepdims=True)
    spread: Vector = positive @ np.divide(within, total, out=np.zeros_like(within), where=total > 0)
    return spread
