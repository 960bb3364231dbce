"""Rows for a simulation: read once, a fifth held out, the rest at the owners.

Each owner may have its own file, of which a fifth is held out. A single file of all rows is
divided. A test table of its own takes the place of what is held out. The order is drawn from the
seed: the last fifth is held out and never reaches an owner;
the rest of a single file is divided in one of two ways.

iid
    In the drawn order, in parts whose sizes differ by at most one.
by:COLUMN
    Rows with one value of the column stay together: the commonest value goes to the first owner,
    each further one, from common to rare, to the owner with the fewest rows. With a column of
    person identifiers (it need not be in the schema) no person has rows at two owners, as
    privacy requires; with a region, a year or a hospital the owners' rows differ in kind.

With a key, the column that tells people apart, all rows of a person are held out or none, and
``iid`` divides people. ``by:COLUMN`` of another column may still put a person's rows at several
owners: an alarm then says so.

The seed decides only which owner holds which row: noise never comes from it.

A site's reader reads the files, so that a simulation reports on a file what its owner would be
told. Owners get cells unchanged, unless a site's mapping or several kinds of places make them cells
of the study's attributes, with the same sums. A line of a CSV file that does not fit its header is
written with the fields that were read from it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import MISSING, Column, Schema
from dppca.common.kernel.schema.attributes import Date, day_text, list_labels
from dppca.common.kernel.schema.units import Unit
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.keys import key_texts
from dppca.owner.records.locations import Location
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.source_facts import LineFault
from dppca.owner.records.table import open_table
from dppca.owner.records.text_format import TEXT_SUFFIXES, USUAL, TextFormat
from dppca.owner.render.faults import alarm_lines, malformed_lines

HELD_OUT_SHARE = 0.2  # of the rows, on which classifiers are judged
_BATCH_ROWS = 1 << 16  # that are coded at once
_PARQUET = Path("rows.parquet")


@dataclass(frozen=True, slots=True)
class FileReading:
    """How a file is read: how it is written, and which columns its attributes are.

    ``place`` is where the rows are that the file itself describes, as a data set in `policy.yaml`;
    it then says all of this.
    """

    text_format: TextFormat = USUAL
    mapping: MappingPlace | None = None
    place: Location | None = None

    @property
    def gives_cells(self) -> bool:
        """Whether cells are kept as the study's: columns or types are the owner's own."""
        return self.mapping is not None or self.place is not None

    def locate(self, path: Path) -> Location:
        """Return where the rows of an owner's file are."""
        return self.place or local_files(path, self.text_format).mapped(self.mapping)


AS_USUAL = FileReading()


def find_key(keys: Mapping[str, str], owner: str) -> str:
    """Return an owner's column of people, else that of all others, whose name is empty."""
    return keys.get(owner, keys.get("", ""))


@dataclass(frozen=True, slots=True)
class Division:
    """Division of a table among owners: index arrays, disjoint, together all of it.

    ``owners`` has one array of int64 per owner, each of at least one row; no owner ever sees the
    rows ``held_out``.
    """

    owners: tuple[NDArray[np.int64], ...]
    held_out: NDArray[np.int64]

    @property
    def training(self) -> NDArray[np.int64]:
        """Rows of all owners together."""
        return np.concatenate(self.owners)


@dataclass(frozen=True, slots=True)
class Holdings:
    """Rows of a trial; tables are ``pyarrow.Table``.

    ``owners`` has each owner's rows, and no owner ever sees ``held_out``. ``like`` is a file in the
    owners' format; ``alarms`` are about a file as a whole, as its steward would see them, or about
    a test table that takes the place of rows held out.
    """

    owners: Mapping[str, Any]
    held_out: Any
    like: Path
    alarms: Sequence[str] = ()


def hold_rows(
    data: Path | Mapping[str, Path],
    owners: Sequence[str],
    *,
    schema: Schema,
    seed: int,
    split: str = "iid",
    hold_out: bool = True,
    test: Path | None = None,
    text_format: TextFormat = USUAL,
    readings: Mapping[str, FileReading] = MappingProxyType({}),
    keys: Mapping[str, str] = MappingProxyType({}),
) -> Holdings:
    """Read the rows and divide them.

    ``data`` is one file, which ``split`` (``iid`` or ``by:COLUMN``) divides among ``owners``, or a
    file for each of them. ``hold_out`` False leaves all rows with the owners, and so does ``test``,
    a file of rows that takes the place of those held out. ``text_format`` is that of all files that
    are text and have no entry in ``readings``, by owner, or by an empty name for a single file;
    what is kept of them has the usual one. ``keys`` has, by owner or by an empty name for all
    others, the column that tells people apart, which is kept too. Files of which one is mapped or
    describes another place, or which are of different kinds, are kept as cells of the study's
    attributes. Raise `SettingError`
    or `DataError` like `read_cells` and `divide`, or if files of owners do not fit together.
    """
    if test is not None:
        held = hold_rows(
            data,
            owners,
            schema=schema,
            seed=seed,
            split=split,
            hold_out=False,
            text_format=text_format,
            readings=readings,
            keys=keys,
        )
        table, found = read_cells(test, schema, FileReading(text_format))
        alarms = [*held.alarms, *(f"test table: {line}" for line in found)]
        return replace(held, held_out=table, alarms=alarms)
    names = [attribute.name for attribute in schema.attributes]

    def reading(owner: str, path: Path) -> FileReading:
        """Return how a file is read; a format for all is not for a file that is no text."""
        plain = text_format if isinstance(data, Path) or _is_text(path) or not readings else USUAL
        return readings.get(owner, FileReading(plain))

    if isinstance(data, Path):
        column, key = split_column(split), keys.get("", "")
        table, alarms = _read_people(data, schema, reading("", data), key=key)
        if column and column not in table.column_names:
            groups = read_cells(data, schema, reading("", data), column=column)[0]
            table = table.append_column(column, groups[column])
        division = divide(
            table, owners=len(owners), seed=seed, split=split, hold_out=hold_out, key=key
        )
        if key and (shared := _count_shared(find_people(table, key), division)):
            alarms.append(
                f"split {split} puts rows of {shared} people at several owners, for whom the "
                f"promise does not hold: only by:{key} and iid keep a person's rows together"
            )
        kept_names = names if not key or key in names else [*names, key]
        parts = zip(owners, division.owners, strict=True)
        return Holdings(
            {owner: table.select(kept_names).take(part) for owner, part in parts},
            table.select(names).take(division.held_out),
            _PARQUET if reading("", data).mapping else data,
            alarms,
        )
    coded = any(each.gives_cells for each in readings.values())
    coded = coded or len({_is_text(path) for path in data.values()}) > 1
    kept, apart, alarms = {}, [], []
    for owner in owners:
        key, path = find_key(keys, owner), data[owner]
        table, found = _read_people(path, schema, reading(owner, path), key=key, coded=coded)
        division = divide(table, owners=1, seed=seed, hold_out=hold_out, key=key)
        kept[owner] = table.take(division.training)
        others = [] if not key or key in names else [key]
        apart.append(table.drop_columns(others).take(division.held_out))
        alarms += [f"{owner}: {line}" for line in found]
    return Holdings(kept, _joined(apart), _PARQUET if coded else data[owners[0]], alarms)


def _is_text(path: Path) -> bool:
    return path.name.lower().endswith(TEXT_SUFFIXES)


def _joined(tables: Sequence[Any]) -> Any:
    import pyarrow as pa

    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(
            "one column has types in the owners' files that do not fit together: give all of them "
            "as CSV, or with the same types"
        ) from error


def count_groups(path: Path, schema: Schema, column: str, reading: FileReading) -> int:
    """Number of values in a column, for one owner each."""
    cells = read_cells(path, schema, reading, column=column)[0]
    return int(_groups(cells, column).max()) + 1


def _read_people(
    path: Path, schema: Schema, reading: FileReading, *, key: str, coded: bool = False
) -> tuple[Any, list[str]]:
    """Return `read_cells` with the key's column, empty for none; refuse what a site would.

    Raise `SettingError` for ``unit: person`` without a key, `DataError` for rows without one.
    """
    if schema.unit is Unit.PERSON:
        table = replace(open_table(reading.locate(path), schema), key=key)
        if key:
            table.require_key(key)
        table.count_people()
    return read_cells(path, schema, reading, column=key, coded=coded)


def find_people(table: Any, key: str) -> NDArray[np.int64]:
    """Number of each row's person, from 0: int64, shape (n_rows,). ``table`` is Arrow's."""
    return number_people(table[key].combine_chunks())


def number_people(cells: Any) -> NDArray[np.int64]:
    """Number of each cell's person, from 0: int64, shape (n_rows,); a site's rule says who is one.

    Cells that are no key are one person.
    """
    texts = key_texts(cells).dictionary_encode(null_encoding="encode")
    people: NDArray[np.int64] = texts.indices.to_numpy().astype(np.int64)
    return people


def _count_shared(people: NDArray[np.int64], division: Division) -> int:
    """Number of people with rows at several owners."""
    apart = [np.unique(people[part]) for part in division.owners]
    _, n_owners = np.unique(np.concatenate(apart), return_counts=True)
    return int((n_owners > 1).sum())


def read_cells(
    path: Path,
    schema: Schema,
    reading: FileReading = AS_USUAL,
    *,
    column: str = "",
    coded: bool = False,
) -> tuple[Any, list[str]]:
    """Read a data file like a site; return its cells and the messages to a site's steward.

    The table has the unconverted cells of each attribute, or if ``coded``, mapped or of a described
    place those that the study makes of them, and of ``column``, which the schema need not name; the
    messages are about the file as a whole. Raise `DataError` like `open_table` and `Table.cells`.
    """
    import pyarrow as pa

    table, tally = open_table(reading.locate(path), schema), FaultCounts(schema)
    parts = []
    for cells in table.cells(_BATCH_ROWS, key=column):
        columns = cells.columns()
        tally.add(columns, cells.plain, outcomes=cells.outcomes)
        arrays = cells.plain
        if coded or reading.gives_cells:
            arrays = _attribute_cells(schema, columns)
        arrays = {**arrays, column: cells.keys} if column else arrays
        parts.append(pa.table({name: _plain(array) for name, array in arrays.items()}))
    report = tally.report(table)
    malformed = malformed_lines(report)
    malformed.pop(LineFault.ENCODING, None)  # an alarm already
    return pa.concat_tables(parts), [*alarm_lines(report), *malformed.values()]


def _attribute_cells(schema: Schema, columns: Sequence[Column]) -> dict[str, Any]:
    """Return cells that the study reads as these values; what is unknown is no label, or endless.

    ``columns`` are those of `parse_column`.
    """
    import pyarrow as pa

    cells = {}
    for attribute, column in zip(schema.attributes, columns, strict=True):
        labels, values = list_labels(attribute), column.tolist()
        if labels is not None:
            unknown = next(word for word in ("?" * n for n in count(1)) if word not in labels)
            missing = [value == MISSING or value != value for value in values]
            texts = [
                None if gap else labels[int(value)] if 0 <= value < len(labels) else unknown
                for value, gap in zip(values, missing, strict=True)
            ]
            cells[attribute.name] = pa.array(texts, pa.string())
        elif isinstance(attribute, Date):
            days = [_day_text(value) for value in values]
            cells[attribute.name] = pa.array(days, pa.string())
        else:
            gaps = np.isnan(np.asarray(column, np.float64))
            cells[attribute.name] = pa.array(np.asarray(column, np.float64), mask=gaps)
    return cells


def _day_text(days: float) -> str | None:
    if math.isnan(days):
        return None
    return day_text(days) if math.isfinite(days) else "?"


def _plain(cells: Any) -> Any:
    """Decode a dictionary, because each batch may have its own."""
    import pyarrow as pa

    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


def write_table(table: Any, folder: Path, *, stem: str, like: Path) -> Path:
    """Write rows as CSV if ``like`` is a text file, else as Parquet; return the new file's path."""
    from pyarrow import csv, parquet

    if like.name.lower().endswith(TEXT_SUFFIXES):
        path = folder / f"{stem}.csv"
        csv.write_csv(table, path)
    else:
        path = folder / f"{stem}.parquet"
        parquet.write_table(table, path)
    return path


def split_column(split: str) -> str:
    """Column of ``by:COLUMN``; empty for another split."""
    return split.removeprefix("by:") if split.startswith("by:") else ""


def divide(
    table: Any,
    *,
    owners: int,
    seed: int,
    split: str = "iid",
    hold_out: bool = True,
    key: str = "",
) -> Division:
    """Hold a fifth out and divide the rest; the division is deterministic in the seed.

    ``table`` is a ``pyarrow.Table``, ``owners`` a number, ``split`` is ``iid`` or ``by:COLUMN``;
    ``hold_out`` False divides all rows. With ``key``, a column that tells people apart, a fifth of
    the people is held out, and ``iid`` divides people. Raise `SettingError` for too few rows or
    values for the number of owners, or an unknown split, and `DataError` if the table has no such
    column.
    """
    people = find_people(table, key) if key else np.arange(table.num_rows)
    n_people = int(people.max(initial=-1)) + 1
    n_held_out = round(HELD_OUT_SHARE * n_people) if hold_out else 0
    if owners < 1 or (hold_out and n_held_out < 1) or n_people - n_held_out < owners:
        condition = " with a fifth held out" if hold_out else ""
        counted = f"the rows of {n_people} people" if key else f"{n_people} rows"
        raise SettingError(f"{counted} cannot be divided among {owners} owners{condition}")
    order = np.random.default_rng(seed).permutation(n_people)
    chosen = order[: n_people - n_held_out]
    training = rows_of(chosen, people)
    if split == "iid":
        parts = [rows_of(part, people) for part in np.array_split(chosen, owners)]
    elif column := split_column(split):
        groups = _groups(table, column)
        parts = _by_group(training, groups[training], owners, split)
    else:
        raise SettingError(f'the split is "iid" or "by:COLUMN", not "{split}"')
    return Division(tuple(parts), rows_of(order[n_people - n_held_out :], people))


def rows_of(chosen: NDArray[np.int64], people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows of some people, person by person in their order."""
    places = np.full(int(people.max(initial=-1)) + 1, -1)
    places[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(places[people] >= 0)
    return rows[np.argsort(places[people[rows]], kind="stable")]


def _groups(table: Any, column: str) -> NDArray[np.int64]:
    if column not in table.column_names:
        raise DataError(f"the data have no column {column} to split by")
    encoded = table[column].combine_chunks().dictionary_encode(null_encoding="encode")
    codes: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return codes


def _by_group(
    rows: NDArray[np.int64], groups: NDArray[np.int64], owners: int, split: str
) -> list[NDArray[np.int64]]:
    values, sizes = np.unique(groups, return_counts=True)
    if len(values) < owners:
        raise SettingError(
            f"split {split}: {len(values)} values cannot be divided among {owners} owners"
        )
    owner_sizes = np.zeros(owners, dtype=np.int64)
    owner_of = np.zeros(int(values.max()) + 1, dtype=np.int64)
    for index in np.argsort(-sizes, kind="stable"):
        least = int(owner_sizes.argmin())
        owner_of[values[index]] = least
        owner_sizes[least] += sizes[index]
    return [rows[owner_of[groups] == owner] for owner in range(owners)]
