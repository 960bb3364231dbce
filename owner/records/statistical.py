"""Files of SPSS (``.sav``, ``.zsav``), Stata (``.dta``) and SAS (``.sas7bdat``, ``.xpt``).

pyreadstat reads raw numbers in a process of its own (`dppca.owner.records.statistical_worker`),
which a damaged file may end, and which has a limit of memory and of time. Cells are codes: value
labels are none. What the file declares missing is a null in a dictionary of the batch's values,
which tells it from a missing value, a null without one. The process that described a file reads it,
too, unless another file was opened meanwhile: only one of a folder waits.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock, Timer
from types import MappingProxyType
from typing import IO, Any, Final
from weakref import WeakSet, finalize

import numpy as np
import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.shell.packages import require_package
from dppca.owner.records.source_facts import SourceFacts
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.statistical_days import DayFormat, array_of, day_format
from dppca.owner.records.stored_files import StoredFile, reading

SUFFIXES: Final = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
_WORKER: Final = Path(__file__).with_name("statistical_worker.py")
_PATIENCE_S: Final = 600.0  # for a description, or for one batch
_HEAD_BYTES: Final = 64  # of a file, which tell its kind
_ENCRYPTED: Final = b"ENCRYPTEDSAV"
_SAS_MAGIC: Final = bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\0\x09\xc7\x31\x8c"
MAGIC: Final[Mapping[str, tuple[bytes, ...]]] = {
    "sav": (b"$FL2", b"$FL3"),
    "dta": (b"<stata_dta>", *(bytes([release]) for release in range(102, 116))),
    "sas7bdat": (_SAS_MAGIC,),
    "xpt": (b"HEADER RECORD*******LIB",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticalRows(Rows):
    """A file of a statistical program.

    Attributes
    ----------
    kind
        Which reader it needs: ``sav``, ``dta``, ``sas7bdat`` or ``xpt``.
    fields
        Names of the columns in it, a character for each byte.
    encoding
        That of its texts; empty if it names none.
    formats
        How each column is shown, by its field.
    worker
        The process that described it.
    """

    file: StoredFile
    kind: str
    fields: tuple[str, ...]
    encoding: str
    formats: Mapping[str, str]
    worker: "_Worker"

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns chunk by chunk (`Rows.read`)."""
        fields = [self.fields[self.names.index(name)] for name in wanted.names]
        days = [day_format(self.kind, self.formats[field]) for field in fields]
        asked = [*dict.fromkeys(fields)]
        places = [asked.index(field) for field in fields]
        if not self.n_rows:
            return
        job = {"names": asked, "encoding": self.encoding, "n_rows": self.n_rows}
        worker = self.worker if _claim(self.worker) else _Worker(self.file, self.kind)
        try:
            with reading(self.file.title):
                for parts in worker.batches(job):
                    shown = zip(places, days, strict=True)
                    arrays = [_array(*parts[place], form) for place, form in shown]
                    for start in range(0, len(arrays[0]), wanted.batch_rows):
                        yield [array.slice(start, wanted.batch_rows) for array in arrays]
        finally:
            worker.end()


def open_statistical(stored: StoredFile) -> StatisticalRows:
    """Read what a file says of itself, and require the rows that it says it has."""
    suffix = next(each for each in SUFFIXES if stored.path.lower().endswith(each))
    kind = {".zsav": "sav"}.get(suffix, suffix[1:])
    if find_spec("pyreadstat") is None:  # which is imported by the worker alone
        require_package("pyreadstat", purpose=f"a file such as {stored.title}")
    _require_kind(stored, kind)
    worker = _Worker(stored, kind)
    try:
        with reading(stored.title):
            found = _checked(worker.describe())
    except BaseException:
        worker.end()
        raise
    _wait(worker)
    fields, encoding = tuple(found["names"]), found["encoding"]

    def text(field: str) -> str:
        return field.encode("latin-1", "replace").decode(encoding or "utf-8", "replace")

    return StatisticalRows(
        file=stored,
        names=tuple(text(_without_number(field, fields)).strip() for field in fields),
        n_rows=found["n_rows"],
        facts=SourceFacts(**{name: _told(fact, text) for name, fact in found["facts"].items()}),
        kind=kind,
        fields=fields,
        encoding=encoding,
        formats=found["formats"],
        worker=worker,
    )


def _checked(found: Any) -> dict[str, Any]:
    """Return a worker's description; raise `ArrowInvalid` if it is not of the form that it has.

    Damaged bytes can make a name, or a label, that is none.
    """
    kinds = {"names": list, "n_rows": int, "encoding": str, "formats": dict, "facts": dict}
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), kind) for key, kind in kinds.items()
    ):
        raise pa.ArrowInvalid("no description")
    texts = [*found["names"], *_leaves([found["formats"], found["facts"]])]
    if not all(isinstance(each, str) for each in texts) or {*found["names"]} - {*found["formats"]}:
        raise pa.ArrowInvalid("a name or a label is none")
    return found


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what JSON holds in its lists and objects."""
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value


def _told(fact: Any, text: Callable[[str], str]) -> Any:
    """Return a fact that the worker tells: a text, or codes by column and label."""
    if isinstance(fact, str):
        return text(fact)
    return MappingProxyType(
        {
            text(field).strip(): {text(label): text(code) for label, code in codes.items()}
            for field, codes in fact.items()
        }
    )


def _array(values: Any, ends: Any, state: Any, form: DayFormat | None) -> pa.Array:
    """Cells of which those that are declared missing are nulls of a dictionary."""
    valid = state == 0
    if values.dtype == np.uint8:
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [mask, pa.py_buffer(np.concatenate([[0], ends])), pa.py_buffer(values)]
        cells = pa.Array.from_buffers(pa.large_binary(), len(state), buffers)
    elif form:
        cells = form.days(np.where(valid, values, np.float64("nan")))
    else:
        cells = array_of(values, pa.from_numpy_dtype(values.dtype), valid)
    if not (state == 2).any():
        return cells
    places = array_of(np.arange(len(cells), dtype=np.int32), pa.int32(), state != 1)
    return pa.DictionaryArray.from_arrays(places, cells)


def _without_number(field: str, fields: tuple[str, ...]) -> str:
    """The name that the file has: pyreadstat numbers one that it has twice."""
    name = field.removesuffix("_duplicated1")
    return name if name in fields else field


def _require_kind(stored: StoredFile, kind: str) -> None:
    with reading(stored.title), stored.open_stream() as file:
        first = file.read(_HEAD_BYTES)
    if not first:
        raise DataError(f"the data file {stored.title} is empty: export it again")
    if kind == "sav" and _ENCRYPTED in first:
        raise DataError(
            f"{stored.title} is encrypted: open it in SPSS and save it without a password, where "
            "only you may read it"
        )
    if not first.startswith(MAGIC[kind]):
        raise DataError(
            f"{stored.title} is not a file of .{kind}, or is cut off: name it by its format or "
            "export it"
        )


class _Worker:
    """A process that reads a file; all that is known of its errors is that it ended too early."""

    def __init__(self, stored: StoredFile, kind: str) -> None:
        self._place = {"path": stored.path, "store": stored.store, "kind": kind}
        # -P: the folder of the worker holds modules of this software, not ones that it may import.
        command = [sys.executable, "-P", str(_WORKER)]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none)
        self.end = finalize(self, _end, self._process)

    def describe(self) -> dict[str, Any]:
        """What the file says of itself."""
        self._ask({"names": None})
        with self._patience() as answer:
            found: dict[str, Any] = json.loads(answer.readline())
        return found

    def batches(self, job: Mapping[str, Any]) -> Iterator[list[tuple[Any, Any, Any]]]:
        """The three arrays of each column, batch by batch."""
        self._ask(job)
        while True:
            with self._patience() as answer:
                if not (shapes := json.loads(answer.readline())):
                    return
                flat = [
                    np.frombuffer(answer.read(n * np.dtype(kind).itemsize), kind, n)
                    for kind, n in shapes
                ]
            columns = list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))
            if len({len(state) for _, _, state in columns}) != 1:
                raise pa.ArrowInvalid("columns of different lengths")
            yield columns

    def _ask(self, job: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        self._process.stdin.write(json.dumps({**self._place, **job}).encode() + b"\n")
        self._process.stdin.flush()

    @contextmanager
    def _patience(self) -> Iterator[IO[bytes]]:
        """Its output, for as long as one answer may take."""
        timer = Timer(_PATIENCE_S, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None  # noqa: S101 - it is a pipe
            yield self._process.stdout
        except ValueError:  # no JSON, or too few bytes: it ended within it
            raise pa.ArrowInvalid("no answer") from None
        finally:
            timer.cancel()


_WAITING: Final[WeakSet[_Worker]] = WeakSet()  # the one that described the latest file
_LOCK: Final = Lock()


def _wait(worker: _Worker) -> None:
    """Let a worker wait for its file to be read, in place of one that waits."""
    with _LOCK:
        for other in list(_WAITING):
            other.end()
        _WAITING.clear()
        _WAITING.add(worker)


def _claim(worker: _Worker) -> bool:
    """Whether a worker still waits, which it does no longer."""
    with _LOCK:
        waits = worker in _WAITING
        _WAITING.discard(worker)
    return waits


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # what it was to be told is lost with it
            pipe and pipe.close()
    process.wait()
