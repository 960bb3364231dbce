"""The number of rows as an estimate, where it is secret and leaves with noise.

The pooled vector's last entry is ``a 4^g n`` and noise, for the n rows of all owners together, so

    n^ = round(entry / (a 4^g)),        sd(n^) = s sqrt(m) / (a 4^g)                           (1)

with s the deviation of the law's noise in this entry and m the noises in the pool. A study that
continues another releases tables alone, and no such entry: the K_t cells of each table add up to
``t 4^g n`` and K_t noises, so their totals T_t are combined by inverse variances,

    n^ = round(sum T_t/K_t / (t 4^g q)),    sd(n^) = s sqrt(m) / (t 4^g sqrt(q)),
    q = sum 1/K_t.                                                                             (2)

Its tables are of the rows at that time: the first study's n^ is of others. Both leave with their
own noise under one relation, so what their difference tells of a person is in the sum of the two
costs.

Of moments, totals of one-hot blocks of K labels would be such estimates, too, of variance K. They
are not combined with (1): n^ would share noise with every entry that it divides. At weight 1 its
deviation would fall to .83 (two blocks of 5 labels) or .70 (six of 5 to 16) and that of a share of
.1 to .5 by 0 to 5 %; of binaries and numbers there is no total.

What is divided by n^ has no mean where n^ may be near 0: a release is used only if n^ is at least
`LEAST` of its deviations. The rule looks at the noised number alone, so it costs nothing, and
`chance_of_refusal` says before any charge how likely it is.
"""

from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import TooFewRowsError
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.noise_law import Noised
from dppca.common.kernel.schema.layout import Layout

LEAST = 5.0
"""Deviations that a noised number of rows must have, at least, to be divided by."""


def count_rows(pooled: NDArray[np.int64], layout: Layout) -> int:
    """Return n^ of a pooled vector, shape (D,), whose number of rows is secret; it may be below 0.

    It is (1) or, of tables alone, (2), in exact fractions.
    """
    if layout.with_count:
        return round(int(pooled[-1]) / layout.count_unit)
    ends = np.cumsum(layout.tables)[:-1]
    totals = (Fraction(sum(cells.tolist()), len(cells)) for cells in np.split(pooled, ends))
    return round(sum(totals) / (_table_precision(layout) * layout.table_unit))


def count_deviation(layout: Layout, calibration: Calibration, *, n_owners: int) -> float:
    """Return the standard deviation of n^, in rows, equation (1) or (2)."""
    kind, law = (Noised.ROWS if layout.with_count else Noised.CELL), calibration.law
    deviation = law.deviation_of(kind, layout) * sqrt(calibration.mechanisms(n_owners))
    precision = 1 if layout.with_count else _table_precision(layout)
    return deviation / (float(4**layout.resolution_bits) * sqrt(precision))


def _table_precision(layout: Layout) -> Fraction:
    """Return q of (2)."""
    return sum((Fraction(1, cells) for cells in layout.tables), Fraction(0))


def require_rows(
    pooled: NDArray[np.int64], layout: Layout, calibration: Calibration, *, n_owners: int
) -> int:
    """Return n^; raise `TooFewRowsError` if it is below `LEAST` of its deviations."""
    n_rows = count_rows(pooled, layout)
    deviation = count_deviation(layout, calibration, n_owners=n_owners)
    if n_rows < LEAST * deviation:
        raise TooFewRowsError(
            f"the noised number of rows is {n_rows}, less than {LEAST:.0f} times its deviation of "
            f"{deviation:.1f}: no mean or component can be computed from it"
        )
    return n_rows


def chance_of_refusal(
    layout: Layout, calibration: Calibration, *, n_rows: int, n_owners: int
) -> float:
    """Return the probability that n^ of (1) of n rows is refused: of noise below ``5 sd - n``.

    The tail is the law's, of a sum of as many noises as are in the pool, rounded down.
    """
    deviation = count_deviation(layout, calibration, n_owners=n_owners)
    room = n_rows / deviation - LEAST
    n_noises = max(1, int(calibration.mechanisms(n_owners)))
    beyond = calibration.law.tail(np.array([abs(room)]), n_noises)
    half = float(beyond[0]) / 2
    return half if room >= 0 else 1 - half


def split_rows(n_rows: int, n_owners: int) -> list[int]:
    """Return equal parts of a number of rows, which differ by one at most and add up to it."""
    each, more = divmod(n_rows, n_owners)
    return [each + (place < more) for place in range(n_owners)]
