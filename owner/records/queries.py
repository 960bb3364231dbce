"""SQL that only reads a data set's columns, made from names.

The steward's query stays one statement, inside parentheses: ``SELECT q."a" FROM (...) AS q``. So
only the columns that a schema names leave the database, and a second statement is an error of
syntax there. It is refused here before, with an explanation.

Nothing is set that the query's own result could depend on, such as the time zone or the order of
dates: it gives what it gives in a client. Only its outer columns are brought to one form. A column
is selected as it is if the driver's type for it can hold any value of the column, and as the text
that the database writes otherwise (`Dialect`). Only `dppca.common.kernel.schema.columns` interprets
a cell, from that value or text.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema.attributes import label_text

_REST: Final = r"""
  | (?P<end> ; ) | (?P<open> \( ) | (?P<close> \) ) | (?P<unclosed> /\* | ['"`] ) | (?P<other> . )
"""
_TOKENS: Final = re.compile(
    r"""
    (?P<text> (?<!\w)[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | (?<![\w$])(?P<tag>\$(?:[^\W\d]\w*)?\$).*?(?P=tag) )
  | (?P<comment> --[^\r\n]* )
    """
    + _REST.replace("`", ""),
    re.VERBOSE | re.DOTALL,
)
_SQLITE_TOKENS: Final = re.compile(
    r"""
    (?P<name> "(?:[^"]|"")*" ) | (?P<text> '(?:[^']|'')*' | `(?:[^`]|``)*` | \[[^\]]*\] )
  | (?P<comment> --[^\n]* | /\*.*?\*/ )
    """
    + _REST,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARKS: Final = re.compile(r"/\*|\*/")
_PLAIN_TYPES: Final = frozenset(
    {"bool", "int2", "int4", "int8", "float4", "float8", "bytea"} | {"text", "varchar"}
)
_AS_WRITTEN: Final = {
    # A cast gives the same text as the type's own function for output, and sooner.
    **dict.fromkeys(("numeric", "bpchar"), "CAST({0} AS text)"),
    # JSON's form of a time is the same under every setting but the zone's.
    "date": "to_json({0}) #>> '{{}}'",
    **dict.fromkeys(("timestamp", "timestamptz"), "replace(to_json({0}) #>> '{{}}', 'T', ' ')"),
    "interval": "interval_send({0})",
}
"""Expressions of PostgreSQL for types that the driver cannot hold; others use ``format``."""
_LARGEST_WHOLE: Final = 2.0**53  # from which on float64 leaves out whole numbers
_MOST_COLUMNS: Final = 999
"""Columns in one row from SQLite, which allows 2,000: two expressions for each, and a mark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """SQL of one kind of database.

    Attributes
    ----------
    begin
        Statements that make the open transaction read-only and repeatable.
    tokens
        Tokens of a statement. A ``name`` is in quotes that may also be those of a text.
    quote
        A name as an identifier, never as a text.
    expressions
        Expressions to select for a quoted column, given also its Arrow field.
    joined
        Cells of a column from its field and the arrays of its expressions.
    exact
        The same of a key's column whose cells shall each be one person; `DataError` otherwise.
    first
        A row of fixed types before all others, for drivers that take a column's type from the first
        rows; made from the number of columns, or empty. Its first value, a mark, is 0; in other
        rows it is the number of the row's part, from 1 (`read_columns`).
    most_columns
        Columns that a row of an answer can hold.
    keys
        Cells that tell people apart, from the column's field and its joined cells.
    encoding
        A query for the database's text encoding that reads no table. (Reading a table would fix the
        snapshot of the rows.)
    schema_of
        A query for the schema of a table, by the text of its quoted name; empty if a name alone
        always means the same table.
    examination
        A statement of one row: True if the server's connection leaves its machine, True if that is
        encrypted, and the number of tables and views whose rows the role may change, by itself or
        as a role that it may become. Empty if unavailable.
    unhidden, unfound
        Statements, each with an SQLSTATE by which the server refuses a query after it: if
        row-level security hides rows from it, and if it names a table without its schema.
    """

    begin: tuple[str, ...]
    tokens: re.Pattern[str]
    quote: Callable[[str], str]
    expressions: Callable[[str, pa.Field], tuple[str, ...]]
    joined: Callable[[pa.Field, Sequence[Any]], Any]
    exact: Callable[[pa.Field, Sequence[Any]], Any]
    first: Callable[[int], str] = lambda _: ""
    most_columns: int = 1 << 20
    keys: Callable[[pa.Field, Any], Any] = lambda _, cells: cells
    encoding: str = ""
    schema_of: str = ""
    examination: str = ""
    unhidden: tuple[str, str] = ("", "")
    unfound: tuple[str, str] = ("", "")


def require_one_statement(text: str, dialect: "Dialect | None" = None) -> str:
    """Query without comments and final semicolon; `SettingError` for more than one statement.

    Names in quotes that may also be those of a text are quoted as names alone. The message repeats
    nothing of it: a query may hold facts about a person.
    """
    dialect = dialect or POSTGRESQL
    kept: list[str] = []
    depth = 0
    ended = False
    for kind, token in _split(text, dialect.tokens):
        if kind == "comment":
            kept.append(" ")
            continue
        if kind == "end":
            ended = True
            continue
        if ended and not token.isspace():
            raise SettingError("the query is more than one statement: give one, which only reads")
        depth += (kind == "open") - (kind == "close")
        if depth < 0 or kind == "unclosed":
            depth = -1
            break
        kept.append(dialect.quote(token[1:-1].replace('""', '"')) if kind == "name" else token)
    statement = "".join(kept).strip()
    if depth or not statement or "\0" in statement:
        raise SettingError(
            "the query is not a statement: it is empty, or a parenthesis, a quote or a comment is "
            "not closed"
        )
    return statement


def _split(text: str, tokens: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Kind and text of each token. Comments within comments are PostgreSQL's."""
    at = 0
    while token := tokens.match(text, at):
        kind, end, depth = token.lastgroup or "", token.end(), 1
        if token[0] == "/*" and tokens is _TOKENS:
            for mark in _COMMENT_MARKS.finditer(text, end):
                depth += 1 if mark[0] == "/*" else -1
                if not depth:
                    kind, end = "comment", mark.end()
                    break
        yield kind, text[at:end]
        at = end


def quoted(name: str, mark: str = '"') -> str:
    """A name as SQL writes it, with any characters."""
    return mark + name.replace(mark, mark * 2) + mark


def table_query(name: str, schema: str = "") -> str:
    """Query for a table, by its name or ``schema.table``; capital letters count.

    With ``schema`` given, ``name`` has none.
    """
    parts = [schema, name] if schema else name.split(".")
    return f"SELECT * FROM {'.'.join(map(quoted, parts))}"


def schema_query(name: str, dialect: Dialect) -> str:
    """Query for the schema in which the database finds a table without one; no row for none."""
    text = quoted(name).replace("\\", "\\\\").replace("'", "''")
    return dialect.schema_of.format(f"E'{text}'")  # this form of a text depends on no setting


def no_rows(query: str) -> str:
    """Query for the columns without a row."""
    return f"SELECT * FROM (\n{query}\n) AS q LIMIT 0"


def count_query(query: str) -> str:
    """Query for the number of rows."""
    return f"SELECT count(*) FROM (\n{query}\n) AS q"


def share_columns(fields: Sequence[pa.Field], dialect: Dialect) -> list[Sequence[pa.Field]]:
    """Columns by the part of a row in which they come: one part, if a row can hold them all."""
    n_parts = max(1, -(-len(fields) // dialect.most_columns))
    n_each = -(-len(fields) // n_parts)
    return [fields[at : at + n_each] for at in range(0, len(fields), n_each)]


def read_columns(query: str, fields: Sequence[pa.Field], dialect: Dialect) -> str:
    """Query for some columns, each selected as `Dialect` says.

    A row with several parts (`share_columns`) comes as one row for each part, one after the other:
    the inner loop of a cross join, whose order SQLite never changes. Their marks say so, and are
    checked.
    """
    parts = [
        [e for field in part for e in dialect.expressions(f"q.{dialect.quote(field.name)}", field)]
        for part in share_columns(fields, dialect)
    ]
    first = dialect.first(len(parts[0]) // len(dialect.expressions("", fields[0]))) * len(parts)
    if len(parts) == 1:
        asked = ["1", *parts[0]] if first else parts[0]
        return f"{first}SELECT {', '.join(asked)} FROM (\n{query}\n) AS q"
    asked = ["part.column1"]
    for place in range(len(parts[0])):
        each = [(number, part[place]) for number, part in enumerate(parts, 1) if place < len(part)]
        cases = " ".join(f"WHEN {number} THEN {expression}" for number, expression in each)
        asked.append(f"CASE part.column1 {cases} END")
    numbers = ", ".join(f"({number})" for number in range(1, len(parts) + 1))
    return (
        f"{first}SELECT {', '.join(asked)} FROM (\n{query}\n) AS q "
        f"CROSS JOIN (VALUES {numbers}) AS part"
    )


def _kind(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"POSTGRESQL:type", b"").decode())


def _as_they_are(column: str, field: pa.Field) -> tuple[str, ...]:
    """Columns whose Arrow type holds every value; others, such as numeric and date, as text."""
    kind = _kind(field)
    if kind in _PLAIN_TYPES:
        return (column,)
    return (_AS_WRITTEN.get(kind, "format('%s', {0})").format(column),)


def _plain(field: pa.Field, arrays: Sequence[Any]) -> Any:
    """Cells as they came; zones and intervals as PostgreSQL writes them if nothing else is set."""
    (cells,) = arrays
    if _kind(field) == "timestamptz":
        return pc.replace_substring_regex(cells, "([+-][0-9]{2}):00( BC)?$", r"\1\2")
    if _kind(field) != "interval":
        return cells
    texts = [None if cell is None else interval_text(cell) for cell in cells.to_pylist()]
    return pa.array(texts, pa.large_string())


def _numeric_keys(field: pa.Field, cells: Any) -> Any:
    """Keys of type numeric without zeros at the end, in which equal numbers may differ."""
    if _kind(field) != "numeric":
        return cells
    return pc.replace_substring_regex(cells, r"^(-?[0-9]+\.[0-9]*[1-9])0+$", r"\1")


def interval_text(sent: bytes) -> str:
    """Text of an interval in the style ``postgres``, from its binary form of 16 bytes."""
    micros, days, months = struct.unpack(">qii", sent)
    years = abs(months) // 12 * (1 if months > 0 else -1)
    parts, before = [], False
    for value, unit in ((years, "year"), (months - 12 * years, "mon"), (days, "day")):
        if value:
            plus = "+" if before and value > 0 else ""
            parts.append(f"{plus}{value} {unit}{'' if value == 1 else 's'}")
            before = value < 0
    if micros or not parts:
        seconds, fraction = divmod(abs(micros), 1_000_000)
        sign = "-" if micros < 0 else "+" if before else ""
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(f"{sign}{clock}{f'.{fraction:06}'.rstrip('0') if fraction else ''}")
    return " ".join(parts)


def _number_and_text(column: str, _: pa.Field) -> tuple[str, ...]:
    """Real numbers, and all other cells as text: SQLite's types belong to cells, not to columns.

    A real number as text would lose digits.
    """
    return (
        f"CASE typeof({column}) WHEN 'real' THEN {column} END",
        f"CASE typeof({column}) WHEN 'real' THEN NULL ELSE CAST({column} AS TEXT) END",
    )


def _joined(_: pa.Field, arrays: Sequence[Any]) -> Any:
    """Cells with real numbers as text of the same number or label, beside the other cells' text."""
    numbers, texts = arrays
    if texts.null_count == len(texts) and not numbers.null_count:
        return numbers
    if numbers.null_count == len(numbers):
        return texts
    return _all_as_text(numbers, texts)


def _joined_key(field: pa.Field, arrays: Sequence[Any]) -> Any:
    """Cells of a key, all as text: its type must not depend on which rows a batch has."""
    numbers, texts = arrays
    largest = pc.max(pc.abs(numbers)).as_py()
    if largest is not None and largest >= _LARGEST_WHOLE:
        raise DataError(
            f"the column {field.name} has floating-point numbers of 2^53 or more, of which some "
            "stand for several people: write it as text or as whole numbers"
        )
    return _all_as_text(numbers, texts)


def _all_as_text(numbers: Any, texts: Any) -> Any:
    cells = texts.cast(pa.large_binary()).view(pa.large_string())
    # Not Arrow's own texts: a cell's meaning would depend on the presence of text beside it.
    written = [None if value is None else label_text(value) for value in numbers.to_pylist()]
    return pc.coalesce(pa.array(written, pa.large_string()), cells)


def _first_row(n_columns: int) -> str:
    return "SELECT 0" + ", 0.0, ''" * n_columns + " UNION ALL "


POSTGRESQL: Final = Dialect(
    begin=(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
        # A statement that waits for a table being emptied and refilled would see it empty or in
        # part, as of the moment when it began to wait.
        "SET LOCAL lock_timeout = '2s'",
        "SET LOCAL client_encoding = 'UTF8'",
        # Else a scan begins where another session's is, and a LIMIT gives other rows each time.
        "SET LOCAL synchronize_seqscans = off",
    ),
    tokens=_TOKENS,
    quote=quoted,
    encoding="SHOW server_encoding",
    expressions=_as_they_are,
    joined=_plain,
    exact=_plain,
    keys=_numeric_keys,
    schema_of="""
        SELECT n.nspname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid = to_regclass({})""",
    examination="""
        SELECT NOT coalesce(inet_server_addr() <<= '127.0.0.0/8', true)
                AND inet_server_addr() <> '::1',
            EXISTS (SELECT FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl)
                OR EXISTS (SELECT FROM pg_stat_gssapi WHERE pid = pg_backend_pid() AND encrypted),
            (SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
             WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname !~ '^(pg_|information_schema$)'
             AND EXISTS (SELECT FROM pg_roles AS r WHERE pg_has_role(r.oid, 'MEMBER')
                AND (r.oid = c.relowner
                OR has_table_privilege(r.oid, c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
                OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE'))))""",
    unhidden=("SET LOCAL row_security = off", "42501"),
    unfound=("SET LOCAL search_path = pg_catalog", "42P01"),
)
SQLITE: Final = Dialect(
    begin=(),
    tokens=_SQLITE_TOKENS,
    quote=lambda name: quoted(name, "`"),
    expressions=_number_and_text,
    joined=_joined,
    exact=_joined_key,
    first=_first_row,
    most_columns=_MOST_COLUMNS,
)
