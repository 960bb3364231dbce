"""The page of cells is true: each row of its table means what it says, and tools write it so."""

import datetime as dt
import io
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.schema import Categorical, Column, Schema, label_codes
from dppca.common.kernel.schema.attributes import Date, day_text
from dppca.common.kernel.schema.cells import nearest_whole
from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.check import FaultCounts

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/cells.md").read_text()
BLOCK = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
assert BLOCK is not None
SCHEMA = Schema.from_document({"attributes": load_yaml(BLOCK[1])})
ROWS = [
    tuple(part.strip() for part in line[1:-1].split("|"))
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith(("| tool", "| ---"))
]
SOUND: list[Column] = [np.ones(1), np.ones(1), np.full(1, 18300.0), np.zeros(1, np.int32)]


def cell_of(written: str) -> pa.Array:
    text = written.strip("`")
    kind, colon, value = text.partition(": ")
    if not colon:
        return pa.array([text])
    if kind.startswith("timestamp"):
        zone = kind.partition("tz=")[2].removesuffix("]")
        return pa.array([dt.datetime.fromisoformat(value)], pa.timestamp("us", zone))
    narrow = {"float": pa.float32(), "halffloat": pa.float16()}[kind]
    return pa.array([float(value)]).cast(narrow)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_each_cell_means_what_the_page_says(row: tuple[str, ...]) -> None:
    _, _, written, name, meaning, fault = row
    index = SCHEMA.find_index(name)
    attribute = SCHEMA.attributes[index]
    column = parse_column(attribute, cell_of(written))
    counts = FaultCounts(SCHEMA)
    counts.add([*SOUND[:index], column, *SOUND[index + 1 :]])
    found = {n: [*each.found] for n, each in counts.report().attributes.items() if each.found}
    assert found == ({name: [fault]} if fault else {})
    if isinstance(attribute, Categorical):
        assert attribute.labels[label_codes(SCHEMA, index, column)[0]] == meaning
    elif meaning in ("missing", "the middle"):
        assert not np.isfinite(column[0])
    elif isinstance(attribute, Date):
        assert day_text(float(column[0])) == meaning
    else:
        values = np.asarray(column, np.float64)
        assert (nearest_whole(values) if name == "count" else values)[0] == float(meaning)


def by_pandas(values: Any) -> str:
    return pd.DataFrame({"a": values, "b": 1}).to_csv(index=False).splitlines()[1].split(",")[0]


def by_polars(values: Any) -> str:
    return pl.DataFrame({"a": values, "b": 1}).write_csv().splitlines()[1].split(",")[0]


def by_pyarrow(values: Any) -> str:
    out = io.BytesIO()
    pc.write_csv(pa.table({"a": values}), out)
    return out.getvalue().decode().splitlines()[1]


def in_parquet(values: Any) -> str:
    out = io.BytesIO()
    pd.DataFrame({"a": values}).to_parquet(out)
    column = pq.read_table(out)["a"]
    value = column[0].as_py()
    return f"{column.type}: {value if isinstance(value, dt.datetime) else f'{value:.7g}'}"


BERLIN = pd.to_datetime(["2020-02-01"]).tz_localize("Europe/Berlin")
SHORT = np.array([5.7], np.float32)
TOOLS: dict[tuple[str, str], Callable[[], str]] = {
    ("pandas `to_csv`", "`5.7`"): lambda: by_pandas(SHORT),
    ("pandas `to_csv`", "`1.0`"): lambda: by_pandas([1, None]),
    ("pandas `to_csv`", "`100000.0`"): lambda: by_pandas([1e5]),
    ("pandas `to_csv`", "`True`"): lambda: by_pandas([True]),
    ("pandas `to_csv`", "`2020-02-01 00:00:00+01:00`"): lambda: by_pandas(BERLIN),
    ("pandas `to_csv`", ""): lambda: by_pandas([np.nan]),
    ("pandas `to_parquet`", "`float: 5.7`"): lambda: in_parquet(SHORT),
    (
        "pandas `to_parquet`",
        "`timestamp[us, tz=Europe/Berlin]: 2020-02-01 00:00:00+01:00`",
    ): lambda: in_parquet(BERLIN),
    ("polars `write_csv`", "`2020-02-01T00:00:00.000000+0100`"): lambda: by_polars(
        pl.from_pandas(BERLIN.as_unit("us"))
    ),
    ("polars `write_csv`", "`5.7`"): lambda: by_polars(pl.Series(SHORT)),
    ("pyarrow `write_csv`", "`-0`"): lambda: by_pyarrow([-0.0]),
    ("pyarrow `write_csv`", "`1e-7`"): lambda: by_pyarrow([1e-7]),
}
LISTED = {
    (f"{tool} {how}", cell)
    for row, (tool, made, how) in ((row, row[0].split(" ", 2)) for row in ROWS if "`" in row[0])
    for cell in [row[2]]
    if tool in ("pandas", "polars", "pyarrow") and made == version(tool) and "," not in how
}


@pytest.mark.parametrize("row", TOOLS, ids=" ".join)
def test_tools_of_the_page_write_what_it_says(row: tuple[str, str]) -> None:
    tool = row[0].split(" ", 1)[0]
    if version(tool) not in PAGE:
        pytest.skip(f"{tool} {version(tool)} is not the version of the page")
    assert row in LISTED
    assert TOOLS[row]() == row[1].strip("`")


def test_no_row_of_these_tools_is_left_unwritten() -> None:
    by_hand = {("pyarrow `write_table`", "`halffloat: 0.5`")}
    assert LISTED - TOOLS.keys() <= by_hand
