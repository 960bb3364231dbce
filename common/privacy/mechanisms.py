"""From a privacy parameter to the integers of a noise law, and the noise itself.

A vector of integer sums whose L1 change is at most k Delta_1 for one person with k rows, noised
by the discrete Laplace law P(x) ~ exp(-|x|/b) in each entry, is

    (k Delta_1 / b)-differentially private,                     b = ceil(k Delta_1 / epsilon)  (1)

and with L2 change at most k Delta_2, noised by P(x) ~ exp(-x^2/(2 sigma^2)), it satisfies zCDP of

    k^2 Delta_2^2 / (2 sigma^2),                   sigma^2 = ceil(k^2 Delta_2^2 / (2 rho)).    (2)

b is in units of 4^-g, sigma^2 in units of 16^-g, and both are integers: scales that are computed
are rounded up, so the nominal epsilon or rho that is charged is never below the cost. A scale that
is set by hand is rounded *down* and charged what it costs, rounded up to 12 decimals; the figure a
paper prints for it stands beside the charge and has no effect.

Noise is added modulo 2^64, which is a function of the noised sums and so costs nothing. That the
sums can be read back is settled when the study is made: every entry stays within 2^62 if

    n W 4^g + m b (ln(mD) + 42) < 2^62    or    n W 4^g + 13 m sigma < 2^62    (3)

for the n rows of m owners together, D entries and no weight above W >= 1. The noise of some entry
leaves its part of (3) with probability below 1e-18 (Laplace, mD draws), 1e-37 (Gaussian, each).

Limits: the figures hold for the sums of one data set of one owner, and only while each is noised
once. The analytic calibration of Balle and Wang (2018) would ask for less Gaussian noise; it is
proved for one continuous variable and not used.

Where several owners make one mechanism together, each adds a share of its noise, and the sum over h
of them is (1) or (2): `dppca.common.privacy.noise.shares`. A share is below a whole noise in
probability, so (3) bounds the pooled sum as it is.

Source: Ghosh, Roughgarden and Sundararajan (2012), "Universally utility-maximizing privacy
mechanisms", for (1); Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential
Privacy", section 2, for (2) in several dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from enum import StrEnum
from fractions import Fraction
from math import ceil, floor, isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from dppca.common.amounts import round_up
from dppca.common.errors import RangeError, SettingError
from dppca.common.privacy.accounting import (
    PrivacyCost,
    epsilon_from_rho,
    require_amount,
    require_delta,
    require_epsilon,
    rho_from_epsilon_delta,
)
from dppca.common.privacy.noise.entropy import EntropySource
from dppca.common.privacy.noise.sampler import discrete_gaussian, discrete_laplace
from dppca.common.privacy.noise.shares import (
    gaussian_share,
    gaussian_share_variance,
    laplace_share,
)
from dppca.common.privacy.sensitivity import Sensitivity

RANGE = 2**62  # what a noised sum must stay below; int64 holds twice that
_LAPLACE_TAIL = 42
_GAUSSIAN_TAIL = 13


class Mechanism(StrEnum):
    """Law of the noise."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Calibration:
    """One noise law, what it protects and what it costs.

    Attributes
    ----------
    scale
        b, in units of 4^-g; None for Gaussian noise.
    sigma_squared
        sigma^2, in units of 16^-g; None for Laplace noise.
    charge
        What the ledger charges, at least the true cost: epsilon or rho, the other is 0.
    epsilon, delta
        The claim; delta is 0 for Laplace noise.
    nominal
        The epsilon that is elsewhere printed for a scale set by hand; without effect, None if
        there is none.
    sensitivity
        For one replaced row.
    max_rows_per_person
        k, by which the sensitivity was multiplied.
    honest
        h, the owners whose shares of the noise make this law; None where each owner adds all of it.
    """

    mechanism: Mechanism
    scale: int | None
    sigma_squared: int | None
    charge: PrivacyCost
    epsilon: Decimal
    delta: Decimal
    nominal: Decimal | None
    sensitivity: Sensitivity
    max_rows_per_person: int
    honest: int | None = None

    @property
    def width(self) -> float:
        """b of Laplace noise or sigma of Gaussian noise, in units of 4^-g."""
        return sqrt(self.sigma_squared or 0) if self.scale is None else float(self.scale)

    @property
    def share_variance(self) -> int | None:
        """Variance of one owner's Gaussian share, in units of 16^-g; None where there is none."""
        if self.honest is None or self.sigma_squared is None:
            return None
        return gaussian_share_variance(self.sigma_squared, self.honest)

    def mechanisms(self, n_owners: int) -> float:
        """How many mechanisms' noise the sum over ``n_owners`` holds, as a share of variance."""
        if self.honest is None:
            return float(n_owners)
        if self.share_variance is None or self.sigma_squared is None:
            return n_owners / self.honest
        return n_owners * self.share_variance / self.sigma_squared


def calibrate_laplace(
    sens: Sensitivity, *, epsilon: Decimal, max_rows_per_person: int
) -> Calibration:
    """Least integer scale that gives epsilon, equation (1); epsilon is charged."""
    require_epsilon(epsilon)
    change = _l1_of_person(sens, max_rows_per_person)
    scale = ceil(change / Fraction(epsilon))
    return _laplace(sens, max_rows_per_person, scale=scale, epsilon=epsilon)


def calibrate_gaussian(
    sens: Sensitivity, *, epsilon: Decimal, delta: Decimal, max_rows_per_person: int
) -> Calibration:
    """Least integer variance that gives (epsilon, delta) by zCDP, equation (2); rho is charged."""
    rho = rho_from_epsilon_delta(epsilon, delta)
    change = _l2_squared_of_person(sens, max_rows_per_person)
    sigma_squared = ceil(change / (2 * Fraction(rho)))
    return _gaussian(
        sens,
        max_rows_per_person,
        sigma_squared=sigma_squared,
        rho=rho,
        epsilon=epsilon,
        delta=delta,
    )


def calibrate_noise(
    sens: Sensitivity, *, epsilon: Decimal, delta: Decimal | None, max_rows_per_person: int
) -> Calibration:
    """Laplace noise where ``delta`` is None, otherwise Gaussian noise."""
    if delta is None:
        return calibrate_laplace(sens, epsilon=epsilon, max_rows_per_person=max_rows_per_person)
    return calibrate_gaussian(
        sens, epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person
    )


def fixed_laplace(
    sens: Sensitivity,
    *,
    scale: Decimal,
    max_rows_per_person: int,
    nominal_epsilon: Decimal | None,
) -> Calibration:
    """Laplace noise of a given scale, charged what it costs.

    ``scale`` is in real units of the summed moments, b 4^-g; it is rounded down to an integer b.
    """
    _require_nominal(nominal_epsilon)
    change = _l1_of_person(sens, max_rows_per_person)
    integer_scale = floor(_to_grid_units(scale, sens))
    if integer_scale < 1:
        raise SettingError(_scale_error(scale, sens))
    cost = round_up(change / integer_scale)
    calibration = _laplace(sens, max_rows_per_person, scale=integer_scale, epsilon=cost)
    return replace(calibration, nominal=nominal_epsilon)


def fixed_gaussian(
    sens: Sensitivity,
    *,
    scale: Decimal,
    delta: Decimal,
    max_rows_per_person: int,
    nominal_epsilon: Decimal | None,
) -> Calibration:
    """Gaussian noise of a given standard deviation, charged what it costs.

    ``scale`` is in real units of the summed moments, sigma 4^-g; sigma^2 is rounded down to an
    integer. The claimed epsilon is that of the charged rho at ``delta``.
    """
    require_delta(delta)
    _require_nominal(nominal_epsilon)
    change = _l2_squared_of_person(sens, max_rows_per_person)
    sigma_squared = floor(_to_grid_units(scale, sens) ** 2)
    if sigma_squared < 1:
        raise SettingError(_scale_error(scale, sens))
    rho = round_up(change / (2 * sigma_squared))
    calibration = _gaussian(
        sens,
        max_rows_per_person,
        sigma_squared=sigma_squared,
        rho=rho,
        epsilon=epsilon_from_rho(rho, delta),
        delta=delta,
    )
    return replace(calibration, nominal=nominal_epsilon)


def add_noise(
    values: NDArray[np.int64], calibration: Calibration, *, entropy: EntropySource
) -> NDArray[np.int64]:
    """Noise each entry on its own, modulo 2^64; with a share where the owners make it together.

    Parameters
    ----------
    values
        Shape (D,), exact integer sums in units of 4^-g; not changed.

    Returns
    -------
    NDArray[np.int64]
        Shape (D,), a new array.
    """
    if values.dtype != np.int64 or values.ndim != 1:
        raise SettingError(
            f"noise is added to a vector of int64 sums, not to {values.dtype} of shape "
            f"{values.shape}; sums must never have been floating point"
        )
    noise = _draw_noise(calibration, values.size, entropy=entropy)
    # Unsigned, because there wrapping around is defined.
    return (values.astype(np.uint64) + noise.astype(np.uint64)).astype(np.int64)


def _draw_noise(
    calibration: Calibration, size: int, *, entropy: EntropySource
) -> NDArray[np.int64]:
    honest = calibration.honest
    if calibration.scale is not None:
        if honest is None:
            return discrete_laplace(calibration.scale, size, entropy=entropy)
        return laplace_share(calibration.scale, honest, size, entropy=entropy)
    if calibration.sigma_squared is not None:
        if honest is None:
            return discrete_gaussian(calibration.sigma_squared, size, entropy=entropy)
        return gaussian_share(calibration.sigma_squared, honest, size, entropy=entropy)
    raise SettingError("the calibration has neither a scale nor a sigma_squared")


def check_range(
    calibration: Calibration,
    *,
    resolution_bits: int,
    max_rows: int,
    n_entries: int,
    n_owners: int,
    largest_weight: Fraction,
) -> None:
    """Refuse a study whose noised sums could leave the range of exact integers, equation (3).

    The owners' vectors are added, so ``max_rows`` counts the rows of all of them, and each of
    ``n_owners`` brings noise of its own.

    Raises
    ------
    RangeError
        If an entry could reach 2^62.
    """
    if resolution_bits != calibration.sensitivity.resolution_bits:
        raise SettingError(
            f"resolution_bits is {resolution_bits}, but the noise is calibrated for "
            f"{calibration.sensitivity.resolution_bits}"
        )
    if max_rows < 1 or n_entries < 1 or n_owners < 1:
        raise SettingError(
            f"a study needs rows, entries and owners, not {max_rows} rows, {n_entries} entries "
            f"and {n_owners} owners"
        )
    sums = ceil(max_rows * max(largest_weight, Fraction(1)) * 4**resolution_bits)
    noise = n_owners * _largest_noise(calibration, n_entries=n_owners * n_entries)
    if sums + noise >= RANGE:
        raise RangeError(
            f"sums of up to {sums} and noise of up to {noise} together reach 2^62 "
            f"({max_rows} rows, {resolution_bits} resolution bits, {n_entries} entries, epsilon "
            f"{calibration.epsilon}); take fewer rows, a coarser grid or a larger epsilon"
        )


def _laplace(sens: Sensitivity, k: int, *, scale: int, epsilon: Decimal) -> Calibration:
    return Calibration(
        mechanism=Mechanism.LAPLACE,
        scale=scale,
        sigma_squared=None,
        charge=PrivacyCost(epsilon=epsilon, rho=Decimal(0)),
        epsilon=epsilon,
        delta=Decimal(0),
        nominal=None,
        sensitivity=sens,
        max_rows_per_person=k,
    )


def _gaussian(
    sens: Sensitivity, k: int, *, sigma_squared: int, rho: Decimal, epsilon: Decimal, delta: Decimal
) -> Calibration:
    return Calibration(
        mechanism=Mechanism.GAUSSIAN,
        scale=None,
        sigma_squared=sigma_squared,
        charge=PrivacyCost(epsilon=Decimal(0), rho=rho),
        epsilon=epsilon,
        delta=delta,
        nominal=None,
        sensitivity=sens,
        max_rows_per_person=k,
    )


def _l1_of_person(sens: Sensitivity, max_rows_per_person: int) -> Fraction:
    return Fraction(_check_rows(max_rows_per_person) * sens.l1)


def _l2_squared_of_person(sens: Sensitivity, max_rows_per_person: int) -> Fraction:
    return Fraction(_check_rows(max_rows_per_person) ** 2 * sens.l2_squared)


def _check_rows(max_rows_per_person: int) -> int:
    if max_rows_per_person < 1:
        raise SettingError(
            f"max_rows_per_person must be 1 or more, not {max_rows_per_person}; it is the largest "
            "number of rows that one person may have in the table"
        )
    return max_rows_per_person


def _require_nominal(nominal_epsilon: Decimal | None) -> None:
    if nominal_epsilon is not None:
        require_epsilon(nominal_epsilon)


def _to_grid_units(scale: Decimal, sens: Sensitivity) -> Fraction:
    require_amount("the scale of the noise", scale)
    return Fraction(scale) * (1 << 2 * sens.resolution_bits)


def _scale_error(scale: Decimal, sens: Sensitivity) -> str:
    return (
        f"a noise scale of {scale} is below one step of the sums, 4^-{sens.resolution_bits}; "
        "set a larger one"
    )


def _largest_noise(calibration: Calibration, *, n_entries: int) -> int:
    """What no entry's noise exceeds but with the negligible probability of (3)."""
    if calibration.scale is not None:
        with localcontext(Context(prec=50, rounding=ROUND_CEILING)):
            tail = calibration.scale * (Decimal(n_entries).ln() + _LAPLACE_TAIL)
            return ceil(tail)
    return isqrt(_GAUSSIAN_TAIL**2 * (calibration.sigma_squared or 0)) + 1
