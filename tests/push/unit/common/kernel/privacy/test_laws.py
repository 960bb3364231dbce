"""Each law against its definition, and what is left of it where fewer owners are honest."""

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import erfc, exp, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import kstest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.matrix_law import MatrixLaplaceLaw
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise_law import IndependentLaw, Noised, NoiseLaw
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity
from tests.support.matrix_rows import make_layout

FALSE_ALARMS = 0.0  # all draws have seeds
SENS = Sensitivity(l1=600, l2_squared=5000, resolution_bits=4, relation=Relation.REPLACE_ONE)
DELTA = Decimal("1e-6")
REACH = np.arange(-2000, 2001)


def masses(law: IndependentLaw) -> NDArray[np.float64]:
    """Probabilities of -2000 to 2000, from the definitions (1) and (2)."""
    if isinstance(law, LaplaceLaw):
        weights = np.exp(-np.abs(REACH) / law.scale)
    else:
        assert isinstance(law, GaussianLaw)
        weights = np.exp(-(REACH**2) / (2 * law.variance))
    found: NDArray[np.float64] = weights / weights.sum()
    return found


@pytest.mark.parametrize("law", [LaplaceLaw(1), LaplaceLaw(40), GaussianLaw(1), GaussianLaw(900)])
def test_what_is_known_of_a_law_exactly_is_its_definition(law: IndependentLaw) -> None:
    mass = masses(law)
    np.testing.assert_allclose(law.cdf(REACH), mass.cumsum(), rtol=1e-9, atol=1e-15)
    near = np.abs(REACH) < 8 * law.width
    np.testing.assert_allclose(law.neg_log_pmf(REACH[near]), -np.log(mass[near]), rtol=1e-9)
    assert law.cdf(np.array([-(10**6), 10**6])).tolist() == [0, 1]
    assert law.deviation == pytest.approx(sqrt(mass @ REACH**2), rel=0.05 if law.width > 1 else 0.5)


def test_a_wide_gaussian_law_is_the_normal_one_to_all_digits_that_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    law, x = GaussianLaw(250_000), np.arange(-7 * 500, 7 * 500, 50)
    below, nats = law.cdf(x), law.neg_log_pmf(x)
    monkeypatch.setattr("dppca.common.kernel.privacy.gaussian_law._LARGEST_TABLE", 1)
    np.testing.assert_allclose(law.cdf(x), below, rtol=0, atol=1 / (24 * law.variance))
    np.testing.assert_allclose(law.neg_log_pmf(x), nats, rtol=1e-12)
    far = GaussianLaw(2**90).cdf(np.array([-(2**62), 0, 2**62]))
    assert far.tolist() == pytest.approx([0, 0.5, 1], abs=1e-12)


def test_a_width_is_rounded_down_to_the_integer_of_the_law() -> None:
    assert LaplaceLaw.of_width(Fraction(41, 2)) == LaplaceLaw(20)
    assert GaussianLaw.of_width(Fraction(41, 2)) == GaussianLaw(420)
    for law in LAWS.values():
        assert law.of_width(Fraction(99, 100)) is None


# P(|S| > x) of the sum S of n standard Laplace variables; by integration of its density.
LAPLACE_TAILS: dict[int, Callable[[float], float]] = {
    1: lambda x: exp(-x),
    2: lambda x: (1 + x / 2) * exp(-x),
    3: lambda x: (1 + 5 * x / 8 + x * x / 8) * exp(-x),
}


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tails_of_sums_are_those_of_their_densities(n: int) -> None:
    deviations = np.array([0.0, 0.3, 1.0, 2.5, 6.0])
    laplace = [LAPLACE_TAILS[n](x * sqrt(2 * n)) for x in deviations]
    np.testing.assert_allclose(LaplaceLaw.tail_probability(deviations, n), laplace, rtol=1e-12)
    gaussian = [erfc(x / sqrt(2)) for x in deviations]
    np.testing.assert_allclose(GaussianLaw.tail_probability(deviations, n), gaussian, rtol=1e-12)


@pytest.mark.parametrize("law", [LaplaceLaw, GaussianLaw])
@pytest.mark.parametrize("n", [1, 3])
def test_simulated_noise_has_the_width_1_and_its_sums_the_tails(
    law: type[NoiseLaw], n: int
) -> None:
    """Fails a right one with probability 1e-6."""
    rng = np.random.default_rng(n)
    scale = law.unit_deviation * sqrt(n)

    def inside(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return (1 + np.sign(x) * (1 - law.tail_probability(np.abs(x) / scale, n))) / 2

    for drawn in (law.standard((20_000, n), rng).sum(axis=1), law.standard_sum(n, 20_000, rng)):
        assert drawn.shape == (20_000,)
        assert kstest(drawn, inside).pvalue > 1e-6


@pytest.mark.parametrize("law", [LaplaceLaw, GaussianLaw])
@pytest.mark.parametrize("k", [1, 3])
def test_the_epsilon_of_a_forecast_is_the_one_that_the_width_is_calibrated_for(
    law: type[NoiseLaw], k: int
) -> None:
    made, _ = law.calibrate(SENS, k, epsilon=Decimal("0.4"), delta=DELTA)
    found = law.estimate_epsilon(made.width, SENS, k, DELTA)
    assert float(found) == pytest.approx(0.4, rel=1e-3)


def test_changes_and_distances_are_in_the_norm_of_the_law() -> None:
    difference = np.array([3, 0, -4], dtype=np.int64)
    assert (LaplaceLaw.norm, LaplaceLaw.change(SENS), LaplaceLaw.distance(difference)) == (
        "L1",
        600.0,
        7,
    )
    assert (GaussianLaw.norm, GaussianLaw.distance(difference)) == ("L2", 25)
    assert GaussianLaw.change(SENS) == pytest.approx(70.71067811865476)


@pytest.mark.parametrize("law", [LaplaceLaw(50), GaussianLaw(900)])
def test_as_many_shares_as_are_honest_add_up_to_the_law(law: NoiseLaw) -> None:
    """Fails a right one with probability 1e-6."""
    shares = [law.draw_share(3, 20_000, entropy=SeededEntropy(seed)) for seed in range(3)]
    total = np.sum(shares, axis=0)
    steps = np.diff(np.concatenate([[0.0], masses(law).cumsum()]))
    variance = float(steps @ REACH**2)
    for found, part in ((total, 1.0), (shares[0], float(law.share_weight(3)))):
        assert found.astype(float).var() == pytest.approx(part * variance, rel=0.06)
    # Of Gaussian shares each has one more in variance than a third, rounded up.
    assert law.makes_shares
    if isinstance(law, LaplaceLaw):
        assert (law.share_variance(3), law.share_weight(3)) == (None, Fraction(1, 3))
        assert law.sum_of_shares(3) == law
    else:
        assert (law.share_variance(3), law.share_weight(3)) == (301, Fraction(301, 900))
        assert law.sum_of_shares(3) == GaussianLaw(903)


@pytest.mark.parametrize("halved", [False, True])
def test_a_law_of_one_entry_says_each_kinds_deviation_over_its_weight(halved: bool) -> None:
    layout = make_layout(
        ["num", "bin"], weight=Fraction(1, 2), targets=(1,), target_weight=3, square_weight=4
    )
    law = GaussianLaw(900).halve_products(up=True) if halved else LaplaceLaw(30)
    found = {each: law.deviation_of(each, layout) / law.deviation for each in list(Noised)[:4]}
    assert found[Noised.PRODUCT] == (sqrt(0.5) if halved else 1)
    assert (found[Noised.SUM], found[Noised.SQUARE]) == (2, 1 / 4)
    assert found[Noised.TARGET_PRODUCT] == 1 / 3
    assert law.deviations().keys() == ({"", "products"} if halved else {""})


def test_a_law_of_a_whole_release_is_no_law_of_one_number() -> None:
    asks: tuple[Callable[[], object], ...] = (
        MatrixLaplaceLaw.entry_law,
        lambda: MatrixLaplaceLaw(*[9] * 10).of_entries,
    )
    for ask in asks:
        with pytest.raises(SettingError, match="not of one number: take laplace here"):
            ask()


def test_forms_of_a_whole_release_have_the_cumulants_of_draws() -> None:
    rng, m = np.random.default_rng(8), 5
    form = rng.normal(size=(4, 4))
    form = form + form.T
    drawn = MatrixLaplaceLaw.standard_matrices(4, m, 40_000, rng)
    values = np.einsum("nij,ij->n", drawn, form)
    variance, fourth = 2 * (form**2).sum(), MatrixLaplaceLaw.fourth_cumulants(form[None], m)[0]
    assert values.var() == pytest.approx(variance, rel=0.05)
    assert (values**4).mean() - 3 * variance**2 == pytest.approx(fourth, rel=0.3)
    # Squared lengths vary more than those of independent normals: tests rest on draws.
    lengths = (drawn**2).sum(axis=(1, 2))
    assert 1.3 < lengths.std() / (lengths.mean() * sqrt(2 / 10)) < 2.2


def test_a_law_that_says_nothing_of_shares_makes_none() -> None:
    assert not NoiseLaw.makes_shares
    asks: tuple[Callable[[LaplaceLaw], object], ...] = (
        lambda law: IndependentLaw.draw_share(law, 3, 5, entropy=SeededEntropy(1)),
        lambda law: NoiseLaw.share_variance(law, 3),
        lambda law: NoiseLaw.share_weight(law, 3),
        lambda law: IndependentLaw.sum_of_shares(law, 3),
        lambda law: NoiseLaw.cost_of_fewer(law, PrivacyCost(Decimal(1), Decimal(0)), 3, 2),
    )
    for ask in asks:
        with pytest.raises(SettingError, match="laplace noise cannot be made of 3 owners' shares"):
            ask(LaplaceLaw(50))


@given(
    rho=st.decimals("0.000000000001", 10**10, places=12),
    honest=st.integers(2, 2**15),
    data=st.data(),
)
def test_what_fewer_shares_cost_is_rounded_up_by_less_than_one_of_25_decimals(
    rho: Decimal, honest: int, data: st.DataObject
) -> None:
    """Part left / honest of the variance is left: the cost is in inverse proportion to it."""
    left = data.draw(st.integers(1, honest - 1))
    with localcontext(Context(prec=3)):
        found = GaussianLaw(900).cost_of_fewer(PrivacyCost(Decimal(0), rho), honest, left)
    assert found.epsilon == 0
    assert 0 <= Fraction(found.rho) - Fraction(rho) * honest / left < Fraction(1, 10**25)
