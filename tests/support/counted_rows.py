"""Somebody writes to a data set while a release is made of it, at each moment of the release.

The writer gives 40 rows one key, where the study protects one row of a person, and other numbers,
so that rows which were released show themselves. The law: what is released are the rows before.
"""

import io
import sqlite3
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.study import Study
from dppca.owner.commands import contribute, release_model
from dppca.owner.records.table import Table, moments_of_table, open_table
from dppca.owner.release import run
from dppca.owner.release.weights import plan_release, request_weights
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_results import kept_result
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, make_enrolled_site, make_trained_site, policy_text

MOMENTS = ("opened", "first reading", "question", "second reading", "answered")
"""After the data set was opened, in a pass over it, in the question, and before the charge."""
MANY = 40
_NUMBERS = {"contribute": "age", "train": "x0"}
KINDS = tuple(sorted(_NUMBERS))


class WrittenSource(ABC):
    """A data set that somebody can write to; ``fields`` are its policy's."""

    fields: str

    @abstractmethod
    def begin(self, folder: Path, rows: pa.Table) -> None:
        """Make it of these rows, for a site in a folder."""

    @abstractmethod
    def write(self, column: str) -> None:
        """Give the first `MANY` rows the key 7, and 1 in a column."""


class SqliteRows(WrittenSource):
    """A table of SQLite, which can be written to while it is read."""

    fields = "source: {sqlite: {path: rows.db}}, table: people, key: person"

    def begin(self, folder: Path, rows: pa.Table) -> None:
        self._path = folder / "rows.db"
        names = ", ".join(f"[{name}]" for name in rows.column_names)
        marks = ", ".join("?" * rows.num_columns)
        with closing(sqlite3.connect(self._path)) as file, file:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(f"CREATE TABLE people ({names})")
            lines = [tuple(row.values()) for row in rows.to_pylist()]
            file.executemany(f"INSERT INTO people VALUES ({marks})", lines)

    def write(self, column: str) -> None:
        with closing(sqlite3.connect(self._path)) as file, file:
            file.execute(f"UPDATE people SET person = 7, [{column}] = 1 WHERE person < {MANY}")


class FileRows(WrittenSource):
    """A file, of which another one takes the place."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self.fields = f"path: people.{suffix}, key: person"

    def begin(self, folder: Path, rows: pa.Table) -> None:
        self._path, self._rows = folder / f"people.{self._suffix}", rows
        self._save(rows)

    def write(self, column: str) -> None:
        many = pc.less(self._rows["person"], MANY)
        rows = self._rows
        for name, value in (("person", 7), (column, 1)):
            cells = rows[name].cast(pa.float64())
            changed = pc.if_else(many, pa.scalar(value, pa.float64()), cells)
            rows = rows.set_column(rows.column_names.index(name), name, changed)
        self._save(rows)

    def _save(self, rows: pa.Table) -> None:
        draft = self._path.with_name("draft")
        write = pa.csv.write_csv if self._suffix == "csv" else pq.write_table
        write(rows, draft)
        draft.replace(self._path)


@dataclass
class Releasing:
    """A release of a site's keyed rows, and a writer who comes once."""

    kind: str
    site: OwnerSite
    study: Study
    source: WrittenSource
    options: tuple[str, ...] = ()
    released: list[Any] = field(default_factory=list)

    def write(self) -> None:
        self.source.write(_NUMBERS[self.kind])

    def run(self, moment: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any]:
        """Make the release; somebody writes at this moment, never if it is none of `MOMENTS`."""
        writer = _Writer(moment, self.write)
        self.released.clear()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", _Steward(lambda: writer.now("question")))
            for module in (contribute, release_model):
                patch.setattr(module, "open_table", _then(module.open_table, writer, "opened"))
            patch.setattr(run, "store_release", self._stored(run.store_release, writer))
            patch.setattr(Table, "cells", _read(Table.cells, writer))
            return self.site.run(*self._line())

    def _line(self) -> tuple[str, ...]:
        if self.kind == "contribute":
            return ("contribute", self.study.name, *self.options)
        model = ("--target", "ill", "--method", "dp-svm", "--epsilon", "1", "--C", "1")
        return ("train", self.study.name, *model, *self.options)

    def _stored(self, store: Callable[..., Any], writer: "_Writer") -> Callable[..., Any]:
        def stored(ledger: Any, request: Any, plan: Any, prepared: Any, **how: Any) -> Any:
            writer.now("answered")
            self.released.append(prepared.packed if isinstance(prepared, Moments) else prepared)
            return store(ledger, request, plan, prepared, **how)

        return stored


def make_release(
    kind: str, source: WrittenSource, curator: Curator, folder: Path, *options: str
) -> Releasing:
    """A site whose rows have a key each, and what it releases of them."""
    if kind == "contribute":
        site = make_enrolled_site(curator, folder)
        study = curator.begin(site.name)
    else:
        site, study = make_trained_site(folder / "trained")
    rows = pa.csv.read_csv(site.folder / "rows.csv")
    source.begin(site.folder, rows.append_column("person", pa.array(np.arange(len(rows)))))
    policy = policy_text({"survey": source.fields}, budget='epsilon: "10", delta: "0"')
    (site.folder / "policy.yaml").write_text(policy)
    return Releasing(kind, site, study, source, options)


def require_counted(
    of: Releasing, moment: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> int:
    """Require the law at a moment; return the exit code."""
    code, found = of.run(moment, monkeypatch)
    if code:
        assert not of.released, found
        assert not of.site.history.reservations
        return code
    (released,) = of.released
    clean = _of_untouched_rows(of, monkeypatch, folder)
    assert np.array_equal(released, clean), "rows of another moment were released"
    return code


def _of_untouched_rows(
    of: Releasing, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> np.ndarray[Any, Any]:
    """Exact sums or weights of the rows to which nobody has written."""
    table = pa.csv.read_csv(of.site.folder / "rows.csv")
    path = folder / "untouched.parquet"
    pq.write_table(table, path)
    opened = open_table(path, of.study.table)
    if of.kind == "contribute":
        return moments_of_table(opened, of.study.table).packed
    result, digest = kept_result(load_site(of.site.folder), of.study)
    asked = request_weights(
        of.study, data_set="survey", target="ill", epsilon="1", delta=None, C=1.0
    )
    plan = plan_release(asked, result, n_rows=opened.n_rows, components_sha256=digest.hex())
    return plan.prepare(plan.read(opened))


class _Writer:
    def __init__(self, moment: str, write: Callable[[], None]) -> None:
        self._moment, self._write, self.n_readings = moment, write, 0

    def now(self, moment: str) -> None:
        if moment == self._moment:
            self._moment = ""
            self._write()


class _Steward(io.StringIO):
    """Types yes to every question, after something has happened."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__("y\n" * 9)
        self._meanwhile = meanwhile

    def isatty(self) -> bool:
        return True

    def readline(self, *arguments: Any) -> str:
        self._meanwhile()
        return super().readline(*arguments)


def _then(opened: Callable[..., Table], writer: _Writer, moment: str) -> Callable[..., Table]:
    def open_and_write(*arguments: Any) -> Table:
        table = opened(*arguments)
        writer.now(moment)
        return table

    return open_and_write


def _read(cells: Callable[..., Any], writer: _Writer) -> Callable[..., Iterator[Any]]:
    """Passes over a table, in each of which somebody may write after the first batch."""

    def read(table: Table, *arguments: Any, **how: Any) -> Iterator[Any]:
        writer.n_readings += 1
        moment = ("first reading", "second reading", "")[min(writer.n_readings, 3) - 1]
        for batch in cells(table, *arguments, **how):
            yield batch
            writer.now(moment)

    return read
