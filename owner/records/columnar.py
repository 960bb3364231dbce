"""Files of Parquet and Arrow (also Feather version 2), read column by column.

Times of Parquet's old type INT96, which Spark, Hive and Impala write, are read in milliseconds:
their days may be of any year, while 64 bits of nanoseconds end in 2262 and begin again in 1677.
"""

import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from dppca.common.kernel.attestation.file_headers import is_encrypted, measure_dictionaries
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema.columns import of_field
from dppca.owner.records.keys import require_exact_floats
from dppca.owner.records.old_calendar import find_old, of_old_calendar
from dppca.owner.records.source_facts import SourceFacts
from dppca.owner.records.sources import RowGroup, Rows, Wanted
from dppca.owner.records.stored_files import StoredFile, reading
from dppca.owner.records.table_columns import find_columns
from dppca.owner.records.unknown_types import hide_unknown_types

_LIST_BYTES = 1 << 16  # of a column's distinct values: fewer are read as places in a list
_TAIL_BYTES = 1 << 16  # of a file's end, which holds most footers
_PARQUET_MAGIC = b"PAR1"
_ENCRYPTED_MAGIC = b"PARE"
_ONE_OF_EACH = ("parquet-cpp", "parquet-mr", "parquet-rs", "Polars", "impala")
"""Writers that list no text twice. DuckDB lists an empty one for each value of an ENUM that does
not occur; pyarrow would then take codes for those of other texts."""
_ENCRYPTED = (
    "is an encrypted Parquet file, whose keys are not asked for: write it again without "
    "encryption, where only you may read it"
)
_ARROW_MAGIC = b"ARROW1"
_FEATHER_1_MAGIC = b"FEA1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetRows(Rows):
    """A Parquet file, read row group by row group; or some of its row groups.

    ``fields`` are the names in the file of the columns called ``names``, and ``promoted`` the types
    into which their cells are brought, empty for those that are as they are.
    """

    file: StoredFile
    fields: tuple[str, ...]
    promoted: tuple[str, ...]

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns (`Rows.read`).

        Columns of labels whose distinct texts the file lists are given as codes of that list.
        """
        with _decrypted(self.file) as stored:
            footer, metadata, _ = _read_footer(stored)
            fields, labels = (
                [self.fields[self.names.index(name)] for name in names]
                for names in (wanted.names, wanted.labels)
            )
            kinds = [self.promoted[self.names.index(name)] for name in wanted.names]
            old = find_old(metadata)
            listed = [
                *_listed(footer, {*labels}, metadata.created_by),
                *_dictionaries(metadata, metadata.schema.to_arrow_schema(), fields),
            ]
            # On this machine all row groups at once, without pre_buffer: it would keep data read
            # ahead, up to the whole file. In an object store one row group after the other, with
            # it: each column chunk would otherwise be a request of its own.
            remote = self.file.system is not None
            every = [group.number for group in self.groups]
            for groups in [[group] for group in every] if remote else [every]:
                # Without threads: the code that adds up the batches uses the other cores meanwhile.
                file = pq.ParquetFile(
                    stored,
                    metadata=metadata,
                    read_dictionary=listed,
                    pre_buffer=remote,
                    coerce_int96_timestamp_unit="ms",
                )
                schema = file.schema_arrow  # of each batch, too, where it would be made again
                described = [schema.field(field) for field in fields]
                for batch in file.iter_batches(
                    wanted.batch_rows, row_groups=groups, columns=fields, use_threads=False
                ):
                    arrays = [of_field(each, batch.column(each.name)) for each in described]
                    for array in arrays:
                        _check_codes(array)
                    if old:
                        arrays = [
                            of_old_calendar(array) if field in old else array
                            for field, array in zip(fields, arrays, strict=True)
                        ]
                    if wanted.key in wanted.names:  # before it is promoted
                        cells = arrays[wanted.names.index(wanted.key)]
                        require_exact_floats(cells, self.file.title, wanted.key)
                    yield [
                        array.cast(pa.type_for_alias(kind)) if kind else array
                        for kind, array in zip(kinds, arrays, strict=True)
                    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowRows(Rows):
    """An Arrow IPC file (Feather version 2), mapped into memory and checked while read."""

    file: StoredFile

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns batch by batch (`Rows.read`)."""
        positions = [self.names.index(name) for name in wanted.names]
        with reading(self.file.title), self.file.open_file(mapped=True) as mapped:
            file = pa.ipc.open_file(mapped)
            for index in range(file.num_record_batches):
                batch = file.get_batch(index)
                arrays = [batch.column(position) for position in positions]
                for array in arrays:
                    _check_structure(array)
                schema = batch.schema
                arrays = [
                    of_field(schema.field(position), array)
                    for position, array in zip(positions, arrays, strict=True)
                ]
                for start in range(0, batch.num_rows, wanted.batch_rows):
                    yield [array.slice(start, wanted.batch_rows) for array in arrays]


def open_parquet(stored: StoredFile) -> ParquetRows:
    """Read a Parquet file's footer."""
    _check_magic(stored, _PARQUET_MAGIC, "Parquet")
    with _decrypted(stored) as opened:
        try:
            with pq.ParquetFile(opened) as file:
                metadata, schema, unknown = file.metadata, file.schema_arrow, frozenset[str]()
        except pa.ArrowException:
            _, metadata, unknown = _read_footer(opened)
            schema = metadata.schema.to_arrow_schema()
        columns = [(name.strip(), name, "") for name in schema.names]
        if stored.columns:
            columns = find_columns(schema, stored.columns, stored.title)
        found = map(metadata.row_group, range(metadata.num_row_groups))
        groups = tuple(RowGroup(i, g.num_rows, g.total_byte_size) for i, g in enumerate(found))
        return ParquetRows(
            file=stored,
            names=tuple(name for name, _, _ in columns),
            fields=tuple(own for _, own, _ in columns),
            promoted=tuple(kind for _, _, kind in columns),
            n_rows=sum(group.n_rows for group in groups),
            groups=groups,
            facts=SourceFacts(
                unknown=frozenset(name for name, own, _ in columns if own in unknown)
            ),
        )


def open_arrow(stored: StoredFile) -> ArrowRows:
    """Read an Arrow file's footer and count its rows."""
    _check_magic(stored, _ARROW_MAGIC, "Arrow")
    with reading(stored.title), stored.open_file(mapped=True) as mapped:
        file = pa.ipc.open_file(mapped)
        names = tuple(name.strip() for name in file.schema.names)
        n_rows = sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))
        return ArrowRows(file=stored, names=names, n_rows=n_rows)


def _read_footer(stored: Any) -> tuple[bytes, pq.FileMetaData, frozenset[str]]:
    """End of a Parquet file with all of its footer, for most files in one request; what it says.

    The last are columns of types that pyarrow does not know (`hide_unknown_types`).
    """
    size: int = stored.size()
    tail: bytes = stored.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    wanted = int.from_bytes(tail[-8:-4], "little") + 8
    footer = tail if wanted <= len(tail) else stored.read_at(wanted, max(0, size - wanted))
    try:
        return footer, pq.read_metadata(pa.BufferReader(footer)), frozenset()
    except pa.ArrowException:
        footer, unknown = hide_unknown_types(footer)
        if not unknown:
            raise
        return footer, pq.read_metadata(pa.BufferReader(footer)), unknown


@contextmanager
def _decrypted(stored: StoredFile) -> Iterator[Any]:
    """Open a Parquet file; name it as encrypted if that is why it cannot be read."""
    with reading(stored.title), stored.open_file() as opened:
        try:
            yield opened
        except (pa.ArrowException, OSError):
            if _says_encrypted(opened):
                raise DataError(f"{stored.title} {_ENCRYPTED}") from None
            raise


def _says_encrypted(opened: Any) -> bool:
    size: int = opened.size()
    length = int.from_bytes(opened.read_at(8, max(0, size - 8))[:4], "little") + 8
    try:
        return is_encrypted(opened.read_at(length, max(0, size - length)))
    except (struct.error, IndexError, ValueError, TypeError):
        return False  # damaged


def _listed(footer: bytes, names: Collection[str], writer: str) -> list[str]:
    """Columns of text whose distinct values a Parquet file lists, and are few.

    Found in the first row group; affects only the speed of reading. pyarrow is not used: it ends
    the process if the description of a column contradicts itself.
    """
    if not names or not writer.startswith(_ONE_OF_EACH):
        return []
    try:
        sizes = measure_dictionaries(footer)
    except (struct.error, IndexError, ValueError, TypeError):  # pyarrow refuses it, or reads it
        return []
    return [path for path, size in sizes.items() if path in names and 0 < size <= _LIST_BYTES]


def _dictionaries(
    metadata: pq.FileMetaData, schema: pa.Schema, names: Collection[str]
) -> list[str]:
    """Paths of the texts within columns that are to be Arrow dictionaries.

    pyarrow refuses to make dictionaries of texts that are not UTF-8 unless it reads them so.
    """
    dictionaries = {name for name in names if "dictionary<" in str(schema.field(name).type)}
    leaves = [metadata.schema.column(index) for index in range(len(metadata.schema))]
    return [
        leaf.path
        for leaf in leaves
        if leaf.physical_type == "BYTE_ARRAY"
        and any(f"{leaf.path}.".startswith(f"{name}.") for name in dictionaries)
    ]


def _check_structure(array: pa.Array) -> None:
    """Raise `ArrowInvalid` for an array that would be read outside its buffers; accept any value.

    pyarrow's full validation also refuses texts that are not UTF-8, times outside a day and
    decimals beyond their precision. These are cells, which coding takes as they are: they are
    validated as the bytes and integers that they consist of. Only the nulls of nested values are
    ever read.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        _check_structure(array.storage)
    elif pa.types.is_dictionary(kind):
        array.validate()
        array.indices.validate(full=True)
        _check_codes(array)
        _check_structure(array.dictionary)
    elif pa.types.is_run_end_encoded(kind):
        array.validate()
        array.run_ends.validate(full=True)
        _check_run_ends(array)
        _check_structure(array.values)
    elif pa.types.is_nested(kind):
        array.validate()
    else:
        array.view(_stored(kind)).validate(full=True)


def _stored(kind: pa.DataType) -> pa.DataType:
    """A type of the same buffers that takes any value."""
    if pa.types.is_decimal(kind):
        return pa.binary(kind.byte_width)
    if pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_time32(kind):
        return pa.int32()
    bare = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    return bare.get(kind, kind)


def _check_codes(array: pa.Array) -> None:
    """Check codes against the dictionary: in a damaged file they may be out of range."""
    if pa.types.is_dictionary(array.type):
        codes = array.indices
        if codes.null_count:  # the code of a null is any
            codes = codes.drop_null()
        places = codes.to_numpy()
        # A negative code is a large unsigned number, so one comparison finds both kinds.
        unsigned = places.view(f"u{places.itemsize}")
        end = min(len(array.dictionary), 1 << 8 * places.itemsize - (places.dtype.kind == "i"))
        if len(places) and unsigned.max() >= end:
            raise pa.ArrowInvalid("codes out of range")


def _check_run_ends(array: pa.RunEndEncodedArray) -> None:
    """Require runs that follow each other, have one value each, and cover the array."""
    ends = array.run_ends.to_numpy()
    starts = np.concatenate([[0], ends[:-1]])
    if len(ends) > len(array.values) or not (ends > starts).all():
        raise pa.ArrowInvalid("runs out of order")
    if len(array) and (not len(ends) or ends[-1] < array.offset + len(array)):
        raise pa.ArrowInvalid("runs end too early")


def _check_magic(stored: StoredFile, magic: bytes, kind: str) -> None:
    title = stored.title
    with reading(title), stored.open_stream() as file:
        first = file.read(len(magic))
    if not first:
        raise DataError(f"the data file {title} is empty: export it again")
    if kind == "Arrow" and first.startswith(_FEATHER_1_MAGIC):
        raise DataError(f"{title} is of Feather version 1: write it again as version 2 or Parquet")
    if kind == "Parquet" and first == _ENCRYPTED_MAGIC:
        raise DataError(f"{title} {_ENCRYPTED}")
    if first != magic:
        raise DataError(
            f"{title} is not a {kind} file, or is cut off: name it by its format or export it"
        )
