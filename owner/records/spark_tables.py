"""A table or view of Spark's catalogue, at one version if its format has versions.

Spark reads it, with its user's rights. `SparkTable.read` streams the columns to this machine, so a
Spark table is a data set for every command; `dppca.owner.engines.spark` adds them up in place.
JDBC is refused: its partitions would be rows of several moments, and a database is read by its own
driver.

A Delta or Iceberg table is read at the version that it has when it is counted. Any other table is
counted before and after: a difference means that it was written to. As many rows may be others, so
a table without versions is refused where the rows of one person are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.owner.records.locations import Location, Place
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.spark_sessions import open_session, translated_errors

_BY_JDBC: Final = re.compile(r"\b(?:JDBCRelation|JDBCScan|JDBCTable)\b")
_IN_STEPS: Final = re.compile(r"Exchange\b")
_PACKED: Final = "cells binary"
_NEWEST: Final = {
    "delta": "DESCRIBE HISTORY {table} LIMIT 1",
    "iceberg": "SELECT snapshot_id FROM {table}.refs WHERE name = 'main'",
}


@dataclass(frozen=True, slots=True)
class SparkLocation(Location):
    """A table or view of Spark's catalogue, by catalogue, schema and name.

    ``version`` is the version of Delta, or the snapshot of Iceberg; None for the newest.
    """

    table: tuple[str, str, str]
    version: int | None = None
    engine: ClassVar[str] = "spark"

    @property
    def quoted(self) -> str:
        """Quoted name for a statement."""
        return ".".join(f"`{part}`" for part in self.table)

    @property
    def place(self) -> Place:
        """Place of the table, independent of its version."""
        return Place(("spark", *(part.casefold() for part in self.table)))

    def open(self) -> SparkTable:
        """Read columns and version, and count the rows; `DataError` for a table read by JDBC."""
        session = open_session()
        with translated_errors(self.title):
            session.sql(f"REFRESH TABLE {self.quoted}")  # a session remembers a table's files
            version = self.version
            if version is None:
                version = _newest(session, self)
            frame = _frame(session, self, version)
            fields = tuple(frame.columns)
            plan = session.sql(f"EXPLAIN {_query(self, version)}").collect()[0][0]
            n_rows = 0 if _BY_JDBC.search(plan) else frame.count()
        if _BY_JDBC.search(plan):
            raise DataError(
                f"{self.title} is read from a database by JDBC, in parts of several moments: name "
                "the database itself in policy.yaml, as source: {postgresql: ...}"
            )
        return SparkTable(
            title=self.title,
            names=tuple(name.strip() for name in fields),
            n_rows=n_rows,
            in_steps=_IN_STEPS.search(plan) is not None,  # as for a view that groups or joins
            place=self,
            version=version,
            fields=fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable(Source):
    """A table at the time it was counted.

    ``version`` is None for a format without versions; ``fields`` are its columns, as Spark names
    them.
    """

    place: SparkLocation
    version: int | None
    fields: tuple[str, ...]
    is_numbered: ClassVar[bool] = False
    mend: ClassVar[str] = "check the view and the rights of the user"
    uncut: ClassVar[str] = "has no files for others to read: --engine spark adds it up"

    @property
    def is_pinned(self) -> bool:
        """True for a version of the table (`Source.is_pinned`)."""
        return self.version is not None

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read one partition after the other (`Rows.read`)."""
        frame = self.frame(wanted.names, wanted.batch_rows)
        with translated_errors(self.title):
            for row in frame.mapInArrow(_packing(), _PACKED).toLocalIterator():
                for batch in pa.ipc.open_stream(row[0]):
                    yield batch.columns

    def frame(self, names: Sequence[str], batch_rows: int) -> Any:
        """DataFrame of these columns, whose Arrow batches have at most ``batch_rows`` rows."""
        session = open_session()
        with translated_errors(self.title):
            session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch_rows))
            session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
            fields = [self.fields[self.names.index(name)].replace("`", "``") for name in names]
            # By number: mapInArrow takes no name with a backtick in it.
            columns = [f"`{field}` AS column_{number}" for number, field in enumerate(fields)]
            return _frame(session, self.place, self.version).selectExpr(*columns)

    def require_rows(self, n_read: int) -> None:
        """Raise `DataError` unless the counted rows were read.

        A table without versions is counted once more.
        """
        n_now = n_read if self.version is not None else self.place.open().n_rows
        for n_rows, when in ((n_read, "were read"), (n_now, "are there now")):
            if n_rows != self.n_rows:
                raise DataError(
                    f"{self.title} had {self.n_rows} rows when it was counted, and {n_rows} "
                    f"{when}: do not write to it meanwhile, or keep it as Delta or Iceberg, which "
                    "have versions"
                )


def _newest(session: Any, place: SparkLocation) -> int | None:
    """Current version of a table; None for a view and for a format without versions."""
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


def _packing() -> Any:
    """Function for Spark's workers, sent by value: it needs none of this project's modules."""

    def pack(batches: Any) -> Any:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            cells = pa.array([sink.getvalue().to_pybytes()], pa.large_binary())
            yield pa.RecordBatch.from_arrays([cells], ["cells"])

    return pack
