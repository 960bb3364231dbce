"""``dppca-owner doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from dppca.common.shell.clock import utc_now
from dppca.common.shell.console import emit, prints
from dppca.owner.commands.diagnosis import State, diagnose
from dppca.owner.render.outcomes import DoctorDocument, doctor_text


@click.command("doctor")
@click.option("--offline", is_flag=True, help="Do not try to reach the curator.")
@prints(DoctorDocument)
@click.pass_obj
def command(folder: Path, *, offline: bool, as_json: bool) -> int:
    """Find out what is wrong with a site: certificates, connection, policy, data, ledger.

    Each finding says what to do. The exit code is that of the first thing that is broken.

    \b
    Example:
      dppca-owner doctor
      dppca-owner doctor --offline --json
    """
    findings = diagnose(folder, offline=offline, now=utc_now())
    broken = [finding for finding in findings if finding.state is State.BROKEN]
    document: DoctorDocument = {
        "command": "doctor",
        "site": str(folder),
        "healthy": not broken,
        "findings": [
            {
                "area": finding.area,
                "state": finding.state.value,
                "message": finding.message,
                "class": finding.error,
                "exit_code": finding.exit_code,
            }
            for finding in findings
        ],
    }
    emit(document, doctor_text(document), as_json=as_json)
    return broken[0].exit_code if broken else 0
