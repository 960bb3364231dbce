"""Any CSV or LIBSVM file as a table or as coded rows.

CSV files have a line of names; the label is the column that ``--label`` names, else the last. For
support vector machines numbers stay numbers and text becomes indicators; for a study a column with
two values is a binary, other numbers are numerics and other text is a categorical.

Limits: bounds and categories are *read from the file*, as the papers do. They, and so every
guarantee of an experiment on the file, are good only if they are public; a study at real sites
declares them (``docs/reference/data-files.md``).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.rows import (
    Coded,
    PaperSource,
    PaperTable,
    PaperTarget,
    coded_from,
    ranged,
    read_libsvm,
)
from benchmarks.studies import PublicData
from dppca.common.errors import DataError, SettingError
from dppca.common.schema.columns import cell_texts
from dppca.owner.records.files import read_by_suffix
from dppca.owner.records.stored_files import StoredFile

FORMATS = ("csv", "libsvm")
_CONTRIBUTION_RATE = 0.90
_MOST_LABELS = 64
_BATCH_ROWS = 1 << 16


def file_source(path: Path, *, format_: str, label: str | None) -> PaperSource:
    """A file as a source, named after its stem and content, so that results are never mixed up."""
    if format_ not in FORMATS:
        raise SettingError(
            f"--format is {format_ or 'not given'}: with --data it must be csv or libsvm"
        )
    if format_ == "libsvm" and label is not None:
        raise SettingError(f"--label is {label}, but the label of a libsvm file is its first field")
    if format_ == "csv" and not path.name.endswith((".csv", ".csv.gz")):
        raise SettingError(f"{path.name} is no CSV file by its name: call it .csv or .csv.gz")
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"the data file {path} cannot be read: give a readable file") from error
    stem = path.name.split(".")[0]
    label_part = f"-{label}" if label else ""
    return PaperSource(f"{stem}{label_part}-{content[:6]}", path.resolve(), format_, label)


def table_from_file(source: PaperSource) -> PaperTable:
    """Rows for a support vector machine; columns in [-1, 1] by their own range.

    Raises
    ------
    DataError
        The file cannot be read as its format, or has no such label or no other column.
    """
    if source.format == "libsvm":
        return ranged(source.name, *read_libsvm(_path(source)))
    names, columns = _csv_columns(source)
    goal = names.index(source.label) if source.label is not None else len(names) - 1
    parts = []
    for index, text in enumerate(columns):
        if index == goal:
            continue
        numbers = _numbers(source, names[index], text)
        if numbers is None:
            categories = sorted(set(text))
            _check_labels(source, names[index], categories)
            numbers = np.asarray(text)[:, None] == np.asarray(categories)
        parts.append(np.asarray(numbers, np.float64).reshape(len(text), -1))
    if not parts:
        raise DataError(f"{source.name} has no column beside the label")
    return ranged(source.name, np.hstack(parts), np.asarray(columns[goal]))


def coded_from_file(source: PaperSource) -> Coded:
    """Rows for a study, with the label as its target; errors as `table_from_file`."""
    if source.format == "libsvm":
        return coded_from_numbers(table_from_file(source))
    names, columns = _csv_columns(source)
    if len(names) < 2:
        raise DataError(f"{source.name} has no column beside the label")
    goal = source.label if source.label is not None else names[-1]
    attributes = [
        _attribute(source, name, text, label=name == goal)
        for name, text in zip(names, columns, strict=True)
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return coded_from(
        PublicData(source.name, attributes, rows, _CONTRIBUTION_RATE, goal),
        (PaperTarget(goal, goal),),
    )


def coded_from_numbers(table: PaperTable) -> Coded:
    """Rows in [-1, 1] for a study, without constant columns, and numbers as labels."""
    names = [f"column{index}" for index in range(1, table.rows.shape[1] + 1)]
    varying = [index for index in range(len(names)) if np.ptp(table.rows[:, index]) > 0]
    labels = sorted({f"{label:g}" for label in table.labels})
    kind = {"type": "binary", "values": labels}
    if len(labels) != 2:
        kind = {"type": "categorical", "categories": labels}
    attributes: list[dict[str, Any]] = [
        {"name": names[index], "type": "numeric", "lower": -1.0, "upper": 1.0} for index in varying
    ]
    attributes.append({"name": "label", **kind})
    rows = [
        [*map(str, row), f"{label:g}"]
        for row, label in zip(table.rows[:, varying], table.labels, strict=True)
    ]
    return coded_from(
        PublicData(table.name, attributes, rows, _CONTRIBUTION_RATE, "label"),
        (PaperTarget("label", "label"),),
    )


def _attribute(source: PaperSource, name: str, text: list[str], *, label: bool) -> dict[str, Any]:
    values = sorted(set(text))
    if len(values) == 2:
        return {"name": name, "type": "binary", "values": values}
    numbers = None if label else _numbers(source, name, text)
    if numbers is not None and numbers.max() > numbers.min():
        bounds = {"lower": float(numbers.min()), "upper": float(numbers.max())}
        return {"name": name, "type": "numeric", **bounds}
    if len(values) < 2:
        what = (
            "has 1 class only: a classifier needs two or more" if label else "is constant: drop it"
        )
        raise DataError(f"column {name} of {source.name} {what}")
    _check_labels(source, name, values)
    return {"name": name, "type": "categorical", "categories": values}


def _check_labels(source: PaperSource, name: str, values: list[str]) -> None:
    if len(values) > _MOST_LABELS:
        raise DataError(
            f"column {name} of {source.name} is text with {len(values)} different values: code it "
            f"as numbers, or as at most {_MOST_LABELS} labels"
        )


def _csv_columns(source: PaperSource) -> tuple[list[str], list[list[str]]]:
    path = _path(source)
    file = read_by_suffix(StoredFile(str(path), path.name))
    names = [*file.names]
    if source.label is not None and source.label not in names:
        raise DataError(f"{path.name} has no column {source.label}: {', '.join(names)}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{path.name} has more than one column called {', '.join(twice)}: rename them"
        )
    if not file.n_rows:
        raise DataError(f"{path.name} has no rows")
    n_malformed = sum(found.count for found in file.malformed.values())
    if n_malformed:
        raise DataError(
            f"{path.name} has {n_malformed} lines that do not fit its header, or are not "
            "UTF-8: mend them"
        )
    parts = zip(*file.read(names, _BATCH_ROWS), strict=True)
    columns = [[text for cells in each for text in cell_texts(cells)] for each in parts]
    for name, text in zip(names, columns, strict=True):
        missing = sum(not field.strip() for field in text)
        if missing:
            raise DataError(
                f"column {name} of {source.name} has {missing} empty fields: fill them in, or drop "
                "their rows"
            )
    return names, columns


def _numbers(source: PaperSource, name: str, text: list[str]) -> NDArray[np.float64] | None:
    """A column's numbers; None where it is text."""
    try:
        numbers = np.asarray(text, np.float64)
    except ValueError:
        return None
    if not np.isfinite(numbers).all():
        raise DataError(
            f"column {name} of {source.name} holds NaN or infinity: drop those rows, or put public "
            "numbers in their place"
        )
    return numbers


def _path(source: PaperSource) -> Path:
    if source.path is None:
        raise SettingError(f"{source.name} is not a file")
    return source.path
