"""What is left if more owners collude than a study assumes."""

from decimal import Decimal

import pytest

from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.collusion import foresee_collusion
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.release import calibrate
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

GAUSSIAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6"}


@pytest.mark.parametrize(
    ("n_owners", "one_more", "all_others"),
    [(3, "1.46", "1.46"), (4, "1.25", "1.81"), (10, "1.07", "3.30"), (35, "1.02", "6.97")],
)
def test_gaussian_shares_that_are_left_give_a_larger_epsilon(
    n_owners: int, one_more: str, all_others: str
) -> None:
    """Epsilon 1 at 1e-6; decision 129 has 1.45, 1.24, 1.07, 1.02, and 3.3 and 7.0."""
    study = make_masked_study(n_owners).study
    found = foresee_collusion(study, calibrate(study))
    assert found is not None
    assert calibrate(study).n_honest_owners == n_owners - 1
    assert found.words.startswith("with any 2: epsilon")
    assert (found.one_more, found.all_others) == (Decimal(one_more), Decimal(all_others))


def test_a_promise_that_is_hardly_one_has_its_figures_too() -> None:
    study = make_masked_study(10, epsilon="300").study
    found = foresee_collusion(study, calibrate(study))
    assert found is not None
    assert found.one_more is not None
    assert found.all_others is not None
    # Epsilon is about rho where it is large, and rho is in proportion to the shares that are left.
    assert 1 < found.one_more / 300 < Decimal(9) / 8 < 6 < found.all_others / 300 < 9


def test_a_quorum_and_not_the_number_of_owners_says_how_many_are_honest() -> None:
    study = make_masked_study(10, quorum=6, deadline="2090-01-01T00:00:00Z", colluders=1).study
    found = foresee_collusion(study, calibrate(study))
    assert found is not None
    assert calibrate(study).n_honest_owners == 5
    assert found.words.startswith("with any 2: epsilon")


def test_nothing_is_promised_of_laplace_shares() -> None:
    study = make_masked_study(10, mechanism="laplace").study
    found = foresee_collusion(study, calibrate(study))
    assert found is not None
    assert (found.one_more, found.all_others) == (None, None)


def test_where_each_owner_adds_all_of_the_noise_there_is_nothing_to_foresee() -> None:
    study = make_study("small")
    assert foresee_collusion(study, calibrate(study)) is None


def test_what_two_studies_leave_adds_up() -> None:
    """Both with shares, or one whose owners add all of the noise and lose nothing more."""
    masked, bare = make_masked_study(4).study, make_study("small", privacy=GAUSSIAN)
    alone = foresee_collusion(masked, calibrate(masked))
    for study, first in ((masked, masked), (masked, bare), (bare, masked)):
        found = foresee_collusion(study, calibrate(study), Round(first, calibrate(first)))
        assert found is not None
        assert alone is not None
        assert found.words.startswith("with any 2: epsilon")
        for left, both in ((3 - 1, found.one_more), (1, found.all_others)):
            rho = [
                calibrate(each).charge.rho * (Decimal(3) / left if each is masked else 1)
                for each in (study, first)
            ]
            expected = epsilon_from_rho(sum(rho), Decimal("1e-6"))
            assert both is not None
            assert expected * Decimal("0.99") <= both <= expected + Decimal("0.01")
