"""Order of the whole self-test."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from dppca.common.shell.console import Progress
from dppca.owner.selftest.crashes import STEPS, attack_by_other_rows, kill_at_random, kill_at_steps
from dppca.owner.selftest.draws import audit_epsilon, audit_noise, audits
from dppca.owner.selftest.endpoint import (
    attack_by_asking_again,
    attack_by_differencing,
    audit_receipt,
    prepare,
)
from dppca.owner.selftest.every_kind import Power, audit_kinds
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.hostile_rows import attack_by_one_row
from dppca.owner.selftest.joint_noise import LEAST_RELEASES, audit_joint_noise
from dppca.owner.selftest.kinds import all_kinds
from dppca.owner.selftest.local_federation import temporary_federation
from dppca.owner.selftest.lost_ledger import attack_by_losing_the_ledger
from dppca.owner.selftest.masked_sums import attack_masked_sums, attack_opener, audit_shares
from dppca.owner.selftest.reads import audit_reads
from dppca.owner.selftest.releases import audit_release, release_audits
from dppca.owner.selftest.sensitivities import check_sensitivities
from dppca.owner.selftest.sent import audit_sent


@dataclass(frozen=True, slots=True)
class Amount:
    """Size of a self-test: numbers of releases of an audit, attacks and kills.

    ``large`` are releases of 40,000 entries of each form, at least 2; ``kinds`` is what is drawn of
    every kind, ``joint`` of the laws of a whole release.
    """

    noise: int
    epsilon: int
    trials: int
    steps: tuple[str, ...]
    kills: int
    kinds: Power
    large: int = 2
    joint: int = LEAST_RELEASES

    @property
    def work(self) -> int:
        """Steps of the progress bar; an attack or a kill counts as many releases."""
        return (
            2 * (self.noise + 2 * self.epsilon)
            + 6 * self.large
            + 3 * self.joint
            + _KIND * sum(1 for _ in all_kinds())
            + _ATTACK * (2 * self.trials + len(self.steps) + self.kills)
        )


FULL = Amount(
    noise=50_000,
    epsilon=100_000,
    trials=200,
    steps=STEPS,
    kills=20,
    kinds=Power(entries=3_000, least=24, most=1_000, masked=48),
    large=60,
)
QUICK = Amount(
    noise=2_500,
    epsilon=6_000,
    trials=30,
    steps=("draw", "commit"),
    kills=0,
    kinds=Power(entries=600, least=4, most=300, masked=8),
    large=16,
)
_ATTACK, _KIND = 1_000, 200  # steps of the progress bar for an attack, and for a kind of release


def run_audits(amount: Amount, bar: Progress) -> list[Finding]:
    """Audit the laws of noise and the epsilon that is spent; each release advances the bar."""
    findings = [audit_reads()]
    for audit in audits():
        findings += audit_noise(audit, n_releases=amount.noise, advance=bar.advance)
        findings.append(audit_epsilon(audit, n_releases=amount.epsilon, advance=bar.advance))
    for each in release_audits():
        findings += audit_release(each, n_releases=amount.large, advance=bar.advance)
    findings += audit_joint_noise(n_releases=amount.joint, advance=bar.advance)
    with tempfile.TemporaryDirectory(prefix="dppca-selftest-") as folder:
        findings += audit_kinds(
            Path(folder),
            power=amount.kinds,
            advance=lambda number: bar.advance(number * _KIND),
        )
    return findings


def audit_masked_sums(amount: Amount) -> list[Finding]:
    """Audit shares of the noise and masked words, and try lies about a set."""
    return [*audit_shares(n_draws=amount.noise), *attack_masked_sums()]


def run_attacks(amount: Amount, bar: Progress) -> list[Finding]:
    """Attack a temporary federation, and kill its commands; this advances the bar, too."""

    def advance(number: int) -> None:
        bar.advance(number * _ATTACK)

    with (
        tempfile.TemporaryDirectory(prefix="dppca-selftest-") as folder,
        temporary_federation(Path(folder)) as federation,
    ):
        findings = [attack_by_one_row(Path(folder)), *check_sensitivities(Path(folder))]
        prepare(federation)
        findings += attack_by_differencing(federation, trials=amount.trials, advance=advance)
        findings += attack_by_asking_again(federation, advance=lambda _: None)
        findings.append(audit_receipt(federation))
        findings += audit_sent(federation)
        (opener := Path(folder) / "opener").mkdir(mode=0o700)
        findings.append(attack_opener(opener))
        findings.append(kill_at_steps(federation, steps=amount.steps, advance=advance))
        if amount.kills:
            findings.append(kill_at_random(federation, times=amount.kills, advance=advance))
        findings.append(attack_by_other_rows(federation))
        findings.append(attack_by_losing_the_ledger(federation))
    return findings
