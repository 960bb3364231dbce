"""A table released row by row: every entry has noise of its own.

Rows in a ball of radius R become integers on the grid ``R 2^-10``, rounded toward zero. Replacing
one row moves the table by at most ``2 R`` in L2, the diameter of the ball, or ``2^11`` steps of the
grid; the exact discrete Gaussian for that is added to every entry.

Limits: each row is private on its own (locally), which is more than a curator needs, and noise of
that size leaves little: a mean over n rows keeps a deviation of ``sigma / sqrt(n)``.

Source: the sensitivity of Sun et al. (2022), lemma 1, for replacing a row instead of deleting one,
because deleting a row changes the shape of the release.
"""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_noise,
    check_range,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity
from dppca.common.kernel.schema.coding import encode_unit_ball

GRID_BITS = 10  # binary digits of a coordinate
_UNIT_BITS = GRID_BITS // 2  # calibrations count in 4^-5, which is a step of 2^-10


def release_rows(
    rows: NDArray[np.float64],
    *,
    row_norm: float,
    epsilon: Decimal,
    delta: Decimal,
    max_rows_per_person: int,
    entropy: EntropySource,
) -> NDArray[np.float64]:
    """Release rows of norm at most ``row_norm``, shape (n_rows, d); they are not changed.

    The result has the shape and units of the rows.
    """
    n_rows, d = rows.shape
    calibration = plan_rows(
        d, n_rows=n_rows, epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person
    )
    coded = encode_unit_ball(rows / row_norm, resolution_bits=GRID_BITS)
    noised = add_noise(coded.astype(np.int64).ravel(), calibration, entropy=entropy)
    released: NDArray[np.float64] = noised.reshape(rows.shape) * (row_norm / 2**GRID_BITS)
    return released


def plan_rows(
    d: int, *, n_rows: int, epsilon: Decimal, delta: Decimal, max_rows_per_person: int
) -> Calibration:
    """Plan the noise of every entry from public numbers; raise `RangeError` as `check_range`."""
    calibration = calibrate_noise(
        GaussianLaw,
        rows_sensitivity(d),
        epsilon=epsilon,
        delta=delta,
        max_rows_per_person=max_rows_per_person,
    )
    check_range(
        calibration,
        resolution_bits=_UNIT_BITS,
        max_rows=1,  # an entry is one row's
        n_entries=n_rows * d,
        n_owners=1,
        largest_weight=Fraction(1),
    )
    return calibration


def rows_sensitivity(d: int) -> Sensitivity:
    """Diameter of the ball in steps of the grid; in L1 by Cauchy and Schwarz, rounded up."""
    diameter = 2 << GRID_BITS
    return Sensitivity(
        l1=math.isqrt(diameter**2 * d) + 1,
        l2_squared=diameter**2,
        resolution_bits=_UNIT_BITS,
        relation=Relation.REPLACE_ONE,
    )
