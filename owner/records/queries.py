"""SQL that only reads a data set's columns, made from names.

The steward's query stays one statement, inside parentheses: ``SELECT "a", "b" FROM (...) AS q``. So
only the columns that a schema names leave the database, and a second statement is an error of
syntax there. It is refused here before, with an explanation.

A column is selected as it is if the driver's type for it can hold any value of the column, and as
text otherwise (`Dialect`). Only `dppca.common.schema.columns` interprets a cell, from that value or
text.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.errors import SettingError
from dppca.common.schema.attributes import label_text

_TOKENS: Final = re.compile(
    r"""
    (?P<text> (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag) )
  | (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<end> ; )
  | (?P<open> \( )
  | (?P<close> \) )
  | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_TYPES: Final = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "bytea"} | {"text", "varchar"}
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """SQL of one kind of database.

    Attributes
    ----------
    begin
        Statements that make the open transaction read-only and repeatable, and its texts the same
        for every role.
    expressions
        Expressions to select for a quoted column, given also its Arrow field.
    joined
        Cells of a column from the arrays of its expressions.
    first
        A row of fixed types before all others, for drivers that take a column's type from the first
        rows; made from the number of columns, or empty. Its first value is 1, and 0 in all other
        rows.
    encoding
        A query for the database's text encoding that reads no table. (Reading a table would fix the
        snapshot of the rows.)
    examination
        A statement of one row: True if the connection leaves this machine, True if it is encrypted,
        and the number of tables and views whose rows the role may change. Empty if unavailable.
    """

    begin: tuple[str, ...]
    expressions: Callable[[str, pa.Field], tuple[str, ...]]
    joined: Callable[[Sequence[Any]], Any] = lambda arrays: arrays[0]
    first: Callable[[int], str] = lambda _: ""
    encoding: str = ""
    examination: str = ""


def require_one_statement(text: str) -> str:
    """Query without comments and final semicolon; `SettingError` for more than one statement.

    The message repeats nothing of it: a query may hold facts about a person.
    """
    kept: list[str] = []
    depth = 0
    ended = False
    for token in _TOKENS.finditer(text):
        if token["comment"]:
            kept.append(" ")
            continue
        if token["end"]:
            ended = True
            continue
        if ended and not token[0].isspace():
            raise SettingError("the query is more than one statement: give one, which only reads")
        depth += bool(token["open"]) - bool(token["close"])
        if depth < 0:
            break
        kept.append(token[0])
    statement = "".join(kept).strip()
    if depth or not statement or "\0" in statement:
        raise SettingError(
            "the query is not a statement: it is empty, or a parenthesis is not closed"
        )
    return statement


def quoted(name: str) -> str:
    """A name as SQL writes it, with any characters."""
    return '"' + name.replace('"', '""') + '"'


def table_query(name: str) -> str:
    """Query for a table, by its name or ``schema.table``; capital letters count."""
    return f"SELECT * FROM {'.'.join(quoted(part) for part in name.split('.'))}"


def no_rows(query: str) -> str:
    """Query for the columns without a row."""
    return f"SELECT * FROM (\n{query}\n) AS q LIMIT 0"


def count_rows(query: str) -> str:
    """Query for the number of rows."""
    return f"SELECT count(*) FROM (\n{query}\n) AS q"


def read_columns(query: str, fields: Sequence[pa.Field], dialect: Dialect) -> str:
    """Query for some columns, each selected as `Dialect` says."""
    asked = [e for field in fields for e in dialect.expressions(quoted(field.name), field)]
    first = dialect.first(len(fields))
    marked = ["0", *asked] if first else asked
    return f"{first}SELECT {', '.join(marked)} FROM (\n{query}\n) AS q"


def _as_they_are(column: str, field: pa.Field) -> tuple[str, ...]:
    """Columns whose Arrow type holds every value; others, such as numeric and date, as text."""
    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    return (column if kind in _PLAIN_TYPES else f"CAST({column} AS text)",)


def _number_and_text(column: str, _: pa.Field) -> tuple[str, ...]:
    """Real numbers, and all other cells as text: SQLite's types belong to cells, not to columns.

    A real number as text would lose digits.
    """
    return (
        f"CASE typeof({column}) WHEN 'real' THEN {column} END",
        f"CASE typeof({column}) WHEN 'real' THEN NULL ELSE CAST({column} AS TEXT) END",
    )


def _joined(arrays: Sequence[Any]) -> Any:
    """Cells with real numbers as text of the same number or label, beside the other cells' text."""
    numbers, texts = arrays
    if texts.null_count == len(texts) and not numbers.null_count:
        return numbers
    if numbers.null_count == len(numbers):
        return texts
    cells = texts.cast(pa.large_binary()).view(pa.large_string())
    # Not Arrow's own texts: a cell's meaning would depend on the presence of text beside it.
    written = [None if value is None else label_text(value) for value in numbers.to_pylist()]
    return pc.coalesce(pa.array(written, pa.large_string()), cells)


def _first_row(n_columns: int) -> str:
    return "SELECT 1" + ", 0.0, ''" * n_columns + " UNION ALL "


POSTGRESQL: Final = Dialect(
    begin=(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        # A statement that waits for a table being emptied and refilled would see it empty or in
        # part, as of the moment when it began to wait.
        "SET LOCAL lock_timeout = '2s'",
        "SET LOCAL client_encoding = 'UTF8'",
        "SET LOCAL datestyle = 'ISO, YMD'",
        "SET LOCAL intervalstyle = 'postgres'",
        "SET LOCAL timezone = 'UTC'",
        "SET LOCAL extra_float_digits = 1",
    ),
    encoding="SHOW server_encoding",
    expressions=_as_they_are,
    examination="""
        SELECT NOT coalesce(inet_server_addr() <<= '127.0.0.0/8', true)
                AND inet_server_addr() <> '::1',
            EXISTS (SELECT FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl)
                OR EXISTS (SELECT FROM pg_stat_gssapi WHERE pid = pg_backend_pid() AND encrypted),
            (SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
             AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))""",
)
SQLITE: Final = Dialect(
    begin=(),
    expressions=_number_and_text,
    joined=_joined,
    first=_first_row,
)
