"""``dppca-owner doctor``."""

from pathlib import Path

import click

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.shell.console import emit, prints


@click.command("doctor")
@click.option("--offline", is_flag=True, help="Do not try to reach the curator.")
@prints("dppca.owner.commands.diagnosis:DoctorDocument")
@click.pass_obj
def command(folder: Path, *, offline: bool, as_json: bool) -> int:
    """Find out what is wrong with a site: certificates, connection, policy, data, ledger.

    Each finding says what to do. The exit code is that of the first thing that is broken.

    \b
    Example:
      dppca-owner doctor
      dppca-owner doctor --offline --json
    """
    from dppca.owner.commands.diagnosis import DoctorDocument, State, diagnose, findings_text

    report = DoctorDocument(folder, diagnose(folder, offline=offline, now=utc_now()))
    emit(report, findings_text(report), as_json=as_json)
    return next((each.exit_code for each in report.findings if each.state is State.BROKEN), 0)
