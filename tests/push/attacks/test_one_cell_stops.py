"""One cell tries to end a release by an error: that it is there would be told by the failure.

Each of these files holds one odd cell. It is coded by rule, in its row alone, and `check` names the
row. Damage to the structure of a file is refused, and does not end the process.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.errors import DataError
from dppca.owner.records.check import check_table
from dppca.owner.records.faults import FaultKind
from dppca.owner.records.source_facts import LineFault
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("dose", 0, 3), categorical_of("ward", ["a", "b", "1970-01-01"])])
NO_TEXT = pa.array([b"a", b"\xff", b"b"], pa.binary())
HUGE = b"\x7f" * 16
ODD = {
    "text": NO_TEXT.view(pa.string()),
    "large text": NO_TEXT.cast(pa.large_binary()).view(pa.large_string()),
    "text view": NO_TEXT.cast(pa.binary_view()).view(pa.string_view()),
    "text of a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2], pa.int8()), NO_TEXT.view(pa.string())
    ),
    "text of a run": pa.RunEndEncodedArray.from_arrays([1, 2, 3], NO_TEXT).view(
        pa.run_end_encoded(pa.int64(), pa.string())
    ),
    "text of a list": pa.ListArray.from_arrays([0, 1, 2, 3], NO_TEXT.view(pa.string())),
    "a dictionary in a list": pa.ListArray.from_arrays(
        [0, 1, 2, 3],
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), NO_TEXT.view(pa.string())),
    ),
    "a date that is no midnight": pa.array([0, 5, 0], pa.int64()).view(pa.date64()),
    "a date beyond dates": pa.array([0, 2**62, 0], pa.int64()).view(pa.date64()),
    "a time after the day": pa.array([0, 100_000, 0], pa.int32()).view(pa.time32("s")),
    "a long time": pa.array([0, -(2**62), 0], pa.int64()).view(pa.time64("ns")),
    "a decimal beyond its digits": pa.array([b"\1" * 16, HUGE, b"\1" * 16], pa.binary(16)).view(
        pa.decimal128(3, 1)
    ),
    "a decimal in a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0], pa.int8()),
        pa.array([b"\1" * 16, HUGE], pa.binary(16)).view(pa.decimal128(3, 1)),
    ),
}


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)
    return path


@pytest.mark.parametrize("name", ["dose", "ward"])
@pytest.mark.parametrize(
    ("cell", "suffix"),
    [(c, s) for c in ODD for s in ("arrow", "parquet") if (c, s) != ("text of a run", "parquet")],
)
def test_one_odd_cell_of_arrow_and_parquet_is_coded_by_rule(
    tmp_path: Path, name: str, cell: str, suffix: str
) -> None:
    rows = {"dose": [1.0, 2.0, 3.0], "ward": ["a", "b", "a"], name: ODD[cell]}
    table = open_table(write(pa.table(rows), tmp_path / f"rows.{suffix}"), SCHEMA)
    assert moments_of_table(table, SCHEMA).n_rows == 3
    report = check_table(table, SCHEMA)
    found = report.attributes[name].found
    whole = "dat" in cell and name == "ward" and "beyond" not in cell  # is a label by its day
    kinds = {FaultKind.UNKNOWN, FaultKind.TEXT, FaultKind.OUT_OF_BOUNDS}
    assert whole or any(2 in found[kind].rows for kind in kinds & set(found))


@pytest.mark.parametrize("size", [17, 65])
@pytest.mark.parametrize("cell", ["1,a,{}", '1,a,"{}', "{},a,x", "1,{},x", '1,"a,{}'])
def test_one_long_line_of_csv_is_coded_by_rule(tmp_path: Path, size: int, cell: str) -> None:
    path = tmp_path / "rows.csv"
    rows = ["2,b,ok"] * 9
    rows[4] = cell.format("z" * (size << 20))
    path.write_text("\n".join(["dose,ward,note", *rows, ""]))
    table = open_table(path, SCHEMA)
    assert moments_of_table(table, SCHEMA).n_rows == 9
    assert table.source.facts.malformed[LineFault.TOO_LONG].rows == (5,)
    columns = [np.concatenate(parts) for parts in zip(*table.batches(2), strict=True)]
    kept = np.arange(9) != 4
    assert columns[0][kept].tolist() == [2.0] * 8
    assert columns[1][kept].tolist() == [1] * 8


def test_a_long_line_is_read_up_to_the_same_byte_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.owner.records.lines.LINE_BYTES", 10)
    monkeypatch.setattr("dppca.owner.records.delimited.LINE_BYTES", 10)
    path = tmp_path / "rows.csv"
    for length in range(3, 40):
        path.write_bytes(b"dose,ward\n1,a\n2," + b"b" * length + b",2\n3,a\n")
        found = []
        for block in range(1, 45):
            monkeypatch.setattr("dppca.owner.records.delimited._BLOCK_BYTES", block)
            table = open_table(path, SCHEMA)
            columns = [np.concatenate(parts) for parts in zip(*table.batches(2), strict=True)]
            found.append((table.source.facts.malformed, [column.tolist() for column in columns]))
        assert all(each == found[0] for each in found)
        assert found[0][1] == [[1.0, 2.0, 3.0], [0, -1, 0]]


def test_damage_to_the_structure_is_refused_and_ends_no_process(tmp_path: Path) -> None:
    """Bytes of an Arrow file are overwritten; each file is released or refused."""
    texts = pa.array([f"w{row}" for row in range(64)])
    table = pa.table(
        {
            "dose": texts.dictionary_encode(),
            "ward": pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 65), pa.int32()), texts),
        }
    )
    path = write(table, tmp_path / "rows.arrow")
    code = f"""
import random
from pathlib import Path
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from dppca.owner.records.table import moments_of_table
from dppca.owner.records.table import open_table
schema = Schema.model_validate({SCHEMA.model_dump(mode="json")!r})
path = Path({str(path)!r})
sound = path.read_bytes()
draw = random.Random(5)
refused = 0
for place in range(8, len(sound) - 8, 3):
    content = bytearray(sound)
    odd = [b"\\xff" * 4, b"\\0" * 4, b"\\x7f\\0\\0\\0", draw.randbytes(4)]
    content[place : place + 4] = draw.choice(odd)
    path.write_bytes(content)
    try:
        moments_of_table(open_table(path, schema), schema)
    except DataError:
        refused += 1
print(refused)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 50


@pytest.mark.parametrize("codes", [[0, 5, 0], [0, -1, 0]])
def test_codes_of_an_arrow_dictionary_that_stand_for_nothing_are_damage(
    tmp_path: Path, codes: list[int]
) -> None:
    ward = pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int8()), pa.array(["a", "b"]), safe=False
    )
    path = write(pa.table({"dose": [1.0] * 3, "ward": ward}), tmp_path / "rows.arrow")
    with pytest.raises(DataError, match="damaged"):
        moments_of_table(open_table(path, SCHEMA), SCHEMA)
