from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from dppca.curator.store import SqliteStore
from dppca.curator.store.migrations import STORE_VERSION
from tests.support.census import make_release
from tests.support.checkout import ROOT
from tests.support.old_store import CREATED_S, write_version_1
from tests.support.patience import HANG_S
from tests.support.studies import make_study

STUDY = make_study()
N_POINTS = 48
"""More than an upgrade has steps: the last folders are opened without a kill."""


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        (found,) = database.execute("PRAGMA user_version").fetchone()
    return int(found)


def contents(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_an_upgrade_that_is_killed_at_any_statement_loses_nothing(tmp_path: Path) -> None:
    old = tmp_path / "old"
    write_version_1(old, STUDY)
    before = contents(old / "curator.sqlite")
    folders = [tmp_path / f"state-{number}" for number in range(N_POINTS)]
    for folder in folders:
        shutil.copytree(old, folder)
    done = subprocess.run(
        [sys.executable, ROOT / "tests/merge/kills/upgrades_that_die.py", *folders],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    ends = done.stdout.split()
    n_killed = ends.count("killed")
    assert ends == ["killed"] * n_killed + ["opened"] * (N_POINTS - n_killed)
    assert 0 < n_killed < N_POINTS

    versions = []
    for folder in folders:
        versions.append(version(folder / "curator.sqlite"))
        if versions[-1] == 1:
            assert contents(folder / "curator.sqlite") == before
        copy = folder / "curator.sqlite.version-1"
        if copy.exists() or versions[-1] != 1:
            assert contents(copy) == before

        store = SqliteStore(folder)
        record = store.named(STUDY.name)
        store.close()
        assert record is not None
        assert record.created_s == CREATED_S
        assert record.contributed == ("owner-1",)
        assert version(folder / "curator.sqlite") == STORE_VERSION
        assert contents(copy) == before
        blob = folder / "blobs" / record.contributions[0].sha256.hex()
        assert blob.read_bytes() == make_release(STUDY).payload()
        assert not list(folder.glob("*.partial"))
    assert versions == sorted(versions)
    assert set(versions) == {1, STORE_VERSION}
