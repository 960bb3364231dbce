"""A pass over columns that a mapping turns into attributes, beside one over the columns alone."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from dppca.common.kernel.schema import Schema
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.locations import Location
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import moments_of_table, open_table

TITLE = "A site's mapping"
ABOUT = """
Opening, reading, coding and adding up rows whose columns a mapping turns into a study's attributes:
labels by tables (2, 12 and 3 of them), two numbers in other units, an age on a public day. Beside
it the same columns as they are, by a study whose attributes have their names, labels and bounds;
and, with a mapping that changes no cell, the same study once more. The ratio is of processor time,
of medians of rounds that alternate in one run.
"""
_MOST_ROWS = {"parquet": 2_000_000, "csv": 500_000, "sqlite": 200_000}
_TINY_ROWS = 2000
_AREAS = [f"Region {number}" for number in range(12)]
_OWN: dict[str, dict[str, Any]] = {
    "geschlecht": {"type": "binary", "values": ["weiblich", "männlich"]},
    "land": {"type": "categorical", "categories": _AREAS, "unknown": "u"},
    "raucher": {"type": "ordinal", "levels": ["0", "1", "2"]},
    "gewicht": {"type": "numeric", "lower": 66, "upper": 440},
    "hba1c": {"type": "numeric", "lower": 3, "upper": 16},
    "rr": {"type": "numeric", "lower": 70, "upper": 250},
    "geburt": {"type": "date", "lower": "1920-01-01", "upper": "2010-12-31"},
}
_MAPPED: dict[str, dict[str, Any]] = {
    "sex": {"type": "binary", "values": ["female", "male"]},
    "region": {"type": "categorical", "categories": [f"r{n}" for n in range(12)], "unknown": "u"},
    "smoking": {"type": "ordinal", "levels": ["never", "former", "current"]},
    "weight": {"type": "numeric", "lower": 30, "upper": 200},
    "ifcc": {"type": "numeric", "lower": 10, "upper": 150},
    "sbp": {"type": "numeric", "lower": 70, "upper": 250},
    "age": {"type": "numeric", "lower": 18, "upper": 100},
}
_RULES: dict[str, Any] = {
    "sex": {"column": "geschlecht", "recode": {"männlich": "male", "weiblich": "female"}},
    "region": {"column": "land", "recode": {f"Region {n}": f"r{n}" for n in range(12)}},
    "smoking": {"column": "raucher", "recode": {0: "never", 1: "former", 2: "current"}},
    "weight": {"column": "gewicht", "times": 0.45359237},
    "ifcc": {"column": "hba1c", "minus": 2.15, "times": 10.929},
    "sbp": "rr",
    "age": {"column": "geburt", "age_on": "2024-12-31"},
}
_PARTS = {"labels": slice(0, 3), "numbers": slice(3, 6), "all seven": slice(0, 7)}
_CASES = (
    *(("parquet", part) for part in _PARTS),
    *(("csv", part) for part in _PARTS),
    ("sqlite", "all seven"),
)


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Processor time of a pass with a mapping, and with one that changes nothing."""
    return [
        FigureTable(
            "Processor seconds of a pass; the ratios are to the columns as they are.",
            (
                *("source", "columns", "n", "as they are", "mapped", "ratio"),
                *("by their own names", "ratio, own names"),
            ),
            tuple(_row(plan, *case) for case in _CASES),
        )
    ]


def _row(plan: BenchmarkPlan, kind: str, part: str) -> tuple[Cell, ...]:
    n = _TINY_ROWS if plan.quick else _MOST_ROWS[kind]
    plan.say(f"{kind}, {part}, n = {n}")
    place, chosen = _write(plan.scratch, kind, n), _PARTS[part]
    own, mapped = [*_OWN][chosen], [*_MAPPED][chosen]
    rules = _mapping(plan.scratch / "rules.yaml", {name: _RULES[name] for name in mapped})
    names = _mapping(plan.scratch / "names.yaml", {name: name for name in own})
    timings = plan.race(
        {
            "own": partial(_add_up, place, _schema(_OWN, own), n),
            "mapped": partial(_add_up, place.mapped(rules), _schema(_MAPPED, mapped), n),
            "names": partial(_add_up, place.mapped(names), _schema(_OWN, own), n),
        }
    )
    alone, ours, plain = (each.median_cpu_s for each in timings.values())
    return kind, part, n, alone, ours, ours / alone, plain, plain / alone


def _add_up(place: Location, schema: Schema, n: int) -> None:
    moments = moments_of_table(open_table(place, schema), schema)
    assert moments.n_rows == n


def _schema(attributes: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> Schema:
    return Schema.from_document({"attributes": [{"name": n, **attributes[n]} for n in names]})


def _mapping(path: Path, rules: Mapping[str, Any]) -> MappingPlace:
    path.write_text(json.dumps({"version": 1, "attributes": rules}), encoding="utf-8")
    return MappingPlace(path)


def _write(folder: Path, kind: str, n: int) -> Location:
    """Write made-up rows, always the same, as one kind of source."""
    path = folder / f"rows.{kind}"
    if kind == "sqlite":
        place: Location = SQLiteLocation("rows", database=path, table="rows")
    else:
        place = local_files(path)
    if path.exists():
        return place
    rows = _rows(n)
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(rows, path)
    else:
        texts = rows.set_column(6, "geburt", rows["geburt"].cast(pa.string()))
        with closing(sqlite3.connect(path)) as base, base:
            base.execute(f"CREATE TABLE rows ({', '.join(rows.column_names)})")
            cells = zip(*texts.to_pydict().values(), strict=True)
            base.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", cells)
    return place


def _rows(n: int) -> pa.Table:
    draw = np.random.default_rng(1)
    sexes = np.array(["männlich", "weiblich"])
    return pa.table(
        {
            "geschlecht": sexes[draw.integers(0, 2, n)],
            "land": np.array(_AREAS)[draw.integers(0, 12, n)],
            "raucher": draw.integers(0, 3, n),
            "gewicht": np.round(draw.normal(165, 30, n), 1),
            "hba1c": np.round(draw.normal(5.6, 0.8, n), 1),
            "rr": draw.integers(90, 200, n),
            "geburt": draw.integers(-14_000, 12_000, n).astype("datetime64[D]"),
        }
    )
