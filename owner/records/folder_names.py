"""Columns that stand in a file and in the name of its folder, too, as polars writes them.

Such a column is the file's own if each of its cells says what the folder's name says: the same
text; or, for a number or a time, the same value, since programs write ``1.0`` and ``1`` in names.
Otherwise nobody knows which one counts.
"""

from typing import Any, Final

import pyarrow as pa

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema.columns import cell_texts, is_text
from dppca.owner.records.sources import Rows, Wanted
from dppca.owner.records.stored_files import Cells, StoredFile

_BATCH_ROWS: Final = 1 << 16  # read at once


def without_repeated(stored: StoredFile, rows: Rows) -> Cells:
    """Return the columns of a file's folders that do not stand in the file, too.

    Reads the others whole. Raise `DataError` if a cell of one differs from its folder's name. A
    name that two folders have, or two columns of the file, is left for the caller to refuse.
    """
    names = [name for name, _ in stored.cells]
    both = {
        name: text
        for name, text in stored.cells
        if rows.names.count(name) == names.count(name) == 1 and name not in rows.facts.unknown
    }
    if both:
        for arrays in rows.read(Wanted([*both], _BATCH_ROWS)):
            for (name, text), cells in zip(both.items(), arrays, strict=True):
                if not _says(text, cells):
                    raise DataError(
                        f"{stored.title} has the column {name} in the name of a folder "
                        f"({name}=...), and also in the file, and the two differ: correct one of "
                        "them, or rename it, so that it is clear which one counts"
                    )
    return tuple((name, text) for name, text in stored.cells if name not in both)


def _says(text: str | None, cells: Any) -> bool:
    """Return True if each cell says what a folder's name says; None stands for null."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    elif pa.types.is_run_end_encoded(cells.type):
        cells = pa.array(cells.to_pylist(), cells.type.value_type)
    if is_text(cells.type):
        cells = cells.cast(pa.large_binary())
    if pa.types.is_nested(cells.type):
        return False
    cells = cells.unique()
    if text is None:
        return all(found == "" for found in cell_texts(cells))
    if len(cells) != 1 or cells.null_count:
        return not len(cells)
    return cell_texts(cells) == [text] or _is_same_value(text, cells)


def _is_same_value(text: str, cell: pa.Array) -> bool:
    kind = cell.type
    valued = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (valued or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)):
        return False
    try:
        return bool(pa.array([text]).cast(kind).equals(cell))
    except pa.ArrowException:
        return False
