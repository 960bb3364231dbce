"""Kernel of a worker: exact sums of one part, the same integers as in one process.

`answer_part` is total. Every exception at a worker becomes one of the words of `Failure`: a
traceback may quote a row, and people other than the site's steward read a worker's log. Before a
worker process answers for a part, it compares itself with the machine that asks (`Fingerprint`):
versions of Python, NumPy and pyarrow, the code of the DPPCA that is installed there, and the sums
of a canary, small batches of every kind of attribute, cell and entry. Every answer holds the digest
of all these, and the machine that asks compares it: code of another version may compare nothing.

Limits: a worker has the same DPPCA installed as this machine. It reads the same paths, with
credentials of its own.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.moments.accumulation import MomentSums
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.units import Unit
from dppca.owner.engines.canary import sum_canary
from dppca.owner.engines.parts import Part
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.files import join_files, open_piece
from dppca.owner.records.mapping_cells import MappedColumns
from dppca.owner.records.mapping_files import read_wire
from dppca.owner.records.table import CellBatch, Table, moments_of_table, rows_at_once

_TITLE: Final = "a file of the part"


class Failure(StrEnum):
    """Reason for a missing answer; a worker reports nothing else about an exception."""

    CHANGED = "changed"
    """A file is not the one of the manifest, or has other rows."""
    UNREADABLE = "unreadable"
    """A file cannot be opened or read at the worker."""
    DIFFERS = "differs"
    """The worker is not like the machine that asks."""
    MEMORY = "memory"
    """The worker has not enough memory."""
    DEFECT = "defect"
    """Anything else."""


class Answer(NamedTuple):
    """A worker's answer for a part. Private: sums without noise.

    ``part`` is the part's index, ``n_rows`` the rows of it that the worker has read; ``packed`` the
    packed vector, int64 in the machine's order, of people both words of it (`PeopleSums.words`),
    empty if sums were not requested; ``faults`` counts of coding faults, from
    `FaultCounts.to_json`; ``failure`` a word of `Failure`, empty for an answer that counts;
    ``fingerprint`` the `Fingerprint.digest` of the process that answers.
    """

    part: int
    n_rows: int
    packed: bytes
    faults: str
    failure: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Fingerprint:
    """Properties that must be equal at every worker: ``3.12``, versions, and two SHA-256."""

    python: str
    numpy: str
    pyarrow: str
    code: str
    canary: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all properties, hexadecimal."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Work:
    """Request that is the same for every part.

    ``schema_json`` is the canonical form of the study's table, ``fingerprint`` that of the machine
    that asks; ``limit`` and ``target`` are as in `dppca.owner.records.check.FaultCounts`; with
    ``with_sums`` moments are requested, else counts of faults only. ``mapping_json`` are the rules
    of a site's mapping, which may hold words of its rows; empty without one.
    """

    schema_json: str
    fingerprint: Fingerprint
    limit: int = 0
    target: str | None = None
    with_sums: bool = True
    mapping_json: str = ""

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the output of `to_json`."""
        document = json.loads(text)
        return cls(**document | {"fingerprint": Fingerprint(**document["fingerprint"])})

    def read_schema(self) -> Schema:
        """Schema of the study."""
        schema = Schema.from_document(json.loads(self.schema_json))
        if schema.canonical_bytes() != self.schema_json.encode():
            raise ValueError("the schema was read as another one")
        return schema

    def read_mapping(self, schema: Schema) -> MappedColumns | None:
        """Rules of the site's mapping; None without one."""
        return read_wire(schema, json.loads(self.mapping_json)) if self.mapping_json else None


class _PartChangedError(Exception):
    """A file is not the one of the manifest."""


def answer_part(part_json: str, work_json: str) -> Answer:
    """Answer for a part, for an engine to run at a worker; never raises.

    The arguments are outputs of `Part.to_json` and `Work.to_json`.
    """
    try:
        part = Part.from_json(part_json)
    except Exception:  # noqa: BLE001 - as below
        return _failed(-1, Failure.DEFECT)
    return _answered(part.index, work_json, lambda work: sum_part(part, work))


def answer_batches(index: int, batches: Iterable[pa.RecordBatch], work_json: str) -> Answer:
    """Answer for rows that an engine reads, with one column per attribute; never raises."""
    return _answered(index, work_json, lambda work: sum_batches(index, batches, work))


def _answered(index: int, work_json: str, add: Callable[[Work], Answer]) -> Answer:
    try:
        work = Work.from_json(work_json)
        mine = take_fingerprint()
        if mine != work.fingerprint:
            return _failed(index, Failure.DIFFERS)
        return add(work)._replace(fingerprint=mine.digest)
    except _PartChangedError:
        return _failed(index, Failure.CHANGED)
    except (DataError, OSError, pa.ArrowException):
        return _failed(index, Failure.UNREADABLE)
    except MemoryError:
        return _failed(index, Failure.MEMORY)
    except Exception:  # noqa: BLE001 - a traceback may quote a row; the engine would print it
        return _failed(index, Failure.DEFECT)


def sum_batches(index: int, batches: Iterable[pa.RecordBatch], work: Work) -> Answer:
    """Exact sums of batches whose columns are those that a table reads, in their order."""
    schema = work.read_schema()
    mapped = work.read_mapping(schema)
    names = [a.name for a in schema.attributes] if mapped is None else mapped.columns
    tally, sums = FaultCounts(schema, target=work.target), MomentSums(schema)
    n_rows = 0
    with one_blas_thread():
        for batch in batches:
            if batch.num_rows:
                arrays = dict(zip(names, batch.columns, strict=True))
                cells = CellBatch(schema, batch.num_rows, arrays, mapped=mapped)
                columns = cells.columns()
                tally.add(columns, cells.plain, outcomes=cells.outcomes)
                if work.with_sums:
                    sums.add(columns)
                n_rows += batch.num_rows
        packed = sums.total().packed.tobytes() if work.with_sums else b""
    return Answer(index, n_rows, packed, tally.to_json())


def sum_part(part: Part, work: Work) -> Answer:
    """Exact sums of a part's rows and counts of coding faults, by one thread.

    Raise `DataError`, `OSError` or `ArrowException` if a file cannot be read.
    """
    schema = work.read_schema()
    _require_stamps(part)
    try:
        table = _open_part(part, schema, work.read_mapping(schema))
        tally = FaultCounts(schema, limit=work.limit, target=work.target)
        packed = b""
        with one_blas_thread():
            if work.with_sums and schema.unit is Unit.PERSON:
                packed = _sum_people(table, part.read_people(), tally)
            elif work.with_sums:
                moments = moments_of_table(table, schema, tally=tally, workers=1)
                packed = moments.packed.tobytes()
            else:
                for cells in table.cells(rows_at_once(schema)):
                    tally.add(cells.columns(), cells.plain, outcomes=cells.outcomes)
    except (DataError, OSError, pa.ArrowException, ValueError):
        _require_stamps(part)  # a file that is being written is not damaged
        raise
    _require_stamps(part)
    return Answer(part.index, table.n_rows, packed, tally.to_json())


def _sum_people(table: Table, rows_of_person: NDArray[np.int64], tally: FaultCounts) -> bytes:
    """Return the words of sums over people (`PeopleSums.words`), of whom a part may have some rows.

    ``rows_of_person`` is k of each row's person, in the order of the part's rows.
    """
    sums, start = PeopleSums(table.schema), 0
    for cells in table.cells(rows_at_once(table.schema)):
        columns, end = cells.columns(), start + cells.n_rows
        sums.add(columns, rows_of_person[start:end])
        tally.add(columns, cells.plain, outcomes=cells.outcomes)
        start = end
    return sums.words.tobytes()


@lru_cache(maxsize=1)
def take_fingerprint() -> Fingerprint:
    """Fingerprint of this process; computed once."""
    return Fingerprint(
        ".".join(platform.python_version_tuple()[:2]),
        np.__version__,
        pa.__version__,
        digest_code(),
        sum_canary(),
    )


def digest_code() -> str:
    """SHA-256, hexadecimal, of the installed modules that a pass may load: `common` and `owner`.

    The papers' methods, a wheel of their own, do not count: a worker need not have them.
    """
    digest = hashlib.sha256()
    for room in ROOMS:
        for path, content in _modules(files(room), room):
            if path.startswith("dppca.common/papers/"):
                continue
            digest.update(f"{path} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _modules(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and source of every module in a folder and below it, in the order of names."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        place = f"{path}/{each.name}"
        if each.is_dir():
            yield from _modules(each, place)
        elif each.name.endswith(".py"):
            yield place, each.read_bytes()


def tell_difference(theirs: Mapping[str, str]) -> str:
    """Titles of the properties in which a worker's fingerprint differs; empty if it does not."""
    differ = [_TITLES[n] for n, value in fingerprint_document().items() if theirs.get(n) != value]
    return " and another ".join(differ)


def fingerprint_document() -> dict[str, str]:
    """`take_fingerprint` as plain values, for an engine that queries a worker."""
    return asdict(take_fingerprint())


def _require_stamps(part: Part) -> None:
    with suppress(FileNotFoundError):
        if all(each.find(_TITLE).stamp() == (each.size, each.changed_ns) for each in part.pieces):
            return
        raise _PartChangedError
    raise OSError


def _open_part(part: Part, schema: Schema, mapped: MappedColumns | None) -> Table:
    files = []
    for piece in part.pieces:
        file = open_piece(piece, _TITLE)
        if file.n_rows != piece.n_rows:
            raise _PartChangedError
        files.append(file)
    return Table(schema, join_files(_TITLE, files), mapped=mapped)


def _failed(index: int, why: Failure) -> Answer:
    return Answer(index, 0, b"", "", why.value)


_TITLES: Final = {
    "python": "version of Python",
    "numpy": "version of NumPy",
    "pyarrow": "version of pyarrow",
    "code": "DPPCA",
    "canary": "sum of the canary, batches of known rows",
}
ROOMS: Final = ("dppca.common", "dppca.owner")
