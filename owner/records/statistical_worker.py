"""The process that opens files of SPSS, Stata and SAS by pyreadstat, and sends raw cells as Arrow.

It is a program of its own, started by `dppca.owner.records.statistical`: a damaged file can end the
native library's process. It imports nothing of this software. The job comes as JSON on its input; a
description of the file, or an Arrow stream of cells, leaves by its output. Nothing is said of an
error, whose message could quote a cell: the exit code is 1.

Every text is asked for as ISO-8859-1, which maps bytes to characters one to one: a cell that is no
text in the file's encoding would otherwise end the reading of all rows.
"""

import codecs
import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyreadstat

_READERS: Final[dict[str, Callable[..., Any]]] = {
    "sav": pyreadstat.read_sav,
    "dta": pyreadstat.read_dta,
    "sas7bdat": pyreadstat.read_sas7bdat,
    "xpt": pyreadstat.read_xport,
}
_TYPES: Final = {
    "string": pa.large_binary(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_BYTES: Final = "ISO-8859-1"
_MEMORY: Final = 4 << 30
_VALUES, _MOST_ROWS, _COUNTED = 1 << 19, 1 << 17, 1 << 18  # at once: more would save skipping
_MOST_LABELS: Final = 1000
_HEAD: Final = 1 << 20
_CARD: Final = 80  # bytes of a record of .xpt
_CASES: Final = 80  # place of the number of cases in .sav
_ENCODING_RECORDS: Final = (b"\7\0\0\0\x14\0\0\0\1\0\0\0", b"\0\0\0\7\0\0\0\x14\0\0\0\1")
_UNICODE_STATA: Final = 118  # the release since which texts are UTF-8
_ROW_SIZE: Final = b"\xf7\xf7\xf7\xf7"  # begins the part of .sas7bdat with the number of rows


class DamagedError(Exception):
    """The file contradicts itself."""


class Patched:
    """A file with some bytes read as others; it keeps the last bytes of a read that was cut short.

    Attributes
    ----------
    rest
        Bytes of the latest read that ended before all that was asked for.
    """

    def __init__(self, file: Any, place: int = 0, content: bytes = b"") -> None:
        self._file, self._place, self._content = file, place, content
        self.rest = b""

    def read(self, size: int) -> bytes:
        """Read up to ``size`` bytes."""
        begin = self._file.tell()
        found: bytes = self._file.read(size)
        if len(found) < size:
            self.rest = found
        first = max(begin, self._place)
        last = min(begin + len(found), self._place + len(self._content))
        if first < last:
            new = self._content[first - self._place : last - self._place]
            found = found[: first - begin] + new + found[last - begin :]
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Move to a place."""
        place: int = self._file.seek(offset, whence)
        return place

    def tell(self) -> int:
        """Return the place."""
        place: int = self._file.tell()
        return place


def describe(kind: str, file: Any) -> dict[str, Any]:
    """Describe a file of a kind; raise `DamagedError`, or an error of pyreadstat.

    Names and texts hold a character for each byte of the file; ``encoding`` is empty if the file
    names none.
    """
    head, size = _head(file)
    if kind == "xpt" and size % _CARD:
        raise DamagedError
    _, raw = _read(kind, file, metadataonly=True)
    _, plain = _read(kind, file, metadataonly=True, encoding=None)
    names = list(raw.column_names)
    labels = {
        name: [[_code(code), text] for code, text in list(found.items())[:_MOST_LABELS]]
        for name, found in raw.variable_value_labels.items()
    }
    n_rows = plain.number_rows
    if not names:
        n_rows = 0
    elif n_rows is None:
        n_rows = _count(kind, file, raw)
    else:
        _require_count(kind, file, head, n_rows, names[:1])
    return {
        "names": names,
        "n_rows": n_rows,
        "encoding": _encoding(kind, head, plain.file_encoding),
        "formats": {k: v or "" for k, v in raw.original_variable_types.items()},
        "labels": labels,
    }


def cells(
    kind: str, file: Any, names: Sequence[str], encoding: str, n_rows: int
) -> Iterator[pa.RecordBatch]:
    """Read columns of an open file, or a path: values, and True where one is declared missing.

    Such a value is null, and so is a missing one. Texts are UTF-8, or bytes that are not.
    """
    step = max(1, min(_MOST_ROWS, _VALUES // len(names)))
    n_read = 0
    while n_read < n_rows:
        found, about = _read(kind, file, usecols=names, row_offset=n_read, row_limit=step)
        columns = [found.pop(name) for name in names]
        if not columns[0]:
            return
        n_read += len(columns[0])
        arrays: list[pa.Array] = []
        for name in names:
            arrays += _arrays(columns.pop(0), name, about, encoding)
        fields = [f"{part}{i}" for i in range(len(names)) for part in ("value", "declared")]
        yield pa.record_batch(arrays, fields)


def _arrays(values: list[Any], name: str, about: Any, encoding: str) -> list[pa.Array]:
    """The values of a column, and which of them are declared missing."""
    kind = _TYPES[about.readstat_variable_types[name]]
    declared = np.zeros(len(values), np.bool_)
    ranges = about.missing_ranges.get(name, ())
    if pa.types.is_large_binary(kind):
        texts = pa.array(values, pa.large_string())
        if ranges:
            listed = pa.array([each["lo"].rstrip(" ") for each in ranges], pa.large_string())
            declared = pc.is_in(pc.utf8_rtrim(texts, " "), listed).to_numpy(zero_copy_only=False)
        cells = _texts(texts, encoding)
    else:
        if name in about.missing_user_values:  # tags such as a, of Stata and SAS
            declared = np.array([isinstance(value, str) for value in values])
            values = [None if isinstance(value, str) else value for value in values]
        cells = pa.array(values, kind)
        if ranges:
            numbers = cells.to_numpy(zero_copy_only=False)
            for each in ranges:
                declared |= (numbers >= each["lo"]) & (numbers <= each["hi"])
    if not declared.any():
        return [cells, pa.nulls(len(cells), pa.bool_())]
    mask = pa.array(declared)
    return [pc.if_else(mask, pa.scalar(None, kind), cells), mask]


def _texts(texts: pa.Array, encoding: str) -> pa.Array:
    """Texts as bytes of UTF-8, of whatever bytes they are in the file if it names no encoding."""
    if not pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
        raw = [None if text is None else text.encode(_BYTES) for text in texts.to_pylist()]
        if encoding:
            raw = [each and each.decode(encoding, "replace").encode() for each in raw]
        return pa.array(raw, pa.large_binary())
    return texts.cast(pa.large_binary())


def _read(kind: str, file: Any, **options: Any) -> tuple[dict[str, list[Any]], Any]:
    if not isinstance(file, str):
        file.seek(0)
    options = {"encoding": _BYTES, "output_format": "dict", **options}
    if kind != "xpt":
        options["user_missing"] = True
    found, about = _READERS[kind](file, disable_datetime_conversion=True, **options)
    return found, about


def _count(kind: str, file: Any, about: Any) -> int:
    """Count the rows of a file that does not say how many it has."""
    types = about.readstat_variable_types
    name = next((name for name in types if types[name] != "string"), about.column_names[0])
    watched, n_rows = Patched(file), 0
    while n_new := _rows_at(kind, watched, [name], n_rows, _COUNTED):
        n_rows += n_new
    if kind == "xpt" and watched.rest.strip(b" "):  # a row that is cut off
        raise DamagedError
    return n_rows


def _require_count(kind: str, file: Any, head: bytes, n_rows: int, names: list[str]) -> None:
    """Raise `DamagedError` unless the last row is where a header says: readers believe fewer."""
    if kind == "sav":
        file = Patched(file, _CASES, b"\xff" * 4)
    elif kind == "sas7bdat":
        _require_no_more(file, head, n_rows, names)
    watched = Patched(file)
    last = max(n_rows - 1, 0)
    n_last = _rows_at(kind, watched, names, last, 2)
    if n_last != n_rows - last:
        raise DamagedError
    if kind == "dta":
        closed = head[-64:].endswith(b"</stata_dta>")
        if not closed if head.startswith(b"<") else watched.rest:
            raise DamagedError


def _require_no_more(file: Any, head: bytes, n_rows: int, names: list[str]) -> None:
    """Raise `DamagedError` if a .sas7bdat can be read as if it said that it has a row more."""
    wide = head[32:33] == b"3"  # 64 bits
    order: Literal["little", "big"] = "little" if head[37:38] == b"\1" else "big"
    place = head.find(_ROW_SIZE)
    if place < 0:
        return
    place += (48 if wide else 24) - (4 if wide and order == "big" else 0)
    more = Patched(file, place, (n_rows + 1).to_bytes(8 if wide else 4, order))
    try:
        _rows_at("sas7bdat", more, names, n_rows, 1)
    except pyreadstat.ReadstatError:
        return
    raise DamagedError


def _rows_at(kind: str, file: Any, names: list[str], begin: int, most: int) -> int:
    found, _ = _read(kind, file, usecols=names, row_offset=begin, row_limit=most)
    return len(found[names[0]])


def _head(file: Any) -> tuple[bytes, int]:
    """The first bytes of a file, for .dta with its last ones after them, and its size."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 16))
    last: bytes = file.read(16)
    file.seek(0)
    first: bytes = file.read(_HEAD)
    return first + last, size


def _encoding(kind: str, head: bytes, found: str | None) -> str:
    """The encoding that a file names, as Python knows it; empty for none."""
    if kind == "dta":
        release = head[28:31] if head.startswith(b"<stata_dta>") else b"0"
        return "utf-8" if release.isdigit() and int(release) >= _UNICODE_STATA else ""
    named = {"sav": any(each in head for each in _ENCODING_RECORDS) or found != "WINDOWS-1252"}
    if not found or not named.get(kind, kind != "sas7bdat" or head[70:71] != b"\0"):
        return ""
    with suppress(LookupError):
        return codecs.lookup(found).name
    return codecs.lookup("cp" + "".join(filter(str.isdigit, found))).name


def _code(code: object) -> str:
    number = isinstance(code, float) and code.is_integer()
    return str(int(code) if number else code)  # type: ignore[call-overload]


def _open(job: Mapping[str, Any]) -> Any:
    if job["store"]:
        system, _ = pa.fs.FileSystem.from_uri(job["store"])
        return system.open_input_file(job["path"])
    return io.FileIO(job["path"])


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Do one job."""
    with suppress(ImportError):  # Windows has no such limits
        limits = importlib.import_module("resource")
        limits.setrlimit(limits.RLIMIT_AS, (_MEMORY, _MEMORY))
    job = json.loads(source.read())
    with _open(job) as file:
        if job["names"] is None:
            sink.write(json.dumps(describe(job["kind"], file)).encode())
            return
        fields = job["names"], job["encoding"], job["n_rows"]
        stream = None
        read = file if job["store"] else job["path"]  # which the library reads faster by itself
        for batch in cells(job["kind"], read, *fields):
            stream = stream or pa.ipc.new_stream(sink, batch.schema)
            stream.write_batch(batch)
        if stream is not None:
            stream.close()


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except BaseException:  # noqa: BLE001 - whatever is wrong, only that is said
        sys.exit(1)
