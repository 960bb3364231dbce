"""What is sent to a database is one statement that reads."""

import pytest

from dppca.common.errors import SettingError
from dppca.owner.records.queries import require_one_statement, table_query


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
