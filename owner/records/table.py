"""Rows of a data set, seen through a schema, and the exact sums over them.

Columns are found by name, in any order; columns that the schema does not name are not read, and
are reported. Only a few batches are kept in memory: a table may be larger than memory and read any
number of times.

Sums take one pass, in which decoding, coding and multiplying overlap. One worker decodes, which
hardly needs the interpreter, and the others code and multiply what it has read; when enough batches
wait, it codes and multiplies one, too. So all cores do what takes the longest, no more threads work
than there are cores, and they seldom wait for each other at the interpreter's lock.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.accumulation import MomentSums, ProductMethod, choose_method
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.moments.threads import count_cores, one_blas_thread
from dppca.common.kernel.schema import Attribute, Column, Schema
from dppca.common.kernel.schema.attributes import list_labels
from dppca.common.kernel.schema.columns import KnownLists, absent_column, parse_column
from dppca.common.kernel.schema.units import Unit
from dppca.owner.records.date_forms import ISO
from dppca.owner.records.faults import CellOutcome, KeyReport, Outcomes
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.locations import Location
from dppca.owner.records.people import PeopleCounts, count_people
from dppca.owner.records.reading_ahead import ReadAhead
from dppca.owner.records.sources import Source, Wanted
from dppca.owner.records.text_format import DELIMITERS, HEADER_LINE, USUAL, TextFormat

if TYPE_CHECKING:
    from dppca.owner.records.mapping_cells import MappedColumns

_CODED_VALUES_PER_BATCH = 1 << 22  # some 16 MB of them
_SHOWN = 20  # columns in a message
_BATCH_ROWS = 1 << 16  # at most, of any batch
_BATCH_VALUES = 1 << 20  # for a core's cache
_WIDE = 2048  # columns of which sums are not held twice


class Tally(Protocol):
    """Counter of what coding replaces, such as `dppca.owner.records.check.FaultCounts`."""

    def add(
        self,
        columns: Sequence[Column],
        cells: Mapping[str, Any],
        keys: Any,
        *,
        outcomes: Outcomes,
    ) -> object:
        """Count a batch of columns as `encode` takes them, its cells and its keys, None without.

        ``outcomes`` says what a mapping made of cells.

        Several threads may call.
        """


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a data set, as the columns that `encode` takes.

    ``absent`` are attributes that are allowed to be absent and are; each of their values is
    missing. ``key`` is the column that tells people apart, where their rows are counted: every
    batch brings it, so that the rows that are added are the rows that are counted. ``mapped`` are
    the rules of a site's mapping, None without one; ``reading_sha256`` is the digest of these and
    of the format, empty if cells are read as they are. ``dates`` is the form in which the format
    says that days are written. ``people`` are the counted rows of each person, where a study
    protects people.
    """

    schema: Schema
    source: Source
    absent: tuple[str, ...] = ()
    key: str = ""
    mapped: MappedColumns | None = None
    reading_sha256: str = ""
    dates: str = ISO
    people: PeopleCounts | None = None

    @property
    def title(self) -> str:
        """Name in messages; stays at the site, like the column names."""
        return self.source.title

    @property
    def n_rows(self) -> int:
        """Number of rows, all of which are in the batches. Public once released."""
        return self.source.n_rows

    @property
    def extra_columns(self) -> tuple[str, ...]:
        """Columns that neither the schema nor the mapping names; not read."""
        known = {*self.own_columns} | {a.name.strip() for a in self.schema.attributes}
        return tuple(name for name in self.source.names if name not in known)

    @property
    def own_columns(self) -> list[str]:
        """Columns of the source that attributes are read from, each once."""
        if self.mapped is not None:
            return [*self.mapped.columns]
        return [a.name.strip() for a in self.schema.attributes if a.name not in self.absent]

    @property
    def plain_columns(self) -> dict[str, str]:
        """Attributes that are a column as it is, and that column."""
        if self.mapped is not None:
            return self.mapped.plain
        return {a.name: a.name.strip() for a in self.schema.attributes if a.name not in self.absent}

    @contextmanager
    def latest(self, key: str = "") -> Iterator[Table]:
        """Current rows, all at one time, with ``key``; a file is as it was when it was opened.

        Where the schema has ``unit: person``, the rows of each person are counted here. Raise
        `DataError` if there are no rows any more and their number is no secret, or the rows of a
        key cannot be counted, and `SettingError` if people have no key.
        """
        with self.source.latest() as source:
            if source.n_rows == 0 and not self.schema.has_secret_rows:
                raise DataError(f"{self.title} has no rows any more")
            table = replace(self, source=source, key=key)
            if key:
                table.require_key(key)
            if self.schema.unit is Unit.PERSON:
                table = replace(table, people=table.count_people())
            yield table

    def batches(self, batch_rows: int | None = None) -> Iterator[list[Column]]:
        """Read the file once, from its first row to its last, as columns of `parse_column`.

        A batch has one array per attribute in the schema's order. Each has ``batch_rows`` rows, and
        the last one the rest, for any blocks of the file: a row's place follows from its number
        alone, and not from the content of other rows. By default ``batch_rows`` makes four million
        coded values, and is 65,536 at most. Raise `DataError` if the file is damaged, or no longer
        has the rows it had.
        """
        if batch_rows is None:
            batch_rows = usual_batch(self.schema)
        parts: list[list[Column]] = []
        n_pending = 0
        for cells in self.cells(batch_rows):
            columns, start = cells.columns(), 0
            if n_pending + cells.n_rows >= batch_rows:
                start = batch_rows - n_pending
                yield _joined([*parts, [column[:start] for column in columns]])
                parts, n_pending = [], 0
            if start < cells.n_rows:
                parts.append([column[start:] for column in columns])
                n_pending += cells.n_rows - start
        if parts:
            yield _joined(parts)

    def cells(self, batch_rows: int, *, key: str = "") -> Generator[CellBatch, None, None]:
        """Read the file once, without converting cells; raises as `batches` does.

        A batch has at most ``batch_rows`` rows and follows the file's blocks: only for sums that
        are the same integers for any batches. It includes the column ``key``, by default the
        table's.
        """
        key = key or self.key
        if batch_rows < 1:
            raise SettingError(f"batch_rows is {batch_rows}; it must be at least 1")
        columns = self.own_columns
        names = [*columns]
        if key and key not in names:
            names.append(key)
            self.require_key(key)
        n_rows, known = 0, KnownLists()
        for arrays in self.source.read(self._wanted(names, batch_rows)):
            n_batch = len(arrays[0])
            if n_batch == 0:
                continue
            n_rows += n_batch
            read = dict(zip(columns, arrays, strict=False))
            keys = self.source.key_cells(key, arrays[names.index(key)]) if key else None
            yield CellBatch(self.schema, n_batch, read, keys, known, self.mapped)
        self.source.require_rows(n_rows)

    def _wanted(self, names: Sequence[str], batch_rows: int) -> Wanted:
        """Return the columns to read; if no cell is converted, the rows must still be counted."""
        if self.mapped is not None:
            labels, attributes = self.mapped.texts(), self.mapped.forms()
        else:
            attributes = {a.name.strip(): a for a in self.schema.attributes}
            labels = [name for name, a in attributes.items() if list_labels(a) is not None]
            labels = [name for name in labels if name in names]
        return Wanted(names or self.source.names[:1], batch_rows, labels, attributes)

    def count_people(self) -> PeopleCounts:
        """Count the rows of each person in a pass over the column ``key`` alone.

        Raise `SettingError` without a key, and `DataError` where some row has none, or one person
        could have two (`dppca.owner.records.people`).
        """
        if not self.key:
            raise SettingError(
                f"the study has unit: person: name the column of {self.title} that tells people "
                "apart, as `key` of the data set in policy.yaml, or as --key with --data"
            )
        if self.source.facts.malformed:
            raise DataError(
                f"{self.title} has rows that do not fit its header: whose they are is not known. "
                "Export it again, or correct them; `dppca-owner check` with a study of unit: row "
                "lists them"
            )
        arrays = self.source.read(Wanted((self.key,), _BATCH_ROWS, key=self.key))
        return count_people(
            (self.source.key_cells(self.key, cells) for (cells,) in arrays),
            title=self.title,
            key=self.key,
        )

    def count_keys(self, key: str, *, allowed: int) -> KeyReport:
        """Count the rows of each key; raise `DataError` unless every file has its column once.

        ``key`` is the column that tells people apart, and ``allowed`` the most rows of one person
        that a study protects.
        """
        self.require_key(key)
        return KeyReport(key, allowed, *self.source.count_keys(key, _BATCH_ROWS))

    def keys(self) -> Iterator[Any]:
        """Cells of ``key`` in a pass of their own, for rows that others added.

        Raise `SettingError` if another pass may give other rows.
        """
        if not self.source.is_pinned:
            raise SettingError(f"{self.title} {self.source.uncut}")
        for (cells,) in self.source.read(Wanted((self.key,), _BATCH_ROWS)):
            yield self.source.key_cells(self.key, cells)

    def require_key(self, key: str) -> None:
        """Raise `DataError` unless every file has the column once and its rows can be counted.

        Raise `SettingError` if a mapping gives the key's name to something else.
        """
        self.source.require_known([key])
        if self.plain_columns.get(key, key) != key or (
            self.mapped is not None and key in self.mapped.rules and key not in self.mapped.plain
        ):
            raise SettingError(
                f"the mapping has a rule for {key}, which is also the key of {self.title}: the key "
                "is a column of this site as it is. Give one of the two another name"
            )
        if not (self.source.is_pinned or self.source.is_live):
            raise DataError(
                f"{self.title} has no versions: its rows may be others in another pass, so that "
                f"the rows of each {key} cannot be counted. Keep it as Delta or Iceberg, which "
                "have versions"
            )
        for part in self.source.parts:
            if part.names.count(key) != 1:
                raise DataError(_explain_key(part, key))


@dataclass(frozen=True, slots=True)
class CellBatch:
    """A batch as it was read: Arrow arrays by column, none for attributes that are absent.

    ``keys`` is the column that identifies its rows, if it was requested. ``known`` are dictionaries
    that batches of one pass share. ``mapped`` makes attributes of the columns; without it each is
    the column of its name.
    """

    schema: Schema
    n_rows: int
    arrays: Mapping[str, Any]
    keys: Any = None
    known: KnownLists | None = None
    mapped: MappedColumns | None = None
    outcomes: dict[str, Counter[CellOutcome]] = field(default_factory=dict)
    """What a mapping made of cells, by attribute, once `columns` was asked for all differences."""

    def columns(self, *, distinguish_missing: bool = True) -> list[Column]:
        """Columns for `encode`: an array of shape (n_rows,) per attribute, as of `parse_column`."""
        if self.mapped is not None:
            return self.mapped.convert(
                self.arrays,
                self.n_rows,
                known=self.known,
                distinguish_missing=distinguish_missing,
                counts=self.outcomes if distinguish_missing else None,
            )
        return [
            parse_column(
                a,
                self.arrays[a.name],
                distinguish_missing=distinguish_missing,
                known=self.known,
            )
            if a.name in self.arrays
            else absent_column(a, self.n_rows)
            for a in self.schema.attributes
        ]

    @property
    def plain(self) -> Mapping[str, Any]:
        """Arrays by attribute, of those that are a column as it is."""
        if self.mapped is None:
            return self.arrays
        return {name: self.arrays[column] for name, column in self.mapped.plain.items()}


def _joined(parts: list[list[Column]]) -> list[Column]:
    if len(parts) == 1:
        return parts[0]
    return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def open_table(place: Path | Location, schema: Schema, *, optional: Collection[str] = ()) -> Table:
    """Open a data set, or a path of this machine.

    ``optional`` are attributes that the source need not have, such as the target of a prediction.
    Where the number of rows is secret there may be none: who takes part tells nothing of it. Raise
    `DataError` if there is no such file, it is empty, damaged or of another format, has no
    rows, or lacks or repeats columns of the schema (all of them are named), or if a database does
    not answer or refuses. Raise `SettingError` if a database's driver, address or query is missing.
    """
    location = local_files(place) if isinstance(place, Path) else place
    stated = None
    if location.mapping is not None:
        from dppca.owner.records.mapping_files import read_mapping  # few data sets have one

        stated = read_mapping(location.mapping)
    source, form = location.open(), location.text_format
    wanted = [attribute.name for attribute in schema.attributes] if stated is None else []
    named = () if stated is None else stated.rules(schema).columns
    absent = tuple(n for n in wanted if n in optional and n.strip() not in source.names)
    for part in source.parts:
        _require_columns(part, [n for n in wanted if n not in absent], form, also=named)
    mapped = None if stated is None else stated.plan(schema, source, absent=optional)
    if form is not None:
        _require_one_meaning(form, schema.attributes if mapped is None else mapped.forms().values())
    if source.n_rows == 0 and not schema.has_secret_rows:
        raise DataError(f"{source.title} has columns but no rows: {source.mend}")
    digest = _digest_reading(mapped, form)
    dates = ISO if form is None or not source.is_named_by_a_line else form.dates
    return Table(schema, source, absent, mapped=mapped, reading_sha256=digest, dates=dates)


def _digest_reading(mapped: MappedColumns | None, text_format: TextFormat | None) -> str:
    """SHA-256, hexadecimal, of how cells are read: rules, codes for missing, and the format.

    Comments, the order of lines and rules of attributes that the study lacks do not count. Empty if
    the cells are read as they are by their own names. It stays at the site.
    """
    stated: dict[str, Any] = {}
    if mapped is not None:
        from dppca.owner.records.mapping_files import mapping_wire

        stated |= mapping_wire(mapped)
    if text_format is not None and text_format != USUAL:
        stated["format"] = asdict(text_format)
    return hashlib.sha256(canonical_json(stated)).hexdigest() if stated else ""


def _require_one_meaning(text_format: TextFormat, attributes: Iterable[Attribute]) -> None:
    if text_format.missing:
        from dppca.owner.records.text_cells import missing_labels

        if twice := missing_labels(text_format, [*attributes]):
            raise SettingError(
                f"the format's words for missing are labels, too: {'; '.join(twice)}. Leave these "
                "words out, and export missing values as empty cells"
            )


def _require_columns(
    source: Source, wanted: list[str], text_format: TextFormat | None, *, also: Sequence[str] = ()
) -> None:
    """Require columns that are found by their own name; ``also`` are those that a mapping names."""
    title, names = source.title, source.names
    count = Counter(names)
    missing = [n for n in wanted if not count[n.strip()]]
    repeated = [n for n in wanted if count[n.strip()] > 1]
    source.require_known([*wanted, *also])
    if twice := [n for n in repeated if n.strip() in source.in_folders]:
        raise DataError(
            f"{title} has the columns {', '.join(twice)} in the name of a folder (such as "
            f"{twice[0]}=...), and also in another folder's name, or twice in the file: rename one "
            "of them, so that it is clear which one counts"
        )
    wanted = [*wanted, *also]
    if missing or repeated or any(not count[n] for n in also):
        line = "" if text_format is None else text_format.delimiter.join(names).casefold().strip()
        marks = {f"sep={mark}".strip(): words for mark, words in DELIMITERS.items()}
        if line in marks:
            raise DataError(
                f"The first line of {title} is `{line}`, which only spreadsheets read: delete it, "
                f"so that the next line is the header, and say that {marks[line]} separate "
                "the cells (`format` in policy.yaml, or --format for a file)"
            )
        if text_format is not None and (mark := find_delimiter(names, wanted)) is not None:
            raise DataError(
                f"The first line of {title} is separated by {DELIMITERS[mark]}, and it is read as "
                f"separated by {DELIMITERS[text_format.delimiter]}: say how it is written "
                "(`format` in policy.yaml, or --format for a file). `dppca-owner check` "
                "says what to write"
            )
    if missing or repeated:
        explained = _explain_columns(title, names, missing, repeated)
        columns = _describe_columns(names, wanted, from_text=source.is_named_by_a_line)
        raise DataError(f"{explained}. {columns}")


def find_delimiter(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """Return what separates a header's names, if more of those wanted are found by it.

    ``names`` are what the file has by its format; a name between quotes counts without them.
    """
    known = {name.strip() for name in wanted}
    found = {
        mark: len(known & {part.strip(' "') for name in names for part in name.split(mark)})
        for mark in DELIMITERS
    }
    best = max(found, key=lambda mark: found[mark])
    return best if found[best] > len(known & {*names}) else None


def _explain_columns(
    title: str, names: tuple[str, ...], missing: list[str], repeated: list[str]
) -> str:
    parts = []
    if missing:
        parts.append(f"lacks the columns {', '.join(missing)}")
    if repeated:
        parts.append(f"has more than one column called {', '.join(repeated)}")
    mapped = ", or say in a mapping which column is which" if missing else ""
    message = f"{title} {' and '.join(parts)}: correct its header, or the study's schema{mapped}"
    like: list[str] = []
    twins: list[str] = []
    for name in missing:
        found = [each for each in names if _plain_form(each) == _plain_form(name)]
        is_twin = any(_composed(each) == _composed(name) for each in found)
        if found:
            (twins if is_twin else like).append(f"{name} as {' and '.join(dict.fromkeys(found))}")
    if like:
        message += f" (capital letters count; the file has {', '.join(like)})"
    if twins:
        message += (
            f" (the file has {', '.join(twins)}, in other characters that look the same, such as a "
            "letter and its accent as two: rename these columns)"
        )
    return message


def _explain_key(part: Source, key: str) -> str:
    """Return what is wrong with the column that tells people apart, and a name that is like it."""
    if key in part.names:
        return f"{part.title} has more than one column called {key}: correct its header"
    like = [name for name in part.names if _plain_form(name) == _plain_form(key)]
    found = f" (capital letters count; the file has {' and '.join(like)})" if like else ""
    return f"{part.title} has no column {key}{found}: correct its header, or the name of the column"


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _plain_form(name: str) -> str:
    """Return a name in small letters and one normal form, with plain blanks between its words."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _describe_columns(names: tuple[str, ...], wanted: list[str], *, from_text: bool) -> str:
    """Names of a file's columns; withheld if the first line may be a row instead of a header.

    One value of a row may equal an attribute's name by chance; half of the names will not.
    """
    n_matches = len({n.strip().casefold() for n in wanted} & {n.casefold() for n in names})
    if from_text and 2 * n_matches < len(wanted):
        return (
            f"Its first line has {n_matches} of the schema's {len(wanted)} names: is that line a "
            f"header? If a line below names the columns, say which by `header` in the format, such "
            f"as {HEADER_LINE}"
        )
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"It has the columns {', '.join(names[:_SHOWN])}{more}"


def moments_of_table(
    table: Table,
    schema: Schema,
    *,
    tally: Tally | None = None,
    progress: Callable[[int], None] | None = None,
    batch_rows: int | None = None,
    workers: int | None = None,
) -> Moments:
    """Exact sums over all rows of a table; the same integers for any batches and workers.

    Over people, if the schema has ``unit: person``; the rows are those that were counted, or
    `DataError` is raised.

    One worker reads; it and others convert, code and multiply batches, each with one BLAS thread
    (`dppca.common.kernel.moments.threads`). Two batches per worker are in memory. ``tally`` counts
    the values that coding replaces, in the same pass, without effect on the sums; ``progress`` is
    called in the calling thread after each batch, with the number of rows in it. ``workers`` is by
    default one per core, or one for a single batch; one, with all of BLAS' threads, if the sums are
    too wide to be held twice.
    """
    wide = schema.layout.n_columns > _WIDE and choose_method(schema) is ProductMethod.DENSE
    if batch_rows is None:
        batch_rows = rows_at_once(schema)
    n_workers = workers or (1 if wide or table.n_rows <= batch_rows else count_cores())
    ahead = ReadAhead[CellBatch](n_workers - 1)
    people = require_counted(table)
    added: SimpleQueue[int | None] = SimpleQueue()

    def work(batches: Iterator[CellBatch]) -> MomentSums | PeopleSums:
        sums = MomentSums(schema) if people is None else PeopleSums(schema)
        for cells in batches:
            columns = cells.columns(distinguish_missing=tally is not None)
            keys = cells.keys
            if people is not None and isinstance(sums, PeopleSums):
                sums.add(columns, people.find(keys))
                keys = None
            elif isinstance(sums, MomentSums):
                sums.add(columns)
            if tally is not None:
                tally.add(columns, cells.plain, keys, outcomes=cells.outcomes)
            added.put(cells.n_rows)
        return sums

    def end(part: Future[MomentSums | PeopleSums]) -> None:
        # Called however a worker ends, so that neither this thread nor the others wait for it.
        if part.cancelled() or part.exception() is not None:
            ahead.stop()
        added.put(None)

    with (
        nullcontext() if wide else one_blas_thread(),
        closing(table.cells(batch_rows)) as read,
        ThreadPoolExecutor(n_workers) as pool,
    ):
        try:
            parts = [pool.submit(work, ahead.taken()) for _ in range(n_workers - 1)]
            parts.append(pool.submit(work, ahead.left(read)))
            for part in parts:
                part.add_done_callback(end)
            for _ in parts:
                while (n_rows := added.get()) is not None:
                    if progress is not None:
                        progress(n_rows)
        finally:
            ahead.stop()
        results = [part.result() for part in parts]
    if people is None:
        return reduce(
            Moments.merge, (each.total() for each in results if isinstance(each, MomentSums))
        )
    people.require_all()
    together = reduce(PeopleSums.merge, (each for each in results if isinstance(each, PeopleSums)))
    return together.total(people.by_rows())


def require_counted(table: Table) -> PeopleCounts | None:
    """Return the people of a table, whose rows are to be read again; None where rows count.

    Raise `SettingError` if a study protects people and nobody counted their rows.
    """
    if table.schema.unit is Unit.ROW:
        return None
    if table.people is None:
        raise SettingError("the rows of each person have to be counted before they are added")
    table.people.read_anew()
    return table.people


def usual_batch(schema: Schema) -> int:
    """Rows in a batch of about four million coded values."""
    return max(1, min(_BATCH_ROWS, _CODED_VALUES_PER_BATCH // schema.layout.n_columns))


def rows_at_once(schema: Schema) -> int:
    """Rows in a batch: few enough for a core's cache, and many enough for an efficient product."""
    return max(1, min(_BATCH_ROWS, _BATCH_VALUES // len(schema.attributes)))
