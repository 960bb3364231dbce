"""The law of `counted_rows`, in PostgreSQL, files and by workers: what is released was counted."""

from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dppca.common.kernel.moments.moments import Moments
from dppca.owner.commands import contribute
from dppca.owner.engines.engine import LocalEngine
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.queries import POSTGRESQL
from dppca.owner.records.table import open_table
from tests.support.counted_rows import (
    KINDS,
    MOMENTS,
    FileRows,
    WrittenSource,
    make_release,
    require_counted,
)
from tests.support.curator import Curator
from tests.support.engines import InProcess
from tests.support.postgres import PostgresServer
from tests.support.studies import make_schema, numeric_of

LIVE = {"opened": 19, "first reading": 19, "question": 19}
FILE = {"opened": 13, "first reading": 13}


class PostgresRows(WrittenSource):
    """A table of PostgreSQL."""

    fields = "source: {postgresql: {uri: {file: people.dsn}}}, table: keyed_people, key: person"

    def __init__(self, postgres: PostgresServer) -> None:
        self._postgres = postgres

    def begin(self, folder: Path, rows: pa.Table) -> None:
        (folder / "people.dsn").write_text(self._postgres.address())
        (folder / "people.dsn").chmod(0o600)
        self._postgres.run("DROP TABLE IF EXISTS keyed_people")
        with self._postgres.connection() as connection, closing(connection.cursor()) as cursor:
            cursor.adbc_ingest("keyed_people", rows, mode="create")

    def write(self, column: str) -> None:
        self._postgres.run(f"UPDATE keyed_people SET person = 7, {column} = 1 WHERE person < 40")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_rows_of_postgresql_are_counted_as_they_are_released(
    curator: Curator,
    postgres: PostgresServer,
    tmp_path: Path,
    kind: str,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = make_release(kind, PostgresRows(postgres), curator, tmp_path)
    assert require_counted(of, moment, monkeypatch, tmp_path) == LIVE.get(moment, 0)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_rows_of_a_file_are_counted_as_they_are_released(
    curator: Curator,
    tmp_path: Path,
    suffix: str,
    kind: str,
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = make_release(kind, FileRows(suffix), curator, tmp_path)
    assert require_counted(of, moment, monkeypatch, tmp_path) == FILE.get(moment, 0)


class _WritingEngine(InProcess):
    """Workers that have added up everything before somebody writes."""

    def __init__(self, write: Callable[[], object]) -> None:
        super().__init__()
        self._write = write

    def sum_table(self, table: Any, **how: Any) -> Moments:
        merged = self._merged

        def merged_and_written(*arguments: Any) -> Moments:
            moments = merged(*arguments)
            self._write()
            return moments

        self._merged = merged_and_written  # type: ignore[method-assign]
        return super().sum_table(table, **how)


def test_a_file_that_is_replaced_before_the_keys_of_workers_are_counted_is_refused(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = make_release("contribute", FileRows("parquet"), curator, tmp_path, "--yes")

    @contextmanager
    def engine(*_: object) -> Any:
        yield _WritingEngine(of.write)

    with monkeypatch.context() as patch:
        patch.setattr("dppca.owner.commands.contribute.open_engine", engine)
        assert require_counted(of, "", monkeypatch, tmp_path) == 13


@pytest.mark.parametrize("is_off", [True, False])
def test_a_scan_that_begins_where_another_one_is_gives_the_rows_that_were_counted(
    postgres: PostgresServer, tmp_path: Path, is_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of 500 rows, while another session reads on; person 7 has those in the middle."""
    postgres.run(
        "DROP TABLE IF EXISTS scanned",
        "CREATE TABLE scanned (person int, age int, filler text)",
        "INSERT INTO scanned SELECT CASE WHEN i BETWEEN 30000 AND 60000 THEN 7 ELSE -i END, "
        "i % 100, repeat('x', 300) FROM generate_series(1, 90000) i",
        "ANALYZE scanned",
    )
    (tmp_path / "q.sql").write_text("SELECT person, age, 0 AS sex FROM scanned LIMIT 500")
    attributes = [numeric_of("age", 0, 100), numeric_of("sex", 0, 1)]
    schema = make_schema(attributes, max_rows_per_person=1)
    table = open_table(postgres.place(query=tmp_path / "q.sql"), schema)
    if not is_off:
        begin = tuple(each for each in POSTGRESQL.begin if "synchronize" not in each)
        assert len(begin) == len(POSTGRESQL.begin) - 1
        place = type(table.source.place)  # type: ignore[attr-defined]
        monkeypatch.setattr(place, "dialect", replace(POSTGRESQL, begin=begin))
    tally = FaultCounts(schema)
    with (
        postgres.connection() as other,
        closing(other.cursor()) as cursor,
        table.latest("person") as latest,
    ):
        for statement in ("BEGIN", "DECLARE c CURSOR FOR SELECT * FROM scanned", "MOVE 40000 c"):
            cursor.execute(statement)
        moments = LocalEngine().sum_table(latest, tally=tally, progress=lambda _: None)
        people = tally.report(latest).key
        again = latest.count_keys("person", allowed=1)
        cursor.execute("ROLLBACK")
    assert moments.n_rows == 500
    assert people is not None
    assert people.most == (1 if is_off else 500)
    assert again.most == (1 if is_off else 500)


def test_a_preview_counts_what_it_shows(
    curator: Curator, postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = make_release("contribute", PostgresRows(postgres), curator, tmp_path)
    opened = contribute.open_table

    def opened_and_written(*arguments: Any) -> Any:
        table = opened(*arguments)
        of.write()
        return table

    monkeypatch.setattr(contribute, "open_table", opened_and_written)
    code, shown = of.site.run("review", of.study.name)
    assert (code, shown["coded_by_rule"]["key"]["most"]) == (19, 40)
