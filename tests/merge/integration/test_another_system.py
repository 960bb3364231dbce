"""A site's whole course where Python lacks what it lacks on Windows and macOS.

Linux stands in for both: `tests/support/another_system` takes away what they do not have, and
standard output has the characters of a western Windows. What cannot be shown here is how their
file systems, locks and terminals behave.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.testbed import environment
from dppca.owner.ledger.file import read_history
from tests.support.certificates import write_credentials
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.documents import require_documented
from tests.support.patience import run_watched
from tests.support.sites import policy_text

TERMINAL = "cp1252"  # characters of a western Windows
ELSEWHERE = {
    **environment(),
    "PYTHONPATH": f"{ROOT / 'tests/support/another_system'}:{ROOT}",
    "PYTHONWARNDEFAULTENCODING": "1",
    "PYTHONIOENCODING": f"{TERMINAL}:strict",
}


@dataclass(frozen=True)
class Elsewhere:
    """A site on another system."""

    folder: Path

    def run(self, *arguments: str) -> Any:
        """The document of a command, which is run as people read it first where that is free."""
        if arguments[0] in ("doctor", "check", "review", "budget"):
            self._run(arguments)
        return require_documented("dppca-owner", json.loads(self._run([*arguments, "--json"])))

    def _run(self, arguments: Any) -> str:
        command = [sys.executable, "-m", "dppca.owner.cli", "--site", str(self.folder), *arguments]
        done = run_watched(command, env=ELSEWHERE, encoding=TERMINAL)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout


def test_a_site_goes_its_whole_way_on_another_system(curator: Curator, tmp_path: Path) -> None:
    name = f"owner-{uuid4().hex[:12]}"
    study = curator.begin(name)
    site = Elsewhere(tmp_path / "site")
    site.run("init", "--name", name, "--curator", curator.address)
    write_credentials(site.folder, curator.authority.issue(Role.OWNER, name))
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    rows = [f"{17 + row % 73},{('Female', 'Male')[row % 2]},state" for row in range(300)]
    (site.folder / "rows.csv").write_text("\n".join(["age,sex,work", *rows, ""]))
    assert site.run("doctor")["healthy"]
    assert [each["name"] for each in site.run("studies")["studies"]] == [study.name]
    assert site.run("check", study.name)["coded_by_rule"]["rows"] == 300
    site.run("review", study.name)
    sent = site.run("contribute", study.name, "--yes")
    assert sent["rows"] == 300
    assert len(read_history(site.folder / "ledger.sqlite").deliveries) == 1
    components = site.run("components", study.name, "--wait", "300")
    site.run("verify", components["path"])
    assert len(site.run("synthesize", study.name, "--publish")["published"]) == 2
    assert site.run("budget")["data_sets"]
    assert site.run("train", study.name, "--target", "sex")["model"]


def test_a_ledger_there_has_one_writer_and_survives_a_kill(tmp_path: Path) -> None:
    # Children without fcntl; this process, with it, holds the lock that they want, and they its.
    hold = (
        "import sys, time; from pathlib import Path\n"
        "from dppca.owner.ledger.lock import lock_site\n"
        "with lock_site(Path(sys.argv[1]), wait_s=float(sys.argv[2])):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(float(sys.argv[3]))\n"
    )
    lock = tmp_path / "site.lock"

    def start(wait_s: float, hold_s: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", hold, str(lock), str(wait_s), str(hold_s)]
        return subprocess.Popen(command, env=ELSEWHERE, stdout=-1, stderr=-1, text=True)

    with start(0, 600) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with start(0, 0) as second:
            out, err = second.communicate()
            assert (second.returncode, out) == (1, "")
            assert "another command of this site is at work" in err
        with start(300, 0) as third:
            first.kill()
            assert third.communicate()[0] == "held\n", "the lock went with the process"
    assert lock.read_bytes() == b""
