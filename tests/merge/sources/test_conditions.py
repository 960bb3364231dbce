"""Each condition that `check` prints finds as many rows in a database as `check` counts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dppca.common.schema import Schema
from dppca.owner.records import CheckReport, FaultKind, check_table, open_table
from dppca.owner.records.conditions import find_anywhere
from dppca.owner.records.locations import DatabaseLocation
from tests.support.postgres import PostgresServer

SCHEMA = Schema.model_validate(
    {
        "attributes": [
            {"name": "t", "type": "numeric", "lower": 0.1, "upper": 100},
            {"name": "whole", "type": "numeric", "lower": 0, "upper": 2**53, "integer": True},
            {
                "name": 'a "level"',
                "type": "numeric",
                "lower": 0,
                "upper": 9,
                "missing": "level",
                "histogram": True,
            },
            {"name": "day", "type": "date", "lower": "1950-01-01", "upper": "2020-12-31"},
            {"name": "step", "type": "ordinal", "levels": ["low", "1", "2.5", "o'k"]},
            {"name": "yes", "type": "binary", "values": ["false", "true"]},
            {"name": "code", "type": "binary", "values": [0, 1], "missing": 1},
            {"name": "label", "type": "categorical", "categories": ["a b", "100000", "é", "1.50"]},
            # Where a backslash escapes, the third of these would not be within quotes.
            {
                "name": "end",
                "type": "categorical",
                "categories": ["a\\b", "\\", ") OR true --", "'"],
            },
            {
                "name": "known",
                "type": "categorical",
                "categories": ["a b", "2020-01-31", "NaN", "0.1"],
                "unknown": "?",
            },
        ]
    }
)
NAMES = ['"' + attribute.name.replace('"', '""') + '"' for attribute in SCHEMA.attributes]
TEXTS = (
    *(
        "",
        " ",
        "\t",
        " 5 ",
        "\t5",
        "5\n",
        "-",
        ".",
        "+",
        "?",
        "a b",
        " a b ",
        "a  b",
        "e\u0301",
        "é",
        "\\",
        "\\\\",
        "a\\b",
        "ab",
        "'",
        "1x5",
    ),
    *("NaN", "nan", "-NaN", "inf", "+inf", "-INFINITY", "Infinity", "infinit", "1e999", "-1e999"),
    *("1e200000", "1e-200000", "0e999999", "5", "+5", ".5", "5.", "1e1", "1E1", "1e", "1-2", "--5"),
    *(
        "e5",
        "5e+",
        "0x10",
        "1_000",
        "1 000",
        "abc",
        "1",
        "1.0",
        "1.00",
        "01",
        "1.5",
        "1.50",
        "2.50",
    ),
    *("true", "True", "TRUE", "t", " FALSE", "0", "0.0", "-0.0", "-0", "low", "LOW", "o'k", "2.5"),
    *("1e+05", "1.0e+05", "100000.0", "1e5", "99999999999999999999999999", "1" * 400, "x" * 500),
    *("0.1", "0.1000000000000000001", "0.0999999999999999999", "100.00000000000000000001"),
    *(
        "9007199254740993",
        "9007199254740992.5",
        "١٢",
        "2020-01-31",
        "2020-01-31 10:00",
        "0000-01-01",
    ),
    *("2020-01-31T10:00", "2020-01-31x", "2020-13-45", "2019-02-29", "2020-02-29", "abcd-ef-gh"),
    *("1900-01-01", "2021-06-01", "10000-01-01", "2020-1-31", "0044-03-15 BC", "2020-01-31 noon"),
)
FLOATS = (
    "0.1",
    "1.5",
    "-0",
    "NaN",
    "Infinity",
    "-Infinity",
    "100",
    "100.00001",
    "1e30",
    "1",
    "2.5",
)
DAYS = ("2020-01-31", "1949-12-31", "2021-01-01", "infinity", "-infinity", "0044-03-15 BC")
OF_TYPES: dict[str, Sequence[str]] = {
    "text": (*TEXTS, "nan(a_1)"),
    "varchar": TEXTS,
    "text COLLATE careless": TEXTS,
    "char(12)": [text for text in TEXTS if len(text) <= 12],
    "real": FLOATS,
    "double precision": (*FLOATS, "0.09999999999999999", "1e300", "9007199254740993", "1e5"),
    "smallint": ("0", "1", "-1", "9", "10", "101"),
    "bigint": ("0", "1", "-1", "10", "100000", "9007199254740993", str(2**63 - 1)),
    "numeric": (*FLOATS, "0.0999999999999999999999", "1.50", "1e400", "9007199254740993", "1e-400"),
    "boolean": ("true", "false"),
    "date": (*DAYS, "10000-01-01", "0001-01-01"),
    "timestamp": (*DAYS, "2020-12-31 23:59:59.999", "1949-12-31 23:00"),
    "timestamptz": (*DAYS, "2020-12-31 23:30+00", "2021-01-01 00:30+00", "1949-12-31 23:30+00"),
    "time": ("10:00",),
    "interval": ("1 day", "5"),
    "money": ("7", "-1"),
    "uuid": ("6f9619ff-8b86-d011-b42d-00c04fc964ff",),
    "jsonb": ("7", "[7]", '"a b"', "null", "1.50"),
    "bytea": (r"\x35", r"\x", r"\xff00", r"\x612062"),
    "int[]": ("{1,2}", "{}"),
    "oid": ("5", "4000000000"),
    "inet": ("10.0.0.1",),
    '"char"': ("1", "z"),
    "int4range": ("[1,5)",),
    "feeling": ("low", "a b", "1"),
    "above_zero": ("5", "200"),
}


def require_counts(report: CheckReport, count: Callable[[str], int]) -> set[FaultKind]:
    """Compare; gives the kinds that were found."""
    found = {
        (attribute.name, kind): each.count
        for attribute in report.attributes
        for kind, each in attribute.found.items()
    }
    assert {key: count(report.condition(*key)) for key in found} == found
    return {kind for _, kind in found}


@pytest.mark.parametrize("kind", OF_TYPES)
def test_conditions_find_in_postgresql_what_check_counts(
    postgres: PostgresServer, kind: str
) -> None:
    values = [f"'{value.replace(chr(39), chr(39) * 2)}'" for value in OF_TYPES[kind]]
    postgres.run(
        "DROP TABLE IF EXISTS conditions",
        "DROP COLLATION IF EXISTS careless",
        "CREATE COLLATION careless "
        "(provider = icu, locale = 'und-u-ks-level1', deterministic = off)",
        "DROP TYPE IF EXISTS feeling",
        "DROP DOMAIN IF EXISTS above_zero",
        "CREATE TYPE feeling AS ENUM ('low', 'a b', '1')",
        "CREATE DOMAIN above_zero AS int CHECK (VALUE > 0)",
        f"CREATE TABLE conditions ({', '.join(f'{name} {kind}' for name in NAMES)})",
        "INSERT INTO conditions VALUES "
        + ", ".join(f"({', '.join([value] * len(NAMES))})" for value in [*values, "NULL"]),
    )
    report = check_table(open_table(postgres.place(table="conditions"), SCHEMA), SCHEMA)
    # The steward's client may be set up in another way.
    with postgres.connection() as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET timezone = 'Asia/Tokyo'")
        cursor.execute("SET datestyle = 'German'")
        cursor.execute("SET bytea_output = 'escape'")
        cursor.execute("SET standard_conforming_strings = off")

        def count(condition: str) -> int:
            cursor.execute(f"SELECT count(*) FROM conditions WHERE {condition}")
            (number,) = cursor.fetchone()
            return int(number)

        kinds = require_counts(report, count)
    assert FaultKind.MISSING in kinds
    assert kinds == set(FaultKind) or kind not in {"text", "varchar", "char(12)"}


@pytest.mark.parametrize(
    "kind", ["", "TEXT", "TEXT COLLATE NOCASE", "REAL", "NUMERIC", "INTEGER", "BLOB"]
)
def test_conditions_find_in_sqlite_what_check_counts(tmp_path: Path, kind: str) -> None:
    cells: list[Any] = [*TEXTS, None, 5, 0, 1, -1, 10, 2**53 + 1, 2**63 - 1, -(2**63)]
    cells += [0.1, 0.09999999999999999, 0.1 + 0.2, 1.5, 2.5, 1.0, 0.0, -0.0, 1e5, 1e300]
    cells += [float("inf"), float("-inf"), b"5", b"", b"\xff\0", b"a b", b"1.50"]
    path = tmp_path / "rows.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name in NAMES)})")
        connection.executemany(
            f"INSERT INTO rows VALUES ({', '.join('?' * len(NAMES))})",
            [(cell,) * len(NAMES) for cell in cells],
        )
    place = DatabaseLocation("sqlite", "survey", database=path, table="rows")
    report = check_table(open_table(place, SCHEMA), SCHEMA)
    with closing(sqlite3.connect(path)) as connection:

        def count(condition: str) -> int:
            (number,) = connection.execute(
                f"SELECT count(*) FROM rows WHERE {condition}"
            ).fetchone()
            return int(number)

        assert require_counts(report, count) == set(FaultKind)


def test_other_databases_are_asked_in_standard_sql(tmp_path: Path) -> None:
    number, label = SCHEMA.attributes[0], SCHEMA.attributes[4]
    field = pa.field("x", pa.string())
    with closing(sqlite3.connect(tmp_path / "rows.db")) as connection, connection:
        connection.execute("CREATE TABLE rows (x)")
        connection.executemany("INSERT INTO rows VALUES (?)", [("low",), (" ",), (None,), ("o",)])
        for kind, expected in ((FaultKind.MISSING, 2), (FaultKind.UNKNOWN, 1)):
            where = find_anywhere(label, kind, '"x"', field)
            query = f"SELECT count(*) FROM rows WHERE {where}"
            assert connection.execute(query).fetchone() == (expected,)
    assert find_anywhere(number, FaultKind.TEXT, '"x"', field) == ""


def test_other_databases_are_given_no_backslash() -> None:
    """Snowflake, for one, takes it for an escape, so that a label would end its quotes."""
    label = next(each for each in SCHEMA.attributes if each.name == "end")
    assert find_anywhere(label, FaultKind.UNKNOWN, '"x"', pa.field("x", pa.string())) == ""
