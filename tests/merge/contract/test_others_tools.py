"""What Compose and systemd themselves say of the files in ``deploy/``."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.requirements import miss

UNITS = {
    "dppca-curator.service": "/opt/dppca/bin/dppca-curator",
    "dppca-proxy.service": "/usr/sbin/haproxy",
}


def test_systemd_finds_no_fault_in_the_reminder(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        miss("systemd-analyze", "apt-get install systemd")
    names = ("dppca-reminder.service", "dppca-reminder.timer")
    units = [Path(shutil.copy(ROOT / "deploy/systemd" / name, tmp_path)) for name in names]
    verified = subprocess.run([tool, "verify", *units], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    assert "dppca-reminder" not in verified.stderr


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_no_fault(name: str, tmp_path: Path) -> None:
    tool, program = shutil.which("systemd-analyze"), shutil.which("true")
    if tool is None or program is None:
        miss("systemd-analyze", "apt-get install systemd")
    unit = tmp_path / name
    unit.write_text((ROOT / "deploy/systemd" / name).read_text().replace(UNITS[name], program))
    verified = subprocess.run([tool, "verify", unit], capture_output=True, text=True)
    assert verified.returncode == 0, verified.stderr
    assert name not in verified.stderr  # other units of this machine are not ours to mend
    if "--offline" not in subprocess.run([tool, "--help"], capture_output=True, text=True).stdout:
        return  # older than systemd 250
    # Exposure in tenths: a service without any of these settings has 96.
    secured = subprocess.run(
        [tool, "security", "--offline=yes", "--threshold=20", "--no-pager", unit],
        capture_output=True,
        text=True,
    )
    assert secured.returncode == 0, secured.stdout + secured.stderr
