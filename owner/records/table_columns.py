"""Columns of a lake's table, as each of its files has them.

A file keeps the names that its table had when it was written, or has names of its own: Iceberg
writes ``a_x2Fb`` for ``a/b``. So Iceberg's columns are found by their numbers (field ids), which
never change, and by the table's list of names in files without numbers; Delta's by the names or
numbers that the table maps them to. A column that a file lacks has one value for all of the file's
rows: that of its partition, or the column's default, or null.

Cells of a column that was promoted after a file was written have the type that the table has for
them, as for every reader of the table, and in every copy: a float 0.1 that became a double is
0.10000000149011612, and a date that became a timestamp has a time. Whole numbers and decimals that
were widened say the same in both types, and keep that of the file.

Source: Apache Iceberg, table specification, "Column Projection", "Schema Evolution" and "Name
Mapping Serialization".
"""

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.ipc

from dppca.common.kernel.errors import DataError

_NUMBER: Final = b"PARQUET:field_id"


class TableColumn(NamedTuple):
    """A column of a table, and how to find it in a file.

    Attributes
    ----------
    name
        In the table, outer blanks dropped.
    names
        Names that it may have in a file without numbers.
    number
        Its field id; None in a format without them.
    value
        Array of the one cell that all rows have if the file lacks it; None for null.
    kind
        Arrow's name of its type in the table, if cells of an older file have to be brought into it.
    """

    name: str
    names: tuple[str, ...] = ()
    number: int | None = None
    value: pa.Array | None = None
    kind: str = ""

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Self:
        """A column as JSON gives it, with its value as of `write_cell`."""
        name, names, number, value, kind = values
        return cls(name, tuple(names), number, None if value is None else _read_cell(value), kind)


def write_cell(cell: pa.Array) -> str:
    """An array of one cell as text, for other machines: an Arrow stream in base64."""
    batch = pa.record_batch([cell], ["cell"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return b64encode(sink.getvalue()).decode()


def _read_cell(text: str) -> pa.Array:
    with pa.ipc.open_stream(b64decode(text)) as stream:
        return stream.read_next_batch().column(0)


def find_columns(
    schema: pa.Schema, columns: Sequence[TableColumn], title: str
) -> list[tuple[str, str, str]]:
    """Columns of a table that a file has, by their names in the table and in the file.

    The last is the type into which its cells have to be brought; empty if they are as they are.

    Raise `DataError` if it cannot be said which columns they are.
    """
    names = keys = schema.names
    by_number = columns[0].number is not None
    if by_number:
        keys = [(field.metadata or {}).get(_NUMBER, b"").decode("latin-1") for field in schema]
    if by_number and not all(keys):
        if any(keys) or not any(column.names for column in columns):
            raise DataError(
                f"{title} has columns without a number (field id), and the table lists no names "
                "for them (in Iceberg, schema.name-mapping.default): write the rows again by a "
                "program that knows the table's format"
            )
        by_number, keys = False, names
    places = dict(zip(keys, names, strict=True))
    found = [
        (number, places[key])
        for number, column in enumerate(columns)
        for key in ((str(column.number),) if by_number else column.names)
        if key in places
    ]
    once_in_file = len(places) == len({*names}) == len(names)
    if not once_in_file or any(len({*each}) < len(each) for each in zip(*found, strict=True)):
        raise DataError(
            f"{title} has two columns of one number, or of one name: write its rows again by a "
            "program that knows the table's format"
        )
    return [
        (columns[number].name, own, _promoted(schema.field(own).type, columns[number].kind))
        for number, own in found
    ]


def _promoted(own: pa.DataType, kind: str) -> str:
    """Return the type to which a file's cells have to be promoted; empty for none."""
    narrower = pa.types.is_float32(own) or pa.types.is_date(own)
    return kind if kind and narrower and own != pa.type_for_alias(kind) else ""


def list_lacking(
    columns: Sequence[TableColumn], names: Sequence[str]
) -> Iterator[tuple[str, pa.Array | None]]:
    """Names and values of a table's columns that were not found in a file; names may repeat."""
    left = Counter(names)
    for column in columns:
        if left[column.name]:
            left[column.name] -= 1
        else:
            yield column.name, column.value
