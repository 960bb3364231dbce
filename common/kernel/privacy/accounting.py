"""Costs of releases and their total, in exact decimals.

Two kinds of release are charged in two currencies that each add up exactly: a pure release (Laplace
noise) costs epsilon; a Gaussian release costs rho of zero-concentrated differential privacy (zCDP).
After pure releases of sum E and Gaussian ones of sum R a data set has spent

    E + epsilon(R, delta)                                                                      (1)

at its delta, where epsilon(rho, delta) is the smallest epsilon that zCDP of rho promises at delta:

    delta = inf over alpha > 1 of  exp((alpha - 1)(alpha rho - epsilon))
                                   (1 - 1/alpha)^(alpha - 1) / alpha                           (2)

or, solved for epsilon and for rho, with L = ln(1/delta),

    epsilon(rho, delta) = inf over alpha of  alpha rho + h(alpha)
    rho(epsilon, delta) = sup over alpha of  (epsilon - h(alpha)) / alpha                      (3)
    h(alpha) = ln(1 - 1/alpha) + (L - ln alpha)/(alpha - 1).

Both optima are where a monotone function of alpha changes sign, since
h' = -(L - ln alpha)/(alpha - 1)^2:

    epsilon:   rho - (L - ln alpha)/(alpha - 1)^2 = 0                      (increasing)
    rho:       alpha (L - ln alpha)/(alpha - 1)^2 + h - epsilon = 0        (decreasing)

*Every* alpha gives a valid bound in (3); a badly found one costs utility, never privacy. The
bisection and the final evaluation are carried out in decimals of 100 digits, correctly rounded by
definition, so all parties find the same digits on every machine; the result is then moved to the
safe side by more than the evaluation can err: epsilon up, rho down, to 12 decimals.

Limits: (1) adds the two parts by basic composition, which is safe and not the best possible. Totals
hold within one data set and one person's k rows; how sites combine is not decided here.

Source: Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy",
Proposition 12 and Corollary 13; Bun and Steinke (2016), "Concentrated Differential Privacy", for
zCDP and its composition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, localcontext
from functools import lru_cache
from typing import Annotated, Any, Self

from dppca.common.kernel.documents.amounts import DECIMALS, decimal_text
from dppca.common.kernel.errors import BudgetExceededError, SettingError

_STEP = Decimal(1).scaleb(-DECIMALS)
_MAX_DECIMALS = 30  # of a given epsilon or rho, so that sums of many of them are exact
_MAX_AMOUNT = Decimal(10) ** 15  # of a given epsilon or rho, for the same reason
_DIGITS = 100  # of decimals while (3) is evaluated
_ERROR = Decimal(
    "1e-40"
)  # far above the error of evaluating (3) with 100 digits, relative to 1 + value
_ORDERS = (Decimal("1e-30"), Decimal("1e30"))  # alpha - 1 is sought in between
_HALVINGS = 96  # give alpha 26 correct digits, and the optimised value twice as many
# Sums are exact or they fail: Inexact is trapped.
_EXACT = Context(prec=_DIGITS, traps=[Inexact])


@dataclass(frozen=True, slots=True)
class PrivacyCost:
    """Cost of one release or of several; costs add up exactly.

    ``epsilon`` is the sum over pure releases, 0 for a Gaussian one; ``rho`` the sum over Gaussian
    releases, 0 for a pure one.
    """

    epsilon: Annotated[Decimal, "charge in pure epsilon"]
    rho: Annotated[Decimal, "charge in rho (zCDP)"]

    def __post_init__(self) -> None:
        require_amount("the charged epsilon", self.epsilon)
        require_amount("the charged rho", self.rho)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read the charge of a document with the names of `amounts`; raise as `Price.read`."""
        return cls(Decimal(document["charged_epsilon"]), Decimal(document["charged_rho"]))

    def epsilon_at(self, delta: Decimal) -> Decimal:
        """Return epsilon of the total at a delta, equation (1); the Gaussian part is rounded up."""
        gaussian = epsilon_from_rho(self.rho, delta) if self.rho > 0 else Decimal(0)
        return _EXACT.add(self.epsilon, gaussian)

    def __add__(self, other: PrivacyCost) -> PrivacyCost:
        return PrivacyCost(_EXACT.add(self.epsilon, other.epsilon), _EXACT.add(self.rho, other.rho))

    def times(self, number: int) -> PrivacyCost:
        """Return the cost of so many releases at this cost."""
        many = Decimal(number)
        return PrivacyCost(_EXACT.multiply(self.epsilon, many), _EXACT.multiply(self.rho, many))

    def covers(self, other: PrivacyCost) -> bool:
        """Return True if a charge of this cost is enough for the other one in both currencies."""
        return other.epsilon <= self.epsilon and other.rho <= self.rho

    def amounts(self) -> dict[str, Any]:
        """Return both amounts, decimals, by the names that they have in every document."""
        return {"charged_epsilon": self.epsilon, "charged_rho": self.rho}


@dataclass(frozen=True, slots=True)
class Price:
    """What one release costs a person: what it promises, and what a ledger is charged for it.

    ``epsilon`` and ``delta`` are the claim, delta 0 without Gaussian noise. ``charge`` is what
    counts: charges are added up, and a `Budget` is asked for their total.
    """

    epsilon: Decimal
    delta: Decimal
    charge: PrivacyCost

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read what `fields` wrote, among other keys.

        Raise `KeyError`, `TypeError`, `ArithmeticError` or `SettingError` if it is no price.
        """
        charge = PrivacyCost.read(document)
        return cls(Decimal(document["epsilon"]), Decimal(document["delta"]), charge)

    @property
    def claim_text(self) -> str:
        """The claim, for people; delta is named though it is 0."""
        return f"epsilon {decimal_text(self.epsilon)}, delta {decimal_text(self.delta)}"

    def amounts(self) -> dict[str, Any]:
        """Return all amounts, decimals, by the names that they have in every document."""
        return {"epsilon": self.epsilon, "delta": self.delta, **self.charge.amounts()}

    def fields(self) -> dict[str, str]:
        """Return the same as text, the form of receipts and of the ledger."""
        return {name: decimal_text(amount) for name, amount in self.amounts().items()}


@dataclass(frozen=True, slots=True)
class Budget:
    """Limit on the total cost of all releases that are computed from some people's rows.

    ``epsilon`` is above 0, ``delta`` within [0, 1). At delta 0 only pure releases can be accounted
    for: each method refuses a total that contains a Gaussian one, because no finite epsilon
    describes it.
    """

    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if not (isinstance(self.delta, Decimal) and self.delta.is_zero()):
            require_delta(self.delta)

    def spent(self, total: PrivacyCost) -> Decimal:
        """Return epsilon of the total at this delta, equation (1); the Gaussian part is rounded up.

        Raise `BudgetExceededError` if the total contains a Gaussian release and delta is 0.
        """
        if total.rho > 0 and self.delta == 0:
            raise BudgetExceededError(
                f"the total holds Gaussian releases (rho {total.rho}) but the budget has delta 0, "
                "at which they have no finite epsilon; use the Laplace mechanism, or agree on a "
                "budget with delta above 0"
            )
        return total.epsilon_at(self.delta)

    def remaining(self, total: PrivacyCost) -> Decimal:
        """Return the epsilon that is left for pure releases, 0 if the budget is exceeded."""
        return max(_EXACT.subtract(self.epsilon, self.spent(total)), Decimal(0))

    def admits(self, total: PrivacyCost) -> bool:
        """Return True if the total, which includes the new release, is within the budget."""
        return self.spent(total) <= self.epsilon


def rho_from_epsilon_delta(epsilon: Decimal, delta: Decimal) -> Decimal:
    """Return the largest rho whose zCDP promises epsilon at delta, rounded down to 12 decimals.

    Raise `SettingError` if epsilon is not above 0, delta not between 0 and 1, or rho would round to
    0.
    """
    require_epsilon(epsilon)
    require_delta(delta)
    return _largest_rho(epsilon, delta)


@lru_cache(maxsize=256)  # some tens of milliseconds in 100 digits, asked for at every release
def _largest_rho(epsilon: Decimal, delta: Decimal) -> Decimal:
    with localcontext(Context(prec=_DIGITS)):
        log_delta = -delta.ln()

        def below_optimum(alpha: Decimal) -> bool:
            slope = (log_delta - alpha.ln()) / (alpha - 1) ** 2
            return alpha * slope + _conversion(alpha, log_delta) > epsilon

        alpha = _bisect(below_optimum)
        rho = _round_down((epsilon - _conversion(alpha, log_delta)) / alpha)
    if rho <= 0:
        raise SettingError(
            f"epsilon {epsilon} at delta {delta} allows less than 1e-{DECIMALS} of rho; "
            "raise one of them"
        )
    return rho


def epsilon_from_rho(rho: Decimal, delta: Decimal) -> Decimal:
    """Return the epsilon that zCDP of rho promises at delta, rounded up to 12 decimals, or 0.

    Raise `SettingError` if rho is negative or delta not between 0 and 1.
    """
    require_amount("rho", rho)
    require_delta(delta)
    return Decimal(0) if rho == 0 else _smallest_epsilon(rho, delta)


@lru_cache(maxsize=256)
def _smallest_epsilon(rho: Decimal, delta: Decimal) -> Decimal:
    with localcontext(Context(prec=_DIGITS)):
        log_delta = -delta.ln()

        def below_optimum(alpha: Decimal) -> bool:
            return (log_delta - alpha.ln()) / (alpha - 1) ** 2 > rho

        alpha = _bisect(below_optimum)
        return _round_up(max(alpha * rho + _conversion(alpha, log_delta), Decimal(0)))


def require_epsilon(epsilon: Decimal) -> None:
    """Refuse an epsilon that is not a positive decimal of moderate length."""
    require_amount("epsilon", epsilon)
    if epsilon == 0:
        raise SettingError("epsilon must be above 0; every release has a cost")


def require_delta(delta: object) -> Decimal:
    """Return the delta; refuse one that is not a decimal strictly between 0 and 1."""
    if not isinstance(delta, Decimal) or not delta.is_finite() or not 0 < delta < 1:
        raise SettingError(f"delta must be a decimal strictly between 0 and 1, not {delta!r}")
    return delta


def require_amount(name: str, amount: Decimal) -> None:
    """Refuse an amount that is not a decimal from 0 to 10^15 with at most 30 decimals."""
    if not isinstance(amount, Decimal):
        raise SettingError(f"{name} must be a Decimal, not {type(amount).__name__} {amount!r}")
    if not amount.is_finite() or not 0 <= amount <= _MAX_AMOUNT:
        raise SettingError(f"{name} must be a finite number from 0 to 1e15, not {amount}")
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_MAX_DECIMALS:
        raise SettingError(f"{name} must have at most {_MAX_DECIMALS} decimals; round {amount}")


def _conversion(alpha: Decimal, log_delta: Decimal) -> Decimal:
    """Function h of (3), where ``log_delta`` is L."""
    return (1 - 1 / alpha).ln() + (log_delta - alpha.ln()) / (alpha - 1)


def _bisect(below_optimum: Callable[[Decimal], bool]) -> Decimal:
    """Return an alpha where the condition turns false, by geometric bisection of alpha - 1."""
    low, high = _ORDERS
    for _ in range(_HALVINGS):
        middle = (low * high).sqrt()
        if below_optimum(1 + middle):
            low = middle
        else:
            high = middle
    return 1 + low


def _round_up(value: Decimal) -> Decimal:
    return (value + _ERROR * (1 + value)).quantize(_STEP, rounding=ROUND_CEILING)


def _round_down(value: Decimal) -> Decimal:
    return (value - _ERROR * (1 + value)).quantize(_STEP, rounding=ROUND_FLOOR)


NO_COST = PrivacyCost(epsilon=Decimal(0), rho=Decimal(0))
"""Cost of a release that was charged already."""
