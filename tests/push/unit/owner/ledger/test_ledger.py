import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerCorruptError, LedgerError, LedgerVersionError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.owner.ledger.chain import FIRST
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.entries import ReleaseKind, Reservation
from dppca.owner.ledger.entry_documents import from_document, to_document
from dppca.owner.ledger.file import LATEST, UNSALTED, read_archive, read_history
from dppca.owner.ledger.populations import Account, Population
from tests.support.ledgers import BUDGET, NOW, drawn, ledger_files, request_of, tamper
from tests.support.studies import make_study, numeric_of

ID = bytes(range(16))
OTHER = bytes(range(1, 17))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return ledger_files(tmp_path)[0]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock, wait_s=0) as opened:
        yield opened


def _finished(ledger: Ledger, name: str = "study-1", release_id: bytes = ID) -> None:
    study = make_study("small", name=name)
    reservation = ledger.reserve(request_of(study), release_id=release_id, now=NOW)
    ledger.commit(drawn(study, reservation), now=NOW)
    ledger.mark_sent(release_id, now=NOW)


def test_a_release_goes_from_reserve_to_sent_is_charged_once_and_stored_as_it_was_drawn(
    ledger: Ledger, path: Path
) -> None:
    study = make_study("small")
    reservation = ledger.reserve(request_of(study), release_id=ID, now=NOW)
    with pytest.raises(LedgerError, match="nothing is stored"):
        ledger.stored(study.digest)
    release = drawn(study, reservation)
    ledger.commit(release, now=NOW)
    for _ in range(2):
        ledger.mark_sent(ID, now=NOW)
    history = ledger.history()
    assert (history.length, list(history.deliveries)) == (3, [ID])
    assert history.total("survey") == PrivacyCost(Decimal("1.0"), Decimal(0))
    stored = ledger.stored(study.digest)
    assert (stored.payload, stored.commitment.n_rows) == (release.payload(), release.n_rows)
    assert stored.receipt == release.receipt.canonical_bytes()
    assert read_history(path) == history, "which needs no lock"


def test_a_reservation_is_not_redrawn_at_another_price(ledger: Ledger) -> None:
    request = request_of(make_study("small"))
    ledger.reserve(request, release_id=ID, now=NOW)
    dearer = replace(
        request, price=replace(request.price, charge=PrivacyCost(Decimal(2), Decimal(0)))
    )
    with pytest.raises(LedgerError, match="version that reserved it"):
        ledger.reserve(dearer, release_id=ID, now=NOW)


def test_a_release_without_a_reservation_is_not_stored(ledger: Ledger) -> None:
    reservation = ledger.reserve(request_of(make_study("small")), release_id=ID, now=NOW)
    for release in (
        drawn(make_study("small", name="study-2"), reservation),
        drawn(make_study("small"), replace(reservation, release_id=OTHER)),
    ):
        with pytest.raises(LedgerError, match="without a reservation"):
            ledger.commit(release, now=NOW)
    assert ledger.history().length == 1


def test_a_second_draw_for_a_stored_release_is_not_stored(ledger: Ledger) -> None:
    study = make_study("small")
    reservation = ledger.reserve(request_of(study), release_id=ID, now=NOW)
    ledger.commit(drawn(study, reservation, seed=1), now=NOW)
    with pytest.raises(LedgerError, match="stored already"):
        ledger.commit(drawn(study, reservation, seed=2), now=NOW)
    assert ledger.stored(study.digest).payload == drawn(study, reservation, seed=1).payload()


def test_a_population_or_a_source_in_a_charge_is_read_again(ledger: Ledger, path: Path) -> None:
    plain = request_of(make_study("small"))
    ledger.reserve(plain, release_id=ID, now=NOW)
    account = Account("survey", Population("patients", BUDGET, formerly=("survey",)), "ab" * 32)
    asked = replace(request_of(make_study("small", name="study-2")), account=account)
    ledger.reserve(asked, release_id=OTHER, now=NOW)
    found = read_history(path).reservations[1].request.account
    assert found == replace(account, population=Population("patients", BUDGET))
    assert ledger.history().total("patients").epsilon == Decimal(2)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET digest = x'00'",
        "DELETE FROM entries",
        "DELETE FROM releases",
        "UPDATE releases SET payload = x'00'",
        "INSERT OR REPLACE INTO entries VALUES (1, x'00', x'00', x'')",
        "INSERT INTO entries VALUES (9, x'00', x'00', x'')",
        "INSERT OR REPLACE INTO releases SELECT release_id, receipt, x'00' FROM releases",
    ],
)
def test_what_is_written_cannot_be_changed(ledger: Ledger, path: Path, statement: str) -> None:
    _finished(ledger)
    before = ledger.history()
    direct = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError):
        direct.execute(statement)
    direct.close()
    assert ledger.history() == before


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("UPDATE entries SET document = replace(document, '1', '2') WHERE sequence = 2", "entry 2"),
        ("UPDATE entries SET digest = zeroblob(32) WHERE sequence = 3", "entry 3"),
        ("DELETE FROM entries WHERE sequence = 1", "entry 1"),
        ("DELETE FROM entries WHERE sequence = 4", "entry 4"),
        ("UPDATE entries SET sequence = -sequence WHERE sequence = 3", "entry 1"),
        ("DELETE FROM releases", "entry 2"),
        ("INSERT INTO releases VALUES (x'00', x'00', x'00')", "never committed"),
    ],
)
def test_a_changed_ledger_says_where_and_reserves_nothing(
    tmp_path: Path, statement: str, place: str
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
        _finished(ledger, "study-2", OTHER)
    tamper(path, statement)
    before = path.read_bytes()
    with pytest.raises(LedgerCorruptError, match=place):
        read_history(path)
    with (
        open_ledger(path, lock=lock) as ledger,
        pytest.raises(LedgerCorruptError, match=place),
    ):
        ledger.reserve(request_of(make_study("small", name="study-3")), release_id=ID, now=NOW)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE releases SET receipt = x'7b7d'",
        "UPDATE releases SET payload = 'text'",
    ],
)
def test_stored_bytes_that_were_changed_are_not_sent_and_a_full_reading_names_them(
    tmp_path: Path, statement: str
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
    tamper(path, statement)
    with pytest.raises(LedgerCorruptError, match="entry 2"):
        read_archive(path)
    with (
        open_ledger(path, lock=lock) as ledger,
        pytest.raises(LedgerCorruptError, match="entry 2"),
    ):
        ledger.stored(make_study("small", name="study-1").digest)


def test_a_ledger_without_its_guards_is_damaged(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
    direct = sqlite3.connect(path)
    direct.execute("DROP TRIGGER entries_no_update")
    direct.close()
    with pytest.raises(LedgerCorruptError, match="triggers"):
        read_history(path)


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda path: path.write_bytes(b"not a database" * 90), LedgerCorruptError, None),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), LedgerCorruptError, None),
        (lambda path: tamper(path, "PRAGMA application_id = 7"), LedgerError, None),
        *(
            (
                lambda path, v=version: tamper(path, f"PRAGMA user_version = {v}"),
                LedgerVersionError,
                f"version {version}; this",
            )
            for version in (UNSALTED - 1, LATEST + 1)
        ),
    ],
)
def test_a_file_that_is_no_ledger_of_this_version_is_refused_and_left_alone(
    tmp_path: Path,
    change: Callable[[Path], object],
    error: type[LedgerError],
    says: str | None,
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
    change(path)
    before = path.read_bytes()
    with pytest.raises(error, match=says):
        read_history(path)
    with pytest.raises(error, match=says), open_ledger(path, lock=lock):
        pass
    assert path.read_bytes() == before


def _fill_disk(ledger: Ledger, *, room: int) -> None:
    """Leave ``room`` pages to the file, as a full disk would."""
    connection = ledger._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + room}")


def test_a_charge_that_does_not_fit_on_the_disk_is_no_charge(ledger: Ledger) -> None:
    _fill_disk(ledger, room=0)
    made = 0

    def reserve_another() -> None:
        request = request_of(make_study("small", name=f"s-{made}", epsilon="0.01"))
        ledger.reserve(request, release_id=bytes([made]) * 16, now=NOW)

    with contextlib.suppress(LedgerError):
        while True:
            reserve_another()
            made += 1
    with pytest.raises(LedgerError, match="full"):
        reserve_another()
    assert ledger.history().length == made
    _fill_disk(ledger, room=10)
    ledger.reserve(request_of(make_study("small")), release_id=bytes([200]) * 16, now=NOW)
    assert ledger.history().length == made + 1


def test_bytes_that_do_not_fit_on_the_disk_are_drawn_again_for_the_same_charge(
    ledger: Ledger,
) -> None:
    study = make_study([numeric_of(f"x{number}", 0, 1) for number in range(60)])
    reservation = ledger.reserve(request_of(study), release_id=ID, now=NOW)
    before = ledger.history()
    _fill_disk(ledger, room=1)
    with pytest.raises(LedgerError, match="full"):
        ledger.commit(drawn(study, reservation, seed=1), now=NOW)
    assert ledger.history() == before
    _fill_disk(ledger, room=100)
    assert ledger.reserve(request_of(study), release_id=OTHER, now=NOW) == reservation
    again = drawn(study, reservation, seed=2)
    ledger.commit(again, now=NOW)
    assert ledger.stored(study.digest).payload == again.payload()
    assert ledger.history().total("survey") == before.total("survey")


def test_no_entry_names_a_file_of_rows(ledger: Ledger, path: Path) -> None:
    _finished(ledger)
    direct = sqlite3.connect(path)
    documents = b"".join(row[0] for row in direct.execute("SELECT document FROM entries"))
    direct.close()
    for trace in (b"path", b"csv", b"mtime", str(path.parent).encode()):
        assert trace not in documents


def test_an_entry_of_a_file_that_says_no_command_keeps_its_bytes() -> None:
    request = replace(request_of(make_study("small")), kind=ReleaseKind.MODEL, name="anything new")
    for command in ("", "frobnicate study-1 --target sex"):
        made = Reservation(1, "2026-01-01T00:00:00+00:00", ID, replace(request, command=command))
        written = to_document(made, previous=FIRST)
        assert (b'"command"' in written) is bool(command)
        assert from_document(written, previous=FIRST) == made
