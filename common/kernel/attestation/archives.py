"""Zip archives from other parties, read without trust in the sizes that they state.

Our results (NumPy's ``.npz``) and models (skops) are archives whose members are stored as they are.
Every compressed member is refused: two megabytes could become gigabytes. Members
must lie end to end, from the first byte to the directory, so none can be read twice under two
names. Then nothing in an archive is larger than the archive, before a byte of it is copied.

An array's header is read by a pattern and compared with the size of its member before there is an
array; nothing is unpickled and no Python expression is evaluated.

Reference: PKWARE, APPNOTE.TXT 6.3.9, 4.3.7 (local headers); NumPy, "NPY format", version 1.0.
"""

import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.errors import ArtefactError

MAX_MEMBERS = 10_000  # of an archive; one with more is not opened
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_UTF8_NAME = 0x800  # flag of a ZIP member whose name is UTF-8
_NPY = re.compile(
    rb"\{'descr': '([<|][biufU][0-9]{1,4})', 'fortran_order': (True|False), "
    rb"'shape': \((|[0-9]{1,15},|[0-9]{1,15}(?:, [0-9]{1,15}){1,7})\), \} *\n"
)
_DAMAGED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    OSError,
    EOFError,
    MemoryError,
    RuntimeError,
    struct.error,
)
"""Errors of `zipfile`, besides its own, on changed bytes."""
_NPY_START = b"\x93NUMPY\x01\x00"
_SCHEMA = "schema.json"
_SPARE_BYTES = 1 << 24  # that an archive may unpack to besides four times its size


@dataclass(frozen=True, slots=True)
class Archive:
    """Archive in memory; its members are views of it.

    Attributes
    ----------
    checksums
        CRC-32 of each member, from the directory.
    """

    members: dict[str, memoryview]
    checksums: dict[str, int]

    def damaged(self) -> Iterator[str]:
        """Yield names of members that do not have their checksum."""
        for name, content in self.members.items():
            if zlib.crc32(content) != self.checksums[name]:
                yield name


def read_archive(content: bytes) -> Archive:
    """Return the members of an archive; `ArtefactError` if it is not of the kind described."""
    members: dict[str, memoryview] = {}
    checksums: dict[str, int] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            place, end = 0, archive.start_dir
            entries = sorted(archive.infolist(), key=lambda entry: entry.header_offset)
        view = memoryview(content)
        for entry in entries if len(entries) <= MAX_MEMBERS else ():
            place, member = _member(view, entry, place)
            members[entry.filename], checksums[entry.filename] = member, entry.CRC
    except (*_DAMAGED, zipfile.BadZipFile) as error:
        raise ArtefactError("the container: not an archive of this software, or damaged") from error
    if not members or len(members) != len(entries) or place != end:
        raise ArtefactError("the container: its members do not lie end to end, each once")
    return Archive(members, checksums)


def array_in(member: memoryview) -> NDArray[Any]:
    """Return the array in a ``.npy`` member; `ArtefactError` if header and size do not agree."""
    dtype, shape, order, content = _described(member)
    flat: NDArray[Any] = np.frombuffer(content, dtype).copy()  # aligned, and its own
    return flat.reshape(shape, order=order)


def _described(
    member: memoryview,
) -> tuple[np.dtype[Any], tuple[int, ...], Literal["C", "F"], memoryview]:
    """Return type, shape, order and bytes of an array; the number of bytes fits the others."""
    start = len(_NPY_START) + 2
    length = int.from_bytes(member[start - 2 : start], "little")
    header = _NPY.fullmatch(member[start : start + length])
    if bytes(member[: len(_NPY_START)]) != _NPY_START or header is None:
        raise ArtefactError("an array has no header of this software")
    kind, fortran, sizes = header.groups()
    try:
        dtype = np.dtype(kind.decode("ascii"))
    except TypeError as error:
        raise ArtefactError("an array is of a type that no array of this software is") from error
    shape = tuple(int(size) for size in sizes.split(b",") if size)
    content = member[start + length :]
    if math.prod(shape) * dtype.itemsize != len(content) or not dtype.itemsize:
        raise ArtefactError(
            f"an array of {len(content)} bytes says that it is {dtype}{list(shape)}"
        )
    return dtype, shape, "F" if fortran == b"True" else "C", content


def require_model(content: bytes) -> Archive:
    """Return the archive of a model, checked so that no part can become much larger in memory.

    Every member but ``schema.json`` is an array of its stated size; the schema does not ask for the
    same arrays many times.

    Raises
    ------
    ArtefactError
        The content is no such archive.
    """
    archive = read_archive(content)
    members = [name for name in archive.members if name != _SCHEMA]
    if _SCHEMA not in archive.members or not all(name.endswith(".npy") for name in members):
        raise ArtefactError("the container: not a model of this software")
    for name in members:
        _described(archive.members[name])
    try:
        total = sum(len(archive.members[name]) for name in _files_in(archive.members[_SCHEMA]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArtefactError("the container: the model's schema cannot be read") from error
    if total > 4 * len(content) + _SPARE_BYTES:
        raise ArtefactError(
            f"the container: a model of {len(content)} bytes asks for arrays of {total} bytes"
        )
    return archive


def _member(view: memoryview, entry: zipfile.ZipInfo, expected: int) -> tuple[int, memoryview]:
    """Return a member's end and its bytes; ValueError unless it is stored at the expected place."""
    local = _LOCAL.unpack_from(view, entry.header_offset)
    mark, _, flags, method, _, _, checksum, _, _, n_name, n_extra = local
    name_at = entry.header_offset + _LOCAL.size
    start = name_at + n_name + n_extra
    end = start + entry.file_size
    sound = (
        (mark, method, entry.compress_type)
        == (b"PK\x03\x04", zipfile.ZIP_STORED, zipfile.ZIP_STORED)
        and flags | entry.flag_bits | _UTF8_NAME == _UTF8_NAME
        and checksum == entry.CRC
        and entry.compress_size == entry.file_size
        and bytes(view[name_at : name_at + n_name]) == entry.orig_filename.encode()
        and entry.header_offset == expected
        and end <= len(view)
    )
    if not sound:
        raise ValueError(f"member {entry.filename!r} is not stored as it is")
    return end, view[start:end]


def _files_in(schema: memoryview) -> Iterator[str]:
    """Yield names of files in a skops schema, once for each reference."""
    waiting: list[Any] = [json.loads(bytes(schema))]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "file" in each:
                yield each["file"]
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
