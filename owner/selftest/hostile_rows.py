"""Attack of one row on the others: a hostile row is put into a file, and no other row may change.

Coding turns a file into one column of codes for each attribute. A row that changed the code of
another row, or the number of rows, would change a release by more than its noise hides.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.schema import Schema, encode
from dppca.owner.records.table import open_table
from dppca.owner.selftest.findings import Finding

_SCHEMA = Schema.model_validate(
    {
        "attributes": [
            {"name": "age", "type": "numeric", "lower": 0, "upper": 3},
            {"name": "work", "type": "categorical", "categories": ["a", "b", "c"]},
        ]
    }
)
_N_ROWS = 12  # of a file, with the odd one near its beginning or at its end
_AROUND = (b"1,a,ok", b'"2","b","x, ""y"""', b'1,c,5" pipe', b'2,b",","')
_LINES = (
    b'0,c,"open',
    b'"0,c,open',
    b'0,"c,""open',
    b'"',
    b"",
    b"0",
    b"0,c,x,y,z",
    b"\0\xff",
    b"end\0of\0file",
    b"\xef\xbb\xbf0,c,x",
)
_CELLS: tuple[tuple[Any, Any, list[Any], Any], ...] = (
    (pa.string(), pa.binary(), [b"a", b"b"], b"\xff\0"),
    (pa.large_string(), pa.large_binary(), [b"a", b"b"], b"0." + b"0" * 1000 + b"1"),
    (pa.date64(), pa.int64(), [0, 86_400_000], 5),
    (pa.time32("s"), pa.int32(), [0, 1], 100_000),
    (pa.decimal128(3, 1), pa.binary(16), [b"\1" + b"\0" * 15, b"\2" + b"\0" * 15], b"\x7f" * 16),
)


def attack_by_one_row(folder: Path) -> Finding:
    """Replace one row of small files of every format; the files are written into ``folder``."""
    failed = [_changes_others(*pair) for pair in _pairs(folder)]
    return Finding(
        "effect of one row on the others",
        not any(failed),
        f"{len(failed)} hostile rows in CSV, Arrow and Parquet files: {sum(failed)} changed "
        "another row or the number of rows, or ended the reading",
        0.0,
        {"tries": len(failed), "failed": sum(failed)},
    )


def _pairs(folder: Path) -> Iterator[tuple[Path, Path, int]]:
    """Yield two files that differ in one row, and the place of the row."""
    before, after = folder / "before.csv", folder / "after.csv"
    for kind, odd, place, end in product(
        range(len(_AROUND)), _LINES, (3, _N_ROWS - 1), (b"\n", b"\r\n")
    ):
        lines = [_AROUND[(kind + row) % len(_AROUND)] for row in range(_N_ROWS)]
        for path, rows in ((before, lines), (after, _replaced(lines, place, odd))):
            path.write_bytes(end.join([b"age,work,note", *rows, b""]))
        yield before, after, place
    for (kind, stored, usual, odd), name in product(_CELLS, ("age", "work")):
        cells = [usual[row % len(usual)] for row in range(_N_ROWS)]
        tables = [
            pa.table({"age": [1.0] * _N_ROWS, "work": ["a"] * _N_ROWS} | {name: column})
            for values in (cells, _replaced(cells, 3, odd))
            for column in [pa.array(values, stored).view(kind)]
        ]
        before, after = folder / "before.arrow", folder / "after.arrow"
        for path, table in zip((before, after), tables, strict=True):
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
                out.write_table(table)
        yield before, after, 3
        before, after = folder / "before.parquet", folder / "after.parquet"
        for path, table in zip((before, after), tables, strict=True):
            pq.write_table(table, path)
        yield before, after, 3


def _replaced(rows: Sequence[Any], place: int, row: object) -> list[Any]:
    return [*rows[:place], row, *rows[place + 1 :]]


def _changes_others(before: Path, after: Path, place: int) -> bool:
    try:
        first, second = _codes(before), _codes(after)
    except DppcaError:
        return True
    others = np.arange(_N_ROWS) != place
    same_rows = first.shape == second.shape == (_N_ROWS, _SCHEMA.layout.n_columns)
    return not same_rows or bool((first[others] != second[others]).any())


def _codes(path: Path) -> NDArray[np.int32]:
    batches = open_table(path, _SCHEMA).batches(5)
    return np.concatenate([encode(_SCHEMA, columns) for columns in batches])
