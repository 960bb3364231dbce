"""Tables the experiments run on: by name from the data folder, or any CSV or LIBSVM file.

Named tables
    ``a1a``, ``mushrooms``, ``musk`` and ``splice`` as in Sun et al.; ``splice-all`` (3,175 rows);
    ``sensorless`` (a sample: 200 rows of each of 11 classes); ``adult`` (complete rows, coded by
    schema, 103 columns, income) and ``adult-numeric`` (its six numbers); ``nltcs``.
Bounds
    The norm of a row of ``a1a``, ``mushrooms``, ``splice``, ``adult`` and ``nltcs`` is bounded by
    how they are coded. Columns of ``musk``, ``sensorless`` and of files are brought into [-1, 1] by
    their own smallest and largest value, as the papers do: a guarantee for them holds only if those
    are public. The software computes bounds from rows here and nowhere else.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.files import (
    coded_from_file,
    coded_from_numbers,
    file_source,
    table_from_file,
)
from benchmarks.papers.rows import (
    Coded,
    PaperSource,
    PaperTable,
    PaperTarget,
    coded_from,
    ranged,
    read_libsvm,
)
from benchmarks.studies import adult, data_folder, nltcs
from dppca.common.errors import SettingError
from dppca.common.schema import Categorical, Numeric


def find_source(data: str, *, format_: str, label: str | None) -> PaperSource:
    """What ``--data`` names: a table of the data folder, or a file.

    Raises
    ------
    SettingError, DataError
        Neither a table nor a file; a format or label that does not fit.
    """
    if data in _TABLES:
        if format_ or label:
            raise SettingError(f"--format and --label describe a file, and {data} is a named table")
        return PaperSource(data)
    if not Path(data).is_file():
        raise SettingError(
            f"--data is {data}: neither a file nor one of {', '.join(sorted(_TABLES))}"
        )
    return file_source(Path(data), format_=format_, label=label)


@lru_cache(maxsize=8)
def load_table(source: PaperSource) -> PaperTable:
    """The table of a source, read once per process.

    Raises
    ------
    DataError
        A file is missing or cannot be read as its format.
    SettingError
        No table of that name.
    """
    if source.path is not None:
        return table_from_file(source)
    if source.name not in _TABLES:
        raise SettingError(f"no table is called {source.name}: {', '.join(sorted(_TABLES))}")
    return _TABLES[source.name](data_folder())


@lru_cache(maxsize=4)
def encode_table(source: PaperSource) -> Coded:
    """The coded rows of a source, read once per process; errors as `load_table`."""
    if source.path is not None:
        return coded_from_file(source)
    if source.name == "nltcs":
        return coded_from(nltcs(data_folder()), _NLTCS_TARGETS)
    if source.name == "adult":
        return coded_from(adult(data_folder()), _ADULT_TARGETS)
    return coded_from_numbers(load_table(source))


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
    others = [a for a in schema.attributes if a.name != goal.attribute]
    categoricals = sum(isinstance(a, Categorical) for a in others)
    bound = ((len(others) - categoricals) / 4 + categoricals) ** 0.5
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
