"""What our release costs where a table's neighbour has one row more or less.

The product's neighbours hold equally many rows and differ in one (`dppca.common.kernel.privacy`).
Most makers of synthetic tables count otherwise: a neighbour has one row added or removed. To stand
in one table, ours is calibrated for their relation, too.

The number of rows is then not public, so a release has one entry more, the count. A row adds its
own entries to the packed vector, whatever the other rows are: with Q scalars within [-1/2, 1/2], q
of them numeric, c categoricals of one indicator each, weights w of the sums, h of H histograms, W
of a pair (omega where one of the two is a target, else 1),

    L2^2 = w^2 (Q/4 + c) + sum of W^2 over pairs, times 1/16, 1/4 or 1
           + q/16 + h^2 H + 1                                                                    (1)

where a pair of scalars has 1/16, a scalar beside a categorical 1/4, a pair of categoricals 1, the
square of a numeric 1/16, and the count 1. Every term grows with the size of the scalars and no
other choice a row has changes it, so any row whose scalars are at an end of their range attains
(1).

Limits: box coding and Gaussian noise only. The noise is that of the product otherwise: of the whole
vector at once, in integers, by zCDP.
"""

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from math import ceil, comb
from typing import Any

from benchmarks.releases import BITS, state_privacy, state_study
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import rho_from_epsilon_delta
from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import BoxShape
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Study


class Neighbours(StrEnum):
    """Which tables are neighbours."""

    REPLACED = "one row replaced"
    ADDED = "one row added or removed"


def added_l2_squared(shape: BoxShape) -> Fraction:
    """Squared L2 change of the packed sums and the count by one row more, equation (1)."""
    (Q0, _, c0), (Q1, _, c1) = shape.other_counts, shape.target_counts
    scalar, weight = Fraction(1, 4), shape.target_weight**2

    def pairs(scalars: int, categoricals: int) -> Fraction:
        return (
            comb(scalars, 2) * scalar**2 + scalars * categoricals * scalar + comb(categoricals, 2)
        )

    others = pairs(Q0, c0)
    with_targets = pairs(Q0 + Q1, c0 + c1) - others
    sums = shape.sum_weight**2 * (shape.n_scalars * scalar + shape.n_categoricals)
    squares = shape.n_numeric * scalar**2
    cells = shape.histogram_weight**2 * shape.n_histograms
    return sums + others + weight * with_targets + squares + cells + 1


def make_study(
    document: Mapping[str, Any],
    *,
    epsilon: str,
    delta: str,
    owners: int,
    neighbours: Neighbours,
) -> Study:
    """A study with noise for a relation.

    Parameters
    ----------
    document
        The schema's, without grid and row limit.
    delta
        Of Gaussian noise; empty for Laplace noise, which has none.

    Raises
    ------
    SettingError
        Rows of the unit ball, or Laplace noise, with one added: they have no figure here.
    """
    privacy = state_privacy(epsilon, delta)
    if neighbours is Neighbours.ADDED:
        if not delta:
            raise SettingError("Laplace noise has no figure for a row that is added")
        shape = sensitivity_shape(Schema.from_document({"resolution_bits": BITS, **document}))
        if not isinstance(shape, BoxShape):
            raise SettingError("rows of the unit ball have no figure for a row that is added")
        del privacy["epsilon"]
        privacy["scale"] = str(added_scale(shape, epsilon=epsilon, delta=delta))
    return state_study("rivals", document, privacy, owners=owners)


def added_scale(shape: BoxShape, *, epsilon: str, delta: str) -> Decimal:
    """Least standard deviation of the noise, in coded units, rounded up to 1e-12."""
    rho = rho_from_epsilon_delta(Decimal(epsilon), Decimal(delta))
    variance = ceil(added_l2_squared(shape) * 16**BITS / (2 * Fraction(rho)))
    with localcontext(prec=60, rounding=ROUND_CEILING):
        scale: Decimal = (Decimal(variance).sqrt() / 4**BITS).quantize(Decimal("1e-12"))
    return scale
