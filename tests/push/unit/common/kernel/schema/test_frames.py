"""Frames are coded as files are, and decoded to what the schema allows."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dppca
from dppca.common.kernel.errors import DataError, SchemaMismatchError
from dppca.common.kernel.schema import encode as encode_columns
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.frames import read_frame
from tests.support.latent_rows import make_rows
from tests.support.studies import binary_of, make_schema, make_study, numeric_of

SCHEMA = make_study("latent").table
ROWS = make_rows(50)


class _Foreign:
    """A frame of another library: nothing but Arrow's protocol, as polars has it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas with categories": lambda table: table.to_pandas().astype({"colour": "category"}),
    "another library": _Foreign,
    "lists": lambda table: table.to_pydict(),
    "arrays": lambda table: {name: table[name].to_numpy() for name in table.column_names},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_frame_is_coded_as_a_file_is(kind: str) -> None:
    columns = [parse_column(a, ROWS[a.name].combine_chunks()) for a in SCHEMA.attributes]
    expected = encode_columns(SCHEMA, columns) / (1 << SCHEMA.resolution_bits)
    assert np.array_equal(dppca.encode(KINDS[kind](ROWS), SCHEMA), expected)


SEEN = make_schema(
    [
        {"name": "seen", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"},
        numeric_of("dose", 0, 1),
    ]
)


def test_no_value_takes_its_zone_or_precision_from_another() -> None:
    berlin = datetime(2020, 2, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    times = [
        berlin,
        berlin.replace(tzinfo=UTC),
        berlin.replace(tzinfo=None),
        None,
        date(2020, 2, 1),
    ]
    doses = [np.float32(0.1), 0.123456789012, None, np.float16(0.3), 1]
    for kind in (dict, lambda columns: pd.DataFrame(columns, dtype=object)):
        for order in (slice(None), slice(None, None, -1)):
            seen, dose = read_frame(kind({"seen": times[order], "dose": doses[order]}), SEEN)
            np.testing.assert_array_equal(seen[order], [*[18293.0] * 3, np.nan, 18293.0])
            np.testing.assert_array_equal(dose[order], [0.1, 0.123456789012, np.nan, 0.3, 1])


def test_a_frame_means_what_its_csv_means(tmp_path: Path) -> None:
    zoned = pd.to_datetime(["2020-02-01", "2020-07-01"]).tz_localize("Europe/Berlin")
    frame = pd.DataFrame({"seen": zoned, "dose": np.array([0.1, 0.7], np.float32)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    text = {"seen": [], "dose": []}
    for line in (tmp_path / "rows.csv").read_text().splitlines()[1:]:
        for name, cell in zip(text, line.split(","), strict=True):
            text[name].append(cell)
    for each in (frame, pl.from_pandas(frame), pa.table(frame)):
        assert np.array_equal(dppca.encode(each, SEEN), dppca.encode(text, SEEN))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=8))
def test_what_is_decoded_is_coded_to_the_same_again(labels: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(len(labels))
    rows = rng.normal(size=(len(labels), 8))
    for row, (ill, colour) in zip(rows, labels, strict=True):
        row[4] = ill - 0.5
        row[5:] = np.eye(3)[colour]
    values = dppca.decode(rows, SCHEMA)
    assert values["ill"].to_pylist() == [("no", "yes")[ill] for ill, _ in labels]
    assert values["colour"].to_pylist() == [("red", "green", "blue")[c] for _, c in labels]
    coded = dppca.encode(values, SCHEMA)
    assert np.abs(coded[:, :4] - np.clip(rows[:, :4], -0.5, 0.5)).max() <= 2.0**-11
    assert np.array_equal(dppca.encode(dppca.decode(coded, SCHEMA), SCHEMA), coded)


def test_unit_ball_rows_come_back_and_stay_in_the_ball() -> None:
    axes = [{"name": n, "type": "numeric", "centre": 5.0, "scale": 2.0} for n in ("a", "b")]
    schema = make_schema(axes, row_norm={})
    coded = dppca.encode({"a": [5.0, 6.0], "b": [5.0, 5.5]}, schema)
    assert coded.tolist() == [[0.0, 0.0], [0.5, 0.25]]
    assert dppca.decode([[3.0, 4.0]], schema).to_pydict() == {"a": [6.2], "b": [6.6]}
    far = [[3e200, 4e200], [3.0, 4.0], [1.7e308, 0.0]]  # the squares of some are no numbers
    assert dppca.decode(far, schema).to_pydict() == {"a": [6.2, 6.2, 7.0], "b": [6.6, 6.6, 5.0]}


def test_values_of_several_kinds_are_read_one_by_one() -> None:
    odd = pd.DataFrame(
        {
            **{f"x{i}": [1, "0.5", None, "none"] for i in range(4)},
            "ill": ["yes", 1, None, "yes"],
            "colour": ["blue", pd.NA, 3.5, True],
        }
    )
    with pytest.warns(dppca.CodingWarning, match="x0: 1 not read, 1 missing.* ill: 1 unknown"):
        coded = dppca.encode(odd, SCHEMA)
    assert coded[:, 0].tolist() == [0.25, 0.125, 0.0, 0.0]
    assert coded[:, 4].tolist() == [0.5, -0.5, -0.5, 0.5]
    assert coded[:, 5:].argmax(axis=1).tolist() == [2, 0, 0, 0]


FRAME = ROWS.to_pandas()


LISTS = ROWS.to_pydict()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (None, "a NoneType is not a table"),
        ("rows.csv", "a str is not a table"),
        (np.zeros((50, 6)), "a ndarray is not a table"),
        (FRAME.to_dict(orient="records"), "a list is not a table"),
        (FRAME["ill"], "a Series is not a table"),
        (pl.from_arrow(ROWS).lazy(), "a LazyFrame is not a table"),
        (pd.concat([FRAME, FRAME[["ill"]]], axis=1), "2 columns called ill"),
        (FRAME.rename(columns={"colour": "Colour "}), "no column colour, but one called 'Colour '"),
        (FRAME.rename(columns=str.upper), "x3, but one called 'X3', ill, but one called 'ILL'"),
        (FRAME.set_index("ill"), "no column ill"),
        (ROWS.drop_columns("ill"), "no column ill"),
        ({name: LISTS[name] for name in LISTS if name != "ill"}, "no column ill"),
        ({**LISTS, "ill": ["no"]}, "rows: all need the same"),
        ({**LISTS, "ill": "no"}, "column ill of the table is not a sequence"),
        ({**LISTS, "ill": None}, "column ill of the table is not a sequence"),
        ({**LISTS, "x0": np.zeros((50, 2))}, "column x0 of the table is not a sequence"),
    ],
)
def test_what_is_no_table_of_the_schema_is_refused_in_one_sentence(table: Any, said: str) -> None:
    with pytest.raises(DataError, match=said) as refused:
        dppca.encode(table, SCHEMA)
    assert len(str(refused.value).splitlines()) == 1


COLUMNS: dict[str, tuple[str, Callable[[pd.Series], Any]]] = {
    "text": ("x0", lambda column: column.map(repr)),
    "objects": ("x0", lambda column: column.astype(object)),
    "nullable numbers": ("x0", lambda column: column.astype("Float64")),
    "numbers of Arrow": ("x0", lambda column: column.astype("double[pyarrow]")),
    "sparse numbers": ("x0", pd.arrays.SparseArray),
    "categories": ("colour", lambda column: column.astype("category")),
    "more categories": ("colour", lambda c: pd.Categorical(c, ["blue", "green", "red", "pink"])),
    "nullable text": ("colour", lambda column: column.astype("string")),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_means_the_same_whatever_holds_it(kind: str) -> None:
    name, convert = COLUMNS[kind]
    expected = dppca.encode(ROWS, SCHEMA)
    odd = FRAME.assign(**{name: convert(FRAME[name])}).iloc[:, ::-1]
    twice = pd.concat([odd, pd.DataFrame({"more": range(50)}), odd[[]].assign(more=1)], axis=1)
    np.testing.assert_array_equal(dppca.encode(twice, SCHEMA), expected)


def test_whole_numbers_truth_values_and_days_are_read_in_every_library() -> None:
    attributes: list[dict[str, Any]] = [
        numeric_of("age", 0, 100, integer=True),
        {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-01-03"},
        binary_of("ill", ["false", "true"]),
    ]
    schema = make_schema(attributes, max_rows_per_person=1)
    days = [date(2020, 1, 1), None, date(2020, 1, 3)]
    rows = {"age": [25, None, 75], "day": days, "ill": [True, False, None]}
    expected = dppca.encode(rows, schema)
    assert expected[:, 0].tolist() == [-0.25, 0, 0.25]
    assert expected[:, 1].tolist() == [-0.5, 0, 0.5]
    assert expected[:2, 2].tolist() == [0.5, -0.5]
    nullable = {"age": "Int64", "ill": "boolean"}
    times = pd.to_datetime(pd.Series(days))
    tables = [
        pl.DataFrame(rows),
        pa.table(rows),
        pd.DataFrame(rows),
        pd.DataFrame(rows).astype(nullable),
        pd.DataFrame(rows).assign(day=times),
        pd.DataFrame(rows).assign(day=times.dt.tz_localize("UTC")),
        pd.DataFrame(rows).assign(day=times.dt.strftime("%Y-%m-%d")),
    ]
    for table in tables:
        np.testing.assert_array_equal(dppca.encode(table, schema), expected)


def test_text_that_is_no_utf_8_is_no_label_and_no_number() -> None:
    odd = {**ROWS.to_pydict(), "ill": ["\ud800"] * 50, "x0": ["\ud800"] * 50}
    with pytest.warns(dppca.CodingWarning, match="x0: 50 not read; .*ill: 50 unknown"):
        coded = dppca.encode(odd, SCHEMA)
    assert not coded[:, 0].any()
    assert (coded[:, 4] == -0.5).all()


YEARS = make_schema([numeric_of("year", 1990, 2030), binary_of("ill", ["no", "yes"], missing="no")])


@pytest.mark.parametrize(
    ("year", "ill", "said"),
    [
        (["1999,0", "2010", "2020"], None, r"of 3 rows of the table.*\(year: 1 not read\)"),
        ([1999, 2010, 2020], [True, False, None], r"\(ill: 2 unknown\)"),
        ([None, 2010, 99], ["x", "no", "no"], "year: 1 out of bounds, 1 missing; ill: 1 unknown"),
        ([1, 2, 3], None, r"\(year: 3 out of bounds\)"),
        ([None] * 3, None, r"\(year: 3 missing\)"),
        (pd.period_range("1999", periods=3, freq="Y"), None, r"\(year: 3 not read\)"),
        (pd.interval_range(1999, 2002), None, r"\(year: 3 not read\)"),
        ([datetime(2010, 1, 1, tzinfo=UTC)] * 3, None, r"\(year: 3 not read\)"),
    ],
)
def test_what_cannot_be_read_is_counted_in_a_warning(year: Any, ill: Any, said: str) -> None:
    frame = pd.DataFrame({"year": year, "ill": ["no", "yes", None] if ill is None else ill})
    with pytest.warns(dppca.CodingWarning, match=said) as heard:
        dppca.encode(frame, YEARS)
    assert heard[0].filename == __file__


def test_values_that_are_not_whole_are_counted_too() -> None:
    schema = make_schema([numeric_of("n", 0, 9, integer=True), binary_of("ill", ["no", "yes"])])
    with pytest.warns(dppca.CodingWarning, match=r"\(n: 1 not read, 1 not whole\)"):
        dppca.encode({"n": ["2.5", "x", "3"], "ill": ["no"] * 3}, schema)


@pytest.mark.parametrize("year", [[1990, None, 2030], [1990, 2040, 2000]])
def test_values_that_are_read_give_no_warning(year: Any) -> None:
    assert len(dppca.encode({"year": year, "ill": ["no", "yes", None]}, YEARS)) == 3


def test_a_type_that_only_a_field_names_is_not_taken_for_its_storage() -> None:
    named = {"ARROW:extension:name": "elsewhere.period", "ARROW:extension:metadata": ""}
    fields = pa.schema([pa.field("year", pa.int64(), metadata=named), ("ill", pa.string())])
    table = pa.table({"year": [1999, 2000, None], "ill": ["no"] * 3}, schema=fields)
    with pytest.warns(dppca.CodingWarning, match="year: 2 not read, 1 missing"):
        assert not dppca.encode(table, YEARS)[:, 0].any()


@pytest.mark.parametrize(
    ("rows", "said"), [(np.zeros((2, 7)), "shape"), ([[np.nan] * 8], "finite"), ([0.0], "shape")]
)
def test_rows_that_cannot_be_decoded_are_refused(rows: Any, said: str) -> None:
    with pytest.raises(SchemaMismatchError, match=said):
        dppca.decode(rows, SCHEMA)


@pytest.mark.parametrize("score", ["linear", "log"])
@pytest.mark.parametrize("integer", [True, False])
def test_a_bin_in_products_comes_back_as_a_value_in_it(*, integer: bool, score: str) -> None:
    age = numeric_of("age", 0, 100, bins=6)
    shape = {"products": "bins", "spikes": [0, 25], "missing": "level", "score": score}
    schema = make_schema([{**age, **shape, "integer": integer}])
    one_of_each = np.eye(schema.layout.n_columns)
    table = dppca.decode(one_of_each, schema)
    assert np.isnan(table["age"].to_numpy()[-1])
    assert table["age"].to_pylist()[-3:-1] == [0, 25]
    np.testing.assert_array_equal(dppca.encode(table, schema), one_of_each)
