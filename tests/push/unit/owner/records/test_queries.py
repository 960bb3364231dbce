"""What is sent to a database is one statement that reads."""

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.owner.records.queries import (
    POSTGRESQL,
    SQLITE,
    interval_text,
    require_one_statement,
    table_query,
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1; SELECT 2",
        "SELECT 1) AS q; DROP TABLE rows; --",
        "SELECT 1) AS q UNION SELECT (2",
        "SELECT 1;; x",
        "SELECT (1",
        "",
        "-- SELECT 1",
        "/* SELECT 1 */ ;",
        "SELECT 1 /* open /* inner */",
        "SELECT 'open",
        'SELECT "open',
    ],
)
def test_more_or_less_than_one_statement_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(SettingError) as refused:
        require_one_statement(text)
    assert "SELECT" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT 1;", "SELECT 1"),
        ("SELECT 1 -- one; two\n ; /* ) */ ", "SELECT 1"),
        ("SELECT ';)' , \";(\" , $$;)$$, $a$ $$;) $a$, 'it''s;'", None),
        ("WITH q AS (SELECT 1 AS x) SELECT x FROM q", None),
        ("SELECT f((1), '(')", None),
        (r"SELECT E'\' --' AS a, e'it\\' AS b, ';' AS c, DATE'2020-01-31' AS d", None),
    ],
)
def test_one_statement_is_kept_without_its_end_and_comments(text: str, kept: str | None) -> None:
    assert " ".join(require_one_statement(text).split()) == " ".join((kept or text).split())


def test_a_table_is_named_with_its_schema() -> None:
    assert table_query('omop.per"son') == 'SELECT * FROM "omop"."per""son"'
    assert table_query("people", "a.b") == 'SELECT * FROM "a.b"."people"'


@pytest.mark.parametrize(
    ("text", "kept", "in_sqlite"),
    [
        ("a /* 1 /* 2 */ b */ c", "a c", "a b */ c"),
        ("a /* /* /* */ */ b */ c */ d", "a c */ d", "a */ b */ c */ d"),
        ("a -- b\rc", "a c", "a"),
        ("a -- b /* c\nd */ e", "a d */ e", "a d */ e"),
        ("a [b;'] c", None, "a [b;'] c"),
        ("a `b;)` c", None, "a `b;)` c"),
        ("a x$y$ b", "a x$y$ b", "a x$y$ b"),
        ("a $é$ ;) $é$ b", "a $é$ ;) $é$ b", None),
        ('a "b""c`d" e', 'a "b""c`d" e', 'a `b"c``d` e'),
    ],
)
def test_tokens_are_those_of_the_database(
    text: str, kept: str | None, in_sqlite: str | None
) -> None:
    for dialect, expected in ((POSTGRESQL, kept), (SQLITE, in_sqlite)):
        if expected is None:
            with pytest.raises(SettingError):
                require_one_statement(text, dialect)
        else:
            assert " ".join(require_one_statement(text, dialect).split()) == expected


@pytest.mark.parametrize(
    ("micros", "days", "months", "text"),
    [
        (0, 0, 0, "00:00:00"),
        (0, 1, 0, "1 day"),
        (-11_045_500_000, 2, -1, "-1 mons +2 days -03:04:05.5"),
        (1_000_000, -1, 14, "1 year 2 mons -1 days +00:00:01"),
        (90_061_000_001, 0, -12, "-1 years +25:01:01.000001"),
    ],
)
def test_an_interval_is_written_in_one_style(
    micros: int, days: int, months: int, text: str
) -> None:
    sent = b"".join(
        value.to_bytes(size, "big", signed=True)
        for value, size in ((micros, 8), (days, 4), (months, 4))
    )
    assert interval_text(sent) == text
