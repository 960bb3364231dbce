"""Every export of the page that can be run gives the same integers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from dppca.common.kernel.schema import Schema
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import USUAL, TextFormat
from dppca.owner.site.format_document import FormatDocument
from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks
from tests.support.postgres import PostgresServer
from tests.support.requirements import miss
from tests.support.studies import categorical_of, numeric_of

PREPARE = ROOT / "docs/how-to/prepare-a-file.md"
PROGRAMS = {
    "pspp": "pspp",
    "Rscript": "r-base-core r-cran-haven",
    "soffice": "libreoffice-calc-nogui",
}
SCHEMA = Schema.from_document(
    {
        "attributes": [
            numeric_of("age", 0, 110),
            numeric_of("income", 0, 10_000),
            categorical_of("sex", ["1", "2", "3"]),
            {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2021-01-01"},
            categorical_of("ward", ["01", "02", "NA"]),
        ]
    }
)
ROWS = """age,income,sex,day,ward
27,1234.5,1,2020-01-31,01
,,2,2020-02-13,NA
41,10.25,,,02
"""
SHEET = """age;income;sex;day;ward
27;1.234,50;1;31.01.2020;01
-;-;2,0;13.02.2020;NA
41;10,25;;;02
"""
SAVED = """DATA LIST LIST /age (F3) income (F8.2) sex (F1) day (EDATE10) ward (A4).
BEGIN DATA
27 1234.5 1 "31.01.2020" "01"
98 . 2 "13.02.2020" "NA"
41 10.25 9 . "02"
END DATA.
MISSING VALUES age (98) sex (9).
VALUE LABELS sex 1 "male" 2 "female".
SAVE OUTFILE="rows.sav".
"""


@pytest.fixture
def shell(tmp_path: Path) -> PageShell:
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            miss(program, f"apt-get install {package}")
    shell = PageShell(tmp_path, read_blocks(PREPARE))
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "make.sps").write_text(SAVED)
    shell.variables |= {"HOME": str(tmp_path)}
    subprocess.run(["pspp", "make.sps"], cwd=tmp_path, check=True, capture_output=True)
    return shell


def sums(path: Path, form: TextFormat = USUAL) -> list[int]:
    """Exact sums of a file."""
    packed: list[int] = moments_of_table(
        open_table(local_files(path, form), SCHEMA), SCHEMA, workers=1
    ).packed.tolist()
    return packed


def test_every_program_exports_the_same_sums(shell: PageShell, postgres: PostgresServer) -> None:
    folder = shell.folder
    (folder / "rows.csv").write_text(ROWS)
    expected = sums(folder / "rows.csv")
    shell.run("spss")
    shell.run("r")
    shell.run("pandas")
    postgres.run(
        "CREATE TABLE people (age int, income float8, sex int, day date, ward text)",
        "INSERT INTO people VALUES (27, 1234.5, 1, '2020-01-31', '01'), "
        "(NULL, NULL, 2, '2020-02-13', 'NA'), (41, 10.25, NULL, NULL, '02')",
    )
    shell.variables |= {"PGHOST": str(postgres.folder), "PGUSER": "postgres"}
    shell.run("postgresql")
    assert sums(folder / "r.csv") == expected
    assert sums(folder / "pandas.parquet") == expected
    assert sums(folder / "postgresql.csv") == expected
    spss = re.findall("its dates need (dates: .*)", PREPARE.read_text())
    said = FormatDocument.model_validate(yaml.safe_load(spss[0]))
    assert sums(folder / "spss.csv", said.read()) == expected


def test_a_workbook_becomes_a_file_that_is_read(shell: PageShell) -> None:
    (shell.folder / "book.csv").write_text(ROWS)
    as_text = "--infilter=CSV:44,34,76,1,5/2,1033,false,true"  # wards stay texts
    made = ["soffice", "--headless", "--convert-to", "ods", as_text, "book.csv"]
    subprocess.run(
        made, cwd=shell.folder, env=shell.variables, check=True, capture_output=True, timeout=300
    )
    (shell.folder / "book.ods").rename(shell.folder / "sheet.ods")
    shell.run("libreoffice")
    assert sums(shell.folder / "sheet.csv") == sums(shell.folder / "book.csv")


def test_a_spreadsheets_own_file_is_read_by_the_line_of_the_page(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)```", PREPARE.read_text(), re.MULTILINE | re.DOTALL)
    said = yaml.safe_load(block)["data_sets"]["survey"]
    (tmp_path / said["path"]).write_text(SHEET)
    (tmp_path / "rows.csv").write_text(ROWS)
    form = FormatDocument.model_validate(said["format"]).read()
    assert sums(tmp_path / said["path"], form) == sums(tmp_path / "rows.csv")
