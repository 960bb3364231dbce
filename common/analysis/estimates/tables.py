"""Two-by-two tables: the odds ratio and the relative risk by Fieller's set.

With p11, p10, p01, p00 the shares of rows with and without x, with and without y, ::

    odds ratio A / B,       A = p11 p00,            B = p10 p01
    relative risk A / B,    A = p11 (p01 + p00),    B = p01 (p11 + p10)

both to first order in the cells; the rows' part is multinomial.
"""

import numpy as np

from dppca.common.analysis.estimates.answers import Estimate, ratio_estimate
from dppca.common.analysis.estimates.means import group_name, share_of
from dppca.common.analysis.estimates.noise import Array
from dppca.common.analysis.estimates.release import Linear, ReconciledMoments
from dppca.common.analysis.estimates.scope import EstimateScope, too_weak
from dppca.common.kernel.errors import SettingError

_AT_ONCE = 64


def estimate_cells(
    moments: ReconciledMoments, scope: EstimateScope, row: int, column: int
) -> list[Estimate]:
    """Estimate the share of the rows in each cell of the table of two attributes."""
    names = moments.names
    sizes = [len(names.labels[each] or ()) for each in (row, column)]
    cells = [divmod(cell, sizes[1]) for cell in range(sizes[0] * sizes[1])]
    found = []
    for start in range(0, len(cells), _AT_ONCE):
        part = cells[start : start + _AT_ONCE]
        shares = moments.shares(
            [{row: np.arange(sizes[0]) == i, column: np.arange(sizes[1]) == j} for i, j in part]
        )
        found += [
            share_of(
                f"{group_name(moments, row, i)}, {group_name(moments, column, j)}",
                shares.row(place),
                scope.rows(moments),
            )
            for place, (i, j) in enumerate(part)
        ]
    return found


def two_by_two(
    moments: ReconciledMoments, x: tuple[int, int], y: tuple[int, int], against: int | None
) -> Linear:
    """Return p11, p10, p01 and p00 of a label of x beside all others, or ``against`` one, and y."""
    if x[0] == y[0]:
        raise SettingError("a table needs two different attributes")
    sizes = [len(moments.names.labels[each] or ()) for each, _ in (x, y)]
    has_x, has_y = (np.arange(size) == code for size, (_, code) in zip(sizes, (x, y), strict=True))
    without = ~has_x if against is None else np.arange(sizes[0]) == against
    return moments.shares(
        [{x[0]: one, y[0]: other} for one in (has_x, without) for other in (has_y, ~has_y)]
    )


def estimate_ratio(
    moments: ReconciledMoments,
    scope: EstimateScope,
    x: tuple[int, int],
    y: tuple[int, int],
    *,
    against: int | None,
    odds: bool,
) -> Estimate:
    """Estimate the odds ratio, or the relative risk, of y where x, beside other rows."""
    names = [group_name(moments, *each) for each in (x, y)]
    rest = "other rows" if against is None else group_name(moments, x[0], against)
    name = f"{'odds ratio' if odds else 'relative risk'} of {names[1]}, {names[0]} to {rest}"
    cells = two_by_two(moments, x, y, against)
    p = cells.values
    numbers, gradients = _odds(p) if odds else _risks(p)
    found = Linear(numbers, cells.noise.combine(gradients))
    sampling = (np.diag(np.clip(p, 0, 1)) - np.outer(p, p)) / scope.rows(moments)
    sampling = gradients @ sampling @ gradients.T
    refused = too_weak(
        *(moments, f"{names[1]}, {rest}", "the denominator is hidden by its noise"),
        size=float(numbers[1]),
        noise=float(found.noise.variance[1]),
        sampling=max(float(sampling[1, 1]), 0.0),
    )
    if refused is not None:
        return Estimate(name, refused=refused)
    return ratio_estimate(name, found, sampling, null=1.0)


def _odds(p: Array) -> tuple[Array, Array]:
    numbers = np.array([p[0] * p[3], p[1] * p[2]])
    return numbers, np.array([[p[3], 0, 0, p[0]], [0, p[2], p[1], 0]])


def _risks(p: Array) -> tuple[Array, Array]:
    a, b = p[0] + p[1], p[2] + p[3]
    numbers = np.array([p[0] * b, p[2] * a])
    return numbers, np.array([[b, 0, p[0], p[0]], [p[2], p[2], a, 0]])
