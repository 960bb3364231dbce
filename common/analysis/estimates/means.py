"""Means, shares, and their differences between groups.

The sampling variance of a mean is s^2 / n from the moments, of a share p (1 - p) / n. The mean of a
group is a ratio, E[y 1_g] / P(g): Fieller's set. Its rows vary around it by the variance within all
groups, taken to be the same in each; of a binary y it is exact.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import numpy as np

from dppca.common.analysis.estimates.answers import LEAST, Estimate, normal_estimate, ratio_estimate
from dppca.common.analysis.estimates.block import Block
from dppca.common.analysis.estimates.intervals import Between
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments, bilinear, combine
from dppca.common.analysis.estimates.scope import EstimateScope
from dppca.common.analysis.estimates.shares import ratio_of_shares, share_of
from dppca.common.analysis.estimates.variables import Variable
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.cells import Cells, encode_numeric


def estimate_mean(moments: ReconciledMoments, scope: EstimateScope, y: Variable) -> Estimate:
    """Estimate the mean of a number."""
    block = moments.block([y.attribute])
    one, coded = block.unit(0), y.coded(block)
    if y.gappy:
        return _mean_of_known(moments, scope, y, block)
    mean = combine([bilinear(block, one, coded), *_from_histogram(moments, y.attribute)])
    n = moments.n_rows
    spread = max(block.value(coded, coded) - mean.values[0] ** 2, 0.0) * n / max(n - 1, 1)
    return _in_units(
        y.name, mean, spread / scope.rows(moments), y, df=inf if scope.these_rows else n - 1
    )


def _mean_of_known(
    moments: ReconciledMoments, scope: EstimateScope, y: Variable, block: Block
) -> Estimate:
    """Estimate the mean of the rows that have a number: others are coded as 0."""
    one, coded = block.unit(0), y.coded(block)
    if y.absent is not None:
        found = bilinear(block, np.array([coded, y.known(block)]), one)
    else:
        size = len(moments.names.labels[y.attribute] or ())
        missing = moments.shares([{y.attribute: np.arange(size) == size - 1}])
        parts = (
            bilinear(block, one, coded).combine(np.array([[1.0], [0.0]])),
            missing.combine(np.array([[0.0], [-1.0]])),
        )
        values = parts[0].values + parts[1].values + [0, 1]
        found = Linear(values, parts[0].noise.beside(parts[1].noise))
    above, below = found.values
    spread = max(block.value(coded, coded) / below - (above / below) ** 2, 0.0)
    return _estimate_group(moments, scope, y, f"{y.name} is known", found, spread, name=y.name)


def _in_units(
    name: str, found: Linear, sampling: float, y: Variable, df: float = inf, **law: float
) -> Estimate:
    """Estimate a number from its coded one, with its interval cut at the bounds."""
    scaled = found.combine(np.array([[y.factor]]))
    scaled = replace(scaled, values=scaled.values + y.offset)
    bounds = {"lowest": y.lower, "highest": y.upper}
    return normal_estimate(name, scaled, sampling * y.factor**2, df=df, **bounds, **law)


def estimate_bounds(moments: ReconciledMoments, scope: EstimateScope, attribute: int) -> Estimate:
    """Estimate where the mean of a numeric with ``products: bins`` lies: its ends have noise."""
    table = moments.study.table
    name, cells = table.attributes[attribute].name, table.cells[attribute]
    assert cells is not None  # noqa: S101 - bins need bounds
    if cells.missing:
        raise SettingError(f"{name}: rows without a value have no place in a mean; ask for shares")
    size, n = cells.n_cells, scope.rows(moments)
    shares = moments.shares([{attribute: np.arange(size) == code} for code in range(size)])
    first, last = cells.ends
    ends = [np.r_[each, cells.spikes] for each in (first, last)]
    p = np.clip(shares.values, 0, 1)
    found = shares.combine(np.array(ends))
    sampling = [(p @ each**2 - (p @ each) ** 2) / n for each in ends]
    low, high = np.sqrt(found.noise.variance + np.array(sampling))
    law = Between((float(found.values[0]), float(found.values[1])), (float(low), float(high)))
    return Estimate(f"{name}, between the ends of its bins", law=law)


def estimate_shares(
    moments: ReconciledMoments, scope: EstimateScope, attribute: int, codes: Sequence[int]
) -> list[Estimate]:
    """Estimate the shares of the rows with labels of an attribute."""
    size = len(moments.names.labels[attribute] or ())
    found = moments.shares([{attribute: np.arange(size) == code} for code in codes])
    return [
        share_of(group_name(moments, attribute, code), found.part(place), scope.rows(moments))
        for place, code in enumerate(codes)
    ]


def estimate_groups(
    moments: ReconciledMoments, scope: EstimateScope, y: Variable, by: int
) -> list[Estimate]:
    """Estimate the mean of y, or its share, where an attribute has each label: Fieller's sets."""
    within = variance_within(moments, y, by) if y.label is None else 0.0
    codes = range(len(moments.names.labels[by] or ()))
    found = group_sums(moments, y, by, codes)
    names = [group_name(moments, by, code) for code in codes]
    return [
        _estimate_group(moments, scope, y, name, found.part(2 * code, 2), within)
        for code, name in zip(codes, names, strict=True)
    ]


def _estimate_group(
    moments: ReconciledMoments,
    scope: EstimateScope,
    y: Variable,
    group: str,
    found: Linear,
    spread: float,
    name: str | None = None,
) -> Estimate:
    name, below = name or f"{y.name} where {group}", found.values[1]
    rows, units = scope.rows(moments), {"offset": y.offset, "factor": y.factor}
    limits = {"lowest": y.lower, "highest": y.upper}
    if y.label is not None:
        return ratio_of_shares(name, found, rows)
    counted = max(float(below), 0.0) / rows
    return ratio_estimate(name, found, np.diag([spread * counted, 0]), **units, **limits)


def estimate_difference(
    moments: ReconciledMoments, scope: EstimateScope, y: Variable, by: int, codes: tuple[int, int]
) -> Estimate:
    """Estimate the mean of y, or its share, in the first group less that in the second."""
    groups = [group_name(moments, by, code) for code in codes]
    name = f"{y.name}: {groups[0]} less {groups[1]}"
    found = group_sums(moments, y, by, codes)
    (a1, b1, a2, b2), rows = found.values, scope.rows(moments)
    numbers = np.array([a1 * b2 - a2 * b1, min(b1 * b2, b1, b2)])
    gradients = np.array([[b2, -a2, -b1, a1], [0, b2, 0, b1]])
    sizes = np.maximum([b1, b2], 1 / moments.n_rows)
    if y.label is None:
        spread = np.full(2, variance_within(moments, y, by))
    else:  # of a share that few events leave open, as Agresti and Caffo take it
        events = np.clip([a1, a2], 0, sizes) * moments.n_rows + 2
        share = events / (sizes * moments.n_rows + 4)
        spread = share * (1 - share)
    sampling = np.diag([float((spread / sizes).sum()) * (b1 * b2) ** 2 / rows, 0])
    labels = len(moments.names.labels[by] or ())
    df = inf if scope.these_rows or y.label is not None else moments.n_rows - labels
    limit = abs(y.factor)
    return ratio_estimate(
        name,
        Linear(numbers, found.noise.combine(gradients)),
        sampling,
        factor=y.factor,
        lowest=-limit,
        highest=limit,
        df=df,
        null=0.0,
    )


def group_name(moments: ReconciledMoments, by: int, code: int) -> str:
    """Return ``attribute=label``."""
    return f"{moments.names.schema.attributes[by].name}={(moments.names.labels[by] or ())[code]}"


def group_sums(moments: ReconciledMoments, y: Variable, by: int, codes: Sequence[int]) -> Linear:
    """Return E[y 1_g] and P(g) of each group, in turn; y is coded."""
    if y.attribute == by:
        raise SettingError(f"{y.name} cannot be compared by its own labels")
    size = len(moments.names.labels[by] or ())
    masks = [np.arange(size) == code for code in codes]
    if y.label is not None:
        own = np.arange(len(moments.names.labels[y.attribute] or ())) == y.label
        both = [
            {by: mask, y.attribute: each} for mask in masks for each in (own, np.ones_like(own))
        ]
        return moments.shares(both)
    block = moments.block([y.attribute, by])
    vectors = [moments.names.vector(block, by, mask) for mask in masks]
    if vectors[0] is None:
        raise _no_groups(moments, y, by)
    left = np.repeat(np.array(vectors), 2, axis=0)
    right = np.tile([y.coded(block), y.known(block)], (len(codes), 1))
    return bilinear(block, left, right)


def variance_within(moments: ReconciledMoments, y: Variable, by: int) -> float:
    """Return the variance of a coded number within all groups, at least 0.

    Groups whose share the noise hides count as if they had the mean of all.
    """
    labels = range(len(moments.names.labels[by] or ()))
    found = group_sums(moments, y, by, labels)
    sums, shares = found.values[::2], found.values[1::2]
    clear = shares > LEAST * np.sqrt(found.noise.variance[1::2])
    block = moments.block([y.attribute])
    known = block.value(block.unit(0), y.known(block))
    mean = block.value(block.unit(0), y.coded(block)) / known
    between = (shares[clear] * (sums[clear] / shares[clear] - mean) ** 2).sum() / known
    total = block.value(y.coded(block), y.coded(block)) / known - mean**2
    freedom = max(moments.n_rows - len(labels), 1)
    return float(max(total - between, 0.0)) * moments.n_rows / freedom


def _from_histogram(moments: ReconciledMoments, attribute: int) -> list[Linear]:
    """Return the mean that a histogram gives, if each of its cells is one value."""
    each, cells = moments.study.table.attributes[attribute], moments.study.table.cells[attribute]
    counted = [own for own in moments.counts if own.attributes == (attribute,)]
    if not counted or not isinstance(each, Numeric) or cells is None or not _single_values(cells):
        return []
    unit = 2**moments.study.table.resolution_bits
    codes = np.arange(cells.n_cells, dtype=np.int32)
    coordinates = encode_numeric(each, cells.values(codes), unit) / unit
    events = [{attribute: codes == code} for code in codes]
    return [own.find(events).combine(coordinates[None]) for own in counted]


def _single_values(cells: Cells) -> bool:
    first, last = cells.ends
    return cells.integer and bool(np.all(first == last))


def require_groups(moments: ReconciledMoments, y: Variable, by: int) -> None:
    """Raise `SettingError` if the mean of a number was not released for each label of ``by``."""
    if y.label is not None or y.attribute == by:
        return
    first = np.arange(len(moments.names.labels[by] or ())) == 0
    block = moments.block([y.attribute, by])
    if not len(first) or moments.names.vector(block, by, first) is None:
        raise _no_groups(moments, y, by)


def _no_groups(moments: ReconciledMoments, y: Variable, by: int) -> SettingError:
    return SettingError(
        f"study {moments.study.name} released no products of {y.name} with the cells of "
        f"{moments.names.schema.attributes[by].name}: groups are by labels, or by a number with "
        "`products: bins`; `ols` and `correlation` relate two numbers"
    )
