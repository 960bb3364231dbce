"""Limits on the memory that a table's file needs, checked before its data are decoded.

A table from another party may be a small file of large buffers. Arrow files of this software are
not compressed, so a compressed batch is refused. Parquet files are compressed: every page states in
its header its size in memory, and Arrow reserves that much before it looks at the page. So the
headers are read first, by hand, and pages that are larger than our writers make, or in an encoding
that can repeat a value's bytes without holding them, are refused.

The positions of the pages are read from the footer by hand, too: pyarrow 26 ends the whole process
at a column whose description contradicts itself, and one changed byte can cause that. For a site's
own files, `measure_dictionaries`, `read_arrow_schema` and `is_encrypted` read the footer by hand.

Sources: Apache Arrow columnar format, ``Message.fbs`` (``RecordBatch.compression``) and
``File.fbs`` (``Footer``, ``Block``); Apache Parquet, ``parquet.thrift`` (``FileMetaData``,
``PageHeader``); Thrift compact protocol.
"""

import mmap
import struct
from collections.abc import Iterator
from typing import Any

from dppca.common.kernel.errors import ArtefactError

PAGE_BYTES = 16 << 20
"""Our writers begin a page after 1 MiB."""
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2  # Arrow's numbers
_ARROW = b"ARROW1"
_BLOCK = struct.Struct("<qi4xq")
_PARQUET = b"PAR1"
_WRITER = b"parquet-cpp-arrow"
_ARROW_SCHEMA = b"ARROW:schema"
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8  # Parquet's numbers
_BYTE_ARRAY = 6  # Parquet's number for texts
_ENCODINGS = (_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY)
_ENCODING_OF_PAGE = {5: 2, 7: 2, 8: 4}
"""Fields of PageHeader that describe a page (data, dictionary, data of version 2), each with the
number of its field for the encoding."""
_MAX_DEPTH = 8  # of lists and structures inside one another
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _TEXT, _LIST, _STRUCT = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    12,
)  # kinds of values in Thrift's compact form

Content = bytes | mmap.mmap
_Struct = dict[tuple[int, int], Any]
"""Values of a Thrift struct by number and kind of their fields."""


def is_compressed(metadata: bytes) -> bool:
    """Return True if an Arrow message's record batch has the table ``compression``."""
    root = follow(metadata, 0)
    kind, header = field(metadata, root, 1), field(metadata, root, 2)
    if kind is None or header is None or metadata[kind] not in {_RECORD_BATCH, _DICTIONARY_BATCH}:
        return False
    batch = follow(metadata, header)
    if metadata[kind] == _DICTIONARY_BATCH:
        data = field(metadata, batch, 1)
        if data is None:
            return False
        batch = follow(metadata, data)
    return field(metadata, batch, 3) is not None


def require_plain_arrow(content: Content) -> None:
    """Raise `ArtefactError` if a batch of an Arrow file is compressed.

    Raises
    ------
    struct.error, IndexError, ValueError
        The content is no Arrow file.
    """
    if content[-len(_ARROW) :] != _ARROW:
        raise ValueError("not an Arrow file")
    end = len(content) - len(_ARROW) - 4
    (length,) = struct.unpack_from("<i", content, end)
    if not 0 < length <= end:
        raise ValueError("not an Arrow file")
    footer = content[end - length : end]
    root = follow(footer, 0)
    for index in (2, 3):  # dictionaries, record batches
        vector = field(footer, root, index)
        if vector is None:
            continue
        vector = follow(footer, vector)
        (count,) = struct.unpack_from("<I", footer, vector)
        for number in range(count):
            offset, size, _ = _BLOCK.unpack_from(footer, vector + 4 + number * _BLOCK.size)
            if offset < 0 or size < 0:
                raise ValueError("a block lies outside the file")
            start = 8 if content[offset : offset + 4] == b"\xff\xff\xff\xff" else 4
            if is_compressed(content[offset + start : offset + size]):
                raise ArtefactError(
                    "the container: the Arrow file is compressed, which ours never are"
                )


def require_small_pages(content: Content) -> None:
    """Check the header of every page of a Parquet file.

    Raises
    ------
    ArtefactError
        A page would be larger than pages of this software, or has another encoding.
    struct.error, IndexError, ValueError
        A page is missing.
    """
    footer = _footer(content)
    if not _member(footer, 6, _TEXT).startswith(_WRITER):
        raise ArtefactError("the container: the Parquet file was not written by this software")
    for group in _member(footer, 4, _LIST):
        for chunk in _member(group, 1, _LIST):
            column = _member(chunk, 3, _STRUCT)
            start = _member(column, 9, _I64)
            if (11, _I64) in column:  # a dictionary lies before the rows
                start = min(start, column[11, _I64])
            for page in _pages(content, start, start + _member(column, 7, _I64)):
                _check_page(page)


def measure_dictionaries(content: Content) -> dict[str, int]:
    """Return the bytes of each column's list of distinct texts in the first row group, by path.

    Raises
    ------
    struct.error, IndexError, ValueError, TypeError
        No row group can be read.
    """
    footer = _footer_bytes(content)
    number, kind, place = _read_head(footer, 0, 0)
    while (number, kind) != (4, _LIST):  # the row groups, of which the first is enough
        _, place = _read_value(footer, place, kind, 0)
        number, kind, place = _read_head(footer, place, number)
    count, place = footer[place] >> 4, place + 1
    if count == 15:
        count, place = _unsigned(footer, place)
    if count == 0:
        raise ValueError("there is no row group")
    group, _ = _read_struct(footer, place, 1)
    columns = [_member(chunk, 3, _STRUCT) for chunk in _member(group, 1, _LIST)]
    return {
        b".".join(_member(column, 3, _LIST)).decode(): _member(column, 9, _I64) - column[11, _I64]
        for column in columns
        if column.get((1, _I32)) == _BYTE_ARRAY and (11, _I64) in column
    }


def read_arrow_schema(content: Content) -> bytes:
    """Return the Arrow schema that a Parquet file's footer holds, in base64.

    Raises
    ------
    struct.error, IndexError, ValueError, TypeError
        There is none.
    """
    for pair in _member(_footer(content), 5, _LIST):
        if pair.get((1, _TEXT)) == _ARROW_SCHEMA:
            schema: bytes = _member(pair, 2, _TEXT)
            return schema
    raise ValueError("there is no Arrow schema")


def is_encrypted(content: Content) -> bool:
    """Return True if a Parquet file's plain footer names a cipher; errors are as above."""
    return (8, _STRUCT) in _footer(content)


def _footer(content: Content) -> _Struct:
    encoded = _footer_bytes(content)
    footer, stop = _read_struct(encoded, 0, 0)
    if stop > len(encoded):
        raise ValueError("the footer does not end")
    return footer


def _footer_bytes(content: Content) -> bytes:
    end = len(content) - 8
    if content[end + 4 :] != _PARQUET:
        raise ValueError("not a Parquet file, or an encrypted one")
    (length,) = struct.unpack_from("<I", content, end)
    if length > end:
        raise ValueError("not a Parquet file")
    return bytes(content[end - length : end])


def _pages(content: Content, place: int, end: int) -> Iterator[_Struct]:
    """Yield headers of pages that follow each other."""
    if not 0 <= place <= end <= len(content):
        raise ValueError("a column lies outside the file")
    while place < end:
        page, place = _read_struct(content, place, 0)
        yield page
        size = _member(page, 3, _I32)
        if size < 0:
            raise ValueError("a page has no size")
        place += size


def _check_page(page: _Struct) -> None:
    size = page.get((2, _I32))
    if size is None or not 0 <= size <= PAGE_BYTES:
        raise ArtefactError(
            f"the container: a page of {size} bytes; ours have at most {PAGE_BYTES}"
        )
    for kind, place in _ENCODING_OF_PAGE.items():
        described = page.get((kind, _STRUCT))
        if described is not None and described.get((place, _I32)) not in _ENCODINGS:
            raise ArtefactError("the container: a page is encoded as no page of this software is")


# --- FlatBuffers


def field(buffer: bytes | bytearray, table: int, index: int) -> int | None:
    """Return the absolute position of a table's field; None if the table does not have it."""
    vtable = table - struct.unpack_from("<i", buffer, table)[0]
    (size,) = struct.unpack_from("<H", buffer, vtable)
    slot = 4 + 2 * index
    if slot + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", buffer, vtable + slot)
    return table + int(offset) if offset else None


def follow(buffer: bytes | bytearray, position: int) -> int:
    """Return the position that the reference at a position points to."""
    return int(position + struct.unpack_from("<I", buffer, position)[0])


# --- Thrift's compact protocol: like Arrow, this identifies a field by its number and its kind


def _member(struct: _Struct, number: int, kind: int) -> Any:
    try:
        return struct[number, kind]
    except KeyError:
        raise ValueError(f"there is no field {number} of kind {kind}") from None


def _read_struct(content: Content, place: int, depth: int) -> tuple[_Struct, int]:
    fields: _Struct = {}
    number, seen = 0, set[int]()
    while content[place] != 0:
        number, kind, place = _read_head(content, place, number)
        if number in seen:
            raise ValueError("a field is there twice")
        seen.add(number)
        fields[number, kind], place = _read_value(content, place, kind, depth)
    return fields, place + 1


def _read_head(content: Content, place: int, before: int) -> tuple[int, int, int]:
    """Return number and kind of a field after another one, and the place of its value."""
    head, place = content[place], place + 1
    if head >> 4:
        return before + (head >> 4), head & 15, place
    number, place = _signed(content, place)
    return number, head & 15, place


def _read_value(content: Content, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in {_TRUE, _FALSE}:  # no bytes
        return None, place
    if kind == _BYTE:
        return None, place + 1
    if kind in {_I16, _I32, _I64}:
        return _signed(content, place)
    if kind == _DOUBLE:
        return None, place + 8
    if kind == _TEXT:
        size, place = _unsigned(content, place)
        return bytes(content[place : place + size]), place + size
    if kind == _LIST and depth < _MAX_DEPTH:
        return _read_list(content, place, depth + 1)
    if kind == _STRUCT and depth < _MAX_DEPTH:
        return _read_struct(content, place, depth + 1)
    raise ValueError(f"a header holds a value of kind {kind}")


def _read_list(content: Content, place: int, depth: int) -> tuple[list[Any], int]:
    head, place = content[place], place + 1
    count, kind = head >> 4, head & 15
    if count == 15:
        count, place = _unsigned(content, place)
    if count > len(content) - place:  # each value has a byte at least
        raise ValueError("a list is longer than what holds it")
    values = []
    for _ in range(count):
        value, place = _read_value(
            content, place, _BYTE if kind in {_TRUE, _FALSE} else kind, depth
        )
        values.append(value)
    return values, place


def _unsigned(content: Content, place: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise ValueError("a number of a header does not end")


def _signed(content: Content, place: int) -> tuple[int, int]:
    value, place = _unsigned(content, place)
    return (value >> 1) ^ -(value & 1), place
