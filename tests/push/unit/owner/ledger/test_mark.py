import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerVersionError
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
    unsure = replace(FIRST, standing=LedgerAge.RESTORED)
    assert read_mark(ledger) == unsure, "after a crash nothing is known, whatever the inode"
    path.write_text(json.dumps(document))
    _tick()
    ledger.write_bytes(b"an old copy")
    assert read_mark(ledger) == unsure
    write_mark(ledger, SECOND)
    assert read_mark(ledger) == SECOND
    _tick()
    path.unlink()
    path.write_text(json.dumps(document))
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)


def test_a_mark_of_0_1_0_without_a_ledger_may_be_from_before_its_charges(ledger: Path) -> None:
    """It has the inode and change time of ``site.lock``, which is there unchanged for ever."""
    lock = ledger.with_name("site.lock")
    lock.touch()
    document = {
        "version": 1,
        "length": 0,
        "head": bytes(32).hex(),
        "inode": lock.stat().st_ino,
        "changed_ns": lock.stat().st_ctime_ns,
        "missing": [],
        "seen_length": 0,
        "seen_head": "",
    }
    mark_paths(ledger)[0].write_text(json.dumps(document))
    assert read_mark(ledger) == Mark(0, bytes(32), standing=LedgerAge.RESTORED)


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


def test_what_a_backup_changes_beside_the_bytes_locks_nothing(ledger: Path) -> None:
    """``chmod``, ``touch -a``, ``tar --atime-preserve``, ``cp -al`` move the change time alone."""
    ledger.touch()
    _write(ledger, FIRST, SECOND)
    changes: list[Callable[[Path], None]] = [
        lambda path: path.chmod(0o400),
        lambda path: os.utime(path, ns=(0, path.stat().st_mtime_ns)),
        lambda path: path.with_name(f"{path.name}.link").hardlink_to(path),
    ]
    for change in changes:
        before = [path.stat().st_ctime_ns for path in mark_paths(ledger)]
        for path in (*mark_paths(ledger), ledger):
            change(path)
        assert before != [path.stat().st_ctime_ns for path in mark_paths(ledger)]
        assert read_mark(ledger) == SECOND
        _tick()
    write_mark(ledger, THIRD)
    assert read_mark(ledger) == THIRD


@pytest.mark.parametrize("back", ["renamed", "linked"])
@pytest.mark.parametrize("kept", ["copy", "nothing"])
def test_old_marks_that_come_back_by_their_links_are_seen_beside_another_ledger(
    ledger: Path, back: str, kept: str
) -> None:
    """A ledger that comes back by its link, too, is the newest: its file is never replaced."""
    ledger.touch()
    _write(ledger, FIRST)
    birth = ledger.parent.with_name("birth")
    shutil.copytree(ledger.parent, birth, copy_function=os.link)
    _write(ledger, SECOND)
    if kept == "copy":
        (birth / ledger.name).unlink()
        shutil.copy2(ledger, birth / ledger.name)
    else:
        (birth / ledger.name).unlink()
    shutil.rmtree(ledger.parent)
    if back == "renamed":
        birth.rename(ledger.parent)
    else:
        shutil.copytree(birth, ledger.parent, copy_function=os.link)
    assert read_mark(ledger) == replace(FIRST, standing=LedgerAge.RESTORED)


def test_where_the_system_does_not_tell_a_files_birth_the_change_time_decides(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.owner.ledger.mark.find_birth", lambda _: None)
    ledger.touch()
    _write(ledger, FIRST, SECOND)
    assert read_mark(ledger) == SECOND
    for path in mark_paths(ledger):
        path.chmod(0o400)
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)
    monkeypatch.undo()
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)


def test_a_mark_of_0_2_0_has_change_times_alone(ledger: Path) -> None:
    ledger.touch()
    _write(ledger, FIRST, SECOND)
    for path in mark_paths(ledger):
        document = json.loads(path.read_bytes())
        del document["births"]
        path.write_text(json.dumps(document))
    assert read_mark(ledger) == replace(SECOND, standing=LedgerAge.RESTORED)
    newest = mark_paths(ledger)[0]
    document = json.loads(newest.read_bytes())
    document["other_ns"] = mark_paths(ledger)[1].stat().st_ctime_ns
    newest.write_text(json.dumps(document))
    assert read_mark(ledger) == SECOND


def test_a_mark_of_a_newer_version_is_refused_in_words_and_more_fields_are_not(
    ledger: Path,
) -> None:
    ledger.touch()
    _write(ledger, FIRST, SECOND)
    path = max(mark_paths(ledger), key=lambda each: json.loads(each.read_text())["number"])
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"later": "field"}))
    found = read_mark(ledger)
    assert found is not None
    assert (found.length, found.head) == (SECOND.length, SECOND.head)
    path.write_text(json.dumps({"version": 3}))
    for use in (lambda: read_mark(ledger), lambda: write_mark(ledger, THIRD)):
        with pytest.raises(LedgerVersionError, match=r"mark2? has version 3; .* wrote it"):
            use()
