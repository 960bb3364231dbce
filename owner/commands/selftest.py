"""``dppca-owner selftest``."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from dppca.common.console import Progress, emit, prints, progress
from dppca.common.documents import Document
from dppca.common.errors import SelfTestError
from dppca.owner.selftest.crashes import STEPS, kill_at_random, kill_at_steps
from dppca.owner.selftest.draws import audit_epsilon, audit_noise, audits
from dppca.owner.selftest.endpoint import (
    attack_by_asking_again,
    attack_by_differencing,
    check_receipt,
    prepare,
)
from dppca.owner.selftest.federation import throw_away
from dppca.owner.selftest.files import attack_by_one_row
from dppca.owner.selftest.findings import CheckedPromise, Finding, passed, report_text
from dppca.owner.selftest.lost_ledger import attack_by_losing_the_ledger
from dppca.owner.selftest.summaries import attack_summary


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is tried: releases of an audit, attacks, kills."""

    noise: int
    epsilon: int
    trials: int
    steps: tuple[str, ...]
    kills: int

    @property
    def work(self) -> int:
        """Steps of the progress bar; attacks and kills count as many releases."""
        return 2 * (self.noise + 2 * self.epsilon) + _ATTACK * (
            2 * self.trials + len(self.steps) + self.kills
        )


_FULL = Amount(noise=100_000, epsilon=150_000, trials=200, steps=STEPS, kills=20)
_QUICK = Amount(noise=2_500, epsilon=6_000, trials=30, steps=("draw", "commit"), kills=0)
_ATTACK = 1_000


class SelfTestDocument(Document):
    """What the audit of an installation found."""

    quick: Annotated[bool, "whether the shorter test was run"]
    passed: Annotated[bool, "whether every promise held"]
    false_alarm: Annotated[float, "probability that a sound installation fails"]
    findings: Annotated[list[CheckedPromise], "one entry for each check"]
    seconds: Annotated[float, "time that the command took"]


@click.command("selftest")
@click.option("--quick", is_flag=True, help="A shorter test, of about twenty seconds.")
@prints(SelfTestDocument)
def command(*, quick: bool, as_json: bool) -> int:
    """Audit this installation by measurements and attacks. Takes about five minutes.

    Tests the law of every coordinate's noise and measures a lower bound on the epsilon that is
    spent. Attacks a throw-away curator by differencing, by repeated requests and by losing the
    ledger; puts hostile rows into data files and onto the edge of a summary's machine; kills the
    process (kill -9) while it writes the ledger. Reads and changes nothing of this site. Exits with
    25 if a promise is broken.

    \b
    Example:
      dppca-owner selftest
      dppca-owner selftest --quick --json
    """
    started = time.perf_counter()
    amount = _QUICK if quick else _FULL
    with progress("Testing", amount.work, enabled=not as_json) as bar:
        findings = [*_audits(amount, bar), *_attacks(amount, bar)]
    seconds = time.perf_counter() - started
    good = passed(findings)
    document: SelfTestDocument = {
        "command": "selftest",
        "quick": quick,
        "passed": good,
        "false_alarm": sum(finding.false_alarm for finding in findings),
        "findings": [finding.to_document() for finding in findings],
        "seconds": round(seconds, 3),
    }
    emit(document, report_text(findings, seconds=seconds), as_json=as_json)
    return 0 if good else SelfTestError.exit_code


def _audits(amount: Amount, bar: Progress) -> list[Finding]:
    findings: list[Finding] = []
    for audit in audits():
        findings += audit_noise(audit, n_releases=amount.noise, advance=bar.advance)
        findings.append(audit_epsilon(audit, n_releases=amount.epsilon, advance=bar.advance))
    return findings


def _attacks(amount: Amount, bar: Progress) -> list[Finding]:
    def advance(number: int) -> None:
        bar.advance(number * _ATTACK)

    with (
        tempfile.TemporaryDirectory(prefix="dppca-selftest-") as folder,
        throw_away(Path(folder)) as federation,
    ):
        findings = [attack_by_one_row(Path(folder))]
        prepare(federation)
        findings += attack_by_differencing(federation, trials=amount.trials, advance=advance)
        findings += attack_by_asking_again(federation, advance=lambda _: None)
        findings.append(check_receipt(federation))
        findings.append(attack_summary(Path(folder)))
        findings.append(kill_at_steps(federation, steps=amount.steps, advance=advance))
        if amount.kills:
            findings.append(kill_at_random(federation, times=amount.kills, advance=advance))
        findings.append(attack_by_losing_the_ledger(federation))
    return findings
