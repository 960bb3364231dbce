"""The condition of SQL that finds rows at fault, made from the schema alone.

It is for the steward's own client, behind ``WHERE``, whatever that session's settings and the
column's collation are. Labels are another's words: one that ended its quotes would be a statement
in the steward's name, and there are sessions in which a backslash escapes a quote. It finds the
rows that `dppca.owner.records.check` counts, because it says in SQL what
`dppca.common.schema.columns` says of a cell: ``t`` is the cell's text without outer blanks, ``n``
and ``v`` its number, NULL where it is none.

Limits: blanks outside of ASCII are characters of the text, SQLite does not know ``nan(...)``,
numbers below 1e-300 count as 0, and labels that are numbers such as ``inf`` and ``1e-05`` are found
by their own text alone or in one spelling too many.
For databases without a dialect of their own there is a condition for missing values and labels
alone, which takes text as it is; no such condition has a backslash, whose meaning differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from dppca.common.schema import Attribute
from dppca.common.schema.attributes import Date, Numeric, label_text, list_labels
from dppca.owner.records.faults import FaultKind

_LARGEST: Final = "1.7976931348623157e308"
_INFINITE: Final = "1.7976931348623158079e308"  # from here on float64 rounds to infinity
_TINY: Final = "1e-300"  # PostgreSQL makes no float of much less
_INTEGERS: Final = frozenset({"int2", "int4", "int8"})
_DAYS: Final = {
    "date": "{column}",
    "timestamp": "CAST({column} AS date)",
    "timestamptz": "CAST({column} AT TIME ZONE 'UTC' AS date)",
}
_BY_BYTES: Final = 'COLLATE "C"'  # others may take two texts for one, or know no patterns
_POSTGRESQL_TEXT: Final = rf"SELECT BTRIM({{text}}, E' \t\n\v\f\r') {_BY_BYTES} AS t"
_SQLITE_TEXT: Final = "SELECT TRIM(CAST({column} AS TEXT), ' ' || CHAR(9, 10, 11, 12, 13)) AS t"
_EMPTY: Final = "t = ''"
_NAN: Final = "t ~* '^[+-]?nan([(][0-9a-z_]*[)])?$'"
_INFINITY: Final = "t ~* '^[+-]?inf(inity)?$'"
_NUMBER: Final = "t ~* '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?$'"
# Exponents of five digits and more have no value of type numeric.
_NUMERIC: Final = (
    f"SELECT t, CASE WHEN {_NUMBER} THEN CASE WHEN t !~* 'e[+-]?0*[1-9][0-9]{{4}}' "
    "THEN CAST(t AS numeric) WHEN t ~* 'e-|^[^1-9]*e' THEN 0 ELSE 1e999 END END AS n"
)
_FLOAT: Final = (
    f"SELECT t, n, CASE WHEN ABS(n) < {_TINY} THEN 0 WHEN ABS(n) < {_INFINITE} "
    "THEN CAST(n AS double precision) END AS v"
)
_WRITTEN: Final = "'^-?((0|[1-9][0-9]*)[.][0-9]*|[0-9]([.][0-9]+)?e[+-][0-9]{1,3})$'"
_DATED: Final = "'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([T ]|$)'"
_POSTGRESQL_DAY: Final = (
    f"SELECT t, CASE WHEN t ~ {_DATED} AND t !~ '^0000|.* BC$' THEN "
    "CASE WHEN CAST(SUBSTR(t, 9, 2) AS int) <= DATE_PART('day', CAST(SUBSTR(t, 1, 7) || '-01' "
    "AS date) + INTERVAL '1 month' - INTERVAL '1 day') THEN SUBSTR(t, 1, 10) END END AS d"
)
_SQLITE_NUMBER: Final = (
    "SELECT t, is_real, CASE WHEN is_real THEN r WHEN t GLOB '*[0-9]*' AND t = CAST(t AS NUMERIC) "
    "THEN CAST(t AS REAL) END AS v"
)
_SQLITE_EXPONENT: Final = "t GLOB '*e[-+][0-9]*' AND NOT t GLOB '*e[-+][0-9][0-9][0-9][0-9]*'"
_SQLITE_DAY: Final = (
    "SELECT t, CASE WHEN DATE(SUBSTR(t, 1, 10), '+0 days') = SUBSTR(t, 1, 10) AND t >= '0001' "
    "AND SUBSTR(t, 11, 1) IN ('', 'T', ' ') AND t NOT LIKE '% BC' THEN SUBSTR(t, 1, 10) END AS d"
)


def find_in_postgresql(attribute: Attribute, kind: FaultKind, column: str, field: pa.Field) -> str:
    """A condition that finds a kind of fault in PostgreSQL; empty where there can be none.

    Parameters
    ----------
    column
        Its name, quoted.
    field
        As the driver describes it: with PostgreSQL's name of the type.
    """
    named = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    labels = list_labels(attribute)
    if named in _INTEGERS or named in {"float4", "float8", "bool"}:
        return _of_plain(attribute, kind, column, named)
    if named in _DAYS and (isinstance(attribute, Date) or named == "date"):
        return _of_days(attribute, kind, column, _DAYS[named].format(column=column))
    text = f"ENCODE({column}, 'escape')" if named == "bytea" else f"CAST({column} AS text)"
    cell = _POSTGRESQL_TEXT.format(text=text)
    if isinstance(attribute, Date):
        dated = _over(_POSTGRESQL_DAY, cell)
        return _of_text_days(attribute, kind, column, cell, dated, nan=_NAN)
    if labels is not None:
        numbers = _floats(labels)
        spelled = f"t ~ {_WRITTEN} AND CAST(t AS numeric) IN ({', '.join(numbers)})"
        known = _known(labels, spelled if numbers else "", _escaped)
        return _of_labels(kind, column, cell, known, nan=_NAN)
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL OR " + _asked(f"{_EMPTY} OR {_NAN}", cell)
    if kind is FaultKind.TEXT:
        return _asked(f"NOT ({_EMPTY} OR {_NAN} OR {_INFINITY} OR {_NUMBER})", cell)
    numeric = _over(_NUMERIC, cell)
    if kind is FaultKind.INFINITE:
        return _asked(f"{_INFINITY} OR COALESCE(ABS(n) >= {_INFINITE}, false)", numeric)
    return _asked(_outside(attribute, "v"), _over(_FLOAT, numeric))


def find_in_sqlite(attribute: Attribute, kind: FaultKind, column: str, _: pa.Field) -> str:
    """As `find_in_postgresql`; each cell has a type of its own."""
    labels = list_labels(attribute)
    cell = _SQLITE_TEXT.format(column=column)
    typed = f"{cell}, {column} AS r, TYPEOF({column}) = 'real' AS is_real"
    nan = "LOWER(t) IN ('nan', '+nan', '-nan')"
    infinity = "LOWER(LTRIM(t, '+-')) IN ('inf', 'infinity')"
    if isinstance(attribute, Date):
        dated = _over(_SQLITE_DAY, cell)
        return _of_text_days(attribute, kind, column, cell, dated, nan=nan)
    if labels is not None:
        numbers = _floats(labels)
        known = _known(labels, "", _texts)
        if numbers:
            listed, zero = ", ".join(numbers), ("-0",) if "0" in numbers else ()
            known = (
                f"CASE WHEN is_real THEN v IN ({listed}) WHEN {known} THEN 1 WHEN v IS NULL THEN 0 "
                f"WHEN t GLOB '*e*' THEN {_SQLITE_EXPONENT} AND v IN ({listed}) "
                f"WHEN t GLOB '*[0-9].*' THEN RTRIM(RTRIM(t, '0'), '.') IN "
                f"({_texts((*numbers, *zero))}) ELSE 0 END"
            )
        return _of_labels(kind, column, _over(_SQLITE_NUMBER, typed), known, nan=nan)
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL OR " + _asked(f"{_EMPTY} OR {nan}", cell)
    number = _over(_SQLITE_NUMBER, typed)
    if kind is FaultKind.TEXT:
        return _asked(f"v IS NULL AND NOT ({_EMPTY} OR {nan} OR {infinity})", number)
    if kind is FaultKind.INFINITE:
        return _asked(f"{infinity} OR COALESCE(ABS(v) > {_LARGEST}, 0)", number)
    return _asked(f"ABS(v) <= {_LARGEST} AND ({_outside(attribute, 'v')})", number)


def find_anywhere(attribute: Attribute, kind: FaultKind, column: str, _: pa.Field) -> str:
    """As `find_in_postgresql`, in standard SQL: missing values and labels, by their text."""
    text = f"TRIM(CAST({column} AS VARCHAR))"
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL OR {text} IN ('', 'NaN')"
    labels = list_labels(attribute)
    if labels is None or "\\" in "".join(labels):
        return ""
    return f"{text} NOT IN ({_texts((*labels, '', 'NaN'))})"


def _of_plain(attribute: Attribute, kind: FaultKind, column: str, named: str) -> str:
    """Of PostgreSQL's integers, floats and truth values, which need no look at text."""
    is_float = named.startswith("float")
    labels = list_labels(attribute)
    if kind is FaultKind.MISSING:
        no_day = isinstance(attribute, Date)  # a number is no date, whichever it is
        return f"{column} IS NULL" + (f" OR {column} = 'NaN'" if is_float and not no_day else "")
    if labels is None and (named == "bool" or isinstance(attribute, Date)):
        return f"{column} IS NOT NULL"
    if labels is not None:
        if named == "bool":
            return f"CAST({column} AS text) NOT IN ({_escaped(labels)})"
        numbers = _floats(labels) if is_float else _wholes(labels)
        # The label of a narrow float is its shortest text, not that of its double.
        value = f"CAST(CAST({column} AS text) AS float8)" if named == "float4" else column
        parts = [f"{value} NOT IN ({', '.join(numbers)})"] if numbers else []
        parts.append(f"{column} <> 'NaN'" if is_float else f"{column} IS NOT NULL")
        return " AND ".join(parts)
    if kind is FaultKind.INFINITE:
        return f"{column} IN ('Infinity', '-Infinity')"
    value = f"CAST({column} AS double precision)"
    outside = _outside(attribute, value)
    return (
        f"{column} NOT IN ('NaN', 'Infinity', '-Infinity') AND ({outside})" if is_float else outside
    )


def _of_days(attribute: Attribute, kind: FaultKind, column: str, day: str) -> str:
    """Of PostgreSQL's dates and times."""
    said = f"{day} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    labels = list_labels(attribute)
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL"
    if isinstance(attribute, Date):
        if kind is FaultKind.TEXT:
            return f"NOT ({said})"
        lower, upper = map(attribute.format_value, attribute.bounds)
        return f"{said} AND ({day} < DATE '{lower}' OR {day} > DATE '{upper}')"
    if labels is not None:
        return f"TO_CHAR({column}, 'YYYY-MM-DD') NOT IN ({_escaped(labels)}) OR NOT ({said})"
    finite = f"ISFINITE({column})"  # infinity is a word for a number, too
    return f"NOT {finite}" if kind is FaultKind.INFINITE else finite


def _of_text_days(
    attribute: Date, kind: FaultKind, column: str, cell: str, dated: str, *, nan: str
) -> str:
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL OR " + _asked(f"{_EMPTY} OR {nan}", cell)
    if kind is FaultKind.TEXT:
        return _asked(f"d IS NULL AND NOT ({_EMPTY} OR {nan})", dated)
    lower, upper = map(attribute.format_value, attribute.bounds)
    return _asked(f"d < '{lower}' OR d > '{upper}'", dated)


def _of_labels(kind: FaultKind, column: str, cell: str, known: str, *, nan: str) -> str:
    if kind is FaultKind.MISSING:
        return f"{column} IS NULL OR " + _asked(f"{_EMPTY} OR {nan} AND NOT ({known})", cell)
    return _asked(f"NOT ({_EMPTY} OR {nan} OR {known})", cell)


def _known(labels: Sequence[str], spelled: str, write: Callable[[Sequence[str]], str]) -> str:
    """That ``t`` is a label, or what CSV writers make of one; ``write`` makes texts of SQL."""
    truth = [label for label in labels if label in {"true", "false"}]
    parts = [f"t IN ({write(labels)})"]
    if truth:
        parts.append(f"LOWER(t) IN ({_texts(truth)})")
    return " OR ".join([*parts, spelled] if spelled else parts)


def _floats(labels: Sequence[str]) -> list[str]:
    """The labels that floats have."""

    def is_float(label: str) -> bool:
        try:
            number = float(label)
        except ValueError:
            return False
        return math.isfinite(number) and label == label_text(number)

    return list(filter(is_float, labels))


def _wholes(labels: Sequence[str]) -> list[str]:
    """The labels that integers have."""
    return [each for each in labels if re.fullmatch("0|-?[1-9][0-9]*", each)]


def _outside(attribute: Attribute, value: str) -> str:
    assert isinstance(attribute, Numeric)  # noqa: S101 - labels have no bounds
    lower = "" if attribute.lower is None else f"{value} < {attribute.lower!r}"
    upper = "" if attribute.upper is None else f"{value} > {attribute.upper!r}"
    return " OR ".join(filter(None, (lower, upper)))


def _texts(values: Sequence[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def _escaped(values: Sequence[str]) -> str:
    """As `_texts`, for PostgreSQL, where settings decide on a backslash unless an E is there."""
    written = (_texts([value.replace("\\", "\\\\")]) for value in values)
    return ", ".join("E" * ("\\" in text) + text for text in written)


def _over(selected: str, inner: str) -> str:
    return f"{selected} FROM ({inner}) AS q"


def _asked(condition: str, cell: str) -> str:
    """A condition on what is selected of a cell."""
    return f"(SELECT {condition} FROM ({cell}) AS q)"  # noqa: S608 - names are quoted
