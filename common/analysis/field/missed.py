"""What a release knows and drawn rows do not have: relations and counts missed beyond their noise.

A released covariance, or share of a cell, differs from the rows' own by its noise, and by the
chance of the rows that are looked at, which is normal. Their variances add up; a difference is
missed if both together would hardly ever be as large in any of all the entries (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dppca.common.analysis.field.targets import FieldTargets
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.schema import Partition, Schema
from dppca.common.kernel.schema.partitions import TableCells

MOST_ROWS = 1 << 16
"""Rows that are compared at most: their own chance is 1 of 256 of their deviation then."""
_BY_CHANCE = 0.01  # probability that anything is named though nothing was missed
_REACH, _STEPS = 9.0, 361  # deviations of rows' chance, and where it is added up
_NAMED = 5  # relations in a text; the others are counted

Vector = NDArray[np.float64]
Tail = Callable[[Vector], Vector]


@dataclass(frozen=True, slots=True)
class Missed:
    """A relation, or a table, that the release knows and decoded rows do not have."""

    relation: Annotated[str, "what is missed: two attributes, or a table"]
    deviations: Annotated[
        float, "largest difference, in standard deviations of its noise and of the rows' chance"
    ]


@dataclass(frozen=True, slots=True)
class _Off:
    """How far entries are off, with the deviations of their noise and of the rows' chance."""

    off: Vector
    noise: Vector
    chance: Vector

    @property
    def deviations(self) -> Vector:
        """Of noise and chance together."""
        off: Vector = self.off / (np.hypot(self.noise, self.chance) + np.finfo(float).tiny)
        return off

    def is_beyond(self, level: float, tail: Tail) -> bool:
        """Whether an entry is further off than noise and chance are with a probability."""
        far = self.deviations > -ndtri(level / 2)  # what a normal law allows, any allows
        entries = zip(self.off[far], self.noise[far], self.chance[far], strict=True)
        return any(_tail_of_both(*entry, tail) < level for entry in entries)


def _tail_of_both(off: float, noise: float, chance: float, tail: Tail) -> float:
    """Probability that noise and normal chance together are at least so far from 0."""
    if not noise:
        return float(2 * ndtr(-off / chance))
    steps = np.linspace(-_REACH, _REACH, _STEPS)
    weights = np.exp(-(steps**2) / 2)
    left = (off - chance * steps) / noise
    half = tail(np.abs(left)) / 2
    return float(2 * np.average(np.where(left < 0, 1 - half, half), weights=weights))


def find_missed(
    schema: Schema,
    targets: FieldTargets,
    coded: Vector,
    tables: Sequence[tuple[Partition, Counted, Vector]],
    *,
    tail: Tail,
) -> tuple[Missed, ...]:
    """Return what rows miss, the largest difference first.

    Parameters
    ----------
    coded
        Coded columns of the rows, shape (n, p).
    tables
        Tables and trees with their released counts, and the rows' share in each cell.
    tail
        Chance that a released entry's noise is at least so many standard deviations from 0.
    """
    found = [
        *_of_pairs(schema, targets, coded),
        *((_name(schema, each[0]), _of_table(*each[1:], 1 / len(coded))) for each in tables),
    ]
    level = _BY_CHANCE / max(sum(each.off.size for _, each in found), 1)
    missed = [
        Missed(relation, float(each.deviations.max()))
        for relation, each in found
        if each.is_beyond(level, tail)
    ]
    return tuple(sorted(missed, key=lambda each: -each.deviations))


def _of_pairs(schema: Schema, targets: FieldTargets, coded: Vector) -> Iterable[tuple[str, _Off]]:
    """Names of every two attributes, and how far off their covariances are."""
    centred = coded - coded.mean(axis=0)
    covariance = centred.T @ centred / len(coded)
    squares = centred**2
    # The variance of a mean of products, of this many rows.
    chance = (squares.T @ squares / len(coded) - covariance**2) / len(coded)
    chance = np.maximum(chance, np.outer(targets.variance, targets.variance) / len(coded))
    off = np.abs(targets.released - covariance) * targets.between
    noise, by_chance = np.sqrt(targets.released_variance), np.sqrt(chance)
    groups = schema.layout.groups
    names = [attribute.name for attribute in schema.attributes]
    for place, (start, stop) in enumerate(groups):
        for other, (first, last) in enumerate(groups[:place]):
            entries = np.s_[first:last, start:stop]
            named = f"{names[other]} and {names[place]}"
            yield named, _Off(off[entries], noise[entries], by_chance[entries])


def _of_table(counted: Counted, shares: Vector, chance: float) -> _Off:
    """How far the rows' share of each cell is off."""
    share = np.clip(np.maximum(shares, counted.shares), 0, 1)
    noise = np.broadcast_to(counted.noise, shares.shape)
    return _Off(np.abs(counted.shares - shares), noise, np.sqrt(share * (1 - share) * chance))


def _name(schema: Schema, partition: Partition) -> str:
    if not isinstance(partition, TableCells):
        return f"a tree of {schema.attributes[partition.target].name}"
    *others, last = (schema.attributes[index].name for index in partition.attributes)
    return f"the table of {', '.join(others)} and {last}" if others else f"the table of {last}"


def missed_text(missed: Sequence[Missed]) -> str:
    """Say what rows miss, by name; the empty text if they miss nothing."""
    if not missed:
        return ""
    named = "; ".join(f"{each.relation} ({each.deviations:.1f})" for each in missed[:_NAMED])
    more = f"; {len(missed) - _NAMED} more" if len(missed) > _NAMED else ""
    return (
        "Decoded rows miss what the release knows, by so many standard deviations of its noise: "
        f"{named}{more}. Take these from `estimate`, not from the rows"
    )
