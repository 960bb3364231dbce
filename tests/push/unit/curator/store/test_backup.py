import errno
import hashlib
import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dppca.common.kernel.errors import ArtefactError, SettingError, StoreError, StoreVersionError
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.store import SqliteStore
from dppca.curator.store import backup as backups
from dppca.curator.store.backup import MANIFEST, back_up, restore
from dppca.curator.store.tables import STORE_VERSION
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.study_record import OwnerHistory, StudyRecord
from tests.support.census import header_of, make_release
from tests.support.masked import MaskedRecords, make_masked_study
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STUDY = make_study()


def fill(store: SqliteStore) -> StudyRecord:
    """A study with one contribution."""
    record = lifecycle.create(None, STUDY, now=NOW)
    store.create(record)
    release = make_release(STUDY)
    record, _ = contribute(
        record,
        header_of(release),
        OwnerHistory(),
        calibration=calibrate(record.study),
        now=NOW,
    )
    with store.blobs.spool() as spool:
        spool.write(release.payload())
        store.save(record, spool)
    return record


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of `fill`, made while the store is open."""
    store = SqliteStore(tmp_path / "state")
    fill(store)
    back_up(tmp_path / "state", tmp_path / "backup", now_s=1)
    store.close()
    return tmp_path / "backup"


def test_a_backup_of_an_open_store_is_the_store_of_that_moment(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state")
    record = fill(store)
    seen: list[int] = []
    made = back_up(tmp_path / "state", tmp_path / "backup", now_s=7, advance=seen.append)
    store.create(lifecycle.create(None, make_study(name="later"), now=NOW))
    store.close()
    n_bytes = record.contributions[0].n_bytes
    assert (made.version, made.created_s) == (STORE_VERSION, 7)
    assert (made.studies, made.contributions, made.files, made.file_bytes) == (1, 1, 1, n_bytes)
    assert sum(seen) == n_bytes

    assert restore(tmp_path / "backup", tmp_path / "new") == made
    again = SqliteStore(tmp_path / "new")
    assert again.studies() == (record,)
    assert again.blobs.read(record.contributions[0].sha256) == make_release(STUDY).payload()
    again.close()


def test_a_backup_has_what_openers_sent(tmp_path: Path) -> None:
    masked = MaskedRecords(make_masked_study())
    opening = masked.opening("owner-1")
    record = masked.opened(masked.sealed, opening)
    store = SqliteStore(tmp_path / "state")
    masked.keep(store, record, opening)
    made = back_up(tmp_path / "state", tmp_path / "backup", now_s=7)
    store.close()
    assert made.files == 5
    restore(tmp_path / "backup", tmp_path / "new")
    again = SqliteStore(tmp_path / "new")
    assert again.studies() == (record,)
    assert again.blobs.read(record.openings[0].sha256) == opening.total
    again.close()
    (tmp_path / "backup" / "blobs" / record.openings[0].sha256.hex()).unlink()
    with pytest.raises(ArtefactError, match="is missing"):
        restore(tmp_path / "backup", tmp_path / "other")


def test_nothing_but_the_store_is_in_a_backup(backup: Path) -> None:
    (blob,) = (backup / "blobs").iterdir()
    assert {path.name for path in backup.iterdir()} == {MANIFEST, "curator.sqlite", "blobs"}
    for path in (backup, backup / "blobs", backup / "curator.sqlite", blob):
        assert path.stat().st_mode & 0o077 == 0
    assert list(backup.parent.glob(".backup*")) == []


def test_a_folder_that_exists_is_never_written_over(tmp_path: Path, backup: Path) -> None:
    with pytest.raises(SettingError, match="exists already"):
        back_up(tmp_path / "state", backup, now_s=2)
    with pytest.raises(SettingError, match="holds a store already"):
        restore(backup, tmp_path / "state")
    with pytest.raises(SettingError, match="holds no store"):
        back_up(tmp_path / "nothing", tmp_path / "other", now_s=2)


def test_a_damaged_store_gives_no_backup(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state")
    path = store.blobs.path(fill(store).contributions[0].sha256)
    path.write_bytes(b"\x00" + path.read_bytes()[1:])
    with pytest.raises(StoreError, match="damaged"):
        back_up(tmp_path / "state", tmp_path / "backup", now_s=1)
    path.unlink()
    with pytest.raises(StoreError, match="missing"):
        back_up(tmp_path / "state", tmp_path / "backup", now_s=1)
    store.close()
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("what", ["database", "file", "file gone", "manifest", "manifest gone"])
def test_a_damaged_backup_makes_no_store(tmp_path: Path, backup: Path, what: str) -> None:
    (blob,) = (backup / "blobs").iterdir()
    manifest = backup / MANIFEST
    {
        "database": lambda: _flip(backup / "curator.sqlite"),
        "file": lambda: _flip(blob),
        "file gone": blob.unlink,
        "manifest": lambda: manifest.write_text("{}"),
        "manifest gone": manifest.unlink,
    }[what]()
    with pytest.raises(ArtefactError):
        restore(backup, tmp_path / "new")
    assert not list((tmp_path / "new").glob("*curator.sqlite*"))


def test_restoring_can_begin_again(tmp_path: Path, backup: Path) -> None:
    (blob,) = (backup / "blobs").iterdir()
    aside = blob.rename(tmp_path / "aside")
    with pytest.raises(ArtefactError, match="missing"):
        restore(backup, tmp_path / "new")
    aside.rename(blob)
    restore(backup, tmp_path / "new")
    SqliteStore(tmp_path / "new").close()


def test_a_full_disk_says_how_a_restore_goes_on(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(backups, "_copy", full)
        with pytest.raises(StoreError, match=r"No space left on device: .* same command again"):
            restore(backup, tmp_path / "new")
    restore(backup, tmp_path / "new")
    SqliteStore(tmp_path / "new").close()


def test_a_folder_that_a_daemon_uses_is_not_restored_into(tmp_path: Path, backup: Path) -> None:
    store = SqliteStore(tmp_path / "new")
    for path in (tmp_path / "new").glob("curator.sqlite*"):
        path.unlink()
    with pytest.raises(StoreError, match="another daemon uses"):
        restore(backup, tmp_path / "new")
    store.close()


def test_a_backup_of_another_version_is_refused_by_name(tmp_path: Path, backup: Path) -> None:
    path = backup / "curator.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    document = json.loads((backup / MANIFEST).read_text())
    document["database_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (backup / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(StoreVersionError):
        restore(backup, tmp_path / "new")
