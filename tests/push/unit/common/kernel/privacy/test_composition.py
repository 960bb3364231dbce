from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.composition import Round, compose_guarantee
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

PAIR = [["owner-1", "owner-3"]]
THREE = [["owner-1", "owner-2"], ["owner-2", "owner-3", "owner-4"]]
overlaps = pytest.mark.parametrize(
    ("overlap", "group"), [(False, 1), (PAIR, 2), (THREE, 3), (True, 4)]
)


def _guarantee(overlap: Any, **changes: Any) -> tuple[Decimal, Decimal, str]:
    study = make_masked_study(overlap=overlap, **changes).study
    found = compose_guarantee(study, calibrate(study))
    return Decimal(found.epsilon), Decimal(found.delta), "\n".join(found.assumptions)


def test_people_of_any_number_of_rows_are_named_as_what_is_replaced() -> None:
    study = make_study(unit="person", max_rows_per_person=None)
    found = compose_guarantee(study, calibrate(study))
    told = " ".join(found.assumptions)
    assert (Decimal(found.epsilon), Decimal(found.delta)) == (1, 0)
    assert "(replace-person)" in told
    assert "The number of rows is not public" in told
    assert not [each for each in ("max_rows_per_person", "replace-one") if each in told]


@overlaps
def test_a_person_at_g_owners_changes_the_sum_g_times_as_much_by_laplace_noise(
    overlap: Any, group: int
) -> None:
    epsilon, delta, _ = _guarantee(overlap, mechanism="laplace", epsilon="0.3")
    assert (epsilon, delta) == (Decimal("0.3") * group, 0)


@overlaps
def test_a_person_at_g_owners_is_promised_g_squared_rho_by_gaussian_noise(
    overlap: Any, group: int
) -> None:
    """Against the definition: delta of zCDP, minimised over alpha, at the epsilon that is stated.

    Canonne, Kamath and Steinke (2020), corollary 13.
    """
    charge = calibrate(make_masked_study(overlap=overlap).study).charge
    rho = group**2 * float(charge.rho)
    epsilon, delta, _ = _guarantee(overlap)
    orders = np.linspace(1.01, 100, 100_000)
    log_delta = (
        (orders - 1) * (orders * rho - float(epsilon))
        + (orders - 1) * np.log1p(-1 / orders)
        - np.log(orders)
    )
    assert delta == Decimal("1e-6")
    assert log_delta.min() == pytest.approx(np.log(1e-6), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ("any other owner, as long as 3 owners",)),
        ({"n_openers": 3, "colluders": 2}, ("any 2 other owners, as long as 2 owners",)),
        ({"overlap": True}, ("changes at all of them at once",)),
        ({"overlap": PAIR}, ("owner-1 + owner-3", "at all owners of the largest group")),
    ],
)
def test_it_is_said_against_whom_and_under_which_assumptions(
    changes: dict[str, Any], told: tuple[str, ...]
) -> None:
    found = _guarantee(changes.pop("overlap", False), **changes)[2]
    for part in (
        *told,
        "computational",
        "ML-KEM-768",
        "AES-256",
        "different institutions",
    ):
        assert part in found
    assert "largest of the owners'" not in found


def _amounts(study: Study, first: Study | None = None) -> tuple[Decimal, Decimal]:
    before = None if first is None else Round(first, calibrate(first))
    found = compose_guarantee(study, calibrate(study), first=before)
    return Decimal(found.epsilon), Decimal(found.delta)


GAUSSIAN = {"mechanism": "gaussian", "epsilon": "1", "delta": "1e-6"}
LAPLACE = {"mechanism": "laplace", "epsilon": "0.5"}


@pytest.mark.parametrize("overlap", [False, True])
def test_two_studies_of_the_same_people_cost_both(overlap: bool) -> None:
    """Gaussian noise by rho at the larger delta; other pairs by basic composition."""
    owners = ["owner-1", "owner-2"]

    def made(privacy: dict[str, str]) -> Study:
        return make_study("small", owners=owners, overlap=overlap, privacy=privacy)

    people = 2 if overlap else 1
    one, other = made(GAUSSIAN), made({**GAUSSIAN, "delta": "1e-7"})
    rho = calibrate(one).charge.rho + calibrate(other).charge.rho
    expected = epsilon_from_rho(rho, Decimal("1e-6")) * people
    assert _amounts(one, other) == _amounts(other, one) == (expected, people * Decimal("1e-6"))
    assert expected < 2 * people
    assert _amounts(one, made(LAPLACE)) == (people * Decimal("1.5"), people * Decimal("1e-6"))
    assert _amounts(made(LAPLACE), made(LAPLACE)) == (people, 0)


def test_two_studies_of_different_trust_cost_both_and_need_what_both_assume() -> None:
    masked = make_masked_study(overlap=True).study
    bare = make_study("small", owners=list(masked.owners), overlap=True, privacy=GAUSSIAN)
    (one, a), (two, b) = _amounts(masked), _amounts(bare)
    assert _amounts(bare, masked) == (one + two, a + b)
    found = compose_guarantee(bare, calibrate(bare), first=Round(masked, calibrate(masked)))
    assert any("run this software as it is" in line for line in found.assumptions)
    assert len(set(found.assumptions)) == len(found.assumptions)
    single = [study.model_copy(update={"overlap": False}) for study in (bare, masked)]
    rho = sum(calibrate(study).charge.rho for study in single)
    assert _amounts(*single) == (epsilon_from_rho(rho, Decimal("1e-6")), Decimal("1e-6"))
