"""What the audit of all kinds decides of noise and of charges; the noise here has seeds."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.privacy.accounting import Price, PrivacyCost
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.selftest.every_kind import (
    LEVEL,
    DrawnKind,
    Power,
    find_faults,
    judge_charges,
    judge_noise,
)
from dppca.owner.selftest.kinds import ReleaseForm, kinds
from dppca.owner.selftest.releases import make_study, privacy_of, request_of

FALSE_ALARMS = 0.0
Noise = NDArray[np.int64]
N, D = 100, 12
BLOCKS = {"sums": np.arange(6), "products": np.arange(6, D)}
KIND = kinds(ReleaseForm.CONTRIBUTION)[0]
EACH = LEVEL / 3000


def law_of(name: str) -> NoiseLaw:
    """A law so wide that equal draws are rare."""
    study = make_study(
        "s",
        {**privacy_of(name), "epsilon": "0.001"},
        [{"name": each, "type": "binary", "values": ["no", "yes"]} for each in "ab"],
    )
    return calibrate(study).law


def honest(name: str, *, shares: int = 0) -> DrawnKind:
    law, entropy = law_of(name), SeededEntropy(7)
    if not shares:
        noise = law.draw(N * D, entropy=entropy).reshape(N, D)
        return DrawnKind(noise, law, BLOCKS, needed=10.0, taken=10.0)
    drawn = [law.draw_share(shares, N * D, entropy=entropy) for _ in range(shares)]
    parts = np.stack(drawn, axis=1).reshape(N, D, shares).swapaxes(1, 2)
    return DrawnKind(
        parts.sum(axis=1), law.sum_of_shares(shares), BLOCKS, needed=1.0, taken=1.0, shares=parts
    )


def without(noise: Noise, *places: int) -> Noise:
    changed = noise.copy()
    changed[:, list(places)] = 0
    return changed


def half(noise: Noise, places: slice) -> Noise:
    changed = noise.copy()
    changed[:, places] //= 2
    return changed


def again(noise: Noise) -> Noise:
    changed = noise.copy()
    changed[:, 7] = -changed[:, 2]
    return changed


BUGS = {
    "no noise": (lambda noise: 0 * noise, "entries have no noise"),
    "one entry bare": (lambda noise: without(noise, 4), "1 of 12 entries have no noise"),
    "sums half as wide": (lambda noise: half(noise, slice(6)), "sums: too small"),
    "products half as wide": (lambda noise: half(noise, slice(6, D)), "products: too small"),
    "all half as wide": (lambda noise: noise // 2, "all entries: too small"),
    "all positive": (np.abs, "another law"),
    "an entry's noise again": (again, "magnitudes came again"),
    "a release's noise again": (lambda noise: np.repeat(noise[::2], 2, axis=0), "came again"),
}


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("shares", [0, 2, 3])
def test_honest_noise_has_no_faults(law: str, shares: int) -> None:
    drawn = honest(law, shares=shares)
    assert find_faults(drawn, EACH) == []
    found = judge_noise("t", [(KIND, drawn)])
    assert (found.passed, found.false_alarm, found.release) == (True, LEVEL, "t")


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_bug_of_one_kind_s_noise_is_found(law: str, bug: str) -> None:
    change, says = BUGS[bug]
    drawn = honest(law)
    faults = find_faults(replace(drawn, noise=change(drawn.noise)), EACH)
    assert any(says in each for each in faults), faults


HALVED = np.arange(6, D)


def halved(share: int = 2) -> DrawnKind:
    """Gaussian noise, of which products have a share of the variance."""
    law, entropy = law_of("gaussian").halve_products(up=True), SeededEntropy(5)
    noise = law.draw(N * D, entropy=entropy).reshape(N, D)
    wide = law.draw(N * len(HALVED), entropy=entropy).reshape(N, -1)
    noise[:, HALVED] = np.rint(wide / np.sqrt(share))
    return DrawnKind(noise, law, BLOCKS, needed=10.0, taken=10.0, halved=HALVED)


def test_halved_products_are_held_against_half_of_the_variance() -> None:
    assert find_faults(halved(), EACH) == []
    for share in (1, 4):  # not halved, and halved twice
        assert any("products: too small or" in each for each in find_faults(halved(share), EACH))
    as_others = replace(halved(), law=halved().law.of_products, halved=HALVED[:0])
    assert any("sums: too small or" in each for each in find_faults(as_others, EACH))


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("sign", [1, -1])
def test_one_share_for_two_owners_is_found(law: str, sign: int) -> None:
    drawn = honest(law, shares=3)
    assert drawn.shares is not None
    shares = drawn.shares.copy()
    shares[:, 2] = sign * shares[:, 0]
    faults = find_faults(replace(drawn, noise=shares.sum(axis=1), shares=shares), EACH)
    assert any("two owners' shares are alike" in each for each in faults), faults


@pytest.mark.parametrize("law", sorted(LAWS))
def test_one_share_in_two_releases_is_found(law: str) -> None:
    drawn = honest(law, shares=2)
    assert drawn.shares is not None
    shares = drawn.shares.copy()
    shares[5, 1] = -shares[4, 0]
    faults = find_faults(replace(drawn, noise=shares.sum(axis=1), shares=shares), EACH)
    assert faults == ["a share came again"]


def test_noise_of_too_few_random_bits_is_found() -> None:
    faults = find_faults(replace(honest("laplace"), taken=9.0), EACH)
    assert faults == ["9 random bits were taken for 10"]


def test_a_fault_that_one_kind_is_too_small_for_is_found_in_all_of_a_level() -> None:
    """12 % less noise, in ten kinds that have the level ``tables``."""
    cases = [each for each in kinds(ReleaseForm.CONTRIBUTION) if each.levels["coding"] == "tables"][
        :10
    ]
    drawn, law = [], law_of("laplace")
    for number, kind in enumerate(cases):
        noise = law.draw(N * D, entropy=SeededEntropy(number)).reshape(N, D) * 88 // 100
        drawn.append((kind, DrawnKind(noise, law, BLOCKS, needed=0.0, taken=0.0)))
    assert all(find_faults(each, EACH) == [] for _, each in drawn)
    found = judge_noise("t", drawn)
    assert not found.passed
    assert "coding tables, all kinds: draws are too small" in found.says


def _requested(**changes: object) -> ReleaseRequest:
    study = make_study(
        "s",
        privacy_of("laplace"),
        [{"name": each, "type": "binary", "values": ["no", "yes"]} for each in "ab"],
    )
    request: ReleaseRequest = replace(request_of(study), **changes)  # type: ignore[arg-type]
    return request


PURE = PrivacyCost(Decimal(1), Decimal(0))
ZERO_CONCENTRATED = PrivacyCost(Decimal(0), Decimal("0.5"))


@pytest.mark.parametrize(
    ("charge", "claimed", "cost", "says"),
    [
        (PURE, "1", PURE, ""),
        (PURE, "1", PrivacyCost(Decimal("1.000000000001"), Decimal(0)), "epsilon 1 was charged"),
        (PrivacyCost(Decimal("0.5"), Decimal(0)), "1", PURE, "epsilon 0.5 was charged"),
        (PURE, "0.999", PURE, "epsilon 0.999 is claimed"),
        (ZERO_CONCENTRATED, "9", ZERO_CONCENTRATED, ""),
        (ZERO_CONCENTRATED, "9", PrivacyCost(Decimal(0), Decimal("0.51")), "rho 0.5 was charged"),
        (ZERO_CONCENTRATED, "0.1", ZERO_CONCENTRATED, "epsilon 0.1 is claimed"),
        (PURE, "1", ZERO_CONCENTRATED, "epsilon 1 was charged for rho 0.5"),
    ],
)
def test_a_charge_or_a_claim_below_the_cost_is_found(
    charge: PrivacyCost, claimed: str, cost: PrivacyCost, says: str
) -> None:
    delta = Decimal("0.000001") if charge.rho else Decimal(0)
    request = _requested(price=Price(Decimal(claimed), delta, charge))
    drawn = replace(honest("laplace"), charges=[(request, cost)])
    found = judge_charges("t", [(KIND, drawn)])
    assert found.passed is not bool(says)
    assert says in found.says
    assert found.false_alarm == 0


def test_so_many_releases_are_drawn_that_a_kind_has_its_numbers() -> None:
    power = Power(entries=900, least=4, most=160, masked=10)
    assert [power.releases(ReleaseForm.MODEL, size) for size in (2, 9, 500)] == [160, 100, 4]
    assert [power.releases(ReleaseForm.MASKED, size) for size in (2, 500)] == [10, 4]
