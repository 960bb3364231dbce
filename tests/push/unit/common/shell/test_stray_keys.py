from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from dppca.common.kernel.identity.tls import Identity, Role
from dppca.common.shell.stray_keys import find_authority_keys
from dppca.curator.certificates import pki

NOW = datetime.now(UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    folder = tmp_path / "authority"
    pki.init_authority(folder, name="study group", days=90, now=NOW)
    return folder


@pytest.fixture
def daemon(tmp_path: Path, authority: Path) -> Path:
    folder, identity = tmp_path / "hub", Identity("hub", Role.CURATOR)
    pki.issue(authority, identity=identity, hosts=["hub"], output=folder, days=9, now=NOW)
    return folder


@pytest.mark.parametrize("name", ["ca-key.pem", "old.pem", "keys/ca-key.pem", "keys/x"])
def test_an_authoritys_key_is_found_whatever_it_is_called(
    daemon: Path, authority: Path, name: str
) -> None:
    ca = (daemon / "ca.pem").read_bytes()
    (daemon / "keys").mkdir()
    assert find_authority_keys(daemon, ca) == [], "nor is the daemon's own"
    (daemon / name).write_bytes((authority / "ca-key.pem").read_bytes())
    assert find_authority_keys(daemon, ca) == [daemon / name]
    assert find_authority_keys(authority, ca) == [authority / "ca-key.pem"]


def test_one_that_is_locked_or_another_authoritys_is_found_by_its_name(
    daemon: Path, authority: Path, tmp_path: Path
) -> None:
    key = load_pem_private_key((authority / "ca-key.pem").read_bytes(), password=None)
    locked = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a word")
    )
    pki.init_authority(tmp_path / "other", name="others", days=90, now=NOW)
    other = (tmp_path / "other/ca-key.pem").read_bytes()
    for content in (locked, other):
        (daemon / "ca-key.pem").write_bytes(content)
        (daemon / "spare.pem").write_bytes(content)
        found = find_authority_keys(daemon, (daemon / "ca.pem").read_bytes())
        assert found == [daemon / "ca-key.pem"]


def test_what_is_no_key_too_large_or_not_readable_is_passed_over(daemon: Path) -> None:
    (daemon / "ca-key.pem").write_bytes(b"no key")
    (daemon / "large.pem").write_bytes(b"PRIVATE KEY" + bytes(1 << 16))
    (daemon / "odd.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----")
    (daemon / "gone.pem").symlink_to(daemon / "nothing")
    assert find_authority_keys(daemon, (daemon / "ca.pem").read_bytes()) == []
