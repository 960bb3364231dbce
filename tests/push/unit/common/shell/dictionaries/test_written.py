"""How files are written is a line for a site's policy, where a dictionary says one way."""

from typing import Any

import pytest

from dppca.common.shell.dictionaries.written import date_form, written_fields


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("%d/%m/%Y", "DD/MM/YYYY"),
        ("fmt:%-d.%-m.%Y", "D.M.YYYY"),
        ("%Y%m%d", "YYYYMMDD"),
        ("%d-%b-%Y", "DD-MON-YYYY"),
        ("%d.%m.%Y %H:%M:%S", "DD.MM.YYYY"),
        ("%Y-%m-%dT%H:%M", "YYYY-MM-DD"),
        *[(odd, None) for odd in ("%d/%m/%y", "%d/%m", "%Y-%m-%d-", "%d %d %Y", "any", "%x", "")],
    ],
)
def test_a_pattern_of_dates_is_a_form_of_the_policy_or_none(pattern: str, form: str | None) -> None:
    assert date_form(pattern) == form


@pytest.mark.parametrize(
    ("fields", "dialect", "written", "said"),
    [
        ([{"type": "number"}, {"type": "date"}], None, {}, ""),
        (
            [{"type": "number", "decimalChar": ",", "groupChar": "."}, {"type": "integer"}],
            {"delimiter": ";"},
            {"delimiter": ";", "decimal": ",", "thousands": "."},
            "",
        ),
        ([{"type": "date", "format": "%d.%m.%Y"}] * 2, {}, {"dates": "DD.MM.YYYY"}, ""),
        ([{"type": "number", "decimalChar": ","}, {"type": "number"}], {}, {}, "decimal differs"),
        ([{"type": "date", "format": "%d/%m/%y"}], {}, {}, "no word in a policy"),
        ([{"type": "string", "format": "%d/%m/%y", "decimalChar": ","}], {}, {}, ""),
        ([], {"header": False}, {}, "header is left aside"),
        ([], {"delimiter": ":"}, {}, "delimiter is ':'"),
        ([{"type": "number", "decimalChar": "·"}], None, {}, "decimal is '·'"),
        ([{"type": "number", "groupChar": "\u202f"}], None, {"thousands": " "}, ""),
        ([{"type": "number", "groupChar": "."}], None, {}, "are one character"),
        (
            [{"type": "number", "decimalChar": ","}],
            {"delimiter": "\t"},
            {"delimiter": "\t", "decimal": ","},
            "",
        ),
    ],
)
def test_what_all_columns_say_is_written_and_the_rest_is_noted(
    fields: list[dict[str, Any]], dialect: Any, written: dict[str, str], said: str
) -> None:
    found, notes = written_fields([{"name": "x", **each} for each in fields], {"dialect": dialect})
    assert found == written
    assert (said in " ".join(notes)) if said else not notes


@pytest.mark.parametrize(
    ("resource", "delimiter"),
    [
        ({"format": "tsv"}, "\t"),
        ({"path": "rows.TSV.gz"}, "\t"),
        ({"path": "rows.tsv", "dialect": {"delimiter": "|"}}, "|"),
        ({"path": ["rows.tsv"]}, None),
        ({"path": "rows.csv", "format": "csv"}, None),
    ],
)
def test_a_resource_of_tabs_is_separated_by_tabs_unless_it_says_other(
    resource: dict[str, Any], delimiter: str | None
) -> None:
    assert written_fields([], resource)[0].get("delimiter") == delimiter
