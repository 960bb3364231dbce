"""A table or view of Spark's catalogue, at one version where its format has versions.

Spark reads it, by whatever right its user has. `SparkTable.read` streams the columns to this
machine, so that a Spark table is a data set for every command; `dppca.owner.engines.spark` adds
them up where they are. Never by JDBC: its partitions would be rows of several moments, and a
database is read by its own driver.

A Delta or Iceberg table is read at the version that it has when it is counted. Any other table is
counted before and after: other figures mean that it was written to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from dppca.common.errors import DataError
from dppca.owner.records.locations import SparkLocation
from dppca.owner.records.sources import Malformed
from dppca.owner.records.spark_sessions import asking, open_session

_BY_JDBC: Final = re.compile(r"\b(?:JDBCRelation|JDBCScan|JDBCTable)\b")
_IN_STEPS: Final = re.compile(r"Exchange\b")
_PACKED: Final = "cells binary"
_NEWEST: Final = {
    "delta": "DESCRIBE HISTORY {table} LIMIT 1",
    "iceberg": "SELECT snapshot_id FROM {table}.refs WHERE name = 'main'",
}


@dataclass(frozen=True, slots=True)
class SparkTable:
    """A table as it was when it was counted.

    Attributes
    ----------
    version
        Of Delta, or the snapshot of Iceberg; None for a format without versions.
    fields
        Its columns, as Spark names them.
    in_steps
        Whether Spark moves rows between its tasks to make it, as for a view that groups or joins.
    """

    place: SparkLocation
    version: int | None
    fields: tuple[str, ...]
    n_rows: int
    in_steps: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """As `Source.names`."""
        return tuple(name.strip() for name in self.fields)

    @property
    def malformed(self) -> Malformed:
        """None: a table has no lines."""
        return Malformed()

    def read(
        self,
        names: Sequence[str],
        batch_rows: int,
        *,
        labels: Collection[str] = (),  # noqa: ARG002 - Spark lists no texts
    ) -> Iterator[list[Any]]:
        """As `Source.read`, one partition after the other."""
        frame, n_read = self.select(names, batch_rows), 0
        with asking(self.place.title):
            for row in frame.mapInArrow(_packing(), _PACKED).toLocalIterator():
                for batch in pa.ipc.open_stream(row[0]):
                    n_read += batch.num_rows
                    yield batch.columns
        self.require_rows(n_read)

    def select(self, names: Sequence[str], batch_rows: int) -> Any:
        """A DataFrame of these columns, whose Arrow batches have so many rows at most."""
        session = open_session()
        with asking(self.place.title):
            session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch_rows))
            session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
            fields = [_quoted(self.fields[self.names.index(name)]) for name in names]
            # By number: mapInArrow takes no name with a backtick in it.
            columns = [f"{field} AS column_{number}" for number, field in enumerate(fields)]
            return _frame(session, self.place, self.version).selectExpr(*columns)

    def require_rows(self, n_read: int) -> None:
        """Refuse rows that were read if they are not those that were counted; `DataError`.

        A table without versions is counted once more.
        """
        n_now = n_read if self.version is not None else open_spark_table(self.place).n_rows
        for n_rows, when in ((n_read, "were read"), (n_now, "are there now")):
            if n_rows != self.n_rows:
                raise DataError(
                    f"{self.place.title} had {self.n_rows} rows when it was counted, and {n_rows} "
                    f"{when}: do not write to it meanwhile, or keep it as Delta or Iceberg, which "
                    "have versions"
                )


def open_spark_table(place: SparkLocation) -> SparkTable:
    """Find a table's columns, version and rows.

    Raises
    ------
    DataError
        There is no such table, it may not be read, or it is read by JDBC.
    SettingError
        As `open_session`.
    """
    session = open_session()
    with asking(place.title):
        session.sql(f"REFRESH TABLE {place.quoted}")  # a session remembers a table's files
        version = place.version
        if version is None:
            version = _newest(session, place)
        frame = _frame(session, place, version)
        fields = tuple(frame.columns)
        plan = session.sql(f"EXPLAIN {_query(place, version)}").collect()[0][0]
        n_rows = 0 if _BY_JDBC.search(plan) else frame.count()
    if _BY_JDBC.search(plan):
        raise DataError(
            f"{place.title} is read from a database by JDBC, in parts of several moments: name the "
            "database itself in policy.yaml, as source: {postgresql: ...}"
        )
    return SparkTable(place, version, fields, n_rows, _IN_STEPS.search(plan) is not None)


def _newest(session: Any, place: SparkLocation) -> int | None:
    """The version that a table has now; None for one without versions, and for a view."""
    described = session.sql(f"DESCRIBE TABLE EXTENDED {place.quoted}").collect()
    provider = next((row[1] for row in described if row[0] == "Provider"), "").lower()
    asked = _NEWEST.get(provider)
    if asked is None:
        return None
    return int(session.sql(asked.format(table=place.quoted)).collect()[0][0])  # its first column


def _frame(session: Any, place: SparkLocation, version: int | None) -> Any:
    return session.sql(_query(place, version))


def _query(place: SparkLocation, version: int | None) -> str:
    at = "" if version is None else f" VERSION AS OF {version}"
    return f"SELECT * FROM {place.quoted}{at}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _packing() -> Any:
    """A function for Spark's workers, which need nothing of ours for it: it is sent by value."""

    def pack(batches: Any) -> Any:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            cells = pa.array([sink.getvalue().to_pybytes()], pa.large_binary())
            yield pa.RecordBatch.from_arrays([cells], ["cells"])

    return pack
