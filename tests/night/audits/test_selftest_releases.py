"""Bugs that the self-test promises to find in every kind of release, each by its own check.

False alarms: an honest release fails a check with probability below `LEVEL`, and the honest ones
here are 30 checks. Misses: a bug is planted so that its check fails with probability above
1 - 1e-8, or for certain.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.privacy import laws, release
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise import shares
from dppca.common.kernel.privacy.noise.entropy import (
    EntropySource,
    OperatingSystemEntropy,
    SeededEntropy,
)
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.common.kernel.privacy.sensitivity import Sensitivity
from dppca.owner.ledger.database import Ledger
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.release import run, weights
from dppca.owner.selftest.endpoint import prepare
from dppca.owner.selftest.findings import Finding, SelfTest, report_text
from dppca.owner.selftest.judging import LEVEL
from dppca.owner.selftest.kinds import CODINGS
from dppca.owner.selftest.local_federation import TemporaryFederation, temporary_federation
from dppca.owner.selftest.releases import ReleaseAudit, audit_release, release_audits
from dppca.owner.selftest.sensitivities import check_sensitivities
from dppca.owner.selftest.sent import audit_sent

Vector = NDArray[np.int64]
Change = Callable[[Vector, Vector, NoiseLaw], Vector]
FALSE_ALARMS = 30 * LEVEL + 120 * 1e-8
N_RELEASES = 16  # as --quick
AUDITS = {audit.title: audit for audit in release_audits()}
CONTRIBUTIONS = ("Gaussian contribution", "Laplace contribution")
MASKED = ("Gaussian masked contribution", "Laplace masked contribution")
MODELS = ("Gaussian model", "Laplace model")


def _audit(audit: ReleaseAudit) -> list[Finding]:
    return audit_release(audit, n_releases=N_RELEASES, advance=lambda _: None)


def _broken(audit: ReleaseAudit) -> set[str]:
    findings = _audit(audit)
    assert ("BROKEN" in report_text(SelfTest(True, findings, 1.0))) is not all(
        each.passed for each in findings
    )
    return {f.check.removeprefix(f"{audit.title}: ") for f in findings if not f.passed}


@pytest.mark.parametrize("title", sorted(AUDITS))
def test_an_installed_release_passes(title: str) -> None:
    findings = _audit(AUDITS[title])
    assert [each for each in findings if not each.passed] == []
    assert {each.false_alarm for each in findings} <= {0.0, LEVEL}
    assert {each.release for each in findings} <= {title, ""}


def test_every_kind_of_release_is_audited_with_every_law() -> None:
    assert set(AUDITS) == {*CONTRIBUTIONS, *MASKED, *MODELS}
    assert {type(audit.law) for audit in AUDITS.values()} == set(laws.LAWS.values())


def _narrower(percent: int) -> Change:
    return lambda noise, _, __: noise * percent // 100


def _no_tail(noise: Vector, _: Vector, law: NoiseLaw) -> Vector:
    while (far := np.abs(noise) > 3.5 * law.deviation).any():  # 5 b of Laplace noise
        noise[far] = law.draw(int(far.sum()), entropy=OperatingSystemEntropy())
    return noise


def _clamped(noise: Vector, _: Vector, law: NoiseLaw) -> Vector:
    most = int(3.5 * law.deviation)
    return np.clip(noise, -most, most)


def _bare(place: int) -> Change:
    def change(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
        noise[place] = 0
        return noise

    return change


def _first(count: int) -> Change:
    return lambda noise, _, __: np.where(np.arange(len(noise)) < count, noise, 0)


def _bare_where_nothing_is(noise: Vector, values: Vector, _: NoiseLaw) -> Vector:
    return np.where(values == 0, 0, noise)


def _last_narrower(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    noise[-1500:] //= 2
    return noise


def _other_law(noise: Vector, _: Vector, law: NoiseLaw) -> Vector:
    deviation = Fraction(law.deviation)
    other = GaussianLaw if isinstance(law, LaplaceLaw) else LaplaceLaw
    found = other.of_width(deviation / Fraction(other.unit_deviation))
    assert found is not None
    return found.draw(len(noise), entropy=OperatingSystemEntropy())


def _biased(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    noise[::40] = np.abs(noise[::40])
    return noise


def _coarse(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    return noise // 1000 * 1000 + 7


def _sometimes_even(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    noise[::10] &= ~1
    return noise


def _block_again(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    noise[1 << 15 :] = noise[: len(noise) - (1 << 15)]
    return noise


def _pairs(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    last = len(noise) // 2 * 2
    noise[1:last:2] = np.sign(noise[1:last:2]) * np.abs(noise[0:last:2])
    return noise


def _mirrored(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    half = len(noise) // 2
    noise[-half:] = -noise[:half][::-1]
    return noise


def _neighbours(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    """One entry in ten has the sign of the one before it."""
    noise[1::10] = np.abs(noise[1::10]) * np.where(noise[0::10][: len(noise[1::10])] < 0, -1, 1)
    return noise


def _like_the_size(noise: Vector, _: Vector, law: NoiseLaw) -> Vector:
    """Of entries i and i + 1000 both are large or both are small, without being equal."""
    for begin in range(0, len(noise) - 1999, 2000):
        large = np.abs(noise[begin : begin + 1000]) > law.width
        later = noise[begin + 1000 : begin + 2000]
        later[np.argsort(large, kind="stable")] = later[np.argsort(np.abs(later), kind="stable")]
    return noise


class _Reused:
    """Draws for every other release only."""

    def __init__(self) -> None:
        self._kept: Vector | None = None

    def __call__(self, noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
        kept, self._kept = self._kept, None
        if kept is None:
            kept = self._kept = noise
        return kept


CHANGES: dict[str, tuple[Callable[[], Change], str]] = {
    "no noise": (lambda: lambda noise, _, __: 0 * noise, "distribution"),
    "2 % too narrow": (lambda: _narrower(98), "distribution"),
    "2 % too wide": (lambda: _narrower(102), "distribution"),
    "no noise beyond 5 b": (lambda: _no_tail, "distribution"),
    "clamped": (lambda: _clamped, "distribution"),
    "entry 100 bare": (lambda: _bare(100), "distribution"),
    "the last entry bare": (lambda: _bare(-1), "distribution"),
    "zeros stay zeros": (lambda: _bare_where_nothing_is, "distribution"),
    "the last entries half as wide": (lambda: _last_narrower, "distribution"),
    "another law of that variance": (lambda: _other_law, "distribution"),
    "more often positive": (lambda: _biased, "distribution"),
    "only one machine's": (lambda: _first(201), "distribution"),
    "a coarser grid": (lambda: _coarse, "distribution"),
    "a tenth is even": (lambda: _sometimes_even, "distribution"),
    "again after 32,768 entries": (lambda: _block_again, "independence"),
    "pairs of one magnitude": (lambda: _pairs, "independence"),
    "mirrored": (lambda: _mirrored, "independence"),
    "signs of neighbours": (lambda: _neighbours, "independence"),
    "sizes 1000 apart": (lambda: _like_the_size, "independence"),
    "one noise for two releases": (_Reused, "independence"),
}


def _plant(monkeypatch: pytest.MonkeyPatch, title: str, change: Change) -> None:
    """Change the noise of a kind of release, where it is added."""

    def changed(
        values: Vector, noise: Calibration, *, entropy: EntropySource, **places: Any
    ) -> Vector:
        drawn = add_noise(np.zeros_like(values), noise, entropy=entropy, **places)
        return values + change(drawn, values, noise.law)

    monkeypatch.setattr(weights if title in MODELS else release, "add_noise", changed)


OF_MODELS = ("no noise", "2 % too narrow", "entry 100 bare", "mirrored", "only one machine's")


@pytest.mark.parametrize(
    ("title", "bug"),
    [
        *((title, bug) for title in CONTRIBUTIONS for bug in sorted(CHANGES)),
        *((title, bug) for title in MODELS for bug in OF_MODELS),
    ],
)
def test_a_bug_of_the_noise_is_found_by_the_check_that_is_meant_for_it(
    title: str, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, check = CHANGES[bug]
    _plant(monkeypatch, title, make())
    assert check in _broken(AUDITS[title])


def _nothing(noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
    return 0 * noise


class _SomeOwners:
    """Changes the noise of some of the four owners, who draw in turns."""

    def __init__(self, change: Callable[[list[Vector]], Vector], owners: set[int]) -> None:
        self._change, self._owners, self._drawn = change, owners, list[Vector]()

    def __call__(self, noise: Vector, _: Vector, __: NoiseLaw) -> Vector:
        self._drawn = [*self._drawn[-3:], noise] if len(self._drawn) % 4 else [noise]
        place = len(self._drawn) - 1
        return self._change(self._drawn) if place in self._owners else noise


SHARES: dict[str, tuple[Callable[[], Change], str]] = {
    "no noise": (lambda: _nothing, "distribution"),
    "the third owner adds none": (lambda: _SomeOwners(lambda all_: 0 * all_[0], {2}), "shares"),
    "one noise for all owners": (lambda: _SomeOwners(lambda all_: all_[0], {1, 2, 3}), "shares"),
    "owners 1 and 3 share": (lambda: _SomeOwners(lambda all_: all_[0], {2}), "independence"),
    "the fourth undoes the second": (lambda: _SomeOwners(lambda all_: -all_[1], {3}), "shares"),
    "one entry bare": (lambda: _bare(7), "distribution"),
    "again after 32,768 entries": (lambda: _block_again, "independence"),
}


@pytest.mark.parametrize("title", MASKED)
@pytest.mark.parametrize("bug", sorted(SHARES))
def test_a_bug_of_the_shares_is_found(
    bug: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, check = SHARES[bug]
    _plant(monkeypatch, title, make())
    assert check in _broken(AUDITS[title])


@pytest.mark.parametrize("title", MASKED)
def test_a_share_that_is_too_small_is_found(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def for_all_owners(
        values: Vector, noise: Calibration, *, entropy: EntropySource, **places: Any
    ) -> Vector:
        return add_noise(values, replace(noise, n_honest_owners=4), entropy=entropy, **places)

    monkeypatch.setattr(release, "add_noise", for_all_owners)
    assert {"distribution", "shares"} <= _broken(AUDITS[title])


@pytest.mark.parametrize("title", sorted(AUDITS))
def test_noise_that_is_not_the_operating_system_s_is_found(
    title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SeededEntropy(2026)
    monkeypatch.setattr(OperatingSystemEntropy, "bytes", lambda _, count: source.bytes(count))
    assert _broken(AUDITS[title]) == {"randomness"}


def test_a_stream_of_shares_without_a_key_of_its_own_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = SeededEntropy(1)
    monkeypatch.setattr(shares, "StreamEntropy", lambda _: SeededEntropy(keys.bytes(4)[0]))
    assert "randomness" in _broken(AUDITS["Laplace masked contribution"])


def _halved(what: Callable[..., Sensitivity]) -> Callable[..., Sensitivity]:
    def too_small(*arguments: Any, **options: Any) -> Sensitivity:
        found = what(*arguments, **options)
        return replace(found, l1=found.l1 * 9 // 10, l2_squared=found.l2_squared * 4 // 5)

    return too_small


def _without(field: str, value: object) -> Callable[..., Any]:
    whole = release.sensitivity_shape

    def forgets(schema: Any) -> Any:
        shape = whole(schema)
        return replace(shape, **{field: value}) if hasattr(shape, field) else shape

    return forgets


@pytest.mark.parametrize(
    ("field", "value", "kinds"),
    [
        ("n_tables", 1, {"tables of weight 3", "continued: tables alone"}),
        ("table_weight", Fraction(1), {"tables of weight 3", "continued: tables of weight 2"}),
        ("n_histograms", 0, {"histograms", "histograms of weight 2"}),
        ("histogram_weight", Fraction(1), {"histograms of weight 2"}),
        ("target_weight", 2, {"targets of weight 3"}),
        ("sum_weight", Fraction(1), {"sums of weight 2"}),
    ],
)
def test_a_sensitivity_that_forgets_a_part_of_the_release_is_found(
    field: str, value: object, kinds: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "sensitivity_shape", _without(field, value))
    found = check_sensitivities(tmp_path)[0]
    wrong = _codings(found)
    assert (found.passed, kinds <= wrong) == (False, True)


def _codings(found: Finding) -> set[str]:
    """The codings that a finding names."""
    return {
        each for each in CODINGS if any(f.startswith(f"{each}, ") for f in found.figures["faults"])
    }


def test_a_sensitivity_that_is_too_small_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [each.passed for each in check_sensitivities(tmp_path)] == [True, True, True]
    with monkeypatch.context() as patch:
        for name in ("sensitivity", "added_sensitivity"):
            patch.setattr(release, name, _halved(getattr(release, name)))
        found = check_sensitivities(tmp_path)[0]
    assert _codings(found) == {*CODINGS}
    from dppca.common.analysis.estimators.base import weight_noise

    monkeypatch.setattr(
        weight_noise, "weight_sensitivity", _halved(weight_noise.weight_sensitivity)
    )
    assert [each.passed for each in check_sensitivities(tmp_path)] == [True, True, False]


def test_rows_of_one_person_that_are_not_counted_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dppca.common.analysis.estimators.base import weight_noise

    for module in (release, weight_noise):
        calibrate = module.calibrate_noise

        def one_row(
            *arguments: Any, _whole: Callable[..., Calibration] = calibrate, **options: Any
        ) -> Calibration:
            return _whole(*arguments, **{**options, "max_rows_per_person": 1})

        monkeypatch.setattr(module, "calibrate_noise", one_row)
    contributions, _, models = check_sensitivities(tmp_path)
    for found in (contributions, models):
        rows = {re.search("k = ([0-9])", fault)[1] for fault in found.figures["faults"]}  # type: ignore[index]
        assert rows == {"2", "3"}


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[TemporaryFederation]:
    with temporary_federation(tmp_path) as federation:
        prepare(federation)
        yield federation


def test_what_the_commands_send_passes(federation: TemporaryFederation) -> None:
    findings = audit_sent(federation)
    assert [each for each in findings if not each.passed] == []


def test_a_run_that_takes_its_noise_from_a_seed_is_found_by_what_each_command_sends(
    federation: TemporaryFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SeededEntropy(3)
    monkeypatch.setattr(run, "OperatingSystemEntropy", lambda: stream)
    broken = {each.check for each in audit_sent(federation) if not each.passed}
    commands = ("contribution", "model")
    assert broken == {f"Laplace {what} by command: randomness" for what in commands}


def test_a_command_that_charges_half_of_a_model_is_found(
    federation: TemporaryFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Ledger.reserve

    def half(ledger: Ledger, request: ReleaseRequest, **options: Any) -> Any:
        if request.makes_file:
            whole = request.price.charge
            half_price = replace(
                request.price, charge=PrivacyCost(whole.epsilon / 2, whole.rho / 2)
            )
            request = replace(request, price=half_price)
        return reserve(ledger, request, **options)

    monkeypatch.setattr(Ledger, "reserve", half)
    broken = [each for each in audit_sent(federation) if not each.passed]
    assert [each.check for each in broken] == ["charges by command"]
    assert len(broken[0].figures["faults"]) == 2
