"""The second-moment matrix of rows in a ball, released with exact noise.

For rows with ``|x| <= R`` the estimators of this family release ``A = X^T X / n``, one triangle
noised and mirrored. All computation is on ``X / R`` and scaled back.

Rows become integers in the unit ball on the grid ``2^-g``, rounded toward zero; sums of their
products are exact integers, and one replaced row changes them by at most ``d/sqrt(2) + 1`` in L1
and ``sqrt(2)`` in L2 (`dppca.common.kernel.privacy.sensitivity`, equation 5); the noise is the
discrete one of `dppca.common.kernel.privacy.mechanisms`, in integers, from the caller's entropy.
That L2 counts a product of two columns twice, and the triangle has it once: Gaussian noise has half
of its variance there, at the same cost, as in a study with ``halved_products``.

Limits: the columns are not centred, as in the papers; centre them by public numbers. The matrix may
be indefinite.

Source: Huang et al. (2021), algorithm 1 and section 3.4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.moments.moments import compute_moments, unpack
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise, check_range
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise_law import IndependentLaw
from dppca.common.kernel.privacy.sensitivity import BallShape, Sensitivity, sensitivity
from dppca.common.kernel.schema.coding import encode_unit_ball
from dppca.common.kernel.schema.layout import ColumnKind, Layout


@dataclass(frozen=True, slots=True)
class NoisedMoment:
    """A released matrix, symmetric, (d, d), in squared units of the rows, and its calibration."""

    matrix: NDArray[np.float64]
    calibration: Calibration


def release_second_moment(
    rows: NDArray[np.float64],
    *,
    row_norm: float,
    resolution_bits: int,
    calibrate: Callable[[Sensitivity], Calibration],
    entropy: EntropySource,
    caution: Callable[[Calibration, Layout], None] | None = None,
) -> NoisedMoment:
    """Release ``X^T X / n`` with exact noise.

    ``rows``, shape (n_rows, d), have norms of at most ``row_norm`` and are not changed;
    ``resolution_bits`` is g of the grid ``row_norm 2^-g``; ``calibrate`` maps the sensitivity of
    the integer sums to the noise. Raise `SettingError` if the grid is out of range and `RangeError`
    if the integers could leave theirs.
    """
    n_rows, d = rows.shape
    calibration = plan_second_moment(
        d, n_rows=n_rows, resolution_bits=resolution_bits, calibrate=calibrate
    )
    layout = ball_layout(d, resolution_bits, calibration.law.of_entries)
    if caution is not None:
        caution(calibration, layout)
    coded = encode_unit_ball(rows / row_norm, resolution_bits=resolution_bits)
    moments = compute_moments(coded, layout)
    packed = add_noise(moments.packed, calibration, entropy=entropy, layout=layout)
    _, second = unpack(packed, n_rows, layout)
    return NoisedMoment(second * row_norm**2, calibration)


def plan_second_moment(
    d: int,
    *,
    n_rows: int,
    resolution_bits: int,
    calibrate: Callable[[Sensitivity], Calibration],
) -> Calibration:
    """Plan a release's noise from public numbers; raise as `release_second_moment`."""
    shape = BallShape(n_columns=d, with_sums=False)
    calibration = calibrate(sensitivity(shape, resolution_bits=resolution_bits))
    law = calibration.law.of_entries
    if law.halves_products and d > 1:
        calibration = replace(calibration, law=law.halve_products(up=True))
    check_range(
        calibration,
        resolution_bits=resolution_bits,
        max_rows=n_rows,
        n_entries=ball_layout(d, resolution_bits, calibration.law.of_entries).n_entries,
        n_owners=1,
        largest_weight=Fraction(1),
    )
    return calibration


@lru_cache(maxsize=64)
def ball_layout(d: int, resolution_bits: int, law: IndependentLaw) -> Layout:
    """Return the layout of the products of d columns in the unit ball, without sums."""
    return Layout(
        kinds=(ColumnKind.NUMERIC,) * d,
        attribute_of=tuple(range(d)),
        resolution_bits=resolution_bits,
        scaled_weight=1 << resolution_bits,
        unit_ball=True,
        with_sums=False,
        halved_products=law.of_products is not law,
    )
