"""Columns of a Parquet file whose Arrow type pyarrow does not know, such as 128-bit integers.

A writer with more types than pyarrow keeps its own schema in the footer, as an Arrow message in
base64, and pyarrow then refuses the whole file. In a copy of the footer such types are written over
as null, in place: every other column keeps its type, and pyarrow takes the file's own.

Source: Apache Arrow, ``Schema.fbs`` (``Field``) and ``Message.fbs`` (``Message``).
"""

import struct
from base64 import b64decode, b64encode
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from dppca.common.kernel.attestation.file_headers import field, follow, read_arrow_schema

_PREFIX: Final = 8  # bytes of an encapsulated message before its FlatBuffer
_NULL_TYPE: Final = 1  # Null, among Arrow's types
_NAME, _TYPE, _CHILDREN = 0, 2, 5  # places in a field's table


def hide_unknown_types(footer: bytes) -> tuple[bytes, frozenset[str]]:
    """The footer with unknown types written over, and names of their columns; none if none is."""
    try:
        kept = read_arrow_schema(footer)
        message = bytearray(b64decode(kept, validate=True))
        names = _hide(message)
    except (struct.error, IndexError, ValueError, TypeError):  # pyarrow says what is wrong with it
        return footer, frozenset()
    return footer.replace(kept, b64encode(message)), frozenset(names)


def _hide(message: bytearray) -> list[str]:
    """Write over unknown types of columns; return their names."""
    root = _PREFIX + follow(message[_PREFIX:], 0)
    schema = follow(message, _position(message, root, 2))
    columns = follow(message, _position(message, schema, 1))
    (count,) = struct.unpack_from("<I", message, columns)
    found = []
    for number in range(count):
        table = follow(message, columns + 4 + 4 * number)
        if _is_known(message, columns, table):
            continue
        message[_position(message, table, _TYPE)] = _NULL_TYPE
        children = field(message, table, _CHILDREN)
        if children is not None:
            struct.pack_into("<I", message, follow(message, children), 0)
        name = follow(message, _position(message, table, _NAME))
        (length,) = struct.unpack_from("<I", message, name)
        found.append(message[name + 4 : name + 4 + length].decode())
    return found


def _is_known(message: bytearray, columns: int, table: int) -> bool:
    """Return True if pyarrow reads a schema of this column alone."""
    alone = bytearray(message)
    struct.pack_into("<II", alone, columns, 1, table - columns - 4)
    try:
        pa.ipc.read_schema(pa.py_buffer(alone))
    except (pa.ArrowException, ValueError, OSError):
        return False
    return True


def _position(message: bytearray, table: int, index: int) -> int:
    found = field(message, table, index)
    if found is None:
        raise ValueError("a field is missing")
    return found
