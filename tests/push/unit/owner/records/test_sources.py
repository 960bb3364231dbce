"""Data files of every format, sound and damaged."""

import datetime as dt
import gzip
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from threading import get_ident
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import MISSING, UNKNOWN, Categorical, Numeric
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.source_facts import LineFault
from dppca.owner.records.table import Table, moments_of_table, open_table
from dppca.owner.records.text_format import DELIMITERS, TextFormat
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("age", 0, 100),
        binary_of("ill", [0, 1]),
        categorical_of("town", ["Ulm", "Bern", "Zürich"]),
    ]
)
AGE = Numeric(name="age", type="numeric", lower=0, upper=100)
CODE = Categorical(
    name="code", type="categorical", categories=("1", "2.5", "true", "2020-01-01", "null")
)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: str | bytes, name: str = "rows.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


def cells(table: Table, batch_rows: int | None = None) -> list[list[float]]:
    """Columns of the whole table as lists, NaN as None to make them comparable."""
    columns: list[list[Any]] = [[] for _ in table.schema.attributes]
    for batch in table.batches(batch_rows):
        for column, part in zip(columns, batch, strict=True):
            column += [None if math.isnan(value) else value for value in part.tolist()]
    return columns


GOOD = [[30.0, 40.5, None], [0, 1, MISSING], [0, 2, UNKNOWN]]


def good_table() -> pa.Table:
    return pa.table(
        {
            "town": ["Ulm", " Zürich ", "Rome"],
            "note": ["a", "b", "c"],
            "ill": pa.array([0, 1, None], pa.int8()),
            "age": [30.0, 40.5, math.nan],
        }
    )


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("rows.parquet", lambda table, path: pq.write_table(table, path)),
        ("rows.PQ", lambda table, path: pq.write_table(table, path, row_group_size=2)),
        ("rows.feather", lambda table, path: feather.write_feather(table, str(path))),
        ("rows.arrow", lambda table, path: feather.write_feather(table, str(path), chunksize=1)),
        ("rows.csv", lambda table, path: pa.csv.write_csv(table, path)),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 2, None])
def test_columns_are_found_by_name_in_every_format(
    tmp_path: Path, name: str, save: Callable[[pa.Table, Path], None], batch_rows: int | None
) -> None:
    save(good_table(), tmp_path / name)
    table = open_table(tmp_path / name, SCHEMA)
    assert table.n_rows == 3
    assert table.extra_columns == ("note",)
    assert cells(table, batch_rows) == GOOD
    assert cells(table, batch_rows) == GOOD, "a table can be read again"
    assert moments_of_table(table, SCHEMA).n_rows == 3


def test_csv_may_be_compressed_with_a_mark_windows_lines_and_rows_longer_than_a_block(
    write: Callable[..., Path],
) -> None:
    text = (
        "\ufeffage, ill ,town,note\r\n30,0,Ulm,\r\n40.5,1,Zürich," + "x" * (9 << 20) + "\r\n,,Rome,"
    )
    table = open_table(write(gzip.compress(text.encode(), 1), "rows.csv.gz"), SCHEMA)
    assert cells(table) == GOOD
    with pytest.raises(SettingError, match="at least 1"):
        next(table.batches(0))


def test_a_quote_left_open_in_the_header_is_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"first line of .* leaves a quote open"):
        open_table(write('age,ill,"to\nwn"\n1,0,Ulm\n'), SCHEMA)


def test_missing_and_repeated_columns_are_named_all_at_once(write: Callable[..., Path]) -> None:
    with pytest.raises(
        DataError, match=r"lacks the columns age, town and has more than one .* ill"
    ):
        open_table(write("Age,ill,ill\n1,0,1\n"), SCHEMA)
    with pytest.raises(DataError, match="the file has age as Age"):
        open_table(write("Age,ill,town\n1,0,Ulm\n"), SCHEMA)
    with pytest.raises(
        DataError, match=r"first line of .* is separated by semicolons, and .* separated by commas"
    ):
        open_table(write("age;ill;town\n1;0;Ulm\n"), SCHEMA)
    for mark, words in DELIMITERS.items():
        text = f"sep={mark}\nage{mark}ill{mark}town\n1{mark}0{mark}Ulm\n"
        for used in DELIMITERS:
            with pytest.raises(
                DataError, match=f"is `sep={re.escape(mark.strip())}`, .* {words} sep"
            ):
                open_table(local_files(write(text), TextFormat(used)), SCHEMA)


@pytest.mark.parametrize("replaced", [True, False], ids=["by-another-file", "in-its-place"])
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_file_of_which_rows_of_two_exports_would_be_read_is_an_error(
    tmp_path: Path, when: str, replaced: bool
) -> None:
    path, n_rows = tmp_path / "rows.csv", 300_000
    path.write_text("age,ill,town\n" + "1,0,Ulm\n" * n_rows)

    def export_again() -> None:
        target = tmp_path / "new.csv" if replaced else path
        target.write_text("age,ill,town\n" + "2,1,Ulm\n" * n_rows)
        target.replace(path)

    batches = open_table(path, SCHEMA).batches(1000)
    if when == "during":
        next(batches)
    export_again()
    with pytest.raises(DataError, match="was replaced while it was read"):
        list(batches)
    assert sum(len(batch[0]) for batch in open_table(path, SCHEMA).batches()) == n_rows


def test_a_missing_column_is_named_beside_those_that_the_file_has(
    write: Callable[..., Path],
) -> None:
    schema = make_schema([numeric_of(name, 0, 1) for name in ("\u00e9cole", "other")])
    with pytest.raises(DataError, match="in other characters that look the same"):
        open_table(write("e\u0301cole,other\n1,2\n"), schema)
    said = "capital letters count; the file has \u00e9cole as E\u0301COLE, other as OTHER and Other"
    with pytest.raises(DataError, match=said):
        open_table(write("E\u0301COLE,OTHER,Other\n1,2,3\n"), schema)
    with pytest.raises(DataError, match=r"lacks .* town: .* It has the columns age, ill, city$"):
        open_table(write("age,ill,city\n1,0,Ulm\n"), SCHEMA)


def test_a_first_line_that_may_be_a_row_is_never_printed(write: Callable[..., Path]) -> None:
    path = write("53,1,Innsbruck\n41,0,Ulm\n")
    with pytest.raises(DataError, match="is that line a header") as caught:
        open_table(path, SCHEMA)
    message = str(caught.value).replace(str(path), "")  # the folder's name may hold any digits
    assert not any(value in message for value in ("53", "Innsbruck", "41", "Ulm"))


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.csv", b"", "is empty"),
        ("rows.csv", b"\n1,2,3\n", "first line .* is blank"),
        ("rows.csv", b"age,ill,town\n", "no rows"),
        ("rows.csv", b"age,ill,town", "no rows"),
        ("rows.csv", b"\xef\xbb\xbf", "is empty"),
        ("rows.csv", b"\xef\xbb\xbf\n1,2,3\n", "first line .* is blank"),
        ("rows.csv", b"a" * ((16 << 20) + 1), "longer than"),
        ("rows.csv", "age,ill,town\n1,0,Ulm\n".encode("utf-16"), "UTF-8"),
        ("rows.csv.gz", gzip.compress(b"age,ill,town\n" + b"1,0,Ulm\n" * 9999)[:-40], "damaged"),
        ("rows.csv.gz", b"age,ill,town\n1,0,Ulm\n", "damaged"),
        ("rows.parquet", b"", "is empty"),
        ("rows.parquet", b"PAR1 and no more", "damaged"),
        ("rows.parquet", b"age,ill,town\n", "not a Parquet file"),
        ("rows.arrow", b"ARROW1\0\0 and no more", "damaged"),
        ("rows.arrow", b"age,ill,town\n", "not a Arrow file"),
        ("rows.feather", b"FEA1", "version 2"),
        ("rows.xls", b"PK", "suffix"),
    ],
)
def test_file_that_cannot_be_used_says_what_to_do(
    write: Callable[..., Path], name: str, content: bytes, says: str
) -> None:
    with pytest.raises(DataError, match=says):
        open_table(write(content, name), SCHEMA)


def test_a_file_that_is_not_there_or_a_folder_or_without_rows_is_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.parquet"
    with pytest.raises(DataError, match="does not exist: correct its path"):
        open_table(path, SCHEMA)
    pq.write_table(good_table().slice(0, 0), path)
    with pytest.raises(DataError, match="no rows"):
        open_table(path, SCHEMA)
    path.unlink()
    path.mkdir()
    with pytest.raises(DataError, match="folder"):
        open_table(path, SCHEMA)


def test_codes_of_parquet_that_stand_for_nothing_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    towns = ["Ulm"] * 64 + ["Bern"] * 64 + ["Rome"] * 64
    table = pa.table({"age": [1.0] * 192, "ill": [0] * 192, "town": towns})
    pq.write_table(table, path, compression="none")
    content = path.read_bytes()
    runs = b"\x80\x01\x00\x80\x01\x01\x80\x01\x02"  # 64 times 0, 64 times 1, 64 times 2
    assert content.count(runs) == 1
    assert cells(open_table(path, SCHEMA))[2] == [0] * 64 + [1] * 64 + [UNKNOWN] * 64
    path.write_bytes(content.replace(runs, runs[:-1] + b"\x03"))
    with pytest.raises(DataError, match="damaged"):
        moments_of_table(open_table(path, SCHEMA), SCHEMA)


def test_errors_never_quote_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    names = [f"secret-{row}" for row in range(100)]
    feather.write_feather(
        pa.table({"age": [1.0] * 100, "ill": [0] * 100, "town": names}), str(path), "uncompressed"
    )
    content = path.read_bytes()
    old = np.cumsum([0, *map(len, names)]).astype("<i4").tobytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, old[:-4] + b"\xff\xff\xff\x7f"))
    with pytest.raises(DataError, match="damaged") as raised:
        moments_of_table(open_table(path, SCHEMA), SCHEMA)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_attribute_that_may_lack_is_missing_everywhere(write: Callable[..., Path]) -> None:
    table = open_table(write("age,town\n1,Ulm\n2,Bern\n"), SCHEMA, optional=("ill",))
    assert table.absent == ("ill",)
    assert cells(table)[1] == [MISSING, MISSING]
    assert open_table(write("age,ill,town\n1,0,Ulm\n"), SCHEMA, optional=("ill",)).absent == ()


def test_progress_counts_every_row_and_its_error_ends_the_pass(write: Callable[..., Path]) -> None:
    table = open_table(write("age,ill,town\n" + "1,0,Ulm\n" * 25), SCHEMA)
    counted: list[int] = []
    moments_of_table(table, SCHEMA, progress=counted.append, batch_rows=10)
    assert sorted(counted) == [5, 10, 10]
    caller, seen = get_ident(), []

    def fail(n_rows: int) -> None:
        seen.append((get_ident(), n_rows))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        moments_of_table(table, SCHEMA, progress=fail, batch_rows=1)
    assert seen == [(caller, 1)]


@pytest.mark.parametrize(
    ("array", "codes"),
    [
        (pa.array(["1", "1.0", "1.00", " 2.50 ", "True", "", None]), [0, 0, 0, 1, 2, -2, -2]),
        (pa.array(["01", "1.01", "nan", "null"]), [-1, -1, -2, 4]),
        (pa.array([1, 2, None]), [0, -1, -2]),
        (pa.array([1.0, 2.5, math.nan, None, math.inf]), [0, 1, -2, -2, -1]),
        (pa.array([1.0, 2.5], pa.float32()), [0, 1]),
        (pa.array([1.0, None], pa.float16()), [0, -2]),
        (pa.array([True, False, None]), [2, -1, -2]),
        (pa.array([Decimal("1.00"), Decimal("2.50"), None]), [0, 1, -2]),
        (pa.array([dt.date(2020, 1, 1), None]), [3, -2]),
        (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), [-1]),
        (pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None]), [-1, -2]),
        (pa.array([[1], None]), [-1, -2]),
        (pa.array([{"a": 1}]), [-1]),
        (pa.nulls(2), [-2, -2]),
        (pa.array(["1", None, "q", ""]).dictionary_encode(), [0, -2, -1, -2]),
        (pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], "utf8")), [-2]),
        (pa.DictionaryArray.from_arrays([0, 1], pa.array([None, "1"])), [-2, 0]),
        (pc.run_end_encode(pa.array(["1", "1", None])), [0, 0, -2]),
        (pc.run_end_encode(pa.array(["1", "1", "q", None, None]))[1:4], [0, -1, -2]),
        (pa.array([Decimal("1.00"), None], pa.decimal32(3, 2)), [0, -2]),
        (pa.array([Decimal("2.50"), None], pa.decimal64(3, 2)), [1, -2]),
        (pa.array([1, 0], pa.int64()).view(pa.decimal64(3, -(10**9))), [-1, -1]),
        (pa.array(["1", "q"], pa.large_string()), [0, -1]),
        (pa.array(["1", "q"], pa.string_view()), [0, -1]),
        (pa.array([b"1", b"\xff"]), [0, -1]),
        (pa.array(["x", "1", None])[1:], [0, -2]),
        (pa.array([], pa.string()), []),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_cells_of_any_type_become_codes(array: pa.Array, codes: list[int]) -> None:
    assert parse_column(CODE, array).tolist() == codes


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (pa.array(["1", " 2.5 ", "+3", "1e2", ".5", "4."]), [1, 2.5, 3, 100, 0.5, 4]),
        (pa.array(["", None, "NaN", "-nan", "nan(1)"]), [None] * 5),
        (pa.array(["x", "1_0", "0x10", "1,5", "٣", "1 2"]), [NOT_A_NUMBER] * 6),
        (pa.array(["inf", "-Infinity", "1e999", "9" * 400]), [INFINITE] * 4),
        (pa.array([-math.inf, math.nan, None, 1.5]), [INFINITE, None, None, 1.5]),
        (pa.array([7, None], pa.uint64()), [7, None]),
        (pa.array([Decimal("2.50"), None]), [2.5, None]),
        (pa.array([True, None]), [NOT_A_NUMBER, None]),
        (pa.array([dt.date(2020, 1, 1), None]), [NOT_A_NUMBER, None]),
        (pa.array(["5", "x", None]).dictionary_encode(), [5, NOT_A_NUMBER, None]),
        (pa.array([[1], None]), [NOT_A_NUMBER, None]),
        (pa.array([b"5", b"\xff"]), [5, NOT_A_NUMBER]),
        (pa.nulls(1), [None]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_cells_of_any_type_become_numbers(array: pa.Array, values: list[float | None]) -> None:
    found = [None if math.isnan(value) else value for value in parse_column(AGE, array).tolist()]
    assert found == values


def test_first_exact_label_wins_over_what_a_text_spells() -> None:
    exact = Categorical(name="c", type="categorical", categories=("1", "1.0", "x"))
    assert parse_column(exact, pa.array(["1", "1.0", "1.00"])).tolist() == [0, 1, 0]


LETTERS = make_schema([categorical_of("ort", ["Köln", "Łódź", "Ulm"]), numeric_of("größe", 0, 9)])


@pytest.mark.parametrize(("encoding", "town"), [("windows-1252", "Köln"), ("windows-1250", "Łódź")])
def test_letters_are_read_by_the_stated_encoding(
    write: Callable[..., Path], encoding: str, town: str
) -> None:
    path = write(f"ort,größe\r\n{town},1\r\nUlm,2\r\n".encode(encoding))
    table = open_table(local_files(path, TextFormat(encoding=encoding)), LETTERS)
    assert cells(table)[0] == [["Köln", "Łódź", "Ulm"].index(town), 2]
    assert not table.source.facts.malformed


def test_a_byte_that_the_encoding_lacks_is_an_unknown_label_and_counted(
    write: Callable[..., Path],
) -> None:
    path = write("ort,größe\n".encode("windows-1252") + b"K\x81ln,1\nUlm,2\n")
    table = open_table(local_files(path, TextFormat(encoding="windows-1252")), LETTERS)
    assert cells(table) == [[UNKNOWN, 2], [1, 2]]
    assert table.source.facts.malformed[LineFault.ENCODING].rows == (1,)


def test_an_encoding_is_refused_for_a_file_that_begins_as_utf_8(
    write: Callable[..., Path],
) -> None:
    path = write(b"\xef\xbb\xbfort,gr\n")
    with pytest.raises(DataError, match="leave `encoding` out"):
        open_table(local_files(path, TextFormat(encoding="windows-1252")), LETTERS)


@pytest.mark.parametrize("title", ["Report\n\n", 'an "open quote\r\n\r\n', "sep=;\n\n"])
def test_lines_above_the_stated_header_are_not_read(write: Callable[..., Path], title: str) -> None:
    path = write(f"{title}age,ill,town\n30,0,Ulm\n,,\n")
    table = open_table(local_files(path, TextFormat(header=3)), SCHEMA)
    assert table.source.n_rows == 2
    assert cells(table)[0] == [30.0, None]


def test_a_header_after_the_last_line_is_an_empty_file(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match="is empty"):
        open_table(local_files(write("age\n30\n"), TextFormat(header=9)), SCHEMA)
