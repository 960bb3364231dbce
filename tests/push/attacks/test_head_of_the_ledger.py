"""The head of the chain, which leaves with a contribution, confirms no guess of an entry.

Up to 0.1.0 a curator that knew all else of an entry (the receipt, its own clock) could try names of
files, populations, data sets, budgets and queries until the head came out.
"""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Disowning, ReleaseRequest, time_text
from dppca.owner.ledger.file import read_archive
from tests.support.ledgers import NOW, account_of, drawn, ledger_files, request_of
from tests.support.studies import make_study

EDITIONS = sorted((Path(__file__).parents[2] / "golden" / "editions").iterdir())
STUDY = make_study("small", name="public")


def _release(path: Path, lock: Path, request: ReleaseRequest, *, seed: int = 1) -> None:
    with open_ledger(path, lock=lock) as ledger:
        reservation = ledger.reserve(request, release_id=bytes(16), now=NOW)
        ledger.commit(drawn(STUDY, reservation, seed=seed), now=NOW)
        ledger.mark_sent(reservation.release_id, now=NOW)


@pytest.mark.parametrize(
    "secret",
    [
        replace(request_of(STUDY), account=replace(account_of(), source="5" * 64)),
        request_of(STUDY, data_set="hiv-ward"),
        replace(request_of(STUDY), query_sha256="7" * 64),
    ],
    ids=["a path", "a data set", "a query"],
)
def test_the_right_guess_of_everything_is_not_confirmed(
    tmp_path: Path, secret: ReleaseRequest
) -> None:
    """The chain that the guess makes has another head, though nothing in it is wrong."""
    heads = []
    for name in ("site", "guess"):
        (tmp_path / name).mkdir()
        path, lock = ledger_files(tmp_path / name)
        _release(path, lock, secret)
        heads.append(read_archive(path).history.heads)
    assert len(heads[0]) == len(heads[1]) == 3
    assert not set(heads[0]) & set(heads[1])


def test_every_entry_has_random_bytes_of_its_own_without_which_it_is_not_confirmed(
    tmp_path: Path,
) -> None:
    path, lock = ledger_files(tmp_path)
    _release(path, lock, request_of(STUDY))
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer("masked", "0" * 64, now=NOW)
        ledger.recover([Disowning(0, time_text(NOW), b"d" * 16, "other", "0" * 64, "Not ours.")])
    rows = read_archive(path).rows
    assert len({row.salt for row in rows}) == len(rows) == 5
    for row in rows:
        assert isinstance(row.salt, bytes)
        assert isinstance(row.document, bytes)
        assert len(row.salt) == 16
        assert row.salt.hex().encode() not in row.document
        assert hashlib.sha256(row.document).digest() != row.digest
        assert hashlib.sha256(row.salt + row.document).digest() == row.digest


@pytest.mark.parametrize("edition", EDITIONS, ids=lambda each: each.name)
def test_a_ledger_of_an_earlier_version_goes_on_with_random_bytes(
    tmp_path: Path, edition: Path
) -> None:
    path, lock = ledger_files(tmp_path)
    shutil.copy(edition / "site" / "ledger.sqlite", path)
    before = read_archive(path)
    with open_ledger(path, lock=lock) as ledger:
        assert ledger.history() == before.history
        ledger.recover([Disowning(0, time_text(NOW), b"d" * 16, "other", "0" * 64, "Not ours.")])
    after = read_archive(path)
    assert after.rows[:-1] == before.rows
    assert [len(row.salt) for row in after.rows if isinstance(row.salt, bytes)][-1] == 16
    assert after.history.total("survey") == before.history.total("survey")
