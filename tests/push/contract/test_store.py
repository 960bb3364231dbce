import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.errors import StoreError, StoreVersionError
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.store import SqliteStore, blobs
from dppca.curator.store.tables import STORE_VERSION
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import SyntheticHeader, contribute, publish
from dppca.curator.study.study_record import (
    LedgerHead,
    OwnerHistory,
    Settlement,
    StoredResult,
    StudyRecord,
)
from tests.support.census import header_of, make_release
from tests.support.masked import MaskedRecords, make_masked_study
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STUDY = make_study()
NOISE = calibrate(STUDY)
OPEN = lifecycle.create(None, STUDY, now=NOW)
Opener = Callable[[], SqliteStore]


@pytest.fixture
def opener(tmp_path: Path) -> Iterator[Opener]:
    """Opens the one store of this test again and again; a study without contributions is in it."""
    opened: list[SqliteStore] = []

    def open_store() -> SqliteStore:
        for store in opened:
            store.close()
        opened[:] = [SqliteStore(tmp_path / "state")]
        return opened[0]

    open_store().create(OPEN)
    yield open_store
    opened[0].close()


@pytest.fixture
def store(opener: Opener) -> SqliteStore:
    return opener()


def create(store: SqliteStore, name: str) -> StudyRecord:
    record = lifecycle.create(None, make_study(name=name), now=NOW)
    store.create(record)
    return record


def keep(store: SqliteStore, record: StudyRecord, owner: str, seed: int = 0) -> StudyRecord:
    release = make_release(record.study, seed=seed)
    header = header_of(release, owner, ledger_length=seed + 2)
    after, _ = contribute(record, header, OwnerHistory(), calibration=NOISE, now=NOW)
    with store.blobs.spool() as spool:
        spool.write(release.payload())
        store.save(after, spool)
    return after


def decompose(store: SqliteStore, record: StudyRecord) -> StudyRecord:
    with store.blobs.spool() as spool:
        spool.write(b"result")
        after = replace(
            record,
            state=StudyState.DECOMPOSED,
            result=StoredResult(spool.n_bytes, spool.sha256, b"envelope"),
        )
        store.save(after, spool)
    return after


def test_everything_is_as_it_was_after_a_restart(opener: Opener, store: SqliteStore) -> None:
    record = keep(store, keep(store, OPEN, "owner-2", 1), "owner-1", 2)
    record = decompose(store, record)
    for form in (Form.DECODED, Form.CODED):
        with store.blobs.spool() as spool:
            spool.write(form.value.encode())
            assert record.result is not None
            header = SyntheticHeader(
                record.digest, form, 3, spool.n_bytes, spool.sha256, record.result.sha256
            )
            record, _ = publish(record, "owner-1", header, now=NOW)
            store.save(record, spool)
    record = lifecycle.close(record)
    store.save(record)
    again = opener()
    assert again.study(OPEN.digest) == record == again.named("census")
    assert again.studies() == (record,)
    for contribution in record.contributions:
        assert len(again.blobs.read(contribution.sha256)) == contribution.n_bytes
    assert again.blobs.read(record.publications[0].sha256) == b"coded"
    release = make_release(STUDY, seed=2)
    assert again.history("owner-1") == OwnerHistory(
        LedgerHead(4, b"h" * 32), frozenset({release.release_id})
    )


def test_studies_come_newest_first(opener: Opener, store: SqliteStore) -> None:
    for name in ("second", "third"):
        create(store, name)
    for found in (store, opener()):
        assert [record.study.name for record in found.studies()] == ["third", "second", "census"]


def test_what_is_not_there_is_none(store: SqliteStore) -> None:
    assert store.study(b"x" * 32) is None
    assert store.named("nobody") is None
    assert store.history("nobody") == OwnerHistory()
    with pytest.raises(StoreError, match="gone"):
        store.blobs.path(b"x" * 32)


def test_two_studies_cannot_have_one_name(store: SqliteStore) -> None:
    with pytest.raises(StoreError):
        store.create(lifecycle.create(None, make_study(overlap=True), now=NOW))
    assert store.studies() == (OPEN,)


def test_the_longest_chain_is_remembered_over_all_studies(
    opener: Opener, store: SqliteStore
) -> None:
    keep(store, OPEN, "owner-1", 5)
    keep(store, create(store, "late"), "owner-1", 3)
    for found in (store, opener()):
        chain = found.history("owner-1").chain
        assert chain is not None
        assert chain.length == 7
        assert len(found.history("owner-1").releases) == 2


def test_a_masked_sum_is_as_it_was_after_a_restart(opener: Opener, tmp_path: Path) -> None:
    masked = MaskedRecords(make_masked_study(4, 4, spares=1))
    openings = [masked.opening("owner-2"), masked.opening("owner-1", (2,))]
    record = masked.voted
    for opening in openings:
        record = masked.opened(record, opening)
    masked.keep(opener(), record, *openings)
    again = opener()
    assert again.study(record.digest) == record
    assert record.sealing is not None
    assert (len(record.votes), len(record.openings)) == (3, 2)
    for stored, opening in zip(record.openings, (openings[1], openings[0]), strict=True):
        assert again.blobs.read(stored.sha256) == opening.total
    for contribution in record.contributions:
        assert again.blobs.read(contribution.sha256) == masked.releases[contribution.owner].content
    blobs = {path.name for path in (tmp_path / "state" / "blobs").iterdir()}
    assert len(blobs) == 6


def test_a_set_is_sealed_once(opener: Opener, store: SqliteStore) -> None:
    masked = MaskedRecords(make_masked_study())
    masked.keep(store, masked.sealed)
    assert masked.sealed.sealing is not None
    other = replace(masked.sealed, sealing=replace(masked.sealed.sealing, set_digest=b"o" * 32))
    store.save(other)
    assert opener().study(masked.sealed.digest) == masked.sealed


def test_a_failed_transaction_leaves_the_store_as_it_was(
    opener: Opener, store: SqliteStore
) -> None:
    one = keep(store, OPEN, "owner-1")
    # The same release under another owner's name is fine; twice under one name is not.
    again = create(store, "other")
    with pytest.raises(StoreError):
        store.save(replace(again, contributions=one.contributions))
    for found in (store, opener()):
        assert found.study(again.digest) == again
        assert found.study(one.digest) == one


def test_what_nothing_refers_to_is_removed_at_the_start(
    opener: Opener, store: SqliteStore, tmp_path: Path
) -> None:
    record = keep(store, OPEN, "owner-1")
    (tmp_path / "state" / "blobs" / ("0" * 64)).write_bytes(b"kept, but never committed")
    (tmp_path / "state" / "incoming" / "half").write_bytes(b"never finished")
    opener()
    left = {path.name for path in (tmp_path / "state" / "blobs").iterdir()}
    assert left == {record.contributions[0].sha256.hex()}
    assert list((tmp_path / "state" / "incoming").iterdir()) == []


def test_a_settlement_sets_aside_what_was_seen_before_it_and_nothing_after(
    opener: Opener, store: SqliteStore
) -> None:
    other = create(store, "other")
    keep(store, OPEN, "owner-1", 7)
    seen = store.history("owner-1").chain
    assert seen is not None
    store.settle("owner-1", Settlement(1, "operator:alice", "Stolen.", seen, None, 1))
    for found in (store, opener()):
        assert found.history("owner-1").chain is None
        assert found.history("owner-1").settlements[0].seen == seen
        assert len(found.history("owner-1").releases) == 1
    store = opener()
    keep(store, other, "owner-1", 3)
    later = store.history("owner-1").chain
    assert later == LedgerHead(5, b"h" * 32)
    follows = LedgerHead(2, b"2" * 32)
    store.settle("owner-1", Settlement(2, "owner:owner-1", "Recovered.", later, follows, 2))
    for found in (store, opener()):
        assert found.history("owner-1").chain == follows
        assert len(found.history("owner-1").settlements) == 2
        assert found.history("owner-2") == OwnerHistory()


def test_nobody_else_can_read_or_lock_a_store(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    with closing(SqliteStore(state)) as store:
        store.create(OPEN)
        keep(store, OPEN, "owner-1")
        assert state.stat().st_mode & 0o777 == 0o700
        files = [path for path in state.iterdir() if path.is_file()]
        assert {path.name for path in files} >= {"curator.sqlite", "curator.sqlite-wal", "lock"}
        assert [path.name for path in files if path.stat().st_mode & 0o077] == []


def test_an_upload_can_be_given_again_after_a_failure(opener: Opener, store: SqliteStore) -> None:
    other, release = create(store, "other"), make_release(STUDY)

    def contributed(owner: str) -> StudyRecord:
        header = header_of(release, owner)
        return contribute(OPEN, header, OwnerHistory(), calibration=NOISE, now=NOW)[0]

    store.save(replace(other, contributions=contributed("owner-1").contributions))
    with store.blobs.spool() as spool:
        spool.write(release.payload())
        with pytest.raises(StoreError):
            store.save(contributed("owner-1"), spool)  # the release is another study's
        later = contributed("owner-2")
        store.save(later, spool)
    for found in (store, opener()):
        assert found.study(OPEN.digest) == later
        assert found.blobs.read(later.contributions[0].sha256) == release.payload()


def test_an_upload_is_on_the_disk_from_its_first_byte(store: SqliteStore, tmp_path: Path) -> None:
    incoming = tmp_path / "state" / "incoming"
    with store.blobs.spool() as spool:
        assert list(incoming.iterdir()) == []
        spool.write(b"one")
        (path,) = incoming.iterdir()
        assert path.read_bytes() == b"one"
        assert path.stat().st_mode & 0o777 == 0o600
        spool.sync()
        spool.sync()
        with pytest.raises(AssertionError):
            spool.write(b"two")
    assert list(incoming.iterdir()) == []


def test_only_the_newest_uploads_stay_in_the_page_cache(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[str] = []
    monkeypatch.setattr(blobs, "_cool", lambda path: given_back.append(path.name))
    monkeypatch.setattr(blobs, "WARM_BYTES", len(make_release(STUDY).payload()))
    record = OPEN
    for seed, owner in enumerate(("owner-3", "owner-1", "owner-2")):
        record = keep(store, record, owner, seed)
    names = {c.owner: c.sha256 for c in record.contributions}
    assert given_back == [names["owner-3"].hex(), names["owner-1"].hex()]
    store.blobs.read(names["owner-2"])
    assert len(given_back) == 2, "the newest is still warm"
    store.blobs.read(names["owner-1"])
    assert given_back[2:] == [names["owner-1"].hex()], "read once, given back again"


def test_damaged_bytes_are_not_read(store: SqliteStore) -> None:
    record = keep(store, OPEN, "owner-1")
    digest = record.contributions[0].sha256
    path = store.blobs.path(digest)
    content = path.read_bytes()
    buffer = bytearray(len(content))
    store.blobs.read_into(digest, memoryview(buffer))
    assert bytes(buffer) == store.blobs.read(digest) == content
    for changed in (b"\x01" + content[1:], content[:-8], content + bytes(8), b""):
        path.write_bytes(changed)
        with pytest.raises(StoreError, match="damaged"):
            store.blobs.read(digest)
        with pytest.raises(StoreError, match="damaged"):
            store.blobs.read_into(digest, memoryview(buffer))
    path.unlink()
    with pytest.raises(StoreError, match="is gone"):
        store.blobs.read_into(digest, memoryview(buffer))


@pytest.mark.usefixtures("opener")
def test_a_folder_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from dppca.curator.store import SqliteStore\n"
        "SqliteStore(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "state"], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "StoreError: another daemon uses" in done.stderr


def test_a_disk_that_has_turned_read_only_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr("dppca.curator.store.sqlite.create_private", read_only)
    with pytest.raises(StoreError, match="Read-only file system: make its disk writable"):
        SqliteStore(tmp_path / "state")


@pytest.mark.parametrize("version", [STORE_VERSION - 1, STORE_VERSION + 1])
def test_a_store_of_another_version_is_refused_by_name_and_left_alone(
    tmp_path: Path, version: int
) -> None:
    SqliteStore(tmp_path / "state").close()
    path = tmp_path / "state" / "curator.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    said = f"has version {version}; this software reads version {STORE_VERSION}"
    with pytest.raises(StoreVersionError, match=said):
        SqliteStore(tmp_path / "state")
    assert path.read_bytes() == before
    assert not list(path.parent.glob("curator.sqlite?*"))


@pytest.mark.parametrize("mark", [0, 7, None], ids=["no mark", "another mark", "no database"])
def test_a_database_of_something_else_is_refused_and_left_alone(
    tmp_path: Path, mark: int | None
) -> None:
    path = tmp_path / "curator.sqlite"
    path.write_bytes(b"this is no database" * 100 if mark is None else b"")
    if mark is not None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE recipes (name TEXT)")
            database.execute(f"PRAGMA application_id = {mark}")
    before = path.read_bytes()
    with pytest.raises(StoreError):
        SqliteStore(tmp_path)
    assert path.read_bytes() == before
    with pytest.raises(StoreError):
        SqliteStore(path)  # a file, where a folder has to be


@pytest.fixture
def no_space() -> Iterator[Callable[[int], None]]:
    """Files of this process can grow no further than so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_a_store_error_and_nothing_is_lost(
    opener: Opener, store: SqliteStore, no_space: Callable[[int], None]
) -> None:
    one = keep(store, OPEN, "owner-1")
    no_space(16)
    with pytest.raises(StoreError):
        keep(store, one, "owner-2", 1)
    with pytest.raises(StoreError):
        store.save(lifecycle.abort(one, "enough"))
    with pytest.raises(StoreError):
        store.check()
    assert store.study(OPEN.digest) == one
    no_space(1 << 30)
    store.check()
    two = keep(store, one, "owner-2", 1)
    assert opener().study(OPEN.digest) == two


def test_the_size_of_a_store_is_that_of_its_files(store: SqliteStore) -> None:
    record = keep(store, OPEN, "owner-1")
    with store.blobs.spool() as spool:
        spool.write(b"12345")
        size = store.size()
    assert size.upload_bytes == record.contributions[0].n_bytes
    assert size.arriving_bytes == 5
    assert size.database_bytes > 0
    assert size.free_bytes > 0


@pytest.mark.parametrize("name", ["incoming", "blobs"])
def test_a_folder_that_takes_no_files_is_found_by_a_check(
    store: SqliteStore, tmp_path: Path, name: str
) -> None:
    folder, aside = tmp_path / "state" / name, tmp_path / "aside"
    folder.rename(aside)
    with pytest.raises(StoreError):
        store.check()
    aside.rename(folder)
    store.check()
    assert list(folder.iterdir()) == []


def test_a_database_that_was_replaced_is_found_by_a_check(
    store: SqliteStore, tmp_path: Path
) -> None:
    path = tmp_path / "state" / "curator.sqlite"
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    path.rename(tmp_path / "aside")
    with pytest.raises(StoreError, match="gone"):
        store.check()
    other.rename(path)
    with pytest.raises(StoreError, match="not the file that was opened"):
        store.check()
    (tmp_path / "aside").rename(path)
    store.check()
