"""``dppca-owner doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from dppca.common.shell.clock import utc_now
from dppca.common.shell.console import emit, prints
from dppca.owner.commands.diagnosis import Diagnosis, State, diagnose


@dataclass(frozen=True, slots=True)
class DoctorDocument:
    """Findings about a site."""

    site: Annotated[Path, "the site's folder"]
    findings: Annotated[list[Diagnosis], "in the order in which to mend them"]

    @property
    def healthy(self) -> Annotated[bool, "whether nothing is broken"]:
        """Return True if nothing is broken."""
        return all(each.state is not State.BROKEN for each in self.findings)


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
    report = DoctorDocument(folder, diagnose(folder, offline=offline, now=utc_now()))
    emit(report, _text(report), as_json=as_json)
    return next((each.exit_code for each in report.findings if each.state is State.BROKEN), 0)


def _text(report: DoctorDocument) -> str:
    """Return the findings, one to a line."""
    alarming = (State.WARNING, State.BROKEN)
    lines = [
        f"{each.state.upper() if each.state in alarming else each.state:7}  {each.area}: "
        f"{each.message}"
        for each in report.findings
    ]
    return "\n".join([*lines, "Nothing is broken." if report.healthy else "See BROKEN above."])
