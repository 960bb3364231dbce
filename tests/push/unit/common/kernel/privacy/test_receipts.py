"""One form of receipt: every kind of release is written flat and read back as it was."""

import json
from dataclasses import dataclass
from decimal import Decimal

import pytest

from dppca.common.kernel.privacy.laws import choose_law
from dppca.common.kernel.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.kernel.privacy.receipts import Claims, NoiseSection, Receipt, read_receipt
from dppca.common.kernel.privacy.sensitivity import Relation, Sensitivity


def calibration(epsilon: str, delta: str | None = None) -> Calibration:
    return calibrate_noise(
        choose_law(None, delta),
        Sensitivity(l1=4, l2_squared=6, resolution_bits=3, relation=Relation.REPLACE_ONE),
        epsilon=Decimal(epsilon),
        delta=None if delta is None else Decimal(delta),
        max_rows_per_person=2,
    )


@dataclass(frozen=True, slots=True)
class OneLaw(Claims):
    names: tuple[str, ...]


def receipt(claims: Claims, noise: Calibration) -> Receipt[Claims]:
    section = NoiseSection.from_calibration(noise)
    return Receipt("s", "t", "r", 9, claims, section, ledger_sequence=1, software="test")


RECEIPTS = {
    "one law": receipt(OneLaw(("a", "b")), calibration("0.5")),
    "Gaussian": receipt(OneLaw(()), calibration("0.5", "1e-9")),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_a_receipt_is_read_as_it_was_written(name: str) -> None:
    written = RECEIPTS[name]
    assert read_receipt(json.loads(written.canonical_bytes()), type(written.claims)) == written


def test_the_noise_stands_among_the_other_fields() -> None:
    flat = RECEIPTS["one law"].document()
    assert (flat["parameters"], flat["charged_epsilon"]) == ({"scale": 16}, "0.5")
    gaussian = RECEIPTS["Gaussian"].document()
    assert (gaussian["epsilon"], gaussian["charged_epsilon"]) == ("0.5", "0")
    assert gaussian["delta"] == "0.000000001" != gaussian["charged_rho"] != "0"


def test_an_epsilon_of_many_digits_is_not_rounded() -> None:
    digits = "7." + "1" * 30
    assert NoiseSection.from_calibration(calibration(digits)).epsilon == digits


@pytest.mark.parametrize("name", RECEIPTS)
def test_a_field_too_many_or_too_few_is_refused(name: str) -> None:
    document, claims = RECEIPTS[name].document(), type(RECEIPTS[name].claims)
    for extra in ({"accuracy": 1}, {"claims": 1}):
        with pytest.raises((ValueError, TypeError)):
            read_receipt({**document, **extra}, claims)
    for missing in document:
        with pytest.raises((ValueError, TypeError, KeyError)):
            read_receipt({key: document[key] for key in document if key != missing}, claims)
