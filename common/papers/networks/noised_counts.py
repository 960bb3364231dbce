"""Tables of counts, exactly and with noise: each party's own noise, and the sum of all.

For S sets of attributes, rows are counted in the cells of each set: S tables of integers. A
replaced row leaves one cell of each table and enters another, or stays, so it moves them by

    L1 <= 2 S                                                                                   (1)

for any sizes; any two rows without a value in common attain the bound. Exact discrete Laplace noise
for (1) is added to every cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_noise,
    check_range,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity

Codes = NDArray[np.int64]
Attributes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PooledCounts:
    """Noised tables of all parties together.

    ``tables`` are keyed by set of attributes in ascending order, and so are their axes.
    ``cell_variance`` is the variance of each cell's noise, all parties' together; ``calibration``
    is for one party's noise.
    """

    tables: dict[Attributes, NDArray[np.int64]]
    cell_variance: float
    calibration: Calibration

    def marginal(self, attributes: Attributes) -> NDArray[np.int64]:
        """Return the table of a set in ascending order, from the first set that contains it."""
        holder = next(each for each in self.tables if set(attributes) <= set(each))
        others = tuple(axis for axis, each in enumerate(holder) if each not in attributes)
        summed: NDArray[np.int64] = self.tables[holder].sum(axis=others)
        return summed


def count_sets(codes: Codes, attributes: Attributes, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Count rows in each cell of a set of attributes; the axes are in the order given."""
    shape = tuple(sizes[each] for each in attributes)
    counts = np.bincount(joint_codes(codes, attributes, sizes), minlength=prod(shape))
    return counts.astype(np.int64).reshape(shape)


def joint_codes(codes: Codes, attributes: Attributes, sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return one code for the joint values of several attributes, the last varying fastest."""
    joint = np.zeros(len(codes), np.int64)
    for each in attributes:
        joint = joint * sizes[each] + codes[:, each]
    return joint


def release_counts(
    parties: Sequence[Codes],
    sets: Sequence[Attributes],
    sizes: Sequence[int],
    *,
    epsilon: Decimal,
    max_rows_per_person: int,
    entropy: EntropySource,
) -> PooledCounts:
    """Count every party's rows in the cells of each set, add noise, and sum over the parties.

    ``epsilon`` is each party's, for all sets together. Raise `RangeError` if the counts could leave
    the range of exact integers.
    """
    calibration = calibrate_noise(
        LaplaceLaw,
        counts_sensitivity(len(sets)),
        epsilon=epsilon,
        max_rows_per_person=max_rows_per_person,
    )
    shapes = [tuple(sizes[each] for each in attributes) for attributes in sets]
    ends = np.cumsum([prod(shape) for shape in shapes])
    check_range(
        calibration,
        resolution_bits=0,
        max_rows=sum(map(len, parties)),
        n_entries=int(ends[-1]),
        n_owners=len(parties),
        largest_weight=Fraction(1),
    )
    total = np.zeros(ends[-1], np.int64)
    for codes in parties:
        counts = [count_sets(codes, attributes, sizes).ravel() for attributes in sets]
        total += add_noise(np.concatenate(counts), calibration, entropy=entropy)
    tables = [
        part.reshape(shape) for part, shape in zip(np.split(total, ends[:-1]), shapes, strict=True)
    ]
    return PooledCounts(
        tables=dict(zip(sets, tables, strict=True)),
        cell_variance=2.0 * calibration.law.width**2 * len(parties),
        calibration=calibration,
    )


def counts_sensitivity(n_sets: int) -> Sensitivity:
    """Return (1) and the L2 sensitivity: in each table, two cells move by one."""
    return Sensitivity(
        l1=2 * n_sets, l2_squared=2 * n_sets, resolution_bits=0, relation=Relation.REPLACE_ONE
    )


def maximal_sets(sets: Sequence[Attributes]) -> list[Attributes]:
    """Return the sets that no other set contains, once each, in order; the rest are their sums."""
    once = list(dict.fromkeys(sets))
    return [each for each in once if not any(set(each) < set(other) for other in once)]
