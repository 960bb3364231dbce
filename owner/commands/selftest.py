"""``dppca-owner selftest``."""

import time

import click

from dppca.common.kernel.errors import ExitCode
from dppca.common.shell.console import emit, prints, progress
from dppca.common.shell.packages import require_wheel
from dppca.owner.selftest.findings import SelfTest, report_text


@click.command("selftest")
@click.option("--quick", is_flag=True, help="A shorter test, of about two minutes.")
@prints(SelfTest)
def command(*, quick: bool, as_json: bool) -> int:
    """Audit this installation by measurements and attacks. Takes about ten minutes.

    Tests the noise of every kind of release (of any study that a site can answer, and models), its
    law, independence and source, compares each charge with the largest change of one person, and
    measures a lower bound on the epsilon that is spent. Attacks a temporary curator by
    differencing, by repeated requests and by losing the ledger; lies to the openers of a masked
    sum; puts hostile rows into data files; kills the process (kill -9) while it writes the ledger.
    Reads and changes nothing of this site. Exits with 25 if a promise is broken. Needs the wheel
    dppca-curator.

    \b
    Example:
      dppca-owner selftest
      dppca-owner selftest --quick --json
    """
    require_wheel("dppca.curator", purpose="the self-test")
    from dppca.owner.selftest.suite import FULL, QUICK, audit_masked_sums, run_attacks, run_audits

    started = time.perf_counter()
    amount = QUICK if quick else FULL
    with progress("Testing", amount.work, enabled=not as_json) as bar:
        findings = [
            *run_audits(amount, bar),
            *audit_masked_sums(amount),
            *run_attacks(amount, bar),
        ]
    tested = SelfTest(quick, findings, round(time.perf_counter() - started, 3))
    emit(tested, report_text(tested), as_json=as_json)
    return 0 if tested.passed else ExitCode.BROKEN_PROMISE
