import os
import shutil
import sys
from pathlib import Path

import pytest

from dppca.owner.ledger.births import find_birth

NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells it")


@NEEDS_LINUX
def test_a_file_is_the_same_whatever_its_name_mode_times_and_content(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"one")
    found = find_birth(path)
    assert found is not None
    assert found[0] == path.stat().st_ino
    path.chmod(0o400)
    path.chmod(0o600)
    os.utime(path, ns=(0, 0))
    path.write_bytes(b"two")
    assert find_birth(path.rename(other)) == found
    with other.open("rb") as file:
        assert find_birth(file.fileno()) == found


@NEEDS_LINUX
def test_a_copy_is_another_file_though_it_has_the_inode_of_one_that_was_removed(
    tmp_path: Path,
) -> None:
    path, kept = tmp_path / "file", tmp_path / "kept"
    path.write_bytes(b"one")
    found = {find_birth(path)}
    for _ in range(50):  # ext4 gives a removed file's inode to the next one
        shutil.copy2(path, kept)
        path.unlink()
        shutil.copy2(kept, path)
        kept.unlink()
        birth = find_birth(path)
        assert birth not in found
        found.add(birth)


def test_nothing_is_known_of_a_file_that_is_not_there_or_on_another_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_birth(tmp_path / "nothing") is None
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert find_birth(tmp_path / "file") is None
