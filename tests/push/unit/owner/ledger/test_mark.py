import os
from pathlib import Path

import pytest

from dppca.owner.ledger.mark import Mark, mark_closed


def marked(ledger: Path) -> Mark:
    return mark_closed(Mark(1, b"h" * 32, 0, 0), ledger)


@pytest.mark.parametrize("has_modes", [True, False])
def test_a_mark_is_of_the_file_that_was_left_and_of_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_modes: bool
) -> None:
    monkeypatch.setattr("dppca.owner.ledger.mark.HAS_MODES", has_modes)
    ledger = tmp_path / "ledger.sqlite"
    ledger.write_bytes(b"old")
    mark = marked(ledger)
    assert mark.is_of(ledger)
    ledger.write_bytes(b"new")
    os.utime(ledger, ns=(0, ledger.stat().st_mtime_ns + 10**9))
    assert not mark.is_of(ledger), "it was written to"
    mark = marked(ledger)
    copy = tmp_path / "copy"
    copy.write_bytes(b"old")
    copy.replace(ledger)
    assert not mark.is_of(ledger), "it is another file"


def test_a_file_that_was_overwritten_with_its_old_time_is_seen_where_there_is_a_change_time(
    tmp_path: Path,
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    ledger.write_bytes(b"old")
    mark, before = marked(ledger), ledger.stat().st_mtime_ns
    ledger.write_bytes(b"new")
    os.utime(ledger, ns=(before, before))
    assert ledger.stat().st_mtime_ns == before
    assert not mark.is_of(ledger)
