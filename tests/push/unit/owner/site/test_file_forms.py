"""Files of a site that are there but cannot be read say so, and never count as absent."""

from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import require_absent
from dppca.common.kernel.errors import SettingError
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


def test_only_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    require_absent(tmp_path, FileNotFoundError())
    require_absent(tmp_path, NotADirectoryError())
    with pytest.raises(SettingError, match=r"cannot read .*: Permission denied"):
        require_absent(tmp_path, PermissionError(13, "Permission denied"))
