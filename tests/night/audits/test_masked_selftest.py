"""The self-test's checks of masked sums hold here, and each finds the bug planted for it.

False alarms: below 1e-6, as the findings say themselves. A planted bug is found for certain, or in
noise that has a seed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.aggregation import masking, opening
from dppca.common.privacy.mechanisms import Calibration, add_noise
from dppca.common.privacy.noise.entropy import EntropySource
from dppca.owner.selftest import masked_sums
from dppca.owner.selftest.masked_sums import attack_masked_sums, attack_opener, audit_shares
from tests.support.noise import seed_noise

FALSE_ALARMS = 1e-6


def test_shares_masks_and_openers_pass() -> None:
    findings = [*audit_shares(n_draws=50_000), *attack_masked_sums()]
    assert [finding.check for finding in findings if not finding.passed] == []
    assert sum(finding.false_alarm for finding in findings) < 1e-6


def test_noise_divided_by_all_owners_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_little(
        values: NDArray[np.int64], noise: Calibration, *, entropy: EntropySource
    ) -> NDArray[np.int64]:
        return add_noise(values, replace(noise, n_honest_owners=3), entropy=entropy)

    seed_noise(monkeypatch)
    monkeypatch.setattr(masked_sums, "add_noise", too_little)
    assert [finding.passed for finding in audit_shares(n_draws=50_000)] == [False, False]


def test_a_vector_without_its_masks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "subtract_stream", lambda *_, **__: None)
    assert not attack_masked_sums()[0].passed


@pytest.mark.parametrize(
    ("check", "lie"),
    [
        ("bound", "a second set"),
        ("quorum", "a set below the quorum"),
        ("signature", "an upload without its signature"),
    ],
)
def test_an_opener_that_does_not_check_is_found(
    monkeypatch: pytest.MonkeyPatch, check: str, lie: str
) -> None:
    if check == "signature":
        monkeypatch.setattr(opening, "require_signed", lambda *_: None)
    else:
        whole = opening._require_set

        def lax(terms: Any, shown: Any, opener: Any, secret: Any, bound: Any) -> Any:
            if check == "bound":
                return whole(terms, shown, opener, secret, None)
            if len(shown.entries) < terms.quorum:
                return []
            return whole(terms, shown, opener, secret, bound)

        monkeypatch.setattr(opening, "_require_set", lax)
    finding = attack_masked_sums()[1]
    assert not finding.passed
    assert lie in finding.figures["faults"]


def test_an_opener_opens_once_and_one_that_keeps_its_key_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good", "bad"):
        (tmp_path / name).mkdir()
    found = attack_opener(tmp_path / "good")
    assert found.passed, found
    monkeypatch.setattr("dppca.owner.release.opening.destroy_opener_key", lambda *_: False)
    assert not attack_opener(tmp_path / "bad").passed
