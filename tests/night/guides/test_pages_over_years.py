"""The pages of an operator, all their blocks in order, while a clock moves over years.

``docs/how-to/runbook.md`` and ``certificates.md`` beside a real daemon, whose TLS and whose files
see the same clock as every command (`MovedClock`). The daemon is started again at each new date:
one that runs holds such a jump back (`test_a_clock_that_jumps_is_said_as_the_runbook_says`).
"""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dppca.common.transport.testbed import SERVE
from dppca.curator.certificates.revocation import list_certificates
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.moved_clock import MovedClock
from tests.support.page_shell import PageShell, read_blocks
from tests.support.patience import WAIT_S, wait_until
from tests.support.sites import policy_text
from tests.support.studies import make_study

RUNBOOK = read_blocks(ROOT / "docs/how-to/runbook.md")
CERTIFICATES = read_blocks(ROOT / "docs/how-to/certificates.md")
OWNER = 'dppca-owner --site "$SITE"'
LEFT_TO_READERS = {
    "create": "dppca-curator study create study.json --yes",
    "contribute": f'{OWNER} contribute "$STUDY" --yes',
    "fetch": f'{OWNER} components "$STUDY" --wait 300',
    "verify": f'{OWNER} verify "$SITE/studies/$STUDY/components.npz"',
    "verify-earlier": f'{OWNER} verify "$SITE/studies/first/components.npz" 2>&1 || test $? = 17; '
    f'{OWNER} verify "$SITE/studies/first/components.npz" --ca old-authority/ca.pem',
    "budget": f"{OWNER} budget --json",
    "own-doctor": f"{OWNER} doctor",
    "ended": f'{OWNER} contribute "$STUDY" --yes 2>&1 || test $? = 41',
    "ended-doctor": f"{OWNER} doctor || test $? = 41",
    "ended-operator": "dppca-curator study list 2>&1 || test $? = 41",
    "request-again": 'rm -f "$INBOX"/* && cp "$SITE/request.pem" "$INBOX/"',
    "operator-again": "dppca-curator pki issue --directory authority --role operator --name alice "
    "--output alice-next && mv alice-next/*.pem alice/",
    "nobody": f"{OWNER} doctor || test $? != 0",
    "show": 'dppca-curator study show "$STUDY" --json',
}
"""What the pages leave to others, between their own blocks."""
DAY = timedelta(days=1)


class Hub:
    """A daemon and the shell of its operator and stewards, under one clock."""

    def __init__(self, folder: Path, clock: MovedClock) -> None:
        self.folder, self.clock, self.pasted = folder, clock, set[str]()
        self.shell = PageShell(folder, {**LEFT_TO_READERS, **CERTIFICATES, **RUNBOOK})
        self.shell.variables |= clock.variables
        self.run("enrol")
        self.curator = Curator(folder / "served")
        self.curator.credentials = folder / "hub"
        places = {"BACKUPS": "backups", "SAFE": "safe", "INBOX": "inbox", "AUTHORITY": "authority"}
        places |= {"CREDENTIALS": "hub", "DPPCA_CREDENTIALS": "alice", "SITE": "hospital"}
        self.shell.variables |= {name: str(folder / place) for name, place in places.items()}
        self.shell.variables |= {"OWNER": "hospital", "DATA_SET": "survey"}
        for name in ("BACKUPS", "SAFE", "INBOX"):
            (folder / places[name]).mkdir()

    def run(self, *blocks: str) -> str:
        """Paste blocks; return what the last one printed."""
        self.pasted |= {*blocks}
        return [self.shell.run(block) for block in blocks][-1]

    def serve(self) -> None:
        """Start the daemon at this date, where sites and operator look for it."""
        self.curator.start(*SERVE, "--metrics-port", "0", "--log-format", "json")
        port = self.curator.address.rpartition(":")[2]
        self.shell.variables |= {
            "DPPCA_CURATOR": f"localhost:{port}",
            "STATE": str(self.curator.state),
        }
        site = self.folder / "hospital/site.yaml"
        if site.exists():
            lines = [each for each in site.read_text().splitlines() if "curator:" not in each]
            site.write_text("\n".join([*lines, f"curator: localhost:{port}", ""]))

    def later(self, ahead: timedelta) -> None:
        """Come back at another date."""
        self.curator.kill()
        self.clock.move(ahead)

    def begin(self, name: str, **changes: object) -> None:
        study = make_study(**{"name": name, "owners": ["hospital"], **changes})
        (self.folder / "study.json").write_bytes(study.canonical_bytes())
        self.shell.variables["STUDY"] = name
        self.run("create")

    def sign_up(self) -> None:
        self.run("enrol-site", "enrol-hub", "enrol-done")
        (self.folder / "hospital/rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
        policy = policy_text({"survey": "path: rows.csv"}, budget='epsilon: "20", delta: "0"')
        (self.folder / "hospital/policy.yaml").write_text(policy)

    def charges(self) -> int:
        return len(json.loads(self.run("budget"))["releases"])

    def number(self) -> str:
        """Number of the newest certificate of the owner."""
        listed = list_certificates(self.folder / "authority").certificates
        return [each.serial for each in listed if each.name == "hospital" and not each.revoked][-1]

    def logged(self) -> list[dict[str, str]]:
        """Lines of the log; a daemon that does not start says it in words."""
        lines = self.curator.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def events(self) -> list[str]:
        return [line["event"] for line in self.logged()]

    def ready(self) -> tuple[int, str]:
        """Status and words of ``/ready``."""
        address = [line["address"] for line in self.logged() if line["event"] == "metrics"][-1]
        try:
            with urllib.request.urlopen(f"http://{address}/ready", timeout=WAIT_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    clock = MovedClock(tmp_path)
    for name, value in clock.variables.items():
        monkeypatch.setenv(name, value)  # of the daemon, too
    (tmp_path / "served").mkdir()
    hub = Hub(tmp_path, clock)
    hub.serve()
    yield hub
    hub.curator.stop()


def test_the_runbook_holds_from_the_first_day_to_another_authority(
    hub: Hub, tmp_path: Path
) -> None:
    hub.sign_up()
    assert "SERVING" in hub.run("look")
    hub.begin("first")
    hub.run("contribute", "fetch", "back-up", "back-up-authority", "back-up-keys")
    (backup,) = (tmp_path / "backups").iterdir()

    # Half a year on the machine is lost, and the backup serves; nothing is charged again.
    hub.later(180 * DAY)
    for lost in (hub.curator.state, tmp_path / "hub", tmp_path / "alice", tmp_path / "authority"):
        shutil.rmtree(lost)
    hub.shell.variables |= {"WHICH": backup.name, "NEW_STATE": str(tmp_path / "restored")}
    hub.run("restore")
    for archive, place in (("credentials", "keys"), ("authority", "authority")):
        hub.shell.variables |= {"ARCHIVE": archive, "NEW_KEYS": str(tmp_path / place)}
        hub.run("restore-keys")
    (tmp_path / "keys/daemon").rename(tmp_path / "hub")
    (tmp_path / "keys/operator").rename(tmp_path / "alice")
    hub.curator.state = tmp_path / "restored"
    hub.serve()
    hub.run("contribute")
    assert hub.charges() == 1
    assert "certificate ends soon" not in hub.events()

    (tmp_path / "hospital/ledger.sqlite").unlink()
    assert "recovered" in hub.run("recover")
    assert hub.charges() == 1
    hub.shell.variables["NUMBER"] = hub.number()
    (tmp_path / "hospital/key.pem").unlink()
    hub.run("lost-key-site", "lost-key-hub", "lost-key-done")
    hub.run("fetch", "close", "disk")

    # In the last month of the daemon's and the operator's certificates both are told.
    hub.later(340 * DAY)
    hub.serve()
    assert "SERVING" in hub.run("look")
    assert "certificate ends soon" in hub.events()

    # What ends on its last day serves nobody, and its own commands mend it.
    hub.later(364 * DAY)
    hub.serve()
    hub.begin("second")
    hub.curator.kill()
    hub.clock.move(366 * DAY)
    with pytest.raises(Exception, match="certificate of curator hub expired on"):
        hub.serve()
    hub.run("change-daemon")
    hub.serve()
    assert "expired on" in hub.run("ended-operator")
    hub.run("operator-again", "look")
    assert hub.ready()[0] == 200
    hub.run("contribute")
    assert hub.charges() == 2

    # The site's renewed key ends half a year later; the same request is signed again.
    hub.later(550 * DAY)
    hub.serve()
    hub.begin("third")
    assert "expired on" in hub.run("ended")
    assert "signs this owner's request.pem again" in hub.run("ended-doctor")
    assert hub.charges() == 2
    hub.run("request-again", "enrol-hub", "enrol-done", "contribute", "fetch", "verify")
    assert hub.charges() == 3
    assert hub.pasted >= {*RUNBOOK}

    # Ten years on the authority has ended: another one, and certificates for everybody.
    hub.later(3_660 * DAY)
    with pytest.raises(Exception, match="expired on"):
        hub.serve()
    for name in ("authority", "hub", "alice"):
        (tmp_path / name).rename(tmp_path / f"old-{name}")
    hub.run("enrol", "request-again", "enrol-hub")
    hub.serve()
    hub.run("enrol-done")
    hub.begin("fourth")
    hub.run("contribute", "fetch", "verify")
    assert hub.charges() == 4
    said = hub.run("verify-earlier")
    assert "was not signed by the authority that was given" in said
    assert "--ca" in said


def test_a_clock_that_jumps_is_said_as_the_runbook_says(hub: Hub) -> None:
    hub.sign_up()
    deadline = (hub.clock.now + timedelta(hours=12)).isoformat(timespec="seconds")
    hub.begin("waits", owners=["hospital", "other"], quorum=2, deadline=deadline)
    hub.clock.move(DAY)
    wait_until(lambda: hub.ready()[0] == 503)
    assert "clock" in hub.ready()[1]
    assert json.loads(hub.run("show"))["summary"]["state"] == "open"
    hub.clock.move(timedelta())
    wait_until(lambda: hub.ready()[0] == 200)
    assert [each for each in hub.events() if "clock" in each] == ["clock jumped", "clock is back"]
    hub.run("contribute")
    hub.later(DAY)  # "if it is right now, restart the daemon"
    hub.serve()
    wait_until(lambda: json.loads(hub.run("show"))["summary"]["state"] == "aborted" or None)
    assert "by the curator's clock" in json.loads(hub.run("show"))["reason"]
    assert hub.charges() == 1
