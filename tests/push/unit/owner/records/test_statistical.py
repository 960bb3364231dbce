"""Files of SPSS, Stata and SAS that pyreadstat writes: what is read, and what is refused."""

import io
import json
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.columns import cell_texts
from dppca.owner.records import statistical, statistical_worker
from dppca.owner.records.check import check_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.sources import Wanted
from dppca.owner.records.statistical_worker import DamagedError, cells, describe
from dppca.owner.records.table import open_table
from dppca.owner.render.faults import check_text
from tests.support.studies import categorical_of, make_schema

Write = Callable[[pd.DataFrame, Path], None]
WRITERS: dict[str, Write] = {
    "sav": pyreadstat.write_sav,
    "zsav": lambda frame, path: pyreadstat.write_sav(frame, path, compress=True),
    "dta": pyreadstat.write_dta,
    "xpt": lambda frame, path: pyreadstat.write_xport(frame, path, file_format_version=8),
}


DESCRIPTION: dict[str, Any] = {
    "names": ["age"],
    "n_rows": 1,
    "encoding": "",
    "formats": {"age": "F8.2"},
    "facts": {"value_labels": {"age": {"one": "1"}}, "weight": ""},
}
ODD_DESCRIPTIONS: list[Any] = [
    *([], None, 7, {}),
    {**DESCRIPTION, "names": [None]},
    {**DESCRIPTION, "names": ["age", "more"]},
    {**DESCRIPTION, "n_rows": None},
    {**DESCRIPTION, "encoding": None},
    {**DESCRIPTION, "formats": {"age": None}},
    {**DESCRIPTION, "facts": None},
    {**DESCRIPTION, "facts": {"value_labels": {"age": {"one": None}}}},
    {**DESCRIPTION, "facts": {"weight": None}},
]
XPT_NUMBERS = [0.0, None, -2.5, 1e9, 0.1]


def read(path: Path, *names: str, batch_rows: int = 1000) -> list[pa.Array]:
    """Columns of a file, all of them unless some are named."""
    source = local_files(path).open()
    batches = list(source.read(Wanted(names or source.names, batch_rows)))
    return [pa.chunked_array(list(each)).combine_chunks() for each in zip(*batches, strict=True)]


def plain(cells: pa.Array) -> list[Any]:
    return [cell.as_py() for cell in cells]


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    """Ages with 97 and more declared missing, as are a text and .a in a column of tags."""
    path = tmp_path / "rows.sav"
    frame = pd.DataFrame(
        {"age": [20.0, 97.0, None, 99.5], "sex": [1.0, 2.0, 1.0, 9.0], "ward": ["N", "x", "", "ü"]}
    )
    pyreadstat.write_sav(
        frame,
        path,
        missing_ranges={"age": [{"lo": 97, "hi": 1e300}], "ward": ["x"]},
        variable_value_labels={"sex": {1: "male", 2: "female"}},
    )
    return path


@pytest.mark.parametrize("kind", WRITERS)
def test_each_kind_gives_numbers_texts_and_missing_values_in_batches(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{kind}"
    numbers = [0.0, None, -2.5, 1e9, 0.1]
    WRITERS[kind](pd.DataFrame({"x": numbers, "s": ["a", "", "Zürich", "b", "01"]}), path)
    x, s = read(path, batch_rows=2)
    assert x.to_pylist() == (numbers if kind != "xpt" else XPT_NUMBERS)
    assert cell_texts(s) == ["a", "", "Zürich", "b", "01"]
    only = read(path, "s", "s")
    assert [cell_texts(each) for each in only] == [cell_texts(s)] * 2


def test_declared_missing_values_are_missing_and_counted_apart(survey: Path) -> None:
    age, ward = read(survey, "age", "ward")
    assert plain(age) == [20.0, None, None, None]
    assert plain(ward) == [b"N", None, b"", "ü".encode()]
    kept = pyreadstat.read_sav(survey, output_format="dict")[0]
    assert kept["age"] == plain(age), "pyreadstat itself takes the same values for missing"
    assert [None if each is None else each.encode() for each in kept["ward"]] == plain(ward)

    schema = Schema.model_validate(
        {
            "attributes": [
                {"name": "age", "type": "numeric", "lower": 0, "upper": 110},
                {"name": "sex", "type": "categorical", "categories": ["male", "female", "9"]},
                {"name": "ward", "type": "categorical", "categories": ["N", "ü"], "unknown": "?"},
            ]
        }
    )
    report = check_table(open_table(survey, schema), schema)
    assert {name: each.declared_missing for name, each in report.attributes.items()} == {
        "age": 2,
        "sex": 0,
        "ward": 1,
    }
    assert report.attributes["sex"].value_labels == {"male": "1", "female": "2"}
    twice = survey.with_name("twice.sav")
    labels: Any = {"sex": {1: "male", 2: "female", 3: "male"}}
    pyreadstat.write_sav(pd.DataFrame({"sex": [1.0, 3.0]}), twice, variable_value_labels=labels)
    only = make_schema([categorical_of("sex", ["male", "female", "other"])])
    assert "that lists 1 and 3 (male), 2 (female)" in check_text(
        check_table(open_table(twice, only), only)
    )
    said = check_text(report)
    assert "age: 2 of the missing are values that the file declares missing" in said
    assert "of which codes are read: ask for a study that lists 1 (male), 2 (female)" in said


def test_tags_of_stata_are_missing_and_float_is_its_shortest_decimal(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"tag": [1.0, "a", "z", None], "i": pd.array([1, 2, 3, 4], "Int8")})
    pyreadstat.write_dta(frame, path, missing_user_values={"tag": ["a", "z"]})
    tag, i = read(path)
    assert plain(tag) == [1.0, None, None, None]
    assert tag.dictionary.is_null().take(tag.indices).to_pylist() == [False, True, True, None]
    assert i.to_pylist() == [1, 2, 3, 4]

    floats = pd.Series([5.7, 0.1, None], dtype="float32")
    frame = pd.DataFrame({"f": floats, "s": ["a", "b", ""]})
    frame.to_stata(path, write_index=False, version=118)
    (f,) = read(path, "f")
    assert f.type == pa.float32()
    schema = Schema.model_validate(
        {
            "attributes": [
                {"name": "f", "type": "numeric", "lower": 0, "upper": 9},
                {"name": "s", "type": "binary", "values": ["a", "b"]},
            ]
        }
    )
    ((column, _),) = open_table(path, schema).batches()
    assert column[:2].tolist() == [5.7, 0.1]


@pytest.mark.parametrize(("place", "named"), [(0, ""), (1, "age"), (5, "w"), (9, "a variable")])
def test_rows_that_spss_weights_count_once_and_check_says_by_what(
    tmp_path: Path, place: int, named: str
) -> None:
    path = tmp_path / "rows.sav"
    rows = {"age": [20.0, 30.0], "ward": ["N" * 20, "x"], "w": [1.0, 3.0], "note": ["a" * 300, ""]}
    pyreadstat.write_sav(pd.DataFrame(rows), path)
    stored = bytearray(path.read_bytes())
    stored[76:80] = struct.pack("<i", place)  # what WEIGHT BY writes: counted in eight bytes
    path.write_bytes(stored)
    numbers = [{"name": name, "type": "numeric", "lower": 0, "upper": 99} for name in ("age", "w")]
    schema = Schema.from_document({"attributes": numbers})
    report = check_table(open_table(path, schema), schema)
    assert report.weight == named
    assert report.rows == 2
    said = f"  SPSS weights the rows of this file by {named}; here every row counts once"
    assert (said in check_text(report).splitlines()) is bool(named)


def test_a_file_without_a_number_of_cases_is_counted(survey: Path) -> None:
    stored = bytearray(survey.read_bytes())
    stored[80:84] = struct.pack("<i", -1)
    survey.write_bytes(stored)
    assert local_files(survey).open().n_rows == 4
    assert plain(read(survey, "sex")[0]) == [1, 2, 1, 9]


def test_an_old_file_of_stata_with_letters_of_another_code_page_has_unknown_labels(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.dta"
    frame = pd.DataFrame({"s": ["a", "Zürich", "b"]})
    frame.to_stata(path, write_index=False, version=114)  # which names no encoding
    assert read(path)[0].to_pylist() == [b"a", "Zürich".encode("latin-1"), b"b"]


def test_a_byte_that_is_no_text_is_one_cell_and_no_end_of_reading(tmp_path: Path) -> None:
    path = tmp_path / "rows.sav"
    pyreadstat.write_sav(pd.DataFrame({"s": ["aaaa", "bbbb", "cccc"]}), path, row_compress=False)
    path.write_bytes(path.read_bytes().replace(b"bbbb", b"b\xff\xfeb"))
    texts = cell_texts(read(path)[0])
    assert texts[::2] == ["aaaa", "cccc"]
    assert "\ufffd" in texts[1]


def test_long_texts_of_stata_are_read_as_they_are_beside_short_ones(tmp_path: Path) -> None:
    path = tmp_path / "rows.dta"
    texts = ["Zürich", "", "Ω – " * 800]
    frame = pd.DataFrame({"word": ["ü", "x", ""], "story": texts})
    frame.to_stata(path, write_index=False, version=118, convert_strl=["story"])
    short, long, again = read(path, "word", "story", "story")
    assert plain(short) == ["ü".encode(), b"x", b""]
    assert plain(long) == plain(again) == [text.encode() for text in texts]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize(("n_rows", "fit"), [(5, 1118), (50, 31)])
def test_room_for_more_rows_in_a_file_of_sas_is_no_damage(
    order: Literal["little", "big"],
    size: int,
    n_rows: int,
    fit: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SAS says how many rows fit beside the description of columns, however few there are."""
    head = bytearray(400)
    head[32:33], head[37:38] = b"3" if size == 8 else b"2", b"\1" if order == "little" else b"\0"
    head[200 : 200 + size] = (0xF7F7F7F7).to_bytes(size, order)
    places = {6: n_rows, 7: 77, 15: fit, 16: 99}
    for place, number in places.items():
        head[200 + place * size : 200 + (place + 1) * size] = number.to_bytes(size, order)
    seen: list[list[int]] = []

    def rows_at(kind: str, file: Any, names: list[str], begin: int, most: int) -> int:
        assert (kind, names, begin, most) == ("sas7bdat", ["x"], n_rows, 1)
        file.seek(0)
        whole = file.read(400)
        numbers = [whole[200 + i * size : 200 + (i + 1) * size] for i in places]
        seen.append([int.from_bytes(each, order) for each in numbers])
        raise pyreadstat.ReadstatError

    monkeypatch.setattr(statistical_worker, "_rows_at", rows_at)
    statistical_worker._require_no_more(io.BytesIO(head), bytes(head), n_rows, ["x"])
    assert seen == [[n_rows + 1, 77, min(fit, n_rows), 99]], "told that not more fit than there are"


@pytest.mark.parametrize(
    ("named", "found"),
    [("WINDOWS-1251", "cp1251"), ("BIG-5", "big5"), ("EUC-TW", ""), ("ISO-8859-15", "iso8859-15")],
)
def test_an_encoding_that_python_does_not_know_is_none(named: str, found: str) -> None:
    assert statistical_worker._encoding("sas7bdat", bytes(70) + b"\x7b", named) == found


def damage(path: Path, how: str) -> None:
    stored = path.read_bytes()
    match how:
        case "cut":
            stored = stored[: len(stored) - 41]
        case "header alone":
            stored = stored[:90]
        case "a row fewer" | "a row more":
            step = -1 if how == "a row fewer" else 1
            place = stored.find(b"<N>") + 3
            if path.suffix == ".dta":
                (n_rows,) = struct.unpack_from("<Q", stored, place)
                changed = struct.pack("<Q", n_rows + step)
            else:
                place = 80
                (n_rows,) = struct.unpack_from("<i", stored, place)
                changed = struct.pack("<i", n_rows + step)
            stored = stored[:place] + changed + stored[place + len(changed) :]
    path.write_bytes(stored)


def refuse(kind: str, path: Path) -> None:
    """The worker's own refusal; that any becomes a `DataError` is tested with the process."""
    with (
        path.open("rb") as file,
        pytest.raises((DamagedError, pyreadstat.ReadstatError, pyreadstat.PyreadstatError)),
    ):
        describe("sav" if kind == "zsav" else kind, file)


@pytest.mark.parametrize("how", ["cut", "header alone"])
@pytest.mark.parametrize("kind", WRITERS)
def test_damaged_files_are_refused_when_they_are_opened(
    kind: str, how: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{kind}"
    frame = pd.DataFrame({"x": [float(i) for i in range(9)], "s": list("abcdefghi")})
    WRITERS[kind](frame, path)
    damage(path, how)
    refuse(kind, path)


@pytest.mark.parametrize("how", ["a row fewer", "a row more"])
@pytest.mark.parametrize("kind", ["sav", "zsav", "dta"])
def test_a_header_that_says_another_number_of_rows_is_damage(
    kind: str, how: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{kind}"
    WRITERS[kind](pd.DataFrame({"x": [float(i) for i in range(9)]}), path)
    damage(path, how)
    refuse(kind, path)


@pytest.mark.parametrize("kind", ["sav", "zsav"])
def test_a_variable_whose_name_is_damaged_to_none_is_damage(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.{kind}"
    WRITERS[kind](pd.DataFrame({"x": [1.0, 2.0], "ward": ["N", "S"]}), path)
    stored = path.read_bytes()
    assert stored.count(b"WARD    ") == 1
    path.write_bytes(stored.replace(b"WARD    ", b"\0ARD    "))
    refuse(kind, path)
    with pytest.raises(DataError, match="damaged"):
        local_files(path).open()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_of_another_kind_or_none_is_refused_before_a_reader_starts(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{kind}"
    for content, said in ((b"", "is empty"), (b"a,b\n1,2\n", "is not a file of")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=said):
            local_files(path).open()


def test_an_encrypted_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "rows.sav"
    path.write_bytes(b"\x1c\0\0\0\0\0\0\0ENCRYPTEDSAV\x15\0\0\0" + bytes(100))
    with pytest.raises(DataError, match="is encrypted: open it in SPSS and save it without"):
        local_files(path).open()


@pytest.mark.parametrize(
    "worker",
    ["import os; os.abort()", "import time; time.sleep(99)", "print('no document')", "print('[]')"],
    ids=["ends", "hangs", "says something else", "describes no file"],
)
def test_a_reader_that_ends_or_hangs_is_a_damaged_file(
    worker: str, survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = survey.with_name("worker.py")
    program.write_text(worker, encoding="utf-8")
    monkeypatch.setattr(statistical, "_WORKER", program)
    monkeypatch.setattr(statistical, "_PATIENCE_S", 2.0)
    with pytest.raises(DataError, match="damaged"):
        local_files(survey).open()


def test_a_reader_that_ends_among_the_rows_is_a_damaged_file(
    survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = local_files(survey).open()
    assert len(list(source.read(Wanted(("age",), 10)))) == 1, "by the process that described it"
    program = survey.with_name("worker.py")
    program.write_text("import os; os.abort()", encoding="utf-8")
    monkeypatch.setattr(statistical, "_WORKER", program)
    with pytest.raises(DataError, match="damaged"):
        list(source.read(Wanted(("age",), 10)))


@pytest.mark.parametrize("odd", ODD_DESCRIPTIONS, ids=str)
def test_a_description_that_lacks_a_text_is_of_a_damaged_file(odd: Any) -> None:
    assert statistical._checked(DESCRIPTION) == DESCRIPTION
    with pytest.raises(pa.ArrowInvalid):
        statistical._checked(odd)


def test_columns_of_different_lengths_are_a_damaged_file(
    survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = survey.with_name("worker.py")
    shapes = [["<f8", 2], ["<i8", 0], ["|u1", 2], ["<f8", 1], ["<i8", 0], ["|u1", 1]]
    sizes = 2 * 8 + 2 + 8 + 1
    about = {**DESCRIPTION, "names": ["age", "sex"], "formats": {"age": "", "sex": ""}}
    said = f"{json.dumps(about)}\n{json.dumps(shapes)}\n"
    program.write_text(
        f"import sys, time\nsys.stdout.write({said!r} + chr(0) * {sizes})\n"
        "sys.stdout.flush()\ntime.sleep(9)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(statistical, "_WORKER", program)
    source = local_files(survey).open()
    with pytest.raises(DataError, match="damaged"):
        list(source.read(Wanted(("age", "sex"), 10)))


def test_one_process_waits_for_a_folder_and_any_file_can_be_read(
    survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Counted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Counted)
    survey.with_name("more.sav").write_bytes(survey.read_bytes())
    first, second = (
        local_files(survey.with_name(each)).open() for each in ("rows.sav", "more.sav")
    )
    assert [process.poll() is None for process in started] == [False, True]
    ages = [plain(next(each.read(Wanted(("age",), 9)))[0]) for each in (second, first, second)]
    assert ages == [[20.0, None, None, None]] * 3
    assert len(started) == 4, "the second read first by the process that waited"
    del first, second
    assert all(process.poll() is not None for process in started)


def test_without_the_package_a_message_says_what_to_install(
    survey: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        assert name == "pyreadstat"

    monkeypatch.setattr(statistical, "find_spec", absent)
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(Exception, match=r"rows\.sav needs pyreadstat: pip install pyreadstat"):
        local_files(survey).open()


@pytest.mark.parametrize("n_rows", [1, 40, 41, 999, 4000])
def test_a_long_file_is_read_in_pieces_and_few_of_its_rows_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    path, asked = tmp_path / "rows.sav", list[tuple[int, int]]()
    numbers = np.arange(n_rows, dtype=np.float64)
    frame = pd.DataFrame({"x": numbers, "word": [f"w{i}" for i in range(n_rows)]})
    pyreadstat.write_sav(frame, path, compress=True)
    read = statistical_worker._read

    def counting(kind: str, file: Any, **options: Any) -> Any:
        asked.append((options["row_offset"], options["row_limit"]))
        return read(kind, file, **options)

    monkeypatch.setattr(statistical_worker, "_read", counting)
    monkeypatch.setattr(statistical_worker, "_VALUES", 80)
    monkeypatch.setattr(statistical_worker, "_HELD", 100_000)
    pieces = list(cells("sav", str(path), ["x", "word"], "utf-8", n_rows))
    assert [len(piece[0]) for piece in pieces[:-1]] == [40] * (len(pieces) - 1)
    assert np.concatenate([piece[0] for piece in pieces]).tolist() == numbers.tolist()
    texts = b"".join(bytes(piece[3]) for piece in pieces).decode()
    assert texts == "".join(frame["word"])
    assert sum(offset for offset, _ in asked) < 2 * n_rows, "each is skipped twice at most, about"
    held = statistical_worker._HELD // 2
    assert max(limit for _, limit in asked) <= held
