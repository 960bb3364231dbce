"""The commands of ``docs/how-to/certificates.md``, run as they stand there beside a daemon."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import ChainError, IdentityError
from dppca.common.kernel.identity.tls import load_credentials
from dppca.curator.certificates.revocation import list_certificates
from tests.support.census import make_release
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.moved_clock import MovedClock
from tests.support.page_shell import PageShell, read_blocks
from tests.support.patience import wait_until
from tests.support.sites import OwnerSite, policy_text
from tests.support.studies import make_study

PAGE = ROOT / "docs/how-to/certificates.md"
SIGN = "dppca-curator pki sign --directory authority --name hospital"
STEPS = {
    "init": 'dppca-owner --site hospital init --name hospital --curator "$DPPCA_CURATOR" && '
    f"{SIGN} --request hospital/request.pem --output hospital/certificate.pem && "
    "cp authority/ca.pem hospital/",
    "create": "dppca-curator study create study.json --yes",
    "renew": "dppca-owner --site hospital renew && "
    f'{SIGN} --renews "$NUMBER" --request hospital/next/request.pem --output renewed.pem && '
    "dppca-owner --site hospital renew --certificate renewed.pem",
    "too-late": "dppca-owner --site hospital doctor || test $? = 41",
}
"""What the page leaves to others, between its own blocks."""


@pytest.fixture
def shell(tmp_path: Path) -> PageShell:
    return PageShell(tmp_path, {**STEPS, **read_blocks(PAGE)})


@pytest.fixture
def daemon(tmp_path: Path, shell: PageShell) -> Iterator[Curator]:
    """A daemon with the credentials that the page makes."""
    shell.run("enrol")
    (tmp_path / "daemon").mkdir()
    curator = Curator(tmp_path / "daemon")
    curator.credentials = tmp_path / "hub"
    curator.start()
    port = curator.address.rpartition(":")[2]
    shell.variables |= {
        "DPPCA_CURATOR": f"localhost:{port}",
        "DPPCA_CREDENTIALS": str(tmp_path / "alice"),
    }
    yield curator
    curator.stop()


def _numbers(folder: Path) -> list[str]:
    """Numbers of the owner's certificates that are not revoked, the oldest first."""
    listed = list_certificates(folder / "authority").certificates
    return [each.serial for each in listed if each.name == "hospital" and not each.revoked]


def test_from_enrolment_to_a_settled_ledger(
    daemon: Curator, shell: PageShell, tmp_path: Path
) -> None:
    def calls() -> tuple[int, Any]:
        return site.run("studies")

    shell.run("init")
    studies = [make_study(name=name, owners=["hospital"]) for name in ("first", "second")]
    for study in studies:
        (tmp_path / "study.json").write_bytes(study.canonical_bytes())
        shell.run("create")
    site = OwnerSite(tmp_path / "hospital", "hospital")
    (site.folder / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    assert site.contribute(studies[0])[0] == 0

    (old,) = _numbers(tmp_path)
    shell.variables["NUMBER"] = old
    shell.run("renew")
    shell.run("revoke-old")
    (new,) = _numbers(tmp_path)
    assert new != old
    thief = OwnerSite(Path(shutil.copytree(site.folder, tmp_path / "thief")), "hospital")
    for path in (thief.folder / "previous").iterdir():
        path.replace(thief.folder / path.name)
    wait_until(lambda: thief.run("studies")[0] == IdentityError.exit_code or None)
    assert site.contribute(studies[1])[0] == 0, "the new pair is in use, and only the old one ended"
    assert site.run("components", "first", "--wait", "300")[0] == 0

    shell.run("change-daemon")
    wait_until(lambda: "credentials reloaded" in daemon.log.read_text() or None)
    assert calls()[0] == 0

    shell.run("revoke")
    assert _numbers(tmp_path) == []
    wait_until(lambda: calls()[0] == IdentityError.exit_code or None)
    charged = site.history
    assert "is set aside" in shell.run("settle")
    assert site.history == charged


def test_what_a_thief_of_the_key_sent_is_disowned_as_the_page_says(
    daemon: Curator, shell: PageShell, tmp_path: Path
) -> None:
    shell.run("init")
    stolen, own = (make_study(name=name, owners=["hospital"]) for name in ("nltcs", "own"))
    for study in (stolen, own):
        (tmp_path / "study.json").write_bytes(study.canonical_bytes())
        shell.run("create")
    site = OwnerSite(tmp_path / "hospital", "hospital")
    (site.folder / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    thief = load_credentials(CredentialFolder(site.folder))
    daemon.address = shell.variables["DPPCA_CURATOR"]  # the host of its certificate
    assert daemon.connect(thief).contribute(make_release(stolen)).state
    before = site.history
    assert site.contribute(own)[0] == ChainError.exit_code
    (old,) = _numbers(tmp_path)
    shell.variables["NUMBER"] = old
    shell.run("renew")
    shell.run("revoke-old")
    assert "recovered: 0, disowned: 1." in shell.run("disown")
    assert site.history.total("survey").epsilon == before.total("survey").epsilon == 0
    assert site.contribute(own)[0] == 0
    code, fetched = site.run("components", "nltcs", "--wait", "300")
    assert (code, fetched["disowned"]) == (0, "Key stolen on 3 May, certificate revoked.")


def test_a_year_later_the_pages_commands_replace_what_has_ended(
    daemon: Curator, shell: PageShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon's and the owner's certificates have ended; the authority's has not."""
    clock = MovedClock(tmp_path)
    shell.run("init")
    daemon.stop()

    clock.move(timedelta(days=400))
    shell.variables |= clock.variables
    for name, value in clock.variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Exception, match="certificate of curator hub expired on"):
        daemon.start()
    shell.run("change-daemon")
    daemon.start()
    said = shell.run("too-late")
    assert "BROKEN   certificates: the certificate of owner hospital expired on" in said
    assert "the operator signs this owner's request.pem again" in said
    (old,) = _numbers(tmp_path)
    shell.variables["NUMBER"] = old
    shell.run("renew")
    shell.run("revoke-old")
    (new,) = _numbers(tmp_path)
    assert new != old
    (end,) = (
        each.expires
        for each in list_certificates(tmp_path / "authority").certificates
        if each.serial == new
    )
    assert end - utc_now() > timedelta(days=400 + 360)
