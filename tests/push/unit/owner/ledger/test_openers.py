"""One opening for a study and for a key, ever; the sums are stored with the entry that says so."""

import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.errors import (
    ChainError,
    LedgerCorruptError,
    LedgerError,
    OpeningRefusedError,
)
from dppca.owner.ledger.chain import verify_chain
from dppca.owner.ledger.database import (
    Ledger,
    begin_ledger,
    compare_ledger,
    open_ledger,
    require_newest,
)
from dppca.owner.ledger.entries import Ballot, Entry, KeyOffer, OpeningDelivery, SetOpening
from dppca.owner.ledger.file import read_archive, read_history
from dppca.owner.ledger.mark import CuratorView, mark_paths
from dppca.owner.ledger.openers import digest_sums
from dppca.owner.ledger.tools import as_csv, exported
from tests.support.ledgers import NOW, ledger_files, request_of, rows_of, tamper
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

KEY, OTHER_KEY = (hashlib.sha256(name).hexdigest() for name in (b"key", b"other key"))
SET, OTHER_SET = (hashlib.sha256(name).hexdigest() for name in (b"set", b"other set"))
STUDY = make_study("small")
SUMS = Sums(SET, ((0, b"a" * 64), (3, b"b" * 64)))
OTHER_SUMS = Sums(OTHER_SET, ((0, b"c" * 64), (3, b"d" * 64)))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock, wait_s=0) as opened:
        yield opened


def _opened(ledger: Ledger) -> None:
    ledger.offer(STUDY.name, KEY, now=NOW)
    ledger.vote(STUDY, KEY, SET, now=NOW)
    ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW)
    ledger.mark_opened(KEY, now=NOW)


def test_an_opening_goes_from_offer_to_opened_and_charges_nothing(ledger: Ledger) -> None:
    for _ in range(2):  # the same again has no effect
        _opened(ledger)
    history = ledger.history()
    record = history.openers[KEY]
    assert (history.length, history.charges, record.is_done) == (4, (), True)
    assert record.opening is not None
    assert (record.opening.set_digest, record.opening.n_owners) == (SET, 3)
    assert ledger.sums(KEY) == SUMS


@pytest.mark.parametrize(
    ("sums", "study", "key", "reason"),
    [
        (OTHER_SUMS, STUDY, KEY, "opened a set before"),
        (SUMS, make_study("small", name="study-2"), KEY, "opened a set before"),
        (OTHER_SUMS, STUDY, OTHER_KEY, "with another key"),
        (SUMS, STUDY, hashlib.sha256(b"stranger").hexdigest(), "never offered"),
    ],
)
def test_a_second_opening_of_a_study_or_a_key_is_refused_and_changes_nothing(
    ledger: Ledger, sums: Sums, study: object, key: str, reason: str
) -> None:
    ledger.offer(STUDY.name, OTHER_KEY, now=NOW)
    _opened(ledger)
    before = ledger.history()
    with pytest.raises(OpeningRefusedError, match=reason):
        ledger.open_set(study, key, sums, n_owners=3, now=NOW)  # type: ignore[arg-type]
    assert ledger.history() == before
    assert ledger.sums(KEY) == SUMS


def test_a_vote_binds_the_key_to_its_set(ledger: Ledger) -> None:
    ledger.offer(STUDY.name, KEY, now=NOW)
    ledger.vote(STUDY, KEY, SET, now=NOW)
    before = ledger.history()
    with pytest.raises(OpeningRefusedError, match="voted before"):
        ledger.vote(STUDY, KEY, OTHER_SET, now=NOW)
    with pytest.raises(OpeningRefusedError, match="voted for another set"):
        ledger.open_set(STUDY, KEY, OTHER_SUMS, n_owners=3, now=NOW)
    assert ledger.history() == before


def test_a_key_serves_the_study_that_it_was_offered_for(ledger: Ledger) -> None:
    ledger.offer("another-study", KEY, now=NOW)
    for act in (
        lambda: ledger.vote(STUDY, KEY, SET, now=NOW),
        lambda: ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW),
    ):
        with pytest.raises(OpeningRefusedError, match="offered for another study"):
            act()
    assert ledger.history().length == 1


def test_nothing_is_acknowledged_before_it_was_opened(ledger: Ledger) -> None:
    ledger.offer(STUDY.name, KEY, now=NOW)
    with pytest.raises(OpeningRefusedError, match="opened nothing"):
        ledger.mark_opened(KEY, now=NOW)
    with pytest.raises(LedgerError, match="opened nothing"):
        ledger.sums(KEY)


def _entries() -> list[Entry]:
    begin = (0, "2026-01-02T03:04:05+00:00", KEY)
    chosen = (*begin, STUDY.name, STUDY.digest, SET)
    return [
        KeyOffer(*begin, STUDY.name),
        Ballot(*chosen),
        SetOpening(*chosen, 3, digest_sums(SUMS.totals)),
        OpeningDelivery(*begin),
    ]


@pytest.mark.parametrize("place", range(4))
def test_a_chain_in_which_a_step_comes_twice_is_damaged(place: int) -> None:
    entries = _entries()
    with pytest.raises(LedgerCorruptError, match=f"entry {place + 2}"):
        verify_chain(rows_of([*entries[: place + 1], entries[place]]))
    if place:  # nor does one come before its key was offered
        with pytest.raises(LedgerCorruptError, match="never offered"):
            verify_chain(rows_of([entries[place]]))
    exported_steps = [
        line.split(",")[2] for line in as_csv(exported(rows_of(entries))).splitlines()
    ]
    assert exported_steps[1:] == ["offer", "vote", "open", "opened"]


def test_a_masked_charge_says_on_whose_noise_it_rests(
    tmp_path: Path,
) -> None:
    path, lock = ledger_files(tmp_path)
    request = request_of(make_masked_study().study)
    assert (request.colluders, request.honest) == (1, 3)
    with open_ledger(path, lock=lock) as ledger:
        ledger.reserve(request, release_id=bytes(16), now=NOW)
    ((made),) = read_history(path).reservations
    assert made.request == request


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sums SET total = x'00'",
        "DELETE FROM sums",
        "INSERT OR REPLACE INTO sums SELECT opener_key, stream, x'00' FROM sums",
    ],
)
def test_stored_sums_cannot_be_changed(ledger: Ledger, tmp_path: Path, statement: str) -> None:
    _opened(ledger)
    direct = sqlite3.connect(ledger_files(tmp_path)[0], isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError):
        direct.execute(statement)
    direct.close()
    assert ledger.sums(KEY) == SUMS


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE sums SET total = zeroblob(64)", "entry 3: the stored sums"),
        ("UPDATE sums SET total = 'text'", "entry 3: the stored sums"),
        ("UPDATE sums SET stream = stream + 1", "entry 3: the stored sums"),
        ("DELETE FROM sums", "entry 3: the stored sums"),
        ("INSERT INTO sums VALUES (x'00', 0, x'00')", "never opened"),
    ],
)
def test_changed_sums_are_found(tmp_path: Path, statement: str, reason: str) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _opened(ledger)
    tamper(path, statement)
    with pytest.raises(LedgerCorruptError, match=reason):
        read_archive(path)
    with open_ledger(path, lock=lock) as ledger, pytest.raises(LedgerCorruptError, match=reason):
        ledger.sums(KEY)


def test_a_disk_that_is_full_at_the_opening_leaves_no_half(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, KEY, now=NOW)
        pages = path.stat().st_size // 4096
        ledger._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
        large = Sums(SET, ((0, b"a" * (1 << 16)),))
        with pytest.raises(LedgerError, match="full"):
            ledger.open_set(STUDY, KEY, large, n_owners=3, now=NOW)
        ledger._connection.execute("PRAGMA max_page_count = 1000000")
        assert ledger.history().openers[KEY].opening is None
        ledger.open_set(STUDY, KEY, large, n_owners=3, now=NOW)
    assert read_history(path).openers[KEY].opening is not None


def test_a_restored_ledger_opens_nothing_before_it_is_compared(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, KEY, now=NOW)
    copy = tmp_path / "copy"
    shutil.copy(path, copy)
    with open_ledger(path, lock=lock) as ledger:
        ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW)
    copy.replace(path)
    with (
        open_ledger(path, lock=lock) as ledger,
        pytest.raises(ChainError, match="not the one this site used last"),
    ):
        ledger.open_set(STUDY, KEY, OTHER_SUMS, n_owners=3, now=NOW)
    assert read_history(path).openers[KEY].opening is None


def test_an_offer_needs_no_comparison_and_does_not_stand_for_one(tmp_path: Path) -> None:
    path, lock = tmp_path / "ledger.sqlite", tmp_path / "site.lock"
    begin_ledger(path, lock=lock)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, KEY, now=NOW)
    assert not require_newest(path)
    compare_ledger(path, CuratorView(), lock=lock)
    assert require_newest(path)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, OTHER_KEY, now=NOW)
    assert require_newest(path)
    moved = tmp_path / "moved"
    shutil.copy(path, moved)
    moved.replace(path)
    assert require_newest(path), "the newest ledger was put back in its place"


def test_a_key_of_a_restored_folder_votes_for_nothing(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        ledger.offer(STUDY.name, KEY, now=NOW)
    for each in mark_paths(path):
        content = each.read_bytes()
        each.unlink()
        each.write_bytes(content)
    compared = CuratorView()
    with pytest.raises(ChainError, match="restored from a copy"):
        compare_ledger(path, compared, lock=lock)
    with open_ledger(path, lock=lock) as ledger:
        for step in (
            lambda: ledger.vote(STUDY, KEY, SET, now=NOW),
            lambda: ledger.open_set(STUDY, KEY, SUMS, n_owners=3, now=NOW),
            lambda: ledger.offer(STUDY.name, OTHER_KEY, now=NOW),
        ):
            with pytest.raises(ChainError, match="restored from a copy"):
                step()
        assert ledger.history().length == 1
