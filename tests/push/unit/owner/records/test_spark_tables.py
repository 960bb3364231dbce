"""Which version of a Spark table is read, and what is refused; with a session that only answers.

What Spark itself makes of it is tried in `tests/night/spark`.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from dppca.common.kernel.errors import DataError
from dppca.owner.records import spark_tables
from dppca.owner.records.spark_tables import SparkLocation
from dppca.owner.records.table import Table
from tests.support.studies import make_schema, numeric_of

NAME = "`lake`.`clinic`.`visits`"


class _Session:
    """Answers statements; a table of so many rows in a format."""

    def __init__(self, provider: str, *, n_rows: int = 3, plan: str = "Scan") -> None:
        self.provider, self.n_rows, self.plan = provider, n_rows, plan
        self.asked: list[str] = []

    def sql(self, statement: str) -> Any:
        self.asked.append(statement)
        first, rows = statement.split()[0], [(7,)]
        if first == "EXPLAIN":
            rows = [(self.plan,)]
        elif statement.startswith("DESCRIBE TABLE"):
            rows = [("age", "int"), ("Provider", self.provider)] if self.provider else []
        return SimpleNamespace(
            collect=lambda: rows, columns=["age", " sex "], count=lambda: self.n_rows
        )


def _open(
    session: _Session, monkeypatch: pytest.MonkeyPatch, version: int | None = None
) -> spark_tables.SparkTable:
    monkeypatch.setattr(spark_tables, "open_session", lambda: session)
    place = SparkLocation("visits (Spark table)", ("lake", "clinic", "visits"), version)
    return place.open()


@pytest.mark.parametrize(
    ("provider", "question"),
    [
        ("delta", f"DESCRIBE HISTORY {NAME} LIMIT 1"),
        ("ICEBERG", f"SELECT snapshot_id FROM {NAME}.refs WHERE name = 'main'"),
    ],
)
def test_the_newest_version_is_asked_for_once_and_then_read(
    provider: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _Session(provider)
    table = _open(session, monkeypatch)
    assert (table.version, table.n_rows, table.names) == (7, 3, ("age", "sex"))
    assert question in session.asked
    assert session.asked[-1] == f"SELECT * FROM {NAME} VERSION AS OF 7" or (
        session.asked[-1] == f"EXPLAIN SELECT * FROM {NAME} VERSION AS OF 7"
    )
    session.n_rows = 4
    table.require_rows(3)  # a version stays what it is
    with pytest.raises(DataError, match="had 3 rows when it was counted, and 2 were read"):
        table.require_rows(2)


def test_a_version_of_the_policy_is_read_and_no_other_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = _Session("delta")
    assert _open(session, monkeypatch, version=2).version == 2
    read = [statement for statement in session.asked if "SELECT" in statement]
    assert all(statement.endswith(f"SELECT * FROM {NAME} VERSION AS OF 2") for statement in read)
    assert len(read) == 2
    assert session.asked[0] == f"REFRESH TABLE {NAME}"


@pytest.mark.parametrize(
    "plan", ["Scan JDBCRelation(people) [numPartitions=4]", "*(1) Scan a.b.v2.jdbc.JDBCScan$1@f"]
)
def test_a_table_that_is_read_by_jdbc_is_refused(
    plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="by JDBC"):
        _open(_Session("parquet", plan=plan), monkeypatch)


@pytest.mark.parametrize(
    ("plan", "in_steps"),
    [
        ("*(1) ColumnarToRow\n+- FileScan parquet", False),
        ("HashAggregate\n+- Exchange hashpartitioning(x#1, 200)", True),
        ("BroadcastHashJoin\n:- BroadcastExchange HashedRelation", True),
    ],
)
def test_a_view_that_moves_rows_between_tasks_is_made_in_steps(
    plan: str, in_steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _open(_Session("", plan=plan), monkeypatch).in_steps is in_steps


def test_names_are_quoted_and_one_table_is_one_data_set_whatever_its_version() -> None:
    one = SparkLocation("", ("Lake", "clinic", "a b"), 1)
    assert one.quoted == "`Lake`.`clinic`.`a b`"
    other = SparkLocation("", ("lake", "CLINIC", "A b"))
    assert one.place == other.place


@pytest.mark.parametrize("provider", ["delta", "parquet", ""])
def test_rows_of_people_are_counted_of_a_version_alone(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two passes over a table without versions, or over a view, may be over other rows."""
    source = _open(_Session(provider), monkeypatch)
    table = Table(make_schema([numeric_of("age", 0, 1), numeric_of("sex", 0, 1)]), source)
    assert source.is_pinned is (provider == "delta")
    if source.is_pinned:
        with table.latest("age") as latest:
            assert latest.key == "age"
        return
    with pytest.raises(DataError, match="Keep it as Delta or Iceberg"), table.latest("age"):
        pass
    with pytest.raises(DataError, match="the rows of each age cannot be counted"):
        table.count_keys("age", allowed=1)
    with table.latest():
        pass
