"""However a worker ends, the sums of a table end too: with all rows, or with its error."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.owner.records import table as tables
from dppca.owner.records.table import CellBatch, Table, moments_of_table, open_table
from tests.support.patience import WAIT_S
from tests.support.studies import make_schema, numeric_of

SCHEMA = make_schema([numeric_of("age", 0, 100), numeric_of("size", 0, 200)])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    rows = tmp_path / "rows.csv"
    rows.write_text("age,size\n" + "7,180\n" * 60)
    return open_table(rows, SCHEMA)


def end_of(table: Table, workers: int, **more: Any) -> object:
    """What comes of the sums, within a hang's limit: their error, or the number of rows."""
    ended = list[object]()

    def add() -> None:
        try:
            found = moments_of_table(table, SCHEMA, batch_rows=10, workers=workers, **more)
        except BaseException as error:  # noqa: BLE001 - it is told to the test
            ended.append(type(error))
        else:
            ended.append(found.n_rows)

    thread = Thread(target=add, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return ended[0] if ended else "it waits"


class _Ends(BaseException):
    """As a library in Rust ends."""


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    ("owner", "name"),
    [(MomentSums, "__init__"), (MomentSums, "add"), (MomentSums, "total"), (CellBatch, "columns")],
)
@pytest.mark.parametrize("kind", [TypeError, MemoryError, _Ends])
def test_a_worker_that_ends_early_ends_the_sums_with_its_error(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    owner: type,
    name: str,
    kind: type[BaseException],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind

    monkeypatch.setattr(owner, name, fail)
    assert end_of(table, workers) is kind


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_one_of_several_workers_that_ends_is_enough(
    table: Table, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    made = list[object]()

    def make(schema: Any) -> MomentSums:
        made.append(None)
        if len(made) == workers:
            raise MemoryError
        return MomentSums(schema)

    monkeypatch.setattr(tables, "MomentSums", make)
    assert end_of(table, workers) is MemoryError


@pytest.mark.parametrize("allowed", [0, 1, 2])
def test_workers_that_the_system_does_not_give_are_not_waited_for(
    table: Table, monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    given = list[object]()

    class FewThreads(ThreadPoolExecutor):
        def submit(self, *task: Any) -> Any:  # type: ignore[override]
            given.append(None)
            if len(given) > allowed:
                raise RuntimeError("can't start new thread")
            return super().submit(*task)

    monkeypatch.setattr(tables, "ThreadPoolExecutor", FewThreads)
    assert end_of(table, 3) is RuntimeError


def test_progress_that_ends_it_ends_it_and_without_a_fault_all_rows_are_added(
    table: Table,
) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    assert end_of(table, 3, progress=stop) is KeyboardInterrupt
    assert end_of(table, 3) == 60
