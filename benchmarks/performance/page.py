"""Results as JSON, and the page that has those that decide.

`docs/evidence/performance.json` holds one section per benchmark, each with the day, the machine and
the load it was measured under. `docs/reference/performance.md` has figures of it, and a test
compares the two.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.experiment import fill_tables, markdown_table
from benchmarks.performance.registry import BENCHMARKS, Cell
from benchmarks.studies import ROOT

JSON_FILE = ROOT / "docs/evidence/performance.json"
PAGE = ROOT / "docs/reference/performance.md"
Row = tuple[Cell, ...]
"""What cells of a row are, from the left; None fits any."""
Sections = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ratio:
    """A line of the page: ours beside a reference, each a row and a column of one table."""

    what: str
    reference: str
    table: tuple[str, int]
    ours: tuple[Row, str]
    theirs: tuple[Row, str]
    ratio: tuple[Row, str]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Rows and columns of one table."""

    table: tuple[str, int]
    rows: tuple[Row, ...]
    columns: tuple[str, ...]


def _columns(what: str, reference: str, place: tuple[str, int], row: Row, *names: str) -> Ratio:
    """Both contestants and their ratio in one row."""
    ours, theirs = names
    return Ratio(what, reference, place, (row, ours), (row, theirs), (row, "ratio"))


def _rows(what: str, theirs: str, place: tuple[str, int], *names: str) -> Ratio:
    """Each contestant in its row."""
    ours, ratio = names
    mine, other = (ours,), (theirs,)
    return Ratio(what, theirs, place, (mine, "seconds"), (other, "seconds"), (other, ratio))


_DENSE, _FILES, _BASES = ("dense", 0), ("files", 0), ("databases", 0)
_DASK, _SPARK, _NOISE, _PEERS = ("engines", 1), ("spark", 0), ("noise", 0), ("libraries", 0)
_SUMS, _ON_DASK = "coding and exact sums", "DPPCA on Dask"
_FROM, _ALONE = "million cells a second from", ("DPPCA", "pyarrow alone")
RATIOS = (
    *(
        _columns(
            f"{_SUMS}, {n:,} × {d:,}, s", "dsyrk", _DENSE, (n, d, 2), "normal, g = 10", "dsyrk"
        )
        for n, d in ((1_000_000, 20), (400_000, 200), (30_000, 1_000))
    ),
    _columns(
        *("million Adult rows a second", "with indicators", ("labels", 0)),
        *((), "counted", "indicators"),
    ),
    _columns("the same from Parquet", "pyarrow alone", ("labels", 1), (), *_ALONE),
    *(
        _columns(f"{_FROM} {kind}, {d} columns", "pyarrow alone", _FILES, row, *_ALONE)
        for row in (
            ("parquet", "all digits", 20),
            ("parquet", "all digits", 200),
            ("csv", "all digits", 20),
        )
        for kind, _, d in (row,)
    ),
    _columns(
        *("million rows a second from PostgreSQL", "driver alone", _BASES, ("float8",)),
        *("DPPCA", "driver alone"),
    ),
    *(
        _columns(
            f"a mapping: {part} from {source}, {n:,} rows, processor s",
            *("the columns as they are", ("mapping", 0), (kind, part), "mapped", "as they are"),
        )
        for kind, source, part, n in (
            ("parquet", "Parquet", "labels", 2_000_000),
            ("parquet", "Parquet", "all seven", 2_000_000),
            ("csv", "CSV", "numbers", 500_000),
            ("sqlite", "SQLite", "all seven", 200_000),
        )
    ),
    _rows("two Dask workers, 400,000 × 200, s", "DPPCA, one process", _DASK, _ON_DASK, "ratio"),
    _rows("Spark, files, s", "Spark's sums of all columns", _SPARK, "DPPCA, files", "to files"),
    *(
        _rows("Spark, a table, s", other, _SPARK, "DPPCA, table", "to table")
        for other in ("a counting mapInArrow", "pyspark.ml PCA")
    ),
    *(
        _rows("ten components, 200,000 × 200, s", library, _PEERS, "DPPCA", "ratio")
        for library in ("scikit-learn 1.9.1 PCA, covariance_eigh", "diffprivlib PCA")
    ),
    *(
        _columns(f"two million draws, {law}, s", "OpenDP", _NOISE, (law, 1000), "DPPCA", "OpenDP")
        for law in ("Laplace", "Gaussian")
    ),
    _columns(
        *("1,000 contributions, MB a second", "a bare gRPC server", ("curator_load", 0)),
        *((1000,), "MB/s", "bare MB/s"),
    ),
)
_WORKFLOWS = (
    *(f"DPPCA, {n} openers, {s} spare" for n, s in ((2, 0), (4, 1))),
    "Flower 1.41 SecAgg+",
)
EXCERPTS = {
    "peaks": Excerpt(
        ("files", 1),
        (
            *(("parquet", 20, 16_000_000), ("parquet", 200, 1_600_000)),
            *(("csv", 20, 4_000_000), ("csv", 200, 100_000)),
        ),
        ("format", "columns", "n", "file MiB", "peak MiB"),
    ),
    "secagg": Excerpt(
        ("secagg", 0),
        tuple((name, 0) for name in _WORKFLOWS),
        ("workflow", "an owner, ms", "all parties, ms", "from owners, MB", "seed bits", "error"),
    ),
    "curator": Excerpt(
        ("sizing", 0),
        ((10, 128), (1_000, 128), (100, 512), (10, 1_024), (2, 4_096)),
        ("m", "d", "s to receive", "s to decompose", "bytes up", "peak MiB"),
    ),
}


def keep(sections: dict[str, Any]) -> None:
    """Put sections into the committed file, in place of older ones, and make the page again."""
    known = json.loads(JSON_FILE.read_text()) if JSON_FILE.exists() else {}
    known.update(sections)
    ordered = {name: known[name] for name in BENCHMARKS if name in known}
    JSON_FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(ordered))


def page(sections: Sections) -> str:
    """The page, with its tables made again; raises `LookupError` for a row that is not there."""
    tables = {name: _excerpt(sections, each) for name, each in EXCERPTS.items()}
    return fill_tables(PAGE, {"ratios": _ratios(sections), **tables})


def _ratios(sections: Sections) -> str:
    rows = []
    for each in RATIOS:
        table = _table(sections, each.table)
        ours, theirs, ratio = (
            _cell(_find(table, row)[0][table["columns"].index(column)])
            for row, column in (each.ours, each.theirs, each.ratio)
        )
        rows.append((each.what, ours, f"{each.reference}: {theirs}", ratio))
    return markdown_table(("what", "DPPCA", "beside", "ratio"), rows, words=(0, 2))


def _excerpt(sections: Sections, excerpt: Excerpt) -> str:
    table = _table(sections, excerpt.table)
    places = [table["columns"].index(name) for name in excerpt.columns]
    rows = [row for wanted in excerpt.rows for row in _find(table, wanted)]
    return _markdown(excerpt.columns, [[row[place] for place in places] for row in rows])


def _table(sections: Sections, place: tuple[str, int]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = sections[place[0]]["tables"][place[1]]
    return found


def _find(table: Mapping[str, Any], wanted: Row) -> list[Sequence[Cell]]:
    """Rows that begin as is wanted."""
    found = [
        row
        for row in table["rows"]
        if all(cell in (None, own) for cell, own in zip(wanted, row, strict=False))
    ]
    if not found:
        raise LookupError(f"no row begins with {wanted}: {table['caption']}")
    return found


def table_text(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table in Markdown, with all its figures."""
    return f"{caption}\n\n{_markdown(columns, rows)}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    places = range(len(columns))
    words = [place for place in places if any(isinstance(row[place], str) for row in rows)]
    return markdown_table(columns, [[_cell(cell) for cell in row] for row in rows], words=words)


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value
