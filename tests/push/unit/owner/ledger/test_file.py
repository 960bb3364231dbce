import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dppca.common.kernel.errors import LedgerCorruptError
from dppca.owner.ledger import file
from dppca.owner.ledger.chain import History, LedgerRow, verify_chain
from dppca.owner.ledger.database import open_ledger
from dppca.owner.ledger.entries import Recovery, time_text
from dppca.owner.ledger.file import read_history
from tests.support.ledgers import NOW, drawn, ledger_files, request_of, tamper
from tests.support.studies import make_study

STUDY = make_study("small")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The length of each chain that is verified from its first entry."""
    made: list[int] = []

    def counted(rows: Iterable[LedgerRow]) -> History:
        history = verify_chain(rows)
        made.append(history.length)
        return history

    monkeypatch.setattr(file, "verify_chain", counted)
    file._verified.clear()
    yield made
    file._verified.clear()


def test_a_chain_is_verified_once_and_extended_by_what_this_process_appends(
    tmp_path: Path, passes: list[int]
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        reservation = ledger.reserve(request_of(STUDY), release_id=bytes(16), now=NOW)
        ledger.commit(drawn(STUDY, reservation), now=NOW)
        ledger.mark_sent(bytes(16), now=NOW)
        extended = ledger.history()
    assert read_history(path) == extended
    assert passes == [0], "an empty ledger"
    file._verified.clear()
    assert read_history(path) == extended, "what was extended is what a full reading gives"
    assert passes == [0, 3]


def test_a_step_that_is_taken_back_half_way_leaves_the_chain_as_the_file_is(
    tmp_path: Path, passes: list[int]
) -> None:
    path, lock = ledger_files(tmp_path)
    lost = Recovery(0, time_text(NOW), bytes(16), request_of(STUDY), 5, "0" * 64)
    with open_ledger(path, lock=lock) as ledger:
        with pytest.raises(LedgerCorruptError, match="known already"):
            ledger.recover([lost, lost])
        assert ledger.history() == History()
    assert passes == [0]


def test_a_file_that_is_another_one_or_was_written_by_others_is_verified_again(
    tmp_path: Path, passes: list[int]
) -> None:
    path, lock = ledger_files(tmp_path)
    with open_ledger(path, lock=lock) as ledger:
        ledger.reserve(request_of(STUDY), release_id=bytes(16), now=NOW)
    copy = tmp_path / "copy"
    shutil.copy2(path, copy)
    copy.replace(path)
    assert read_history(path).length == 1
    assert passes == [0, 1], "the same bytes in another file"
    tamper(path, "UPDATE entries SET document = replace(document, 'survey', 'other!')")
    with pytest.raises(LedgerCorruptError, match="entry 1"):
        read_history(path)
