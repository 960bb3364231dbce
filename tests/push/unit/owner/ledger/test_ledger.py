from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dppca.common.amounts import decimal_text
from dppca.common.errors import (
    BudgetExceededError,
    LedgerCorruptError,
    LedgerError,
    LedgerVersionError,
    SettingError,
)
from dppca.common.privacy.accounting import Budget, PrivacyCost
from dppca.owner.ledger.chain import FIRST, History
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.entries import ReleaseKind, Reservation
from dppca.owner.ledger.entry_documents import from_document, to_document
from dppca.owner.ledger.file import VERSION
from dppca.owner.ledger.populations import Account, Population
from dppca.owner.ledger.reading import read_archive, read_history
from tests.support.ledgers import BUDGET, NOW, drawn, ledger_files, request_of, tamper
from tests.support.studies import make_study

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


def test_a_release_goes_from_reserve_to_sent_and_is_charged_once(ledger: Ledger) -> None:
    _finished(ledger)
    history = ledger.history()
    assert history.length == 3
    assert history.total("survey") == PrivacyCost(Decimal("1.0"), Decimal(0))
    assert list(history.deliveries) == [ID]


def test_what_is_stored_is_what_was_drawn(ledger: Ledger) -> None:
    study = make_study("small")
    reservation = ledger.reserve(request_of(study), release_id=ID, now=NOW)
    release = drawn(study, reservation)
    ledger.commit(release, now=NOW)
    stored = ledger.stored(study.digest)
    assert stored.payload == release.payload()
    assert stored.receipt == release.receipt.canonical_bytes()
    assert stored.commitment.n_rows == release.n_rows


def test_reserving_again_finds_the_reservation_and_charges_nothing(ledger: Ledger) -> None:
    first = ledger.reserve(request_of(make_study("small")), release_id=ID, now=NOW)
    assert ledger.reserve(request_of(make_study("small")), release_id=OTHER, now=NOW) == first
    assert ledger.history().total("survey").epsilon == Decimal("1.0")


def test_a_second_data_set_for_one_study_is_refused(ledger: Ledger) -> None:
    ledger.reserve(request_of(make_study("small")), release_id=ID, now=NOW)
    before = ledger.history()
    with pytest.raises(SettingError, match="--data-set survey"):
        ledger.reserve(request_of(make_study("small"), data_set="other"), release_id=OTHER, now=NOW)
    assert ledger.history() == before


def test_a_reservation_is_not_redrawn_at_another_price(ledger: Ledger) -> None:
    request = request_of(make_study("small"))
    ledger.reserve(request, release_id=ID, now=NOW)
    dearer = replace(request, charge=PrivacyCost(Decimal(2), Decimal(0)))
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


def test_sending_again_leaves_one_entry(ledger: Ledger) -> None:
    _finished(ledger)
    ledger.mark_sent(ID, now=NOW)
    assert ledger.history().length == 3


def test_nothing_is_there_to_send_before_the_commit(ledger: Ledger) -> None:
    study = make_study("small")
    ledger.reserve(request_of(study), release_id=ID, now=NOW)
    with pytest.raises(LedgerError, match="nothing is stored"):
        ledger.stored(study.digest)


def test_a_budget_can_be_spent_to_the_last_digit_and_no_further(ledger: Ledger) -> None:
    for number in range(30):
        request = request_of(make_study("small", name=f"s-{number}", epsilon="0.1"))
        ledger.reserve(request, release_id=bytes([number] * 16), now=NOW)
    before = ledger.history()
    assert before.total("survey").epsilon == BUDGET.epsilon
    least = replace(
        request_of(make_study("small")), charge=PrivacyCost(Decimal("1e-30"), Decimal(0))
    )
    with pytest.raises(BudgetExceededError, match=r"epsilon 3 at delta 0\.000001, 3 is spent"):
        ledger.reserve(least, release_id=OTHER, now=NOW)
    assert ledger.history() == before


def test_a_refusal_leaves_the_ledger_usable(ledger: Ledger) -> None:
    with pytest.raises(BudgetExceededError):
        ledger.reserve(request_of(make_study("small", epsilon="9")), release_id=ID, now=NOW)
    _finished(ledger)


def test_gaussian_releases_are_charged_in_rho_and_add_to_pure_ones(ledger: Ledger) -> None:
    gaussian = make_study("small", name="gauss", epsilon="2.0", delta="1e-6")
    ledger.reserve(request_of(gaussian), release_id=ID, now=NOW)
    ledger.reserve(request_of(make_study("small", epsilon="0.9")), release_id=OTHER, now=NOW)
    total = ledger.history().total("survey")
    assert total.epsilon == Decimal("0.9")
    assert total.rho > 0
    with pytest.raises(BudgetExceededError):
        ledger.reserve(
            request_of(make_study("small", name="more", epsilon="0.2")), release_id=ID, now=NOW
        )


def test_a_gaussian_study_is_refused_where_delta_is_zero(ledger: Ledger) -> None:
    pure = Budget(Decimal(100), Decimal(0))
    gaussian = make_study("small", epsilon="0.1", delta="1e-6")
    with pytest.raises(BudgetExceededError, match="delta"):
        ledger.reserve(request_of(gaussian, budget=pure), release_id=ID, now=NOW)


def test_populations_have_budgets_of_their_own(ledger: Ledger) -> None:
    ledger.reserve(request_of(make_study("small", epsilon="3.0")), release_id=ID, now=NOW)
    request = request_of(make_study("small", name="study-2", epsilon="3.0"), data_set="other")
    policy = replace(request.account, others=(Population("survey", BUDGET),))
    ledger.reserve(replace(request, account=policy), release_id=OTHER, now=NOW)
    assert ledger.history().data_sets == ("survey", "other")


def test_a_population_or_a_source_in_a_charge_is_read_again(ledger: Ledger, path: Path) -> None:
    plain = request_of(make_study("small"))
    ledger.reserve(plain, release_id=ID, now=NOW)
    account = Account("survey", Population("patients", BUDGET, was=("survey",)), "ab" * 32)
    asked = replace(request_of(make_study("small", name="study-2")), account=account)
    ledger.reserve(asked, release_id=OTHER, now=NOW)
    found = read_history(path).reservations[1].request.account
    assert found == replace(account, population=Population("patients", BUDGET))
    assert ledger.history().total("patients").epsilon == Decimal(2)


@pytest.mark.parametrize(
    ("number", "text"),
    [("3.0", "3"), ("0", "0"), ("1E+2", "100"), ("1e-9", "0.000000001"), ("10", "10")],
)
def test_decimals_are_written_in_full(number: str, text: str) -> None:
    assert decimal_text(Decimal(number)) == text


def test_decimals_longer_than_a_context_are_not_rounded() -> None:
    long = "1." + "1" * 29
    assert decimal_text(Decimal(long)) == long


def test_a_site_that_never_released_has_an_empty_history(path: Path) -> None:
    assert read_history(path) == History()
    assert not path.exists()


def test_what_one_command_wrote_the_next_one_reads(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
        written = ledger.history()
    assert read_history(path) == written
    with open_ledger(path, lock=lock) as ledger:
        assert ledger.history() == written


def test_a_second_command_of_the_site_waits_and_then_gives_up(ledger: Ledger, path: Path) -> None:
    with (
        pytest.raises(LedgerError, match="another command"),
        open_ledger(path, lock=path.with_name("site.lock"), wait_s=0),
    ):
        pass
    assert ledger.history().length == 0


def test_reading_needs_no_lock(ledger: Ledger, path: Path) -> None:
    _finished(ledger)
    assert read_history(path).length == 3


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET digest = x'00'",
        "DELETE FROM entries",
        "DELETE FROM releases",
        "UPDATE releases SET payload = x'00'",
        "INSERT OR REPLACE INTO entries VALUES (1, x'00', x'00')",
        "INSERT INTO entries VALUES (9, x'00', x'00')",
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
        "UPDATE releases SET payload = zeroblob(length(payload))",
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
    ("change", "error"),
    [
        (
            lambda path: path.write_bytes(b"not a database, but long enough" * 40),
            LedgerCorruptError,
        ),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), LedgerCorruptError),
        (lambda path: tamper(path, f"PRAGMA user_version = {VERSION + 1}"), LedgerVersionError),
        (lambda path: tamper(path, "PRAGMA application_id = 7"), LedgerError),
    ],
)
def test_a_file_that_is_no_ledger_is_refused(
    tmp_path: Path, change: Callable[[Path], object], error: type[LedgerError]
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
    change(path)
    with pytest.raises(error):
        read_history(path)
    with pytest.raises(error), open_ledger(path, lock=lock):
        pass


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_ledger_of_another_version_is_refused_by_name_and_left_alone(
    tmp_path: Path, version: int
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        _finished(ledger)
    tamper(path, "PRAGMA journal_mode = WAL")
    tamper(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with (
        pytest.raises(LedgerVersionError, match=f"version {version}; this"),
        open_ledger(path, lock=lock),
    ):
        pass
    with pytest.raises(LedgerVersionError, match=f"version {version}; this"):
        read_history(path)
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
    attributes = [
        {"name": f"x{number}", "type": "numeric", "lower": 0, "upper": 1} for number in range(60)
    ]
    schema = {"resolution_bits": 4, "max_rows_per_person": 1, "attributes": attributes}
    study = make_study("small", schema=schema)
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


def test_a_ledger_that_cannot_be_written_says_so_and_stays_as_it_was(tmp_path: Path) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        study = make_study("small")
        reservation = ledger.reserve(request_of(study), release_id=ID, now=NOW)
        ledger.commit(drawn(study, reservation), now=NOW)
        before = ledger.history()
        ledger._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(LedgerError, match="readonly"):
            ledger.reserve(
                request_of(make_study("small", name="study-2")), release_id=OTHER, now=NOW
            )
        with pytest.raises(LedgerError, match="readonly"):
            ledger.mark_sent(ID, now=NOW)
        assert ledger.history() == before


def test_no_entry_names_a_file_of_rows(ledger: Ledger, path: Path) -> None:
    _finished(ledger)
    direct = sqlite3.connect(path)
    documents = b"".join(row[0] for row in direct.execute("SELECT document FROM entries"))
    direct.close()
    for trace in (b"path", b"csv", b"mtime", str(path.parent).encode()):
        assert trace not in documents


def test_entries_of_files_that_say_no_command_keep_their_bytes_and_name_what_makes_them() -> None:
    request = request_of(make_study("small"))
    for kind, name, says in (
        (ReleaseKind.MODEL, "dp-svm for sex", "`dppca-owner train study-1` with the options"),
        (ReleaseKind.CONTRIBUTION, "", "`dppca-owner contribute study-1`"),
    ):
        before = Reservation(
            1, "2026-01-01T00:00:00+00:00", ID, replace(request, kind=kind, name=name)
        )
        written = to_document(before, previous=FIRST)
        assert b'"command"' not in written
        assert (b'"model"' in written) is bool(name)
        again = from_document(written, previous=FIRST)
        assert again == before
        assert before.request.resume_command.startswith(says)
    now = replace(
        request,
        kind=ReleaseKind.MODEL,
        name="anything new",
        command="frobnicate study-1 --target sex",
    )
    assert now.resume_command == "`dppca-owner frobnicate study-1 --target sex`"
    made = Reservation(1, "2026-01-01T00:00:00+00:00", ID, now)
    assert from_document(to_document(made, previous=FIRST), previous=FIRST) == made
