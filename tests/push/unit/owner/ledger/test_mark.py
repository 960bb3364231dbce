import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dppca.owner.ledger.mark import LedgerAge, Mark, mark_paths, read_mark, write_mark

FIRST, SECOND, THIRD = (Mark(length, bytes([length]) * 32) for length in (1, 2, 3))


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    return folder / "ledger.sqlite"


def _tick() -> None:
    """Let the change time of files go on; its resolution may be 10 ms."""
    time.sleep(0.02)


def _write(ledger: Path, *marks: Mark) -> None:
    for mark in marks:
        write_mark(ledger, mark)
        _tick()


def _copied(ledger: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in mark_paths(ledger)}


def test_the_last_mark_counts(ledger: Path) -> None:
    assert read_mark(ledger) is None
    for mark in (FIRST, SECOND, THIRD, FIRST):
        write_mark(ledger, mark)
        assert read_mark(ledger) == mark
        assert [each.exists() for each in mark_paths(ledger)] == [True, True]


@pytest.mark.parametrize("later", [(), (SECOND,), (SECOND, THIRD), (SECOND, THIRD, FIRST)])
@pytest.mark.parametrize("way", ["in place", "new files", "times too", "one", "other"])
def test_marks_that_were_put_back_are_seen(ledger: Path, later: tuple[Mark, ...], way: str) -> None:
    _write(ledger, FIRST, FIRST)
    copies = _copied(ledger)
    times = {path: path.stat() for path in copies}
    _write(ledger, *later)
    chosen = {"one": mark_paths(ledger)[:1], "other": mark_paths(ledger)[1:]}
    for path in chosen.get(way, copies):
        if way == "new files":
            path.unlink()
        path.write_bytes(copies[path])
        if way == "times too":
            os.utime(path, ns=(times[path].st_atime_ns, times[path].st_mtime_ns))
    found = read_mark(ledger)
    assert found is not None
    newest = later[-1] if later else FIRST
    if found.standing is LedgerAge.NEWEST:  # only the older file was put back, and nothing is lost
        assert way in ("one", "other")
        assert found == newest
    else:
        assert found.standing is LedgerAge.RESTORED


def test_a_copied_folder_is_seen_and_a_renamed_one_is_not(ledger: Path) -> None:
    _write(ledger, FIRST, SECOND)
    copy = ledger.parent.with_name("copy")
    shutil.copytree(ledger.parent, copy)
    assert read_mark(copy / ledger.name) == replace(SECOND, standing=LedgerAge.RESTORED)
    moved = ledger.parent.rename(ledger.parent.with_name("moved"))
    assert read_mark(moved / ledger.name) == SECOND


def test_a_file_of_the_mark_that_is_gone_is_missed(ledger: Path) -> None:
    for place in (0, 1):
        _write(ledger, FIRST, SECOND)
        mark_paths(ledger)[place].unlink()
        found = read_mark(ledger)
        assert found is not None
        assert found.standing is LedgerAge.RESTORED


def test_what_is_not_the_newest_stays_so_when_it_is_written_again(ledger: Path) -> None:
    for standing in (LedgerAge.RESTORED, LedgerAge.UNCOMPARED):
        mark = replace(FIRST, standing=standing)
        write_mark(ledger, mark)
        assert read_mark(ledger) == mark


def test_a_mark_of_0_1_0_is_of_the_ledger_that_was_left(ledger: Path) -> None:
    ledger.write_bytes(b"ledger")
    status = ledger.stat()
    document = {
        "version": 1,
        "length": 1,
        "head": FIRST.head.hex(),
        "inode": status.st_ino,
        "changed_ns": status.st_ctime_ns,
        "missing": [],
        "seen_length": 0,
        "seen_head": "",
    }
    path = mark_paths(ledger)[0]
    path.write_text(json.dumps(document))
    assert read_mark(ledger) == FIRST
    path.write_text(json.dumps(document | {"changed_ns": 0}))
    unsure = replace(FIRST, standing=LedgerAge.UNCOMPARED)
    assert read_mark(ledger) == unsure, "after a crash nothing is known, whatever the inode"
    path.write_text(json.dumps(document))
    _tick()
    ledger.write_bytes(b"an old copy")
    assert read_mark(ledger) == unsure
    write_mark(ledger, SECOND)
    assert read_mark(ledger) == SECOND
    _tick()
    path.write_text(json.dumps(document))
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)


def test_without_change_times_a_file_that_was_written_later_is_seen(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.owner.ledger.mark.HAS_MODES", False)
    _write(ledger, FIRST, SECOND)
    assert read_mark(ledger) == SECOND
    for path, content in _copied(ledger).items():
        path.write_bytes(content)
        os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)
