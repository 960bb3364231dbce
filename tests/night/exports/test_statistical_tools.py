"""One table of five attributes, exported by PSPP, by R's haven and by pyreadstat.

Wherever an export still holds the values, the product's sums are the same integers as those of a
Parquet file with nulls; where it does not, `check` says so.
"""

import shutil
import struct
import subprocess
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from dppca.owner.records.check import check_table
from dppca.owner.records.faults import CheckReport, FaultKind
from dppca.owner.records.table import moments_of_table, open_table

SCHEMA = Schema.model_validate(
    {
        "attributes": [
            {"name": "age", "type": "numeric", "lower": 0, "upper": 110},
            {"name": "income", "type": "numeric", "lower": 0, "upper": 1e6},
            {"name": "sex", "type": "categorical", "categories": ["1", "2"], "unknown": "none"},
            {"name": "day", "type": "date", "lower": "2000-01-01", "upper": "2030-01-01"},
            {"name": "ward", "type": "categorical", "categories": ["North", "Süd"], "unknown": "-"},
        ]
    }
)
N_ROWS = 60
PSPP = """
DATA LIST LIST FILE="rows.txt" ENCODING="UTF-8"
  /age (F3) income (F11.2) sex (F1) day (SDATE10) ward (A8).
MISSING VALUES age (97 THRU 99) income (99999997 THRU HIGHEST) ward ("NA").
VALUE LABELS sex 1 "male" 2 "female".
SAVE OUTFILE="pspp.sav".
SAVE OUTFILE="pspp-plain.sav" /UNCOMPRESSED.
SAVE OUTFILE="pspp.zsav" /ZCOMPRESSED.
SAVE TRANSLATE /OUTFILE="pspp.csv" /TYPE=CSV /FIELDNAMES /REPLACE /CELLS=VALUES.
"""
HAVEN = """
library(haven)
kept <- read_sav("pspp.sav", user_na = TRUE)
write_sav(kept, "haven-kept.sav")
gone <- zap_missing(read_sav("pspp.sav"))
write_sav(gone, "haven.sav")
write_sav(gone, "haven.zsav", compress = "zsav")
write_dta(gone, "haven.dta")
write_xpt(gone, "haven.xpt", version = 8)
suppressWarnings(write_sas(zap_labels(gone), "haven.sas7bdat"))
write.csv(kept, "haven-kept.csv", row.names = FALSE, fileEncoding = "UTF-8")
"""
EXACT = (
    *("pspp.sav", "pspp-plain.sav", "pspp.zsav"),
    *("haven-kept.sav", "haven.sav", "haven.zsav", "haven.dta", "haven.xpt", "haven.sas7bdat"),
    *("pyreadstat.sav", "pyreadstat.zsav", "pyreadstat.dta", "pyreadstat.xpt"),
)
DECLARING = {"pspp.sav", "pspp-plain.sav", "pspp.zsav", "haven-kept.sav"}


def run(*command: str, folder: Path) -> None:
    program = shutil.which(command[0])
    assert program, f"{command[0]} is not installed: .ci/run names Debian's package"
    subprocess.run([program, *command[1:]], cwd=folder, check=True, env={"LC_ALL": "C.UTF-8"})


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every export, and ``true.parquet``."""
    folder, random = tmp_path_factory.mktemp("exports"), np.random.default_rng(41)
    ages = random.choice([*range(18, 96), 97, 98, 99], N_ROWS).tolist()
    incomes = random.choice([0.0, 1000.5, -5.0, 2.5e6, 99999997.0, 99999999.0], N_ROWS).tolist()
    sexes = random.choice([1, 2, 9], N_ROWS).tolist()
    first = date(2020, 1, 31)
    days = [first + timedelta(days=int(each)) for each in random.integers(-8000, 4000, N_ROWS)]
    wards = random.choice(["North", "Süd", "NA", "East"], N_ROWS).tolist()
    rows = zip(ages, incomes, sexes, days, wards, strict=True)
    lines = [f"{a} {i} {s} {d:%Y/%m/%d} {w}" for a, i, s, d, w in rows]
    (folder / "rows.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    frame = pd.DataFrame(
        {
            "age": [None if age > 96 else float(age) for age in ages],
            "income": [None if each > 9e7 else each for each in incomes],
            "sex": [float(each) for each in sexes],
            "day": days,
            "ward": ["" if each == "NA" else each for each in wards],
        }
    )
    pq.write_table(pa.Table.from_pandas(frame), folder / "true.parquet")
    pyreadstat.write_sav(frame, folder / "pyreadstat.sav")
    pyreadstat.write_sav(frame, folder / "pyreadstat.zsav", compress=True)
    pyreadstat.write_dta(frame, folder / "pyreadstat.dta")
    pyreadstat.write_xport(frame, folder / "pyreadstat.xpt", file_format_version=8)
    (folder / "rows.sps").write_text(PSPP, encoding="utf-8")
    (folder / "rows.R").write_text(HAVEN, encoding="utf-8")
    run("pspp", "-o", "log.txt", "rows.sps", folder=folder)
    run("Rscript", "--vanilla", "rows.R", folder=folder)
    return folder


def check(path: Path) -> CheckReport:
    return check_table(open_table(path, SCHEMA), SCHEMA)


@pytest.mark.parametrize("name", EXACT)
def test_every_export_that_holds_the_values_gives_the_same_integers(
    name: str, exports: Path
) -> None:
    true, own = (
        moments_of_table(open_table(exports / each, SCHEMA), SCHEMA)
        for each in ("true.parquet", name)
    )
    assert own.n_rows == true.n_rows == N_ROWS
    assert (own.packed == true.packed).all()
    report, right = check(exports / name), check(exports / "true.parquet")
    for attribute, each in report.attributes.items():
        assert each.found == right.attributes[attribute].found, attribute
        missing = each.count(FaultKind.MISSING)
        declares = name in DECLARING and attribute in ("age", "income", "ward")
        assert each.declared_missing == (missing if declares else 0), attribute


def test_codes_that_the_study_calls_missing_give_the_same_integers_where_a_file_declares_none(
    exports: Path,
) -> None:
    codes: dict[str, list[int | str]] = {
        "age": [97, 98, 99],
        "income": [99999997, 99999999],
        "ward": ["NA"],
    }
    document = SCHEMA.model_dump(mode="json")
    for attribute in document["attributes"]:
        if attribute["name"] in codes:
            attribute["missing_values"] = codes[attribute["name"]]
    told = Schema.model_validate(document)
    true = moments_of_table(open_table(exports / "true.parquet", SCHEMA), SCHEMA).packed
    path = exports / "haven-kept.csv"
    assert (moments_of_table(open_table(path, told), told).packed == true).all()
    untold = moments_of_table(open_table(path, SCHEMA), SCHEMA).packed
    assert (untold != true).any(), "97 is an age, without a word, to a study that does not say so"
    assert check(path).attributes["age"].count(FaultKind.OUT_OF_BOUNDS) == 0


def test_check_tells_of_exports_that_hold_other_values(exports: Path) -> None:
    right = check(exports / "true.parquet").attributes
    pspp = check(exports / "pspp.csv").attributes
    assert pspp["day"].count(FaultKind.TEXT) == N_ROWS, "its dates have slashes"
    for name in ("pspp.csv", "haven-kept.csv"):
        report = check(exports / name).attributes
        refused = right["income"].count(FaultKind.MISSING)
        out = right["income"].count(FaultKind.OUT_OF_BOUNDS)
        assert report["income"].count(FaultKind.OUT_OF_BOUNDS) == out + refused


def test_a_file_of_sas_whose_header_says_fewer_rows_is_damage(exports: Path) -> None:
    stored = bytearray((exports / "haven.sas7bdat").read_bytes())
    place = stored.find(b"\xf7" * 4) + 48
    (n_rows,) = struct.unpack_from("<Q", stored, place)
    assert n_rows == N_ROWS
    struct.pack_into("<Q", stored, place, n_rows - 1)
    path = exports / "fewer.sas7bdat"
    path.write_bytes(stored)
    with pytest.raises(DataError, match="damaged"):
        open_table(path, SCHEMA)
