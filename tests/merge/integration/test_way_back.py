"""The way back to an earlier version, as ``docs/how-to/upgrade.md`` says it.

The earlier version is this one, before files that say that they are newer than it.
"""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerVersionError, StoreVersionError
from dppca.curator.cli import cli
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, make_enrolled_site

_curator = partial(answer_of, "dppca-curator", cli)


def _make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version = 9999")


def _move_to(site: OwnerSite, curator: Curator) -> None:
    path = site.folder / "site.yaml"
    lines = path.read_text().splitlines()
    kept = [each for each in lines if not each.startswith("curator:")]
    path.write_text("\n".join([*kept, f"curator: {curator.address}", ""]))


def test_the_way_back_is_a_restored_store_and_the_same_bytes_again(tmp_path: Path) -> None:
    curator = Curator(tmp_path).start()
    try:
        charged, other = (
            make_enrolled_site(curator, tmp_path, name=name) for name in ("charged", "other")
        )
        study = curator.begin("charged", "other")
        backup = tmp_path / "backup"
        code, _ = _curator("backup", "--state", curator.state, "--to", backup)
        assert code == 0
        assert charged.contribute(study)[0] == 0  # after the backup, by the new version
        curator.kill()

        _make_newer(curator.state / "curator.sqlite")
        with pytest.raises(StoreVersionError):
            curator.start()
        code, _ = _curator("restore", backup, "--state", tmp_path / "restored")
        assert code == 0
        curator.state = tmp_path / "restored"
        curator.start()
        for site in (charged, other):
            _move_to(site, curator)

        ledger = charged.folder / "ledger.sqlite"
        before, entries = ledger.read_bytes(), charged.entries
        _make_newer(ledger)
        newer = ledger.read_bytes()
        assert charged.contribute(study)[0] == LedgerVersionError.exit_code
        assert ledger.read_bytes() == newer, "the earlier version changes nothing"
        ledger.write_bytes(before)  # the new version stays, and reads its own ledger

        assert charged.contribute(study)[0] == 0
        assert charged.entries[: len(entries)] == entries
        assert len(charged.history.charges) == 1, "the same bytes, at no further charge"
        assert other.contribute(study)[0] == 0
        assert other.run("components", study.name, "--wait", "300")[0] == 0
    finally:
        curator.stop()
