"""Budgets and the conversion from zCDP.

Oracles: dp-accounting's conversion of Renyi orders (the same theorem, on a grid of orders), the
exact curve of the Gaussian mechanism (Balle and Wang 2018), and the older, looser conversion of
Bun and Steinke (2016). The first bounds us from above, the second from below.
"""

from decimal import Context, Decimal, localcontext
from math import exp, log, sqrt
from operator import ge

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dppca.common.kernel.errors import BudgetExceededError, SettingError
from dppca.common.kernel.privacy import accounting
from dppca.common.kernel.privacy.accounting import (
    Budget,
    Price,
    PrivacyCost,
    epsilon_from_rho,
    rho_from_epsilon_delta,
)
from tests.support.examples import examples

STEP = Decimal("1e-12")
PAIRS = [
    (epsilon, delta)
    for epsilon in ("0.01", "0.1", "1", "3.5", "20")
    for delta in ("1e-12", "1e-6", "1e-3", "0.4")
]

# A conversion takes some milliseconds; a busy machine is not a failure.
CONVERSIONS = settings(max_examples=examples(60))

amounts = st.decimals(min_value=0, max_value=1000, places=12)
deltas = st.decimals(min_value="1e-12", max_value="0.999", places=12)


@CONVERSIONS
@given(st.decimals(min_value="0.001", max_value=100, places=6), deltas)
@example(Decimal(1), Decimal("1e-6"))
def test_the_rho_that_is_found_keeps_its_epsilon_and_is_the_largest(
    epsilon: Decimal, delta: Decimal
) -> None:
    rho = rho_from_epsilon_delta(epsilon, delta)
    assert epsilon_from_rho(rho, delta) <= epsilon < epsilon_from_rho(rho + STEP, delta)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_dp_accounting_agrees(epsilon: str, delta: str) -> None:
    rho = rho_from_epsilon_delta(Decimal(epsilon), Decimal(delta))
    # One Gaussian query of sensitivity 1 satisfies rho = 1/(2 sigma^2).
    accountant = RdpAccountant(orders=list(1 + np.geomspace(0.011, 1e5, 20_001)))
    accountant.compose(GaussianDpEvent(1 / sqrt(2 * float(rho))))
    theirs = accountant.get_epsilon(float(delta))
    ours = float(epsilon_from_rho(rho, Decimal(delta)))
    # Their orders are a subset, so theirs may only be larger; by how much is their grid. Where
    # total variation already gives delta, they say 0 by another theorem.
    assert theirs == 0 or ours - 1e-9 <= theirs <= ours * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_the_conversion_is_never_below_the_true_gaussian_curve(epsilon: str, delta: str) -> None:
    rho = rho_from_epsilon_delta(Decimal(epsilon), Decimal(delta))
    true = _gaussian_epsilon(float(rho), float(delta))
    assert true <= float(epsilon)
    if delta != "0.4" and epsilon != "0.01":
        assert true >= 0.7 * float(epsilon)  # and it does not waste the budget


@CONVERSIONS
@given(st.decimals(min_value="0.000001", max_value=50, places=6), deltas)
def test_the_conversion_is_at_least_as_good_as_the_older_one(rho: Decimal, delta: Decimal) -> None:
    older = float(rho) + 2 * sqrt(float(rho) * log(1 / float(delta)))
    assert float(epsilon_from_rho(rho, delta)) <= older + 1e-9


@CONVERSIONS
@given(st.decimals(min_value="0.000001", max_value=50, places=12), deltas)
def test_epsilon_grows_with_rho(rho: Decimal, delta: Decimal) -> None:
    assert epsilon_from_rho(rho, delta) <= epsilon_from_rho(rho + Decimal("1e-6"), delta)


def test_nothing_spent_is_nothing() -> None:
    assert epsilon_from_rho(Decimal(0), Decimal("1e-6")) == 0


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_pure_releases_alone_spend_their_epsilon_and_need_no_delta(delta: str) -> None:
    budget = Budget(Decimal("0.7"), Decimal(delta))
    total = PrivacyCost(Decimal("0.4"), Decimal(0)) + PrivacyCost(Decimal("0.3"), Decimal(0))
    assert (total.epsilon_at(Decimal(delta)), budget.spent(total)) == (Decimal("0.7"),) * 2
    assert budget.admits(total)
    assert not budget.admits(total + PrivacyCost(STEP, Decimal(0)))
    assert (accounting.NO_COST.epsilon, accounting.NO_COST.rho) == (0, 0)
    assert budget.remaining(accounting.NO_COST) == Decimal("0.7")


def test_results_do_not_depend_on_the_decimal_context_of_the_caller() -> None:
    expected = rho_from_epsilon_delta(Decimal(1), Decimal("1e-6"))
    total = PrivacyCost(Decimal("0.123456789012"), Decimal("0.01"))
    spent = Budget(Decimal(1), Decimal("1e-6")).spent(total + total)
    with localcontext(Context(prec=3)):
        assert rho_from_epsilon_delta(Decimal(1), Decimal("1e-6")) == expected
        assert Budget(Decimal(1), Decimal("1e-6")).spent(total + total) == spent


def test_an_evaluated_number_is_moved_to_the_safe_side_though_it_stands_on_a_step() -> None:
    """Its last digits are not certain: the true value may be beyond the step."""
    with localcontext(Context(prec=100)):  # the digits that it is evaluated with
        for steps in (Decimal(0), STEP, Decimal(3)):
            assert accounting._round_up(steps) == steps + STEP
            assert accounting._round_down(steps + STEP) == steps
        assert accounting._round_down(Decimal(3) + STEP * 19 / 10) == Decimal(3) + STEP
    # Where the formula promises less than nothing, what is charged is one step.
    assert epsilon_from_rho(Decimal("1e-9"), Decimal("0.9")) == STEP


def test_an_extreme_delta_is_handled() -> None:
    rho = rho_from_epsilon_delta(Decimal(1), Decimal("1e-1000"))
    assert epsilon_from_rho(rho, Decimal("1e-1000")) <= 1


def test_an_epsilon_that_leaves_no_rho_is_refused() -> None:
    with pytest.raises(SettingError, match="raise one of them"):
        rho_from_epsilon_delta(Decimal("1e-7"), Decimal("1e-12"))


@given(st.data())
def test_charges_add_exactly_in_any_order(data: st.DataObject) -> None:
    charges = data.draw(st.lists(st.builds(PrivacyCost, amounts, amounts), max_size=20))
    nothing = PrivacyCost(Decimal(0), Decimal(0))
    total = sum(charges, nothing)
    assert int(total.epsilon * 10**12) == sum(int(c.epsilon * 10**12) for c in charges)
    assert total == sum(data.draw(st.permutations(charges)), nothing)


@given(amounts, amounts, st.integers(0, 10**6))
def test_many_releases_at_one_cost_are_their_sum(epsilon: Decimal, rho: Decimal, n: int) -> None:
    cost = PrivacyCost(epsilon, rho)
    assert cost.times(n) + cost == cost.times(n + 1)
    assert cost.times(n + 1).covers(cost)


@given(st.tuples(amounts, amounts), st.tuples(amounts, amounts))
def test_a_charge_covers_what_costs_no_more_in_either_currency(
    charged: tuple[Decimal, Decimal], cost: tuple[Decimal, Decimal]
) -> None:
    assert PrivacyCost(*charged).covers(PrivacyCost(*cost)) is all(map(ge, charged, cost))


@given(amounts, deltas, amounts, amounts)
def test_a_price_is_read_as_it_was_written_among_other_keys(
    epsilon: Decimal, delta: Decimal, charged: Decimal, rho: Decimal
) -> None:
    price = Price(epsilon, delta, PrivacyCost(charged, rho))
    assert Price.read({**price.fields(), "mechanism": "laplace"}) == price


def test_a_price_has_four_names_and_its_text_no_exponent() -> None:
    price = Price(Decimal("0.5"), Decimal("1e-9"), PrivacyCost(Decimal(0), Decimal("1e-12")))
    assert price.amounts() == {
        "epsilon": Decimal("0.5"),
        "delta": Decimal("1e-9"),
        "charged_epsilon": Decimal(0),
        "charged_rho": Decimal("1e-12"),
    }
    assert list(price.fields().values()) == ["0.5", "0.000000001", "0", "0.000000000001"]


@pytest.mark.parametrize("name", ["epsilon", "delta", "charged_epsilon", "charged_rho"])
def test_a_price_without_one_of_its_amounts_is_not_read(name: str) -> None:
    written = Price(Decimal(1), Decimal(0), PrivacyCost(Decimal(1), Decimal(0))).fields()
    del written[name]
    with pytest.raises(KeyError, match=name):
        Price.read(written)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_a_budget_admits_one_release_calibrated_to_it_and_nothing_more(
    epsilon: str, delta: str
) -> None:
    budget = Budget(Decimal(epsilon), Decimal(delta))
    charge = PrivacyCost(Decimal(0), rho_from_epsilon_delta(budget.epsilon, budget.delta))
    assert budget.admits(charge)
    assert not budget.admits(charge + charge)
    assert budget.remaining(charge + charge) == 0


def test_pure_and_gaussian_releases_add_up() -> None:
    budget = Budget(Decimal(3), Decimal("1e-6"))
    rho = Decimal("0.02")
    total = PrivacyCost(Decimal("0.5"), Decimal(0)) + PrivacyCost(Decimal(0), rho)
    assert budget.spent(total) == Decimal("0.5") + epsilon_from_rho(rho, budget.delta)
    assert budget.remaining(total) == 3 - budget.spent(total)


def test_a_gaussian_release_against_a_budget_without_delta_is_refused_with_the_reason() -> None:
    budget = Budget(Decimal(100), Decimal(0))
    gaussian = PrivacyCost(Decimal(0), Decimal("0.001"))
    for question in (budget.admits, budget.spent, budget.remaining):
        with pytest.raises(BudgetExceededError, match="delta 0"):
            question(gaussian)


NOT_AMOUNTS = [Decimal(text) for text in ("-1", "NaN", "sNaN", "Infinity", "1e16", "1e-31")]


@pytest.mark.parametrize("amount", [*NOT_AMOUNTS, 0.5, 1])
def test_what_is_not_an_exact_amount_is_refused(amount: object) -> None:
    with pytest.raises(SettingError, match=r"^the charged epsilon must"):
        PrivacyCost(amount, Decimal(0))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"^the charged rho must"):
        PrivacyCost(Decimal(0), amount)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"^rho must"):
        epsilon_from_rho(amount, Decimal("1e-6"))  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", [Decimal("1e15"), Decimal("1e-30"), Decimal(0)])
def test_the_largest_and_the_longest_amounts_are_taken(amount: Decimal) -> None:
    assert PrivacyCost(amount, amount).epsilon == amount


@pytest.mark.parametrize("epsilon", [*NOT_AMOUNTS, Decimal(0), 0.5])
def test_an_epsilon_that_is_no_positive_decimal_is_refused(epsilon: object) -> None:
    with pytest.raises(SettingError, match="epsilon"):
        Budget(epsilon, Decimal(0))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="epsilon"):
        rho_from_epsilon_delta(epsilon, Decimal("1e-6"))  # type: ignore[arg-type]


NOT_STRICTLY_BETWEEN = "delta must be a decimal strictly between 0 and 1"


@pytest.mark.parametrize(
    "delta", [*(Decimal(text) for text in ("1", "-1e-9", "NaN", "sNaN", "Infinity")), 1e-6, 0]
)
def test_a_delta_outside_0_to_1_is_refused(delta: object) -> None:
    with pytest.raises(SettingError, match="delta"):
        Budget(Decimal(1), delta)  # type: ignore[arg-type]
    for convert in (rho_from_epsilon_delta, epsilon_from_rho):
        with pytest.raises(SettingError, match=NOT_STRICTLY_BETWEEN):
            convert(Decimal(1), delta)  # type: ignore[arg-type]


def test_a_conversion_needs_a_delta_above_0() -> None:
    for convert in (rho_from_epsilon_delta, epsilon_from_rho):
        with pytest.raises(SettingError, match=NOT_STRICTLY_BETWEEN):
            convert(Decimal(1), Decimal(0))


def _gaussian_epsilon(rho: float, delta: float) -> float:
    """Least epsilon of the Gaussian mechanism with 1/(2 sigma^2) = rho, exactly."""
    mu = sqrt(2 * rho)

    def excess(epsilon: float) -> float:
        far = norm.cdf(-mu / 2 - epsilon / mu)
        return float(norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * far - delta)

    return 0.0 if excess(0) <= 0 else float(brentq(excess, 0, 100, xtol=1e-12))
