"""Calibration: integers of a noise law from a privacy parameter; and addition of the noise.

A vector of integer sums, with noise of a law of `dppca.common.kernel.privacy.laws` in each entry,
is private at the cost that the law gives. Computed widths are rounded up, so the nominal epsilon or
rho that is charged is never below the cost. A width that is set by hand is rounded *down*, and its
own cost is charged, rounded up to 12 decimals; the figure that a paper prints for it stands beside
the charge and has no effect.

Noise is added modulo 2^64, which is a function of the noised sums and so costs nothing. The study's
limits ensure, when it is made, that the sums can be read back: every entry stays within 2^62 if

    n W 4^g + m b (ln(mD) + 42) < 2^62    or    n W 4^g + 13 m sigma < 2^62    (3)

for the n rows of m owners together, D entries and no weight above W >= 1. The noise of some entry
leaves its part of (3) with probability below 1e-18 (Laplace, mD draws), 1e-37 (Gaussian, each).

Limits: the figures hold for the sums of one data set of one owner, and only while each is noised
once. The analytic calibration of Balle and Wang (2018) would ask for less Gaussian noise; it is
proved for one continuous variable and not used.

Where several owners make one mechanism together, each adds a share of its noise, and the sum over h
of them is the law's: `dppca.common.kernel.privacy.noise.shares`. A share is below a whole noise in
probability, so (3) bounds the pooled sum as it is.

Halved products. In the unit ball, (7) and (8) of `dppca.common.kernel.privacy.sensitivity` bound
``|D|_F^2``, which counts each product of two columns twice, and the release holds it once. Gaussian
noise of an even variance v in all other entries and v/2 in these products therefore costs, with the
changes d_i of squares, sums and products as they are released,

    rho = sum d_i^2 / (2 v_i) = (|D|_F^2 + w^2 |x - y|^2) / (2 v) <= Delta_2^2 / (2 v)

for one row, and k^2 times that for k: this is (1) of `dppca.common.kernel.privacy.gaussian_law`, as
discrete Gaussians of different integer variances are independent and add their rho (Canonne, Kamath
and Steinke, section 2), and no entry is scaled.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import RangeError, SettingError
from dppca.common.kernel.privacy.accounting import (
    Price,
    PrivacyCost,
    require_amount,
    require_delta,
    require_epsilon,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.schema.units import LimitedRows, PrivacyUnit

RANGE = 2**62  # a noised sum must stay below it; int64 holds twice that


@dataclass(frozen=True, slots=True)
class Calibration:
    """Law of the noise with its sensitivity and its cost.

    Attributes
    ----------
    law
        Law of the noise on each entry.
    charge
        Cost that the ledger charges, at least the true cost: epsilon or rho, the other is 0.
    epsilon, delta
        The claim; delta is 0 for a law that needs none.
    nominal
        Epsilon that is printed elsewhere for a width set by hand, without effect; None if there
        is none.
    sensitivity
        Sensitivity to one replaced row, or to one replaced person.
    unit
        What of the rows belongs to one person.
    n_honest_owners
        h, the owners whose shares of the noise make this law; None if each owner adds all of it.
    """

    law: NoiseLaw
    charge: PrivacyCost
    epsilon: Decimal
    delta: Decimal
    nominal: Decimal | None
    sensitivity: Sensitivity
    unit: PrivacyUnit
    n_honest_owners: int | None = None

    @property
    def price(self) -> Price:
        """Price of one release with this noise."""
        return Price(self.epsilon, self.delta, self.charge)

    @property
    def max_rows_per_person(self) -> int | None:
        """Most rows of one person; None if any number is protected."""
        return self.unit.most if isinstance(self.unit, LimitedRows) else None

    @property
    def factor(self) -> int:
        """What the sensitivity is multiplied by: k rows of a person, or 1 for a person."""
        return self.unit.factor

    @property
    def share_variance(self) -> int | None:
        """Variance of one owner's share, in units of 16^-g; None if it is not a whole number."""
        return (
            None if self.n_honest_owners is None else self.law.share_variance(self.n_honest_owners)
        )

    @property
    def of_counts(self) -> "Calibration":
        """The noise of counts of cells: the same, unless the law is joint."""
        return replace(self, law=self.law.of_counts)

    def mechanisms(self, n_owners: int) -> float:
        """Return the variance of the noise in a sum over ``n_owners``, in units of the law's."""
        weight = 1 if self.n_honest_owners is None else self.law.share_weight(self.n_honest_owners)
        return float(n_owners * weight)


def calibrate_noise(
    law: type[NoiseLaw],
    sens: Sensitivity,
    *,
    epsilon: Decimal,
    delta: Decimal | None = None,
    max_rows_per_person: int,
    halved_products: bool = False,
    layout: Layout | None = None,
    honest: int | None = None,
    rows_counted: int | None = None,
) -> Calibration:
    """Return the least noise of a law that promises epsilon, at a delta if the law needs one.

    ``halved_products`` is for unit-ball rows and a law that can halve its variance. ``layout``,
    ``honest`` owners that make the noise together, and c (``rows_counted``, None for rows) are for
    a joint law; others take any.
    """
    k = _check_rows(max_rows_per_person)
    found: NoiseLaw
    if layout is None:
        found, charge = law.entry_law().calibrate(sens, k, epsilon=epsilon, delta=delta)
    else:
        found, charge = law.calibrate_release(
            sens,
            k,
            layout,
            honest=honest,
            rows_counted=rows_counted,
            epsilon=epsilon,
            delta=delta,
        )
    found = found.of_entries.halve_products(up=True) if halved_products else found
    claimed = require_delta(delta) if law.needs_delta else Decimal(0)
    return Calibration(found, charge, epsilon, claimed, None, sens, LimitedRows(k))


def fixed_noise(
    law: type[NoiseLaw],
    sens: Sensitivity,
    *,
    scale: Decimal,
    delta: Decimal | None = None,
    max_rows_per_person: int,
    nominal_epsilon: Decimal | None,
    halved_products: bool = False,
) -> Calibration:
    """Return noise of a given width, charged at its own cost.

    ``scale`` is the width in real units of the summed moments, b or sigma times 4^-g; the law's
    integer is rounded down. The claimed epsilon is the charge's epsilon at ``delta``.
    """
    claimed = require_delta(delta) if law.needs_delta else Decimal(0)
    if nominal_epsilon is not None:
        require_epsilon(nominal_epsilon)
    k = _check_rows(max_rows_per_person)
    require_amount("the scale of the noise", scale)
    found = law.entry_law().of_width(Fraction(scale) * 4**sens.resolution_bits)
    if found is None:
        raise SettingError(
            f"a noise scale of {scale} is below one step of the sums, 4^-{sens.resolution_bits}; "
            "set a larger one"
        )
    found = found.halve_products(up=False) if halved_products else found
    charge = found.cost(sens, k)
    epsilon = charge.epsilon_at(claimed)
    return Calibration(found, charge, epsilon, claimed, nominal_epsilon, sens, LimitedRows(k))


def add_noise(
    values: NDArray[np.int64],
    calibration: Calibration,
    *,
    entropy: EntropySource,
    layout: Layout | None = None,
) -> NDArray[np.int64]:
    """Add noise, or this owner's share of it, to exact sums, modulo 2^64.

    ``values`` are integers in units of 4^-g, shape (D,); they are not changed: the result is a new
    array. They are the entries of a ``layout``; without one, the law of single entries adds noise
    to all alike.
    """
    if values.dtype != np.int64 or values.ndim != 1:
        raise SettingError(
            f"noise is added to a vector of int64 sums, not to {values.dtype} of shape "
            f"{values.shape}; sums must never have been floating point"
        )
    law, honest = calibration.law, calibration.n_honest_owners
    if layout is None:
        none = np.empty(0, np.intp)
        noise = law.of_entries.draw_entries(values.size, none, honest, entropy=entropy)
    else:
        noise = law.draw_release(layout, honest, entropy=entropy)
    # Unsigned, because there wrapping around is defined.
    return (values.astype(np.uint64) + noise.astype(np.uint64)).astype(np.int64)


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
    ``n_owners`` brings noise of its own. Raise `RangeError` if an entry could reach 2^62.
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
    noise = n_owners * calibration.law.largest(n_owners * n_entries)
    if sums + noise >= RANGE:
        raise RangeError(
            f"sums of up to {sums} and noise of up to {noise} together reach 2^62 "
            f"({max_rows} rows, {resolution_bits} resolution bits, {n_entries} entries, epsilon "
            f"{calibration.epsilon}); take fewer rows, a coarser grid or a larger epsilon"
        )


def _check_rows(max_rows_per_person: int) -> int:
    if max_rows_per_person < 1:
        raise SettingError(
            f"max_rows_per_person must be 1 or more, not {max_rows_per_person}; it is the largest "
            "number of rows that one person may have in the table"
        )
    return max_rows_per_person
