import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dppca.common.kernel.durable.files import open_to_others, read_text, shut, sync
from dppca.common.kernel.errors import SettingError
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from tests.support.ledgers import NOW, ledger_files, request_of
from tests.support.studies import make_study


def _site(folder: Path) -> Path:
    enrol(folder, name="owner-1", curator="127.0.0.1:1")
    load_site(folder)
    path, lock = ledger_files(folder)
    with open_ledger(path, lock=lock) as ledger:
        ledger.reserve(request_of(make_study("small")), release_id=b"r" * 16, now=NOW)
    return folder


def _open(folder: Path) -> list[str]:
    return [path.name for path in open_to_others([folder, *folder.iterdir()])]


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_new_site_is_its_owners_alone(tmp_path: Path) -> None:
    folder = _site(tmp_path / "site")
    assert {path.name for path in folder.iterdir()} >= {"ledger.sqlite", "ledger.mark", "site.lock"}
    assert _open(folder) == []


def test_a_site_of_an_earlier_version_is_shut_by_the_first_command(tmp_path: Path) -> None:
    folder = _site(tmp_path / "site")
    names = ("site.yaml", "policy.yaml", "ledger.sqlite", "key.pem")
    for name in names:
        (folder / name).chmod(0o644)
    (folder / "ledger.sqlite-journal").touch(mode=0o644)
    folder.chmod(0o755)
    load_site(folder)
    assert _open(folder) == []


def test_links_are_left_alone_and_what_cannot_be_shut_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch(mode=0o644)
    link.symlink_to(target)
    assert shut([link]) == []
    assert target.stat().st_mode & 0o777 == 0o644

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(path, mode)

    monkeypatch.setattr(Path, "chmod", refuse)
    assert shut([target]) == [target]


def test_where_no_mode_says_who_may_open_a_file_none_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _site(tmp_path / "site")
    (folder / "key.pem").chmod(0o644)
    assert _open(folder) == ["key.pem"]
    monkeypatch.setattr("dppca.common.kernel.durable.files.HAS_MODES", False)
    assert _open(folder) == []
    assert shut([folder / "key.pem"]) == []
    assert (folder / "key.pem").stat().st_mode & 0o777 == 0o644


def test_folders_are_not_opened_where_that_is_impossible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = []
    opened = os.open

    def watch(path: Path, flag: int) -> int:
        flags.append(flag)
        return opened(path, flag)

    monkeypatch.setattr("dppca.common.kernel.durable.files.os.open", watch)
    monkeypatch.setattr("dppca.common.kernel.durable.files.HAS_MODES", False)
    (tmp_path / "rows").write_bytes(b"1")
    sync(tmp_path)
    assert flags == []
    sync(tmp_path / "rows")
    assert flags == [os.O_RDWR], "Windows writes out only what is open for writing"


def test_why_a_file_that_was_named_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_bytes("ä".encode("latin-1"))
    for name, said in (("no.yaml", "No such file"), ("study.yaml", "not text in UTF-8")):
        with pytest.raises(SettingError, match=said):
            read_text(tmp_path / name)
