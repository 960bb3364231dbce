"""Files of a site that are there but cannot be read say so, and never count as absent."""

import json
from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import require_absent
from dppca.common.kernel.errors import LedgerVersionError, SettingError
from dppca.owner.site.file_forms import SiteDocument
from tests.support.sites import OwnerSite, make_trained_site


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> OwnerSite:
    return make_trained_site(tmp_path_factory.mktemp("made") / "site")[0]


@pytest.fixture
def site(made: OwnerSite, tmp_path: Path) -> OwnerSite:
    return made.copied_to(tmp_path / "site")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
@pytest.mark.parametrize("name", ["policy.yaml", "site.yaml"])
def test_a_file_in_another_encoding_is_named(site: OwnerSite, name: str, encoding: str) -> None:
    path = site.folder / name
    path.write_bytes(f"# Köln\n{path.read_text()}".encode(encoding))
    told = f"{name} is not text in UTF-8: save it again, in UTF-8"
    code, said = site.run("budget")
    assert code == SettingError.exit_code
    assert told in said["error"]["message"]
    code, said = site.run("doctor")
    assert code != 0
    assert told in str(said)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
def test_a_byte_order_mark_changes_nothing(site: OwnerSite, mark: bytes) -> None:
    for name in ("policy.yaml", "site.yaml", "ca.pem", "certificate.pem", "key.pem"):
        path = site.folder / name
        path.write_bytes(mark + path.read_bytes())
    assert site.run("budget")[0] == 0
    assert site.run("synthesize", "site-test", "--rows", "9")[0] == 0
    rows = site.folder / "studies/site-test/synthetic-decoded.parquet"
    assert site.run("verify", str(rows))[0] == 0


def test_a_site_of_a_later_version_is_named_whatever_else_it_holds(site: OwnerSite) -> None:
    path = site.folder / "site.yaml"
    path.write_text(f"version: 2  # by another\nproxies: [a]\n{path.read_text()}")
    for command in ("budget", "doctor"):
        code, said = site.run(command)
        assert code == LedgerVersionError.exit_code
        assert "site.yaml has version 2; this software reads version 1" in str(said)


@pytest.mark.parametrize("name", ["hub.example", "hub-1", "127.0.0.1", "::1", "hub.example."])
def test_the_name_of_a_server_is_a_host(name: str) -> None:
    assert SiteDocument(name="a", curator="b:1", server_name=name).server_name == name


@pytest.mark.parametrize(
    "name", ["", "hub.example:7443", "https://hub", "a b", "300.0.0.1", "a..b", "-a", "ü", "x\n"]
)
def test_what_can_be_in_no_certificate_is_refused_as_the_name_of_a_server(
    site: OwnerSite, name: str
) -> None:
    path = site.folder / "site.yaml"
    path.write_text(f"{path.read_text()}server_name: {json.dumps(name)}\n")
    code, said = site.run("budget")
    assert code == SettingError.exit_code
    assert "server_name: must be a host that" in str(said)


def test_only_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    require_absent(tmp_path, FileNotFoundError())
    require_absent(tmp_path, NotADirectoryError())
    with pytest.raises(SettingError, match=r"cannot read .*: Permission denied"):
        require_absent(tmp_path, PermissionError(13, "Permission denied"))
