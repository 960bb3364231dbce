"""A killed command, then an older copy in place of what it left: nothing is charged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.curator import Curator
from tests.support.sites import make_enrolled_site

KILLED, CHAIN = -9, 48
FILES = ("ledger.sqlite", "ledger.mark", "ledger.mark2")


def _in_place(copy: Path, site: Path) -> None:
    for name in FILES[:1]:
        (site / name).write_bytes((copy / name).read_bytes())


def _new_files(copy: Path, site: Path) -> None:
    for name in FILES:
        (site / name).unlink()
        shutil.copy2(copy / name, site / name)


def _whole_folder(copy: Path, site: Path) -> None:
    shutil.rmtree(site)
    shutil.copytree(copy, site)


@pytest.mark.parametrize("restore", [_in_place, _new_files, _whole_folder])
@pytest.mark.parametrize("step", ["commit", "acknowledge"])
def test_an_older_copy_after_a_kill_locks_the_site(
    curator: Curator, tmp_path: Path, restore: Callable[[Path, Path], None], step: str
) -> None:
    site = make_enrolled_site(curator, tmp_path, budget='epsilon: "3.0", delta: "0"')
    first = curator.begin(site.name, epsilon="0.25")
    assert site.contribute(first)[0] == 0
    assert site.run("components", first.name, "--wait", "300")[0] == 0
    copy = tmp_path / "copy"
    shutil.copytree(site.folder, copy)
    second = curator.begin(site.name, "absent", epsilon="2")
    assert site.contribute(second, die_at=step)[0] == KILLED
    restore(copy, site.folder)
    ask = ("--target", "sex", "--method", "dp-svm", "--epsilon", "2", "--yes")
    assert _class(*site.run("train", first.name, *ask)) == (CHAIN, "ChainError")
    assert site.run("doctor")[0] != 0
    assert _class(*site.contribute(second)) == (CHAIN, "ChainError")
    assert site.history.length == 3, "nothing was charged"


@pytest.mark.parametrize("step", ["mark", "reserve", "draw", "store", "commit", "acknowledge"])
def test_a_kill_alone_locks_nothing(curator: Curator, tmp_path: Path, step: str) -> None:
    site = make_enrolled_site(curator, tmp_path, budget='epsilon: "3.0", delta: "0"')
    study = curator.begin(site.name, epsilon="1")
    assert site.contribute(study, die_at=step)[0] == KILLED
    assert site.contribute(study)[0] == 0
    assert len(site.history.charges) == 1


def _class(code: int, document: dict[str, dict[str, str]]) -> tuple[int, str]:
    return code, document["error"]["class"]
