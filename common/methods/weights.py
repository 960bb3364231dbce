"""Weights that may leave: output perturbation of a linear support vector machine.

The machine minimises ``|w|^2 / 2 + C sum hinge`` over rows of norm at most r, an intercept being
one more column with a constant, regularised like the others. Replacing one row moves its exact
minimiser by at most

    s = 2 C r                                                                                   (1)

in L2: the objective is 1-strongly convex and a row's loss has slope at most C r, before and after.
What is released is not w* but the solver's w, within tau of it (`common.methods.hinge`), rounded to
a public grid of step h, which moves it by at most ``h sqrt(D) / 2``. For two neighbours together

    D2 = s + 2 tau + h sqrt(D)     in L2,    sqrt(D) D2     in L1                               (2)

With h a fixed fraction of s and tau another, (2) in units of h depends on D alone, and is an
integer once rounded up: integer noise is added to integers. K machines on the same rows (one
class against the rest) are one vector: sqrt(K) D2 in L2, K sqrt(D) D2 in L1, which is epsilon, or
rho, divided evenly over the machines.

Limits: the guarantee is for rows whose exact norm keeps r, to within one part in 10^9, and for a
solver that did certify tau; that it did is not itself private.

Source: Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk
Minimization", algorithm 1, there for a smooth loss and an exact minimiser; Rubinstein, Bartlett,
Huang and Taft (2012), "Learning in a Large Function Space", for the hinge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from common.errors import DataError, SettingError
from common.methods.hinge import solve_hinge
from common.methods.penalty import Penalty, balanced_penalty, check_penalty
from common.methods.settings import share_of
from common.privacy.entropy import EntropySource
from common.privacy.mechanisms import (
    Calibration,
    Mechanism,
    add_noise,
    calibrate_gaussian,
    calibrate_laplace,
    check_range,
)
from common.privacy.sensitivity import Relation, Sensitivity

STEP_BITS = 5
"""The grid's step is ``s 4^-5``: rounding costs a thousandth of the noise per root of D."""
_STEPS = 4**STEP_BITS
_ROOM = 1e-8
"""Rows are held to their norm to within 1e-9; s is enlarged by more than that and its rounding."""
_SMALLEST = 1e-100
"""Of tau^2: far from where it, or what the solver squares, leaves float64."""


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Everything about the noise of K machines of D weights, from public numbers alone.

    Attributes
    ----------
    C, radius, solver_tolerance
        As of `release_weights`.
    calibration
        Noise and cost, in steps of the grid.
    """

    D: int
    n_machines: int
    C: float
    radius: float
    solver_tolerance: float
    calibration: Calibration

    @property
    def change(self) -> float:
        """s, equation (1), in real units."""
        return 2.0 * self.C * self.radius * (1.0 + _ROOM)

    @property
    def step(self) -> float:
        """h, the grid's step: what one integer is worth, in real units."""
        return float(self.change / _STEPS)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one weight, in real units."""
        return _deviation(self.calibration) * self.change

    @property
    def sensitivity(self) -> float:
        """D2 of (2) for all K machines together, in L2, real units."""
        return float(math.sqrt(self.calibration.sensitivity.l2_squared) * self.step)


@dataclass(frozen=True, slots=True)
class NoisedWeights:
    """Weights of K machines, with noise.

    Attributes
    ----------
    weights
        Shape (K, D).
    C
        Of the hinge loss, as given or as taken from public numbers.
    sensitivity
        D2 of (2) for all K machines together, in L2, real units.
    calibration
        Noise and cost, in steps of the grid.
    """

    weights: NDArray[np.float64]
    C: float
    sensitivity: float
    calibration: Calibration


def release_weights(
    rows: NDArray[np.float64],
    signs: NDArray[np.float64],
    *,
    C: Penalty,
    radius: float,
    epsilon: Decimal,
    delta: Decimal | None,
    max_rows_per_person: int,
    solver_tolerance: float,
    entropy: EntropySource,
) -> NoisedWeights:
    """Train K machines on one set of rows and release their weights.

    Parameters
    ----------
    rows
        Shape (n_rows, D), any constant column included, of norm at most ``radius``.
    signs
        Shape (n_rows, K), -1 or +1.
    C
        Of the hinge loss, or ``auto`` for a value from the other settings and the number of rows.
    delta
        For Gaussian noise; None for Laplace noise, which is far larger for many columns.
    solver_tolerance
        tau as a share of s; part of the noise.

    Raises
    ------
    DataError
        A row is longer than ``radius``.
    SettingError, RangeError
        The solver cannot certify tau; the integers could leave their range.
    """
    n_rows, D = rows.shape
    plan = plan_weights(
        D,
        n_machines=signs.shape[1],
        n_rows=n_rows,
        C=C,
        radius=radius,
        epsilon=epsilon,
        delta=delta,
        max_rows_per_person=max_rows_per_person,
        solver_tolerance=solver_tolerance,
    )
    return noised_weights(weights_on_grid(rows, signs, plan), plan, entropy=entropy)


def noised_weights(
    grid: NDArray[np.int64], plan: WeightPlan, *, entropy: EntropySource
) -> NoisedWeights:
    """Draw the noise of trained machines, whose weights are `weights_on_grid`; none can fail."""
    noised = add_noise(grid, plan.calibration, entropy=entropy)
    weights: NDArray[np.float64] = np.multiply(noised, plan.step, dtype=np.float64)
    return NoisedWeights(
        weights=weights.reshape(plan.n_machines, plan.D),
        C=plan.C,
        sensitivity=plan.sensitivity,
        calibration=plan.calibration,
    )


def plan_weights(
    D: int,
    *,
    n_machines: int,
    n_rows: int,
    C: Penalty,
    radius: float,
    epsilon: Decimal,
    delta: Decimal | None,
    max_rows_per_person: int,
    solver_tolerance: float,
) -> WeightPlan:
    """Calibrate the noise of K machines of D weights; parameters as of `release_weights`.

    Raises
    ------
    SettingError
        C is out of all proportion.
    RangeError
        The integers could leave their range.
    """
    check_penalty(C)
    sens = weight_sensitivity(D, n_machines=n_machines, solver_tolerance=solver_tolerance)
    calibration = _calibrate(sens, epsilon, delta, max_rows_per_person)
    check_range(
        calibration,
        resolution_bits=STEP_BITS,
        max_rows=n_rows,  # |w| <= C r n: half a step of s per row
        n_entries=n_machines * D,
        n_owners=1,
        sum_weight=Fraction(1),
    )
    if isinstance(C, str):
        C = balanced_penalty(_deviation(calibration), n_rows=n_rows, radius=radius)
    tau = solver_tolerance * 2.0 * C * radius
    if not _SMALLEST < tau * tau < 1 / _SMALLEST:  # a gap of 0 or infinity would certify nothing
        message = f"C is {C:.3g}, for which float64 cannot certify a solution: take one nearer to 1"
        raise SettingError(message)
    return WeightPlan(D, n_machines, C, radius, solver_tolerance, calibration)


def weights_on_grid(
    rows: NDArray[np.float64], signs: NDArray[np.float64], plan: WeightPlan
) -> NDArray[np.int64]:
    """Train K machines and round their weights to the grid, shape (K D,), in steps.

    *Not* private until the plan's noise is on them.

    Raises
    ------
    DataError
        A row is longer than the plan's radius.
    SettingError
        The solver cannot certify tau.
    """
    if not np.all(np.linalg.norm(rows, axis=1) <= plan.radius * (1 + _ROOM / 2)):
        message = f"a row is longer than the {plan.radius:.6g} that the noise is calibrated for"
        raise DataError(message)
    gap = (plan.solver_tolerance * plan.change) ** 2 / 2.0
    exact = [solve_hinge(sign[:, None] * rows, C=plan.C, gap=gap).weights for sign in signs.T]
    grid: NDArray[np.int64] = np.rint(np.concatenate(exact) / plan.step).astype(np.int64)
    return grid


def require_certifiable(plan: WeightPlan, *, n_rows: int) -> None:
    """Refuse, by public numbers alone, what float64 might be unable to certify for some rows.

    For machines that can be trained only once a charge has been made. The rounding error that
    `common.methods.hinge` adds to its gap is bounded for every table of ``n_rows`` rows: at w near
    the optimum ``|w|^2 <= 2 C n`` (its dual value is not negative), and ``|z_i| |w| <= r |w|``. It
    must leave half of the gap to the solver.

    Raises
    ------
    SettingError
        It might not.
    """
    gap = (plan.solver_tolerance * plan.change) ** 2 / 2.0
    terms = n_rows * (plan.radius * math.sqrt(4.0 * plan.C * n_rows) + 11.0)
    digits = float(np.finfo(np.float64).eps) * (plan.D + math.log2(n_rows) + 10.0)
    if not plan.C * digits * terms <= gap / 2.0:
        message = (
            f"C is {plan.C:.3g}, with which float64 may be unable to certify the machine on "
            f"{n_rows} rows: take a larger C"
        )
        raise SettingError(message)


def weight_sensitivity(D: int, *, n_machines: int, solver_tolerance: float) -> Sensitivity:
    """Equation (2) in steps of the grid, for K machines of D weights, rounded up."""
    tolerance = Fraction(share_of("solver_tolerance", solver_tolerance))
    one = _STEPS * (1 + 2 * tolerance) + _root_up(Fraction(D))
    return Sensitivity(
        l1=math.ceil(n_machines * _root_up(Fraction(D)) * one),
        l2_squared=math.ceil(n_machines * one**2),
        resolution_bits=STEP_BITS,
        relation=Relation.REPLACE_ONE,
    )


def _calibrate(
    sens: Sensitivity, epsilon: Decimal, delta: Decimal | None, max_rows_per_person: int
) -> Calibration:
    if delta is None:
        return calibrate_laplace(sens, epsilon=epsilon, max_rows_per_person=max_rows_per_person)
    return calibrate_gaussian(
        sens, epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person
    )


def _deviation(calibration: Calibration) -> float:
    """Standard deviation of the noise on one weight, as a share of s."""
    laplace = calibration.mechanism is Mechanism.LAPLACE
    return float(calibration.width * (math.sqrt(2.0) if laplace else 1.0) / _STEPS)


def norm_name(calibration: Calibration) -> str:
    """The norm in which the noise bounds a change."""
    return "L1" if calibration.mechanism is Mechanism.LAPLACE else "L2"


def _root_up(value: Fraction) -> Fraction:
    """Square root, rounded up to a multiple of 2^-40."""
    scaled = math.ceil(value * 4**40)
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 2**40)
