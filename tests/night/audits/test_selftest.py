"""The self-test accuses what is planted, by the check that is made for it, and nothing honest.

False alarms: an honest installation is accused with probability below 1e-6 by a whole run, by a
check with 9e-8 (a dozen of them here, beside the whole run), and by the checks of masked sums with
1e-6, as their findings say. Misses: each bug is planted so that the check meant for it fails with
probability above 1 - 1e-8, or for certain.
"""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.aggregation import masking, opening
from dppca.common.kernel.privacy import release
from dppca.common.kernel.privacy.gaussian_law import GaussianLaw
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.kernel.privacy.noise_law import NoiseLaw
from dppca.owner.records.lines import Lines
from dppca.owner.selftest import crashes, endpoint, every_kind, masked_sums, suite
from dppca.owner.selftest.crashes import attack_by_other_rows, kill_at_random, kill_at_steps
from dppca.owner.selftest.draws import audit_noise, audits
from dppca.owner.selftest.endpoint import (
    attack_by_asking_again,
    attack_by_differencing,
    audit_receipt,
    prepare,
)
from dppca.owner.selftest.every_kind import Power
from dppca.owner.selftest.findings import Finding, SelfTest, report_text
from dppca.owner.selftest.hostile_rows import attack_by_one_row
from dppca.owner.selftest.kinds import ReleaseForm, kinds
from dppca.owner.selftest.laws import bins, centred, dkw, dkw_limit
from dppca.owner.selftest.local_federation import TemporaryFederation, temporary_federation
from dppca.owner.selftest.masked_sums import attack_masked_sums, attack_opener, audit_shares
from tests.support.noise import less_noise, seed_noise
from tests.support.sites import OwnerSite

Vector = NDArray[np.int64]
Noiser = Callable[..., Vector]


def no_noise_on_one(
    values: Vector, calibration: Calibration, *, entropy: EntropySource, **places: Any
) -> Vector:
    noised = add_noise(values, calibration, entropy=entropy, **places)
    noised[1] = values[1]
    return noised


half_the_scale = less_noise(add_noise, 2)


class SameNoiseTwice:
    """Draws for every other release only."""

    def __init__(self) -> None:
        self._kept: Vector | None = None

    def __call__(
        self, values: Vector, calibration: Calibration, *, entropy: EntropySource, **places: Any
    ) -> Vector:
        if self._kept is not None and self._kept.shape == values.shape:
            noise, self._kept = self._kept, None
        else:
            noise = self._kept = add_noise(
                np.zeros_like(values), calibration, entropy=entropy, **places
            )
        return values + noise


class SeededFloats:
    """What a quick hand would write."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(2026)

    def __call__(
        self, values: Vector, calibration: Calibration, *, entropy: EntropySource, **places: Any
    ) -> Vector:
        del entropy
        noise = calibration.law.width * calibration.law.standard(len(values), self._rng)
        return values + np.rint(noise).astype(np.int64)


FALSE_ALARMS = 1e-6 + 1e-6 + 12 * 9e-8 + 20 * 1e-8
_LAWS = ("Laplace", "Gaussian")
BUGS: dict[str, tuple[Callable[[], Noiser], str]] = {
    "no noise on one coordinate": (lambda: no_noise_on_one, "distribution"),
    "half the scale": (lambda: half_the_scale, "distribution"),
    "the same noise twice": (SameNoiseTwice, "independence"),
    "a seeded float generator": (SeededFloats, "randomness"),
}
AUDITS = {audit.title: audit for audit in audits()}


def _ignore(_: int) -> None:
    pass


@pytest.mark.parametrize("title", sorted(AUDITS))
def test_the_installed_release_path_passes(title: str) -> None:
    findings = audit_noise(AUDITS[title], n_releases=2_500, advance=_ignore)
    assert all(each.passed for each in findings), findings
    assert [f.check for f in findings] == [
        f"{title}: {what}" for what in ("distribution", "independence", "randomness")
    ]


@pytest.mark.parametrize("title", sorted(AUDITS))
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_a_planted_bug_is_found_by_the_check_that_is_meant_for_it(
    bug: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, check = BUGS[bug]
    monkeypatch.setattr(release, "add_noise", make())
    findings = audit_noise(AUDITS[title], n_releases=2_500, advance=_ignore)
    failed = [f.check for f in findings if not f.passed]
    assert f"{title}: {check}" in failed
    assert "BROKEN" in report_text(SelfTest(True, findings, 1.0))


@pytest.mark.parametrize("law", [LaplaceLaw(1), LaplaceLaw(40), GaussianLaw(1), GaussianLaw(900)])
def test_the_exact_laws_are_those_of_the_samplers(law: NoiseLaw) -> None:
    grid = np.arange(-400, 401)
    steps = np.diff(law.cdf(np.arange(-401, 401)))
    assert steps.sum() == pytest.approx(1, abs=1e-4)
    likely = steps > 1e-9
    np.testing.assert_allclose(np.exp(-law.neg_log_pmf(grid[likely])), steps[likely], rtol=1e-5)
    assert centred(law, grid) @ steps == pytest.approx(0, abs=1e-9)
    noise = law.draw(5_000, entropy=SeededEntropy(5))
    assert dkw(noise, law) < dkw_limit(5_000, 1e-6) < dkw(noise + 1 + int(law.width) // 4, law)
    assert bins(noise, law) > 1e-6 > bins(2 * noise, law)


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporaryFederation]:
    with temporary_federation(tmp_path_factory.mktemp("selftest")) as federation:
        prepare(federation)
        yield federation


@pytest.fixture
def named(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Studies of a test have names of their own at the one curator."""
    plain, prefix = endpoint._study, hashlib.sha256(request.node.name.encode()).hexdigest()[:16]
    monkeypatch.setattr(endpoint, "_study", lambda name: plain(f"{prefix}-{name}"))


def test_attacks_on_a_real_endpoint_gain_no_more_than_is_claimed(
    federation: TemporaryFederation,
) -> None:
    findings = [
        *attack_by_differencing(federation, trials=6, advance=_ignore),
        *attack_by_asking_again(federation, advance=_ignore),
        audit_receipt(federation),
    ]
    assert all(each.passed for each in findings), findings


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("bug", ["no noise on one coordinate", "the same noise twice"])
def test_planted_bugs_show_on_the_wire(
    federation: TemporaryFederation, bug: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "add_noise", BUGS[bug][0]())
    difference, wire = attack_by_differencing(federation, trials=3, advance=_ignore)
    assert not wire.passed
    if bug == "no noise on one coordinate":
        assert wire.figures["without_noise"] == [1]
    else:
        assert wire.figures["repeated"] == 3
        assert difference.figures["right"] == 3


@pytest.mark.parametrize(("right", "noticed"), [(26, True), (25, False), (15, False), (0, False)])
def test_an_attacker_who_is_right_too_often_is_noticed(right: int, noticed: bool) -> None:
    assert endpoint._differencing(right, 26).passed is not noticed


def test_a_ledger_that_is_killed_keeps_its_promises(federation: TemporaryFederation) -> None:
    found = kill_at_steps(federation, steps=("commit",), advance=_ignore)
    assert found.passed, found.says
    found = kill_at_random(federation, times=1, advance=_ignore)
    assert found.passed, found.says


def test_a_ledger_that_charges_twice_is_noticed(
    federation: TemporaryFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = crashes.run_owner

    def twice(
        federation: TemporaryFederation, *arguments: str, fault: str | None = None
    ) -> tuple[int, object]:
        if fault is None:
            federation.create(crashes.study_for_crashes("extra"))
            honest(federation, "contribute", "extra", "--yes", "--data-set", "crashes")
        return honest(federation, *arguments, fault=fault)

    monkeypatch.setattr(crashes, "run_owner", twice)
    found = kill_at_steps(federation, steps=("reserve",), advance=_ignore)
    assert not found.passed
    assert "not exactly one charge" in found.says


def test_a_charge_without_a_release_is_used_for_no_other_rows(
    federation: TemporaryFederation, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = attack_by_other_rows(federation)
    assert found.passed, found.says
    monkeypatch.setattr(crashes, "run_owner", lambda *_, fault=None: (-9 if fault else 0, None))
    found = attack_by_other_rows(federation)
    assert (found.passed, "other rows were drawn on" in found.says) == (False, True)


def test_hostile_rows_change_no_other(tmp_path: Path) -> None:
    finding = attack_by_one_row(tmp_path)
    assert finding.passed, finding
    assert finding.figures["tries"] > 150


def test_a_parser_that_lets_a_quote_swallow_lines_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines_by_quotes(block: bytes, _: bytes) -> Lines:
        rows = list(csv.reader(io.StringIO(block.decode("latin-1"), newline="")))
        return Lines(count=len(rows), any_blank=False, strictly_quoted=True)

    monkeypatch.setattr("dppca.owner.records.delimited.split_lines", lines_by_quotes)
    assert not attack_by_one_row(tmp_path).passed


def test_a_reader_that_refuses_cells_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dppca.owner.records.columnar._check_structure", lambda array: array.validate(full=True)
    )
    assert not attack_by_one_row(tmp_path).passed


def test_the_command_reports_and_leaves_with_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = OwnerSite(tmp_path, "nobody")
    few = Power(entries=1, least=2, most=2, masked=2)
    tiny = suite.Amount(noise=300, epsilon=300, trials=0, steps=(), kills=0, kinds=few, joint=200)
    monkeypatch.setattr(every_kind, "kinds", lambda form: kinds(form)[:: len(kinds(form)) - 1])
    monkeypatch.setattr(suite, "QUICK", tiny)
    monkeypatch.setattr(suite, "run_attacks", lambda amount, bar: list[Finding]())
    code, document = site.run("selftest", "--quick")
    assert (code, document["passed"], len(document["findings"])) == (0, True, 48)
    assert 0 < document["false_alarm"] < 1e-6
    assert document["audited"] == [
        *(f"{law} {form}" for form in ReleaseForm for law in _LAWS),
        "Matrix-Laplace contribution",
        "Matrix-Laplace masked contribution",
        *(f"{law} {form}s, 1 kinds" for form in ReleaseForm for law in _LAWS),
    ]
    monkeypatch.setattr(release, "add_noise", no_noise_on_one)
    code, document = site.run("selftest", "--quick")
    assert (code, document["passed"]) == (25, False)
    assert not list(tmp_path.iterdir()), "nothing is written at the site"


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
