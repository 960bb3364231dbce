"""Weights that may leave: output perturbation of a linear support vector machine.

The machine minimises ``|w|^2 / 2 + C sum hinge`` over rows of norm at most r; the intercept is one
more column with a constant, regularised like the others. Replacing one row moves the exact
minimiser by at most

    s = 2 C r                                                                                   (1)

in L2: the objective is 1-strongly convex and a row's loss has slope at most C r, before and after.
The same holds of a person with any number k of rows whose hinges weigh 1/k: so has their average.
The release starts not from w* but from the solver's w, within tau of it
(`dppca.common.analysis.estimators.base.hinge`), rounded to a public grid of step h, which moves it
by at most ``h sqrt(D) / 2``. For two neighbours together

    D2 = s + 2 tau + h sqrt(D)     in L2,    sqrt(D) D2     in L1                               (2)

With h a fixed fraction of s and tau another, (2) in units of h depends on D alone, and is an
integer once rounded up: integer noise is added to integers. K machines on the same rows (one class
against the rest) are one vector: sqrt(K) D2 in L2, K sqrt(D) D2 in L1, which is epsilon, or rho,
divided evenly over the machines.

Floating point. (1) compares two tables that differ in one row: the *features* of every other row
must be the same numbers in both, so each caller computes them as a function of one row alone
(`dppca.common.kernel.moments.rowwise`); their deviation from real arithmetic then has no effect.
Signs and scaling act on one number at a time. Everything else that depends on many rows is in the
weights, and within tau: the solver's bound counts its own rounding
(`dppca.common.analysis.estimators.base.hinge`), and the solver's tolerance is tau minus the
possible loss of scaling and rounding to the grid: ``4 u |w|``, u = 2^-53, where ``|w| <= min(C n r,
sqrt(2 C n)) + tau`` since the minimum is at most the value at 0. s is enlarged by one part in 10^8;
rows take half of it, its own rounding less.

Limits: the guarantee is for rows whose exact norm is at most r, to within one part in 10^9, and for
a solver that certified tau; the fact that it did is not itself private.

Source: Chaudhuri, Monteleoni and Sarwate (2011), "Differentially Private Empirical Risk
Minimization", algorithm 1, there for a smooth loss and an exact minimiser; Rubinstein, Bartlett,
Huang and Taft (2012), "Learning in a Large Function Space", for the hinge.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.guarantee import Guarantee, Variant
from dppca.common.analysis.estimators.base.hinge import rounding_error, solve_hinge
from dppca.common.analysis.estimators.base.penalty import Penalty, balanced_penalty, check_penalty
from dppca.common.analysis.estimators.base.settings import (
    EntropyMaker,
    check_share,
    choose_label,
    describe_repeatability,
)
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import (
    Calibration,
    add_noise,
    calibrate_noise,
    check_range,
)
from dppca.common.kernel.privacy.noise.entropy import EntropySource
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity

STEP_BITS = 5
"""The grid's step is ``s 4^-5``: rounding costs a thousandth of the noise per root of D."""
_STEPS = 4**STEP_BITS
_ROOM = 1e-8
"""Enlargement of s, more than the tolerance of 1e-9 on rows' norms and its rounding."""
_SMALLEST = 1e-100
"""Lower limit of tau^2; its inverse is the upper one. Float64 holds the solver's squares there."""


@dataclass(frozen=True, slots=True)
class WeightPlan:
    """Noise of K machines of D weights, from public numbers alone.

    ``calibration`` has noise and cost in steps of the grid; `plan_weights` describes the other
    parameters.
    """

    D: int
    n_machines: int
    C: float
    radius: float
    solver_tolerance: float
    calibration: Calibration

    @property
    def change(self) -> float:
        """Return s, equation (1), in real units."""
        return 2.0 * self.C * self.radius * (1.0 + _ROOM)

    @property
    def step(self) -> float:
        """Return h, the grid's step in real units."""
        return float(self.change / _STEPS)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on one weight, in real units."""
        return self.calibration.law.deviation * self.step

    @property
    def sensitivity(self) -> float:
        """Return D2 of (2) for all K machines together, in L2, real units."""
        return float(math.sqrt(self.calibration.sensitivity.l2_squared) * self.step)


def noised_weights(
    grid: NDArray[np.int64], plan: WeightPlan, *, entropy: EntropySource
) -> NDArray[np.float64]:
    """Add noise to trained weights from `weights_on_grid`; return shape (K, D). Cannot fail."""
    noised = add_noise(grid, plan.calibration, entropy=entropy)
    weights: NDArray[np.float64] = np.multiply(noised, plan.step, dtype=np.float64)
    return weights.reshape(plan.n_machines, plan.D)


def promise_weights(
    plan: WeightPlan,
    *,
    method: str,
    source: str,
    private: str,
    entropy: EntropyMaker | None,
    before: tuple[Calibration, ...] = (),
    split: str = "",
) -> Guarantee:
    """Guarantee of a machine whose weights have noise.

    ``before`` is noise drawn before the weights' own; ``split`` describes the division of
    epsilon over both, and the machines' part is added.
    """
    noise = plan.calibration
    return Guarantee(
        method=method,
        source=source,
        variant=Variant.SOUND,
        label=choose_label(entropy),
        private=private,
        not_private=describe_repeatability(entropy).removeprefix("; "),
        epsilon=reduce(add, [each.epsilon for each in (*before, noise)]),
        delta=reduce(add, [each.delta for each in (*before, noise)]),
        relation=noise.sensitivity.relation,
        max_rows_per_person=noise.factor,
        sensitivity=plan.sensitivity,
        sensitivity_of=f"L2, weights of all machines; noise by {noise.law.norm}",
        split=", ".join(part for part in (split, split_over(plan.n_machines)) if part),
        charge=reduce(add, [each.charge for each in (*before, noise)]),
        noise=(*before, noise),
    )


def count_machines(n_classes: int) -> int:
    """Number of machines that distinguish the classes: one for two, else one for each."""
    return 1 if n_classes == 2 else n_classes


def split_over(n_machines: int) -> str:
    """Describe the division of epsilon over the machines of more than two classes; else empty."""
    if n_machines == 1:
        return ""
    return f"one class against the rest: 1/{n_machines} for each of {n_machines} machines"


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
    mechanism: str | None = None,
) -> WeightPlan:
    """Calibrate the noise of K machines of D weights.

    Raise `SettingError` if C is too small or too large to certify a solution in float64, and
    `RangeError` if the integers could leave their range. ``C`` is the weight of the hinge loss, or
    ``auto`` for a value from the other settings and the row count; ``radius`` bounds the norm of a
    row, any constant column included; ``delta`` is for Gaussian noise, None for Laplace noise,
    which is far larger for many columns, unless ``mechanism`` names another law;
    ``solver_tolerance`` is tau as a share of s, part of the noise.
    """
    check_penalty(C)
    sens = weight_sensitivity(D, n_machines=n_machines, solver_tolerance=solver_tolerance)
    calibration = calibrate_noise(
        choose_law(mechanism, delta, joint=False),
        sens,
        epsilon=epsilon,
        delta=delta,
        max_rows_per_person=max_rows_per_person,
    )
    check_range(
        calibration,
        resolution_bits=STEP_BITS,
        max_rows=n_rows,  # |w| <= C r n: half a step of s per row
        n_entries=n_machines * D,
        n_owners=1,
        largest_weight=Fraction(1),
    )
    if isinstance(C, str):
        C = balanced_penalty(calibration.law.deviation / _STEPS, n_rows=n_rows, radius=radius)
    tau = solver_tolerance * 2.0 * C * radius
    if not _SMALLEST < tau * tau < 1 / _SMALLEST:  # a gap of 0 or infinity would certify nothing
        raise SettingError(
            f"C is {C:.3g}, for which float64 cannot certify a solution: take one nearer to 1"
        )
    return WeightPlan(D, n_machines, C, radius, solver_tolerance, calibration)


def weights_on_grid(
    rows: NDArray[np.float64],
    signs: NDArray[np.float64],
    plan: WeightPlan,
    *,
    rows_of_person: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Train K machines and round their weights to the grid, shape (K D,), in steps.

    They are *not* private until the plan's noise is added. ``rows_of_person`` is k of each row's
    person, shape (n_rows,), where people weigh as one row. Raise `DataError` if a row is longer
    than the plan's radius and `SettingError` if the solver cannot certify tau.
    """
    if not np.all(np.linalg.norm(rows, axis=1) <= plan.radius * (1 + _ROOM / 2)):
        raise DataError(
            f"a row is longer than the {plan.radius:.6g} that the noise is calibrated for"
        )
    # The solver's w is within tau of w*, by (3) of `hinge`.
    gap = _largest_gap(plan, n_rows=len(rows))
    hinges = None if rows_of_person is None else 1.0 / rows_of_person
    exact = [
        solve_hinge(sign[:, None] * rows, C=plan.C, gap=gap, weights=hinges).weights
        for sign in signs.T
    ]
    grid: NDArray[np.int64] = np.rint(np.concatenate(exact) / plan.step).astype(np.int64)
    return grid


def require_certifiable(plan: WeightPlan, *, n_rows: int) -> None:
    """Raise `SettingError` if float64 might be unable to certify the solution for some rows.

    The check uses public numbers alone and serves machines that can be trained only after a charge.
    The rounding error that `dppca.common.analysis.estimators.base.hinge` adds to its gap is bounded
    for every table of ``n_rows`` rows: at w near the optimum ``|w|^2 <= 2 C n`` (its dual value is
    not negative), and ``|z_i| |w| <= r |w|``. It must leave half of the gap to the solver.
    """
    lost = plan.C * rounding_error(
        plan.D,
        n_rows,
        sizes=n_rows * plan.radius * math.sqrt(4.0 * plan.C * n_rows),
        squared=4.0 * n_rows,
        apart=math.sqrt(plan.C) * n_rows * plan.radius,
    )
    if not lost <= _largest_gap(plan, n_rows=n_rows) / 2.0:
        raise SettingError(
            f"C is {plan.C:.3g}, with which float64 may be unable to certify the machine on "
            f"{n_rows} rows: take a larger C"
        )


def _largest_gap(plan: WeightPlan, *, n_rows: int) -> float:
    """Gap that the solver must certify so that grid weights are within tau of the minimiser."""
    # |w|, and with it what scaling and rounding to the grid lose of tau; then the gap tau^2 / 2.
    tau = plan.solver_tolerance * plan.change
    C, r = plan.C, plan.radius
    longest = min(C * n_rows * r, math.sqrt(2.0 * C * n_rows)) + tau
    lost = 2.0 * float(np.finfo(np.float64).eps) * longest
    return max(tau - lost, 0.0) ** 2 / 2.0


def weight_sensitivity(D: int, *, n_machines: int, solver_tolerance: float) -> Sensitivity:
    """Return (2) in steps of the grid, for K machines of D weights, rounded up."""
    tolerance = Fraction(check_share("solver_tolerance", solver_tolerance))
    # D2 of (2) over h, with s = _STEPS h; then over K machines.
    one = _STEPS * (1 + 2 * tolerance) + _square_root_up(Fraction(D))
    return Sensitivity(
        l1=math.ceil(n_machines * _square_root_up(Fraction(D)) * one),
        l2_squared=math.ceil(n_machines * one**2),
        resolution_bits=STEP_BITS,
        relation=Relation.REPLACE_ONE,
    )


def _square_root_up(value: Fraction) -> Fraction:
    """Return the square root, rounded up to a multiple of 2^-40."""
    scaled = math.ceil(value * 4**40)
    root = math.isqrt(scaled)
    return Fraction(root + (root * root < scaled), 2**40)
