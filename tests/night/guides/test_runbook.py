"""The commands of ``docs/how-to/runbook.md``, run as they stand there."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.identity.tls import Credentials, Identity, Role, load_credentials
from dppca.common.shell.stray_keys import find_authority_keys
from dppca.curator.certificates import pki
from dppca.curator.certificates.revocation import list_certificates
from tests.support.census import make_release
from tests.support.checkout import ROOT
from tests.support.curator import Curator
from tests.support.page_shell import PageShell, read_blocks
from tests.support.sites import OwnerSite, policy_text
from tests.support.studies import make_study

PAGE = ROOT / "docs/how-to/runbook.md"
BLOCKS = read_blocks(PAGE)
STUDY = make_study(owners=["owner-1", "owner-2"])


@pytest.fixture
def operator(tmp_path: Path) -> PageShell:
    return PageShell(tmp_path, BLOCKS)


@pytest.fixture
def curator(tmp_path: Path, operator: PageShell) -> Iterator[Curator]:
    """A curator whose certificates come from a real authority."""
    now, authority = datetime.now(UTC), tmp_path / "authority"
    pki.init_authority(authority, name="demo", days=90, now=now)
    curator = Curator(tmp_path)
    curator.credentials = tmp_path / "credentials"
    for name, role, hosts in (
        ("credentials", Role.CURATOR, ("localhost", "127.0.0.1")),
        ("alice", Role.OPERATOR, ()),
    ):
        identity = Identity(name, role)
        pki.issue(
            authority, identity=identity, hosts=hosts, output=tmp_path / name, days=90, now=now
        )
    folders = {"BACKUPS": "backups", "SAFE": "safe", "INBOX": "inbox"}
    for folder in folders.values():
        (tmp_path / folder).mkdir()
    curator.start()
    operator.variables |= {
        "STATE": str(curator.state),
        "CREDENTIALS": str(curator.credentials),
        "AUTHORITY": str(authority),
        "DPPCA_CURATOR": curator.address,
        "DPPCA_CREDENTIALS": str(tmp_path / "alice"),
        **{name: str(tmp_path / folder) for name, folder in folders.items()},
    }
    yield curator
    curator.stop()


def credentials_in(folder: Path) -> Credentials:
    return load_credentials(CredentialFolder(folder))


def test_a_site_that_lost_its_ledger(curator: Curator, operator: PageShell, tmp_path: Path) -> None:
    study = make_study(owners=["owner-1", "owner-2"])
    operator.variables |= {"OWNER": "owner-1", "SITE": str(tmp_path / "owner-1")}
    for block in ("enrol-site", "enrol-hub", "enrol-done"):
        operator.run(block)
    curator.connect(credentials_in(tmp_path / "alice")).create(study)
    site = OwnerSite(tmp_path / "owner-1", "owner-1")
    (site.folder / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    assert site.contribute(study)[0] == 0
    (site.folder / "ledger.sqlite").unlink()
    look = ("doctor", "--json")
    assert site.run(*look)[0] == site.contribute(study)[0] == 48
    operator.variables["DATA_SET"] = "survey"
    assert "recovered" in operator.run("recover")
    assert site.run(*look)[0] == 0


def test_from_enrolment_to_a_restored_curator(
    curator: Curator, operator: PageShell, tmp_path: Path
) -> None:
    owners = {}
    for name in STUDY.owners:
        operator.variables |= {"OWNER": name, "SITE": str(tmp_path / name)}
        operator.run("enrol-site")
        operator.run("enrol-hub")
        assert "the curator serves calls" in operator.run("enrol-done")
        owners[name] = credentials_in(tmp_path / name)
        for path in (tmp_path / "inbox").iterdir():
            path.unlink()
    assert "SERVING" in operator.run("look")

    curator.connect(credentials_in(tmp_path / "alice")).create(STUDY)
    for seed, name in enumerate(STUDY.owners):
        curator.connect(owners[name]).contribute(make_release(STUDY, seed=seed))
    first = curator.connect(owners["owner-1"])
    assert first.result(STUDY).total_bytes > 0
    components = first.components(STUDY)
    operator.run("back-up")
    operator.run("disk")

    # After the backup: the study is closed, another one begins, the machine is lost.
    operator.variables["STUDY"] = STUDY.name
    operator.run("close")
    assert (tmp_path / "components.npz").read_bytes() == components
    later = make_study(name="later", owners=["owner-1"])
    curator.connect(credentials_in(tmp_path / "alice")).create(later)
    curator.kill()

    (backup,) = (tmp_path / "backups").iterdir()
    operator.variables |= {"WHICH": backup.name, "NEW_STATE": str(tmp_path / "new")}
    operator.run("restore")
    curator.state = tmp_path / "new"
    curator.start()
    again = curator.connect(owners["owner-2"])
    assert again.components(STUDY) == components
    assert again.contribute(make_release(STUDY, seed=1)).already_stored
    shown = curator.connect(credentials_in(tmp_path / "alice"))
    assert shown.create(later).already_stored is False


def test_a_site_that_lost_its_key(curator: Curator, operator: PageShell, tmp_path: Path) -> None:
    operator.variables |= {"OWNER": "owner-1", "SITE": str(tmp_path / "owner-1")}
    for block in ("enrol-site", "enrol-hub", "enrol-done"):
        operator.run(block)
    site = OwnerSite(tmp_path / "owner-1", "owner-1")
    (site.folder / "rows.csv").write_text("age,sex,work\n" + "40,Male,state\n" * 20)
    (site.folder / "policy.yaml").write_text(policy_text({"survey": "path: rows.csv"}))
    first, second = (make_study(name=name, owners=["owner-1"]) for name in ("first", "second"))
    for study in (first, second):
        curator.connect(credentials_in(tmp_path / "alice")).create(study)
    assert site.contribute(first)[0] == 0
    charged = site.history
    (site.folder / "key.pem").unlink()
    for command in (("contribute", second.name, "--yes"), ("identity", second.name)):
        code, failed = site.run(*command)
        assert code == 41
        for step in ("dppca-owner renew", "pki sign --renews", "renew --certificate"):
            assert step in failed["error"]["message"]
    listed = list_certificates(tmp_path / "authority").certificates
    (number,) = [each.serial for each in listed if each.name == "owner-1"]
    operator.variables["NUMBER"] = str(number)
    operator.run("lost-key-site")
    operator.run("lost-key-hub")
    operator.run("lost-key-done")
    assert site.history == charged
    assert site.contribute(second)[0] == 0
    assert site.run("components", first.name, "--wait", "300")[0] == 0


def test_a_backup_has_no_secret_and_no_archive_has_the_authoritys_key_beside_anothers(
    curator: Curator, operator: PageShell, tmp_path: Path
) -> None:
    operator.run("back-up")
    operator.run("back-up-authority")
    operator.run("back-up-keys")
    secret = (tmp_path / "authority/ca-key.pem").read_bytes()
    theirs = [
        (folder / "key.pem").read_bytes() for folder in (curator.credentials, tmp_path / "alice")
    ]
    for path in (tmp_path / "backups").rglob("*"):
        if path.is_file():
            assert b"PRIVATE KEY" not in path.read_bytes()
    kept, authority = tmp_path / "safe/credentials.tar", tmp_path / "safe/authority.tar"
    for path in (kept, authority):
        assert path.stat().st_mode & 0o077 == 0
    assert all(key in kept.read_bytes() for key in theirs)
    assert not any(key in authority.read_bytes() for key in theirs)
    assert secret in authority.read_bytes()
    assert secret not in kept.read_bytes()

    # The machines are lost: each archive gives back what a party needs, and no more.
    curator.stop()
    for folder in (curator.credentials, tmp_path / "alice", tmp_path / "authority"):
        shutil.rmtree(folder)
    for archive, place in (("credentials", "keys"), ("authority", "new-authority")):
        operator.variables |= {"ARCHIVE": archive, "NEW_KEYS": str(tmp_path / place)}
        operator.run("restore-keys")
    curator.credentials = tmp_path / "keys/daemon"
    curator.start()
    operator.variables |= {
        "DPPCA_CURATOR": curator.address,
        "CREDENTIALS": str(curator.credentials),
        "DPPCA_CREDENTIALS": str(tmp_path / "keys/operator"),
        "AUTHORITY": str(tmp_path / "new-authority"),
        "OWNER": "owner-1",
        "SITE": str(tmp_path / "owner-1"),
    }
    assert "SERVING" in operator.run("look")
    for block in ("enrol-site", "enrol-hub", "enrol-done"):
        operator.run(block)
    assert (
        find_authority_keys(curator.credentials, (tmp_path / "keys/daemon/ca.pem").read_bytes())
        == []
    )
