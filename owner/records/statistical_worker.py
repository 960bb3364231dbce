"""The process that opens files of SPSS, Stata and SAS by pyreadstat, and sends raw cells.

It is a program of its own, started by `dppca.owner.records.statistical`: a damaged file can end the
native library's process. It imports nothing of this software, and pyarrow, which takes as long as a
small file, only for a store. Jobs come as lines of JSON on its input; a line of JSON that describes
the file, or cells, leave by its output. Nothing is said of an error, whose message could quote a
cell: the exit code is 1.

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
import pyreadstat

_READERS: Final[dict[str, Callable[..., Any]]] = {
    "sav": pyreadstat.read_sav,
    "dta": pyreadstat.read_dta,
    "sas7bdat": pyreadstat.read_sas7bdat,
    "xpt": pyreadstat.read_xport,
}
_TYPES: Final = {"int8": "i1", "int16": "<i2", "int32": "<i4", "float": "<f4", "double": "<f8"}
_BYTES: Final = "ISO-8859-1"
_MEMORY: Final = 4 << 30  # bytes that a damaged file may take
_VALUES, _MOST_ROWS = 1 << 19, 1 << 17  # sent at once
_HELD, _COUNTED = 1 << 22, 1 << 20  # values read, and rows counted, at once: some 200 and 40 MB
_TEXT: Final = 32  # bytes of a text that take as much memory as another number
_MOST_LABELS: Final = 1000  # of a column that are told
_HEAD: Final = 1 << 20  # bytes in which a header is sought
_CARD: Final = 80  # bytes of a record of .xpt
_LAYOUT, _WEIGHT, _CASES = 64, 76, 80  # places in .sav: order of bytes, weight, number of cases
_LONG: Final = 255  # bytes of a text of .sav, beyond which it is several variables
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
    names none, and ``facts`` are fields of `dppca.owner.records.source_facts.SourceFacts`.
    """
    head, size = _head(file)
    if kind == "xpt" and size % _CARD:
        raise DamagedError
    _, raw = _read(kind, file, metadataonly=True)
    _, plain = _read(kind, file, metadataonly=True, encoding=None)
    names = list(raw.column_names)
    labels = {
        name: _codes_of_labels(list(found.items())[:_MOST_LABELS])
        for name, found in raw.variable_value_labels.items()
    }
    n_rows = plain.number_rows
    words = [*names, *(text for codes in labels.values() for text in codes)]
    if not all(isinstance(word, str) for word in words):
        raise DamagedError
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
        "facts": {
            "value_labels": labels,
            "weight": _weight(head, raw.variable_storage_width) if kind == "sav" else "",
        },
    }


def _weight(head: bytes, widths: Mapping[str, int]) -> str:
    """Name of the variable that weights the rows of .sav; empty without one."""
    order: Literal["little", "big"] = "little" if head[_LAYOUT] else "big"
    place = int.from_bytes(head[_WEIGHT : _WEIGHT + 4], order)  # counted in 8 bytes, from 1
    if not place:
        return ""
    for name, width in widths.items():
        if place == 1:
            return name
        place -= -(-width // 8)
        if width > _LONG:
            break
    return "a variable"


def cells(
    kind: str, file: Any, names: Sequence[str], encoding: str, n_rows: int
) -> Iterator[list[np.ndarray]]:
    """Read columns of an open file, or a path, as three arrays for each.

    Numbers, or the bytes of all texts (uint8), in UTF-8 where they are text; the end of each text
    (int64, else empty); 1 for a missing value, 2 for one that is declared missing, else 0 (uint8).
    """
    step = max(1, min(_MOST_ROWS, _VALUES // len(names)))
    n_read, most = 0, step
    while n_read < n_rows:
        found, about = _read(kind, file, usecols=names, row_offset=n_read, row_limit=most)
        columns = [found.pop(name) for name in names]
        n_new = len(columns[0])
        if not n_new:
            return
        n_read += n_new
        # Each reading skips all rows before it: as many are read next, so that few are skipped.
        most = max(step, min(n_read, _rows_held(names, about)))
        for begin in range(0, n_new, step):
            piece = [column[begin : begin + step] for column in columns]
            yield _arrays(kind, piece, names, about, encoding)


def _rows_held(names: Sequence[str], about: Any) -> int:
    """Number of rows that may be in memory at once, by the width of their texts."""
    kinds, widths = about.readstat_variable_types, about.variable_storage_width
    texts = (1 + (widths[name] or _LONG) // _TEXT for name in names if kinds[name] == "string")
    numbers = sum(kinds[name] != "string" for name in names)
    return int(_HELD // (numbers + sum(texts)))


def _arrays(
    kind: str, columns: list[list[Any]], names: Sequence[str], about: Any, encoding: str
) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    for name, column in zip(names, columns, strict=True):
        ranges = about.missing_ranges.get(name, ())
        kept = about.readstat_variable_types[name]
        if kind == "dta" and not about.variable_storage_width[name]:  # strL
            arrays += _long_texts(column)
        elif kept == "string":
            arrays += _texts(column, ranges, encoding)
        else:
            tagged = name in about.missing_user_values  # such as a, of Stata and SAS
            arrays += _numbers(column, ranges, _TYPES[kept], tagged=tagged)
    return arrays


def _numbers(
    values: list[Any], ranges: Sequence[Mapping[str, Any]], kept: str, *, tagged: bool
) -> list[np.ndarray]:
    state = np.zeros(len(values), np.uint8)
    if tagged:
        state[[isinstance(value, str) for value in values]] = 2
        values = [None if isinstance(value, str) else value for value in values]
    numbers = np.array(values, np.float64)  # None is NaN
    absent = np.isnan(numbers)
    state[absent & (state == 0)] = 1
    for each in ranges:
        state[(numbers >= each["lo"]) & (numbers <= each["hi"])] = 2
    numbers[absent] = 0
    return [numbers.astype(kept), np.zeros(0, np.int64), state]


def _texts(
    texts: list[Any], ranges: Sequence[Mapping[str, Any]], encoding: str
) -> list[np.ndarray]:
    """Texts as bytes of UTF-8, of whatever bytes they are in the file if it names no encoding."""
    state = np.zeros(len(texts), np.uint8)
    if None in texts:
        state[[text is None for text in texts]] = 1
        texts = [text or "" for text in texts]
    if ranges:
        listed = {each["lo"].rstrip(" ") for each in ranges}
        state[[text.rstrip(" ") in listed for text in texts]] = 2
    raw = "".join(texts)
    content = raw.encode(_BYTES)
    if encoding and not raw.isascii():
        parts = [text.encode(_BYTES).decode(encoding, "replace").encode() for text in texts]
        content, texts = b"".join(parts), parts
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return [np.frombuffer(content, np.uint8), lengths.cumsum(), state]


def _long_texts(texts: list[str]) -> list[np.ndarray]:
    """Texts that pyreadstat takes for UTF-8, whatever it is asked for."""
    parts = [text.encode() for text in texts]
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    return [np.frombuffer(b"".join(parts), np.uint8), ends, np.zeros(len(parts), np.uint8)]


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
    """Raise `DamagedError` if a .sas7bdat can be read as if it said that it has a row more.

    The page that also describes columns has room for rows that are none: it says how many fit.
    """
    wide = head[32:33] == b"3"  # 64 bits
    order: Literal["little", "big"] = "little" if head[37:38] == b"\1" else "big"
    place, size = head.find(_ROW_SIZE), 8 if wide else 4
    if place < 0:
        return
    place -= 4 if wide and order == "big" else 0
    fits = place + 15 * size
    n_fit = min(n_rows, int.from_bytes(head[fits : fits + size], order))
    between = head[place + 7 * size : fits]
    changed = (n_rows + 1).to_bytes(size, order) + between + n_fit.to_bytes(size, order)
    more = Patched(file, place + 6 * size, changed)
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
    for name in (found, found.replace("-", ""), "cp" + "".join(filter(str.isdigit, found))):
        with suppress(LookupError):
            return codecs.lookup(name).name
    return ""


def _codes_of_labels(found: Sequence[tuple[object, Any]]) -> dict[Any, str]:
    """Codes by label; a label of several codes has all of them, such as ``1 and 3``."""
    codes: dict[Any, list[str]] = {}
    for code, text in found:
        codes.setdefault(text, []).append(_code(code))
    return {text: " and ".join(each) for text, each in codes.items()}


def _code(code: object) -> str:
    number = isinstance(code, float) and code.is_integer()
    return str(int(code) if number else code)  # type: ignore[call-overload]


def _open(job: Mapping[str, Any]) -> Any:
    if job["store"]:
        from pyarrow.fs import FileSystem

        system, _ = FileSystem.from_uri(job["store"])
        return system.open_input_file(job["path"])
    return io.FileIO(job["path"])


def main(source: BinaryIO, sink: BinaryIO) -> None:
    """Do jobs until there are no more."""
    with suppress(ImportError):  # Windows has no such limits
        limits = importlib.import_module("resource")
        limits.setrlimit(limits.RLIMIT_AS, (_MEMORY, _MEMORY))
    for line in source:
        job = json.loads(line)
        kind = job["kind"]
        with _open(job) as file:
            if job["names"] is None:
                sink.write(json.dumps(describe(kind, file)).encode() + b"\n")
            else:
                read = file if job["store"] else job["path"]  # the library is faster by itself
                for arrays in cells(kind, read, job["names"], job["encoding"], job["n_rows"]):
                    shapes = [[array.dtype.str, len(array)] for array in arrays]
                    sink.write(json.dumps(shapes).encode() + b"\n")
                    sink.writelines(array.tobytes() for array in arrays)
                sink.write(b"[]\n")
            sink.flush()


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except BaseException:  # noqa: BLE001 - whatever is wrong, only that is said
        sys.exit(1)
