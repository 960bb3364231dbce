"""One row of a CSV file tries to swallow others, by quotes, line ends or a look-alike of the end.

Two files differ in one row. Each must have as many rows as lines, and the exact sums that would be
released must differ by no more than the noise is made for.
"""

import gzip
from pathlib import Path

import numpy as np
import pytest

from dppca.common.kernel.privacy.release import sensitivity_shape
from dppca.common.kernel.privacy.sensitivity import sensitivity
from dppca.owner.records.check import check_table
from dppca.owner.records.source_facts import FaultCount, LineFault
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("dose", 0, 3), categorical_of("ward", ["a", "b", "d"])])
N_ROWS = 1000
HOSTILE = [
    b'2,b,"open',  # found by reviewers, together with a literal quote in an earlier row
    b'"2,b,open',
    b'2,"b,"open',
    b'2,b,""open"',
    b'2,b,"a""',
    b'2,b,"",""",',
    b'"',
    b'"""',
    b"",
    b"2",
    b"2,b,x,y,z",
    b"\0",
    b"end\0of\0file",
    b'"end\0of\0file',
    b"\xff\xfe",
    b"\xef\xbb\xbf2,b,x",
    b"2,b,\x0b\x0c\x1c\x85",
    b"\xe2\x80\xa8",
    b"2,b," + b"x" * (3 << 20),
    b'2,b,"' + b"x" * (3 << 20),
]
NEIGHBOURS = {
    "plain": [b"1,a,ok"],
    "a literal quote": [b'1,a,5" pipe', b"1,a,ok"],
    "quoted": [b'"1","a","ok, ""sure"""'],
    "quotes that close others": [b'1,a,","', b'1,a,"', b'x"', b'","'],
}


@pytest.mark.parametrize("around", NEIGHBOURS, ids=str)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
@pytest.mark.parametrize("place", [0, 9, N_ROWS - 1])
def test_no_row_of_a_csv_file_swallows_another(
    tmp_path: Path, around: str, suffix: str, place: int
) -> None:
    limit = sensitivity(sensitivity_shape(SCHEMA), resolution_bits=10).l1
    rows = (NEIGHBOURS[around] * N_ROWS)[:N_ROWS]
    path = tmp_path / f"rows.{suffix}"

    def released(lines: list[bytes], end: bytes) -> np.ndarray:
        content = end.join([b"dose,ward,note", *lines, b""])
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith("gz") else content)
        table = open_table(path, SCHEMA)
        moments = moments_of_table(table, SCHEMA)
        assert moments.n_rows == table.n_rows == N_ROWS
        return moments.packed.astype(object)

    end = b"\n" if place else b"\r\n"
    before = released(rows, end)
    for hostile in HOSTILE:
        after = released([*rows[:place], hostile, *rows[place + 1 :]], end)
        assert abs(after - before).sum() <= limit


def test_the_line_that_leaves_a_quote_open_is_named_by_check(tmp_path: Path) -> None:
    rows = [b"1,a,ok"] * N_ROWS
    rows[3], rows[9] = b'1,a,5" pipe', b'1,a,"wide'
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\n".join([b"dose,ward,note", *rows]))
    report = check_table(open_table(path, SCHEMA), SCHEMA)
    assert not report.faultless
    assert report.malformed_rows == {LineFault.OPEN_QUOTE: FaultCount(1, (10,))}
