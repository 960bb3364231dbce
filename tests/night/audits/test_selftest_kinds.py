"""Bugs of one kind of release alone: each is found by the self-test, which names the kind.

False alarms: an honest form and law fail with probability below `LEVEL`; here 6 do, and no other.
Misses: a bug is planted so that its check fails with probability above 1 - 1e-8, or for certain.
"""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base import weight_noise
from dppca.common.kernel.aggregation import contribution
from dppca.common.kernel.moments import accumulation, moments
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy import release
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource, OperatingSystemEntropy
from dppca.common.kernel.schema.layout import Layout
from dppca.common.kernel.study import Study
from dppca.owner.ledger.database import Ledger
from dppca.owner.ledger.entries import ReleaseKind, ReleaseRequest
from dppca.owner.release import weights
from dppca.owner.selftest import every_kind, suite
from dppca.owner.selftest.every_kind import LEVEL, Power, audit_form
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.kinds import ReleaseForm, kinds
from dppca.owner.selftest.reads import audit_reads
from dppca.owner.selftest.releases import make_parties
from dppca.owner.selftest.sensitivities import check_sensitivities

FALSE_ALARMS = 6 * LEVEL + 1e-18
PARTIES = make_parties()
Vector = NDArray[np.int64]
Concerns = Callable[[Study], bool]
Noiser = Callable[[Study, Vector, Vector], Vector]


def _audit(
    form: ReleaseForm, law: str, folder: Path, *, power: Power = suite.QUICK.kinds
) -> tuple[Finding, Finding]:
    """Audit as ``--quick`` does."""
    noise, charges = audit_form(form, law, PARTIES, folder, power=power, advance=lambda _: None)
    return noise, charges


def _charges(form: ReleaseForm, law: str, folder: Path) -> Finding:
    """Audit the charges, which are exact, with two releases of each kind."""
    return _audit(form, law, folder, power=Power(entries=1, least=2, most=2, masked=2))[1]


def _noise(
    form: ReleaseForm, law: str, folder: Path, named: str, patch: pytest.MonkeyPatch
) -> list[str]:
    """Audit the kinds with a level of this name, and a few others; return the faults."""
    chosen = [each for i, each in enumerate(kinds(form)) if named in each.title or i % 12 == 0]
    patch.setattr(every_kind, "kinds", lambda _: chosen)
    found = _audit(form, law, folder)[0]
    assert found.passed is not bool(found.figures["faults"])
    return found.figures["faults"]


@pytest.mark.parametrize(("form", "law"), sorted(product(ReleaseForm, LAWS)))
def test_an_installation_passes_in_every_kind(form: ReleaseForm, law: str, tmp_path: Path) -> None:
    findings = _audit(form, law, tmp_path)
    assert [each for each in findings if not each.passed] == []
    assert [each.false_alarm for each in findings] == [LEVEL, 0.0]


def _plant(monkeypatch: pytest.MonkeyPatch, concerns: Concerns, change: Noiser) -> None:
    """Change the noise of the contributions that a bug concerns, masked ones too."""
    whole = release.noise_moments

    def changed(
        study: Study, calibration: Calibration, exact: Moments, *, entropy: EntropySource
    ) -> Vector:
        noised = whole(study, calibration, exact, entropy=entropy)
        if not concerns(study):
            return noised
        return exact.packed + change(study, noised - exact.packed, exact.packed)

    monkeypatch.setattr(release, "noise_moments", changed)
    monkeypatch.setattr(contribution, "noise_moments", changed)


def _none(_: Study, noise: Vector, __: Vector) -> Vector:
    return 0 * noise


def _half(_: Study, noise: Vector, __: Vector) -> Vector:
    return noise // 2


def _bare(begin: Callable[[Layout], int], end: Callable[[Layout], int]) -> Noiser:
    def change(study: Study, noise: Vector, _: Vector) -> Vector:
        layout = study.table.layout
        changed = noise.copy()
        changed[begin(layout) : end(layout)] = 0
        return changed

    return change


def _sums_half(study: Study, noise: Vector, _: Vector) -> Vector:
    n = study.table.layout.n_sums
    return np.where(np.arange(len(noise)) < n, noise // 2, noise)


def _second_is_first(_: Study, noise: Vector, __: Vector) -> Vector:
    changed = noise.copy()
    changed[1] = -changed[0]
    return changed


def _zeros_stay(_: Study, noise: Vector, exact: Vector) -> Vector:
    return np.where(exact == 0, 0, noise)


CONTRIBUTED: dict[str, tuple[Concerns, Noiser, str]] = {
    "rows in the unit ball": (lambda s: s.table.row_norm is not None, _none, "unit ball"),
    "continued studies": (lambda s: s.continues is not None, _none, "continued"),
    "two rows a person": (lambda s: s.table.max_rows_per_person == 2, _none, "two rows"),
    "seven rows a person": (lambda s: s.table.max_rows_per_person == 7, _none, "more rows"),
    "two rows and histograms": (
        lambda s: s.table.max_rows_per_person == 2 and bool(s.table.histograms), _none, "histograms"
    ),
    "a coarse grid, half": (lambda s: s.table.resolution_bits == 4, _half, "4 bits"),
    "a scale by hand, half": (lambda s: s.privacy.scale is not None, _half, "scale"),
    "one owner or a quorum": (lambda s: s.quorum is not None, _none, "quorum"),
    "overlapping owners": (lambda s: s.overlap is True, _none, "words"),
    "targets, half": (lambda s: bool(s.table.targets), _half, "targets"),
    "the sums, at a weight below 1": (
        lambda s: s.table.sum_weight < 1, _bare(lambda _: 0, lambda lay: lay.n_sums), "weight 0.5"
    ),
    "the last table": (
        lambda s: len(s.table.tables) > 1,
        _bare(lambda lay: lay.n_entries - lay.tables[-1], lambda lay: lay.n_entries),
        "tables",
    ),
    "the histograms": (
        lambda s: bool(s.table.histograms),
        _bare(
            lambda lay: lay.n_moments,
            lambda lay: lay.n_moments + sum(size for _, size in lay.histograms),
        ),
        "histograms",
    ),
    "sums of rows in the ball, half": (
        lambda s: s.table.row_norm is not None, _sums_half, "unit ball"
    ),
    "one noise for two entries": (
        lambda s: s.table.layout.n_entries > 60, _second_is_first, "wide"
    ),
    "zeros of tables alone": (lambda s: s.table.only_tables, _zeros_stay, "continued"),
}  # fmt: skip


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("bug", sorted(CONTRIBUTED))
def test_noise_that_one_kind_of_contribution_lacks_is_found(
    bug: str, law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    concerns, change, named = CONTRIBUTED[bug]
    _plant(monkeypatch, concerns, change)
    faults = _noise(ReleaseForm.CONTRIBUTION, law, tmp_path, named, monkeypatch)
    assert any(named in fault for fault in faults)


MASKED = ("continued studies", "two rows a person", "rows in the unit ball", "the last table")


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("bug", MASKED)
def test_shares_that_one_kind_of_masked_contribution_lacks_are_found(
    bug: str, law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    concerns, change, named = CONTRIBUTED[bug]
    _plant(monkeypatch, lambda s: s.n_honest_owners is not None and concerns(s), change)
    faults = _noise(ReleaseForm.MASKED, law, tmp_path, named, monkeypatch)
    assert any(named in fault for fault in faults)


class _OneNoiseForTwo:
    """Gives every second share of a kind of study the noise of the one before."""

    def __init__(self) -> None:
        self._kept: Vector | None = None

    def __call__(self, _: Study, noise: Vector, __: Vector) -> Vector:
        kept, self._kept = self._kept, None
        if kept is None or kept.shape != noise.shape:
            kept = self._kept = noise
        return kept


@pytest.mark.parametrize("law", sorted(LAWS))
def test_one_noise_for_two_owners_of_one_kind_of_study_is_found(
    law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _plant(monkeypatch, lambda s: len(s.owners) == 3 and s.continues is not None, _OneNoiseForTwo())
    faults = _noise(ReleaseForm.MASKED, law, tmp_path, "continued", monkeypatch)
    assert any("continued" in each and "shares are alike" in each for each in faults)
    assert any("continued" in each and "a share came again" in each for each in faults)


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("divisor", [0, 2])
def test_models_of_few_weights_that_lack_noise_are_found(
    law: str, divisor: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(values: Vector, noise: Calibration, *, entropy: EntropySource) -> Vector:
        noised = add_noise(values, noise, entropy=entropy)
        if values.size >= 30:
            return noised
        return values + ((noised - values) // divisor if divisor else 0)

    monkeypatch.setattr(weights, "add_noise", changed)
    faults = _noise(ReleaseForm.MODEL, law, tmp_path, "1 components", monkeypatch)
    assert any("1 components" in fault for fault in faults)


def _less(request: ReleaseRequest) -> ReleaseRequest:
    charge = request.price.charge
    half = PrivacyCost(charge.epsilon / 2, charge.rho / 2)
    return replace(request, price=replace(request.price, charge=half))


CHARGED: dict[str, tuple[ReleaseForm, Callable[[ReleaseRequest], bool]]] = {
    "half of all models": (
        ReleaseForm.MODEL,
        lambda each: each.kind is ReleaseKind.MODEL and int(each.request_digest[0], 16) % 2 == 0,
    ),
    "all models": (ReleaseForm.MODEL, lambda each: each.kind is ReleaseKind.MODEL),
    "masked contributions": (ReleaseForm.MASKED, lambda each: each.honest is not None),
    "a quarter of the contributions": (
        ReleaseForm.CONTRIBUTION, lambda each: int(each.request_digest[0], 16) % 4 == 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize("who", sorted(CHARGED))
@pytest.mark.parametrize("place", ["request", "ledger"])
def test_releases_that_are_half_charged_are_found(
    who: str, law: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, concerns = CHARGED[who]
    if place == "request":
        whole = ReleaseRequest.from_calibration

        def requested(*arguments: Any, **options: Any) -> ReleaseRequest:
            made = whole(*arguments, **options)
            return _less(made) if concerns(made) else made

        monkeypatch.setattr(ReleaseRequest, "from_calibration", requested)
    else:
        reserve = Ledger.reserve

        def reserved(ledger: Ledger, request: ReleaseRequest, **options: Any) -> Any:
            return reserve(ledger, _less(request) if concerns(request) else request, **options)

        monkeypatch.setattr(Ledger, "reserve", reserved)
    charges = _charges(form, law, tmp_path)
    assert not charges.passed
    assert "was charged for" in charges.says


@pytest.mark.parametrize("law", sorted(LAWS))
@pytest.mark.parametrize(("rows", "counted"), [(2, 1), (7, 5), (1000, 999)])
def test_rows_of_a_person_that_are_counted_wrong_are_found(
    rows: int, counted: int, law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, form in ((release, ReleaseForm.CONTRIBUTION), (weight_noise, ReleaseForm.MODEL)):
        calibrate = module.calibrate_noise

        def wrong(
            *arguments: Any, _whole: Callable[..., Calibration] = calibrate, **options: Any
        ) -> Calibration:
            if options["max_rows_per_person"] == rows:
                options["max_rows_per_person"] = counted
            return _whole(*arguments, **options)

        monkeypatch.setattr(module, "calibrate_noise", wrong)
        (folder := tmp_path / form.name).mkdir()
        charges = _charges(form, law, folder)
        assert not charges.passed


@pytest.fixture
def doubled_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add up twice what columns have where the sums weigh 0.5, as ``pack`` would."""
    whole = moments.pack

    def twice(layout: Layout, sums: Vector, *others: Any) -> Vector:
        light = Fraction(layout.scaled_weight, 2**layout.resolution_bits) == Fraction(1, 2)
        return whole(layout, 2 * sums if light else sums, *others)

    monkeypatch.setattr(moments, "pack", twice)
    monkeypatch.setattr(accumulation, "pack", twice)


@pytest.mark.usefixtures("doubled_sums")
@pytest.mark.parametrize("law", sorted(LAWS))
def test_sums_that_are_doubled_at_a_weight_of_one_half_are_found(law: str, tmp_path: Path) -> None:
    charges = _charges(ReleaseForm.CONTRIBUTION, law, tmp_path)
    assert any("sums of weight 0.5" in fault for fault in charges.figures["faults"])
    found = check_sensitivities(tmp_path)[0]
    assert any(fault.startswith("sums of weight 0.5") for fault in found.figures["faults"])


def test_sums_that_only_a_file_s_rows_have_twice_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = accumulation.pack

    def twice(layout: Layout, sums: Vector, *others: Any) -> Vector:
        return whole(layout, 2 * sums if layout.targets else sums, *others)

    monkeypatch.setattr(accumulation, "pack", twice)
    found = [each for each in check_sensitivities(tmp_path) if not each.passed]
    assert [each.check for each in found] == ["sensitivity: sums of a file"]
    assert {fault.split(":")[0] for fault in found[0].figures["faults"]} == {
        "targets of weight 2",
        "targets of weight 3",
        "rows added",
        "all together",
    }


def _return_zeros(monkeypatch: pytest.MonkeyPatch, *, above: int) -> None:
    """Let the system's entropy give zeros to reads of more than so many bytes."""
    whole = OperatingSystemEntropy.bytes
    monkeypatch.setattr(
        OperatingSystemEntropy,
        "bytes",
        lambda source, count: bytes(count) if count > above else whole(source, count),
    )


@pytest.mark.parametrize("least", [100, 1 << 18])
def test_large_reads_that_return_zeros_are_found(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _return_zeros(monkeypatch, above=least)
    assert not audit_reads().passed


def test_reads_that_return_zeros_in_one_kind_of_study_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of some thousand bytes, which only wide contributions make."""
    _return_zeros(monkeypatch, above=2_000)
    faults = _noise(ReleaseForm.CONTRIBUTION, "laplace", tmp_path, "trees", monkeypatch)
    assert any("wide" in fault for fault in faults)


def test_noise_of_a_source_of_its_own_is_found_in_one_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, whole = np.random.default_rng(3), release.noise_moments

    def floats(study: Study, noise: Vector, _: Vector) -> Vector:
        law = release.calibrate(study).law
        return np.rint(law.width * law.standard(len(noise), rng)).astype(np.int64)

    def seeded(
        study: Study, calibration: Calibration, exact: Moments, *, entropy: EntropySource
    ) -> Vector:
        if study.continues is None:
            return whole(study, calibration, exact, entropy=entropy)
        return exact.packed + floats(study, exact.packed, exact.packed)

    monkeypatch.setattr(release, "noise_moments", seeded)
    faults = _noise(ReleaseForm.CONTRIBUTION, "gaussian", tmp_path, "continued", monkeypatch)
    assert any("random bits were taken" in each for each in faults)
    assert all("continued" in each for each in faults if "random bits" in each)


def test_a_claim_below_the_charge_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ReleaseRequest.from_calibration

    def claimed(*arguments: Any, **options: Any) -> ReleaseRequest:
        made = whole(*arguments, **options)
        less = replace(made.price, epsilon=made.price.epsilon * Decimal("0.5"))
        return replace(made, price=less) if made.honest else made

    monkeypatch.setattr(ReleaseRequest, "from_calibration", claimed)
    charges = _charges(ReleaseForm.MASKED, "gaussian", tmp_path)
    assert "is claimed for the charge" in charges.says
