"""The commands of ``docs/how-to/runbook.md``, run as they stand there."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.identity.tls import Credentials, Identity, Role, load_credentials
from dppca.curator.certificates import pki
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
    operator.run("back-up-keys")
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


def test_a_backup_has_no_secret_and_the_keys_are_for_one_reader(
    curator: Curator, operator: PageShell, tmp_path: Path
) -> None:
    operator.run("back-up")
    operator.run("back-up-keys")
    keys = [tmp_path / "authority/ca-key.pem", curator.credentials / "key.pem"]
    for path in (tmp_path / "backups").rglob("*"):
        if path.is_file():
            assert b"PRIVATE KEY" not in path.read_bytes()
    kept = tmp_path / "safe/keys.tar"
    assert kept.stat().st_mode & 0o077 == 0
    content = kept.read_bytes()
    assert all(key.read_bytes() in content for key in keys)
