"""SQL that reads a data set's columns, made from names alone: nothing is sent but reading.

The steward's query stays one statement, inside of parentheses: ``SELECT "a", "b" FROM (...) AS
q``. So only the columns that a schema names leave the database, and a second statement is an error
of syntax there. Here it is refused before, to say so in words.

Columns are asked for as they are where the driver's type for them can hold any value of the
column, and as text otherwise (`Dialect`). What a cell means is decided by
`dppca.common.schema.columns` alone, from that value or text.
"""

from __future__ import annotations

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
    """How one database is asked.

    Attributes
    ----------
    begin
        What makes the transaction that is open already read-only and repeatable, and its texts
        the same for every role.
    expressions
        From a quoted column and its Arrow field to what is selected for it.
    joined
        From what was selected for a column to its cells.
    first
        A row of fixed types before all others, for drivers that take a column's type from the first
        rows; from the number of columns, or empty. Its first value is 1, and 0 in all other rows.
    encoding
        A question that looks into no table: how the database writes texts. (A look into a table
        would settle as of when the rows are.)
    examination
        A statement of one row: whether the connection leaves this machine, whether it is encrypted,
        and how many tables and views the role may change rows of. Empty where it cannot be said.
    """

    begin: tuple[str, ...]
    expressions: Callable[[str, pa.Field], tuple[str, ...]]
    joined: Callable[[Sequence[Any]], Any] = lambda arrays: arrays[0]
    first: Callable[[int], str] = lambda _: ""
    encoding: str = ""
    examination: str = ""


def require_one_statement(text: str) -> str:
    """A query without what follows its end; `SettingError` where more than one statement is there.

    The message repeats nothing of it: a query may hold what is known of a person.
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
        raise SettingError("the query is no statement: it is empty, or a parenthesis is open")
    return statement


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def table_query(name: str) -> str:
    """The query for a table, by its name or ``schema.table``; capital letters count."""
    return f"SELECT * FROM {'.'.join(quoted(part) for part in name.split('.'))}"


def no_rows(query: str) -> str:
    """The query's columns without a row."""
    return f"SELECT * FROM (\n{query}\n) AS q LIMIT 0"


def count_rows(query: str) -> str:
    """How many rows the query has."""
    return f"SELECT count(*) FROM (\n{query}\n) AS q"


def read_columns(query: str, fields: Sequence[pa.Field], dialect: Dialect) -> str:
    """The query's columns of some names, as `Dialect` asks for each."""
    asked = [e for field in fields for e in dialect.expressions(quoted(field.name), field)]
    first = dialect.first(len(fields))
    marked = ["0", *asked] if first else asked
    return f"{first}SELECT {', '.join(marked)} FROM (\n{query}\n) AS q"


def _as_they_are(column: str, field: pa.Field) -> tuple[str, ...]:
    """Types whose Arrow type holds every value; the others, such as numeric and date, as text."""
    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    return (column if kind in _PLAIN_TYPES else f"CAST({column} AS text)",)


def _number_and_text(column: str, _: pa.Field) -> tuple[str, ...]:
    """SQLite's types are of cells, not of columns: real numbers, and all else as text.

    A real number as text would lose digits.
    """
    return (
        f"CASE typeof({column}) WHEN 'real' THEN {column} END",
        f"CASE typeof({column}) WHEN 'real' THEN NULL ELSE CAST({column} AS TEXT) END",
    )


def _joined(arrays: Sequence[Any]) -> Any:
    """Real numbers as text that means the same number or label, beside the other cells' text."""
    numbers, texts = arrays
    if texts.null_count == len(texts) and not numbers.null_count:
        return numbers
    if numbers.null_count == len(numbers):
        return texts
    cells = texts.cast(pa.large_binary()).view(pa.large_string())
    # Not Arrow's own texts: what a cell is would depend on whether there is text beside it.
    written = [None if value is None else label_text(value) for value in numbers.to_pylist()]
    return pc.coalesce(pa.array(written, pa.large_string()), cells)


def _first_row(n_columns: int) -> str:
    return "SELECT 1" + ", 0.0, ''" * n_columns + " UNION ALL "


POSTGRESQL: Final = Dialect(
    begin=(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        # What waits for a table that is emptied and filled again would see it empty, or parts of
        # it, as of the moment when it began to wait.
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
