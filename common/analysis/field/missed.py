"""What a release knows and drawn rows do not have: relations and counts missed beyond their noise.

A released covariance, or share of a cell, differs from the rows' own by its noise, and by the
chance of the rows that are looked at. Their variances add up; a difference is missed if noise of
this size would hardly ever be as large in any of all the entries (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.field.targets import FieldTargets
from dppca.common.analysis.field.tilt import Counted
from dppca.common.kernel.schema import Partition, Schema
from dppca.common.kernel.schema.partitions import TableCells

_BY_CHANCE = 0.01  # probability that anything is named though nothing was missed
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
    entries = sum(deviations.size for _, deviations in found)
    missed = [
        Missed(relation, float(deviations.max()))
        for relation, deviations in found
        if entries * float(tail(deviations.max(keepdims=True).ravel())[0]) < _BY_CHANCE
    ]
    return tuple(sorted(missed, key=lambda each: -each.deviations))


def _of_pairs(schema: Schema, targets: FieldTargets, coded: Vector) -> Iterable[tuple[str, Vector]]:
    """Names of every two attributes, and how far off their covariances are, in deviations."""
    centred = coded - coded.mean(axis=0)
    covariance = centred.T @ centred / len(coded)
    squares = centred**2
    # The variance of a mean of products, of this many rows.
    chance = (squares.T @ squares / len(coded) - covariance**2) / len(coded)
    chance = np.maximum(chance, np.outer(targets.variance, targets.variance) / len(coded))
    off = np.abs(targets.released - covariance)
    off /= np.sqrt(targets.released_variance + chance) + ~targets.between
    off *= targets.between
    groups = schema.layout.groups
    names = [attribute.name for attribute in schema.attributes]
    for place, (start, stop) in enumerate(groups):
        for other, (first, last) in enumerate(groups[:place]):
            yield f"{names[other]} and {names[place]}", off[first:last, start:stop]


def _of_table(counted: Counted, shares: Vector, chance: float) -> Vector:
    """How far the rows' share of each cell is off, in deviations."""
    share = np.clip(np.maximum(shares, counted.shares), 0, 1)
    off: Vector = np.abs(counted.shares - shares)
    off /= np.sqrt(np.square(counted.noise) + share * (1 - share) * chance) + np.finfo(float).tiny
    return off


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
