"""Files of SPSS (``.sav``, ``.zsav``), Stata (``.dta``) and SAS (``.sas7bdat``, ``.xpt``).

pyreadstat reads raw numbers in a process of its own (`dppca.owner.records.statistical_worker`),
which a damaged file may end, and which has a limit of memory and of time. Cells are codes: value
labels are none. What the file declares missing is a null in a dictionary of the batch's values,
which tells it from a missing value, a null without one.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dppca.common.kernel.errors import DataError
from dppca.common.shell.packages import require_package
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.statistical_days import day_format
from dppca.owner.records.stored_files import StoredFile, reading

SUFFIXES: Final = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
_WORKER: Final = Path(__file__).with_name("statistical_worker.py")
_PATIENCE_S: Final = 600.0  # for a description, or for one batch
_HEAD_BYTES: Final = 64
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
    """

    file: StoredFile
    kind: str
    fields: tuple[str, ...]
    encoding: str
    formats: Mapping[str, str]

    def read(self, wanted: Wanted) -> Iterator[list[Any]]:
        """Read columns chunk by chunk (`Rows.read`)."""
        fields = [self.fields[self.names.index(name)] for name in wanted.names]
        days = [day_format(self.kind, self.formats[field]) for field in fields]
        asked = [*dict.fromkeys(fields)]
        places = [asked.index(field) for field in fields]
        if not self.n_rows:
            return
        job = {"names": asked, "encoding": self.encoding, "n_rows": self.n_rows, "kind": self.kind}
        with _working(self.file, job) as (process, patience):
            with patience():
                stream = pa.ipc.open_stream(process.stdout)
            while True:
                with patience():
                    batch = next(stream, None)
                if batch is None:
                    return
                arrays = []
                for place, form in zip(places, days, strict=True):
                    cells, declared = batch.column(2 * place), batch.column(2 * place + 1)
                    if form is not None and not pa.types.is_large_binary(cells.type):
                        cells = form.days(cells)
                    arrays.append(_declaring(cells, declared))
                for start in range(0, batch.num_rows, wanted.batch_rows):
                    yield [array.slice(start, wanted.batch_rows) for array in arrays]


def open_statistical(stored: StoredFile) -> StatisticalRows:
    """Read what a file says of itself, and require the rows that it says it has."""
    suffix = next(each for each in SUFFIXES if stored.path.lower().endswith(each))
    kind = {".zsav": "sav"}.get(suffix, suffix[1:])
    if find_spec("pyreadstat") is None:  # which is imported by the worker alone
        require_package("pyreadstat", purpose=f"a file such as {stored.title}")
    _require_kind(stored, kind)
    with _working(stored, {"names": None, "kind": kind}) as (process, patience), patience():
        try:
            found = json.loads(process.stdout.read())
        except ValueError:
            raise pa.ArrowInvalid("no description") from None
    fields, encoding = tuple(found["names"]), found["encoding"]

    def text(field: str) -> str:
        return field.encode("latin-1", "replace").decode(encoding or "utf-8", "replace")

    return StatisticalRows(
        file=stored,
        names=tuple(text(_without_number(field, fields)).strip() for field in fields),
        n_rows=found["n_rows"],
        value_labels=MappingProxyType(
            {
                text(field).strip(): {text(label): text(code) for code, label in pairs}
                for field, pairs in found["labels"].items()
            }
        ),
        kind=kind,
        fields=fields,
        encoding=encoding,
        formats=found["formats"],
    )


def _declaring(cells: pa.Array, declared: pa.Array) -> pa.Array:
    """Cells of which those that are declared missing are nulls of a dictionary."""
    if declared.null_count == len(declared):
        return cells
    mask = declared.to_numpy(zero_copy_only=False)
    absent = cells.is_null().to_numpy(zero_copy_only=False) & ~mask
    places = pa.array(np.arange(len(cells), dtype=np.int32), mask=absent)
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


@contextmanager
def _working(stored: StoredFile, job: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """A process that does a job, and a function that ends it if it takes too long.

    All that is known of its errors is that it ended before its work.
    """

    @contextmanager
    def patience() -> Iterator[None]:
        timer = Timer(_PATIENCE_S, process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    # -P: the folder of the worker holds modules of this software, not ones that it may import.
    command = [sys.executable, "-P", str(_WORKER)]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    with (
        reading(stored.title),
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none) as process,
    ):
        try:
            where = {"path": stored.path, "store": stored.store}
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            process.stdin.write(json.dumps({**where, **job}).encode())
            process.stdin.close()
            yield process, patience
        finally:
            process.kill()
