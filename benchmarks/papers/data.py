"""Tables the experiments run on: by name from the data folder, or any CSV file.

Named tables
    ``a1a``, ``mushrooms``, ``musk`` and ``splice`` as in Sun et al.; ``splice-all`` (3,175 rows);
    ``sensorless`` (a sample: 200 rows of each of 11 classes); ``adult`` (complete rows, coded by
    schema, 103 columns, income), ``adult-numeric`` (its six numbers) and ``adult-bits`` (52 bits of
    the same rows, for schemas alone); ``nltcs``.
Files
    CSV files have a line of names; the label is the column that ``--label`` names, else the last.
    They are for support vector machines: numbers stay numbers and text becomes indicators.
Bounds
    The norm of a row of ``a1a``, ``mushrooms``, ``splice``, ``adult`` and ``nltcs`` is bounded by
    how they are coded. Columns of ``musk``, ``sensorless`` and of files are brought into [-1, 1] by
    their own smallest and largest value, and a file's categories are read from it, as the papers
    do: a guarantee for them holds only if those are public. The software computes bounds from rows
    here and nowhere else; a study at real sites declares them (``docs/reference/data-files.md``).
"""

import gzip
import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.rows import (
    BitTarget,
    Coded,
    PaperSource,
    PaperTable,
    PaperTarget,
    coded_from,
    ranged,
    read_libsvm,
)
from benchmarks.studies import PublicData, adult, data_folder, nltcs
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Numeric
from dppca.common.kernel.schema.columns import cell_texts
from dppca.owner.records.files import read_by_suffix
from dppca.owner.records.sources import Wanted
from dppca.owner.records.stored_files import StoredFile

_MOST_LABELS = 64
_BATCH_ROWS = 1 << 16


def find_source(data: str, label: str | None) -> PaperSource:
    """What ``--data`` names: a table of the data folder, or a file.

    Raises
    ------
    SettingError, DataError
        Neither a table nor a file; a label of a named table.
    """
    if data in _TABLES or data in _CODED:
        if label:
            raise SettingError(f"--label is a column of a file, and {data} is a named table")
        return PaperSource(data)
    if not Path(data).is_file():
        raise SettingError(
            f"--data is {data}: neither a file nor one of {', '.join(sorted({*_TABLES, *_CODED}))}"
        )
    return _file_source(Path(data), label)


@lru_cache(maxsize=8)
def load_table(source: PaperSource) -> PaperTable:
    """The table of a source, read once per process.

    Raises
    ------
    DataError
        A file is missing or cannot be read, or has no such label or no other column.
    SettingError
        No table of that name.
    """
    if source.path is not None:
        return _table_from_file(source, source.path)
    if source.name not in _TABLES:
        raise SettingError(f"no table is called {source.name}: {', '.join(sorted(_TABLES))}")
    return _TABLES[source.name](data_folder())


@lru_cache(maxsize=4)
def encode_table(source: PaperSource) -> Coded:
    """The coded rows of a source, read once per process; `SettingError` without a schema."""
    if source.path is not None or source.name not in _CODED:
        names = ", ".join(_CODED)
        raise SettingError(f"schemas are known of {names}, not of {source.path or source.name}")
    read, targets = _CODED[source.name]
    return coded_from(read(data_folder()), targets)


_NLTCS_TARGETS = (PaperTarget("outside", "outside"), PaperTarget("money", "money"))
_ADULT_TARGETS = (
    PaperTarget(
        "post-secondary",
        "education",
        positive=("Assoc-acdm", "Assoc-voc", "Bachelors", "Masters", "Prof-school", "Doctorate"),
        dropped=("education_num",),
    ),
    PaperTarget("income", "income"),
)


def adult_bits(folder: Path) -> PublicData:
    """Adult in binary codes, as the comparators of Gu et al. take it.

    A number's 16 bins, of equal width between its smallest and largest, have 4 bits; n labels, in
    order, have ceil(log2 n). Both are read from the rows: nothing is claimed of it.
    """
    data = adult(folder)
    fields = [np.array(column) for column in zip(*data.rows, strict=True)]
    names, bits = list[str](), list[NDArray[np.intp]]()
    for attribute, texts in zip(data.attributes, fields, strict=True):
        if attribute["type"] == "numeric":
            values = texts.astype(np.float64)
            width = np.ptp(values) / _BINS
            codes = np.minimum((values - values.min()) // width, _BINS - 1).astype(np.intp)
        else:
            codes = np.unique(texts, return_inverse=True)[1]
        for place in range(int(codes.max()).bit_length()):
            names.append(f"{attribute['name']}.{place}")
            bits.append(codes >> place & 1)
    attributes = [{"name": name, "type": "binary", "values": [0, 1]} for name in names]
    rows = np.column_stack(bits).astype(str).tolist()
    return PublicData("adult-bits", attributes, rows, data.contribution_rate, "income.0")


_BINS = 16
_BIT_TARGETS = (
    BitTarget(
        "post-secondary",
        "education",
        dropped=("education_num",),
        codes=(7, 8, 9, 10, 12, 14),
    ),
    PaperTarget("income", "income.0"),
)
_CODED = {
    "nltcs": (nltcs, _NLTCS_TARGETS),
    "adult": (adult, _ADULT_TARGETS),
    "adult-bits": (adult_bits, _BIT_TARGETS),
}


def _schema_coded_table(coded: Coded, target: str, *, numeric_only: bool = False) -> PaperTable:
    schema = coded.schema
    goal = coded.target(target)
    labels = goal.labels(schema, coded.coded)
    if numeric_only:
        keep = [
            schema.layout.groups[i][0]
            for i, a in enumerate(schema.attributes)
            if isinstance(a, Numeric)
        ]
        return PaperTable(
            f"{coded.name}-numeric", coded.coded[:, keep], labels, 0.5 * len(keep) ** 0.5
        )
    bound = schema.largest_norm(without=goal.attribute)
    return PaperTable(coded.name, goal.features(schema, coded.coded), labels, bound)


def _indicators(name: str, *, columns: int, attributes: int) -> Callable[[Path], PaperTable]:
    """A table of attributes with one indicator each, whose number bounds a row's norm."""

    def read(folder: Path) -> PaperTable:
        rows, labels = read_libsvm(folder / name / f"{name}.gz", columns=columns)
        return PaperTable(name, rows, labels, attributes**0.5)

    return read


def read_musk(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distances in hundredths of an angstrom, shape (6598, 166), and labels."""
    with gzip.open(folder / "musk" / "clean2.data.gz", "rt") as stream:
        fields = [line.rstrip(".\n").split(",") for line in stream]
    numbers = np.asarray([row[2:] for row in fields], np.float64)
    return numbers[:, :-1], numbers[:, -1]


def _splice(folder: Path, *, first: int | None, name: str) -> PaperTable:
    rows, labels = read_libsvm(folder / "splice" / "splice.gz", columns=60)
    scaled = (2 * rows[:first] - 5) / 3
    return PaperTable(name, scaled, labels[:first], 60**0.5)


def _sensorless(folder: Path) -> PaperTable:
    numbers = np.loadtxt(folder / "sensorless" / "sensorless_sample_2200.txt.gz")
    return ranged("sensorless", numbers[:, :-1], numbers[:, -1].astype(np.int64))


_TABLES: dict[str, Callable[[Path], PaperTable]] = {
    "a1a": _indicators("a1a", columns=119, attributes=14),
    "mushrooms": _indicators("mushrooms", columns=112, attributes=21),
    "musk": lambda folder: ranged("musk", *read_musk(folder)),
    "splice": lambda folder: _splice(folder, first=1000, name="splice"),
    "splice-all": lambda folder: _splice(folder, first=None, name="splice-all"),
    "sensorless": _sensorless,
    "adult": lambda _: _schema_coded_table(encode_table(PaperSource("adult")), "income"),
    "adult-numeric": lambda _: _schema_coded_table(
        encode_table(PaperSource("adult")), "income", numeric_only=True
    ),
    "nltcs": lambda _: _schema_coded_table(encode_table(PaperSource("nltcs")), "outside"),
}


def _file_source(path: Path, label: str | None) -> PaperSource:
    """A file as a source, named after its stem and content, so that results are never mixed up."""
    if not path.name.endswith((".csv", ".csv.gz")):
        raise SettingError(f"{path.name} is no CSV file by its name: call it .csv or .csv.gz")
    try:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"the data file {path} cannot be read: give a readable file") from error
    stem = path.name.split(".")[0]
    label_part = f"-{label}" if label else ""
    return PaperSource(f"{stem}{label_part}-{content[:6]}", path.resolve(), label)


def _table_from_file(source: PaperSource, path: Path) -> PaperTable:
    """Rows for a support vector machine; columns in [-1, 1] by their own range."""
    names, columns = _csv_columns(source, path)
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


def _check_labels(source: PaperSource, name: str, values: list[str]) -> None:
    if len(values) > _MOST_LABELS:
        raise DataError(
            f"column {name} of {source.name} is text with {len(values)} different values: code it "
            f"as numbers, or as at most {_MOST_LABELS} labels"
        )


def _csv_columns(source: PaperSource, path: Path) -> tuple[list[str], list[list[str]]]:
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
    n_malformed = sum(found.count for found in file.facts.malformed.values())
    if n_malformed:
        raise DataError(
            f"{path.name} has {n_malformed} lines that do not fit its header, or are not "
            "UTF-8: mend them"
        )
    parts = zip(*file.read(Wanted(names, _BATCH_ROWS)), strict=True)
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
