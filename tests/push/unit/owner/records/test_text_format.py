"""What a site may say of how its text files are written."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from dppca.owner.records.text_format import TextFormat
from dppca.owner.site.file_forms import parse_document
from dppca.owner.site.format_document import FormatDocument

GERMAN = TextFormat(";", ",", ".", "DD.MM.YYYY", ("-", "k.A."))


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"delimiter": ":"}, "comma, semicolon, tab or bar"),
        ({"decimal": ";"}, "a point or a comma"),
        ({"thousands": "_"}, "a point, a comma, an apostrophe or a blank"),
        ({"decimal": ",", "thousands": ","}, "decimal and thousands are both"),
        ({"thousands": "."}, "decimal and thousands are both"),
        ({"dates": "DD.MM.YY"}, "two digits"),
        ({"missing": (" ",)}, "empty cell is missing as it is"),
        ({"missing": ("-99",)}, "is a number, and a study says which numbers mean missing"),
        ({"missing": ("1,5",), "decimal": ",", "delimiter": ";"}, "is a number"),
        ({"missing": ("2020-01-31",)}, "is a date"),
        ({"missing": ("31.12.1999",), "dates": "DD.MM.YYYY"}, "is a date"),
    ],
)
def test_a_format_in_which_a_cell_has_two_meanings_is_refused(
    said: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        TextFormat(**said)


@pytest.mark.parametrize(
    "form",
    [
        TextFormat(),
        GERMAN,
        TextFormat("\t", thousands=" ", dates="seconds since 1582-10-14"),
        TextFormat(",", ","),
        TextFormat("|", thousands="'", missing=("no", "DD.MM.YYYY", 'a "b"', "null", "#", "x: y")),
    ],
)
def test_a_format_is_the_same_after_json_and_as_a_line_of_the_policy(form: TextFormat) -> None:
    assert TextFormat.from_document(json.loads(json.dumps(asdict(form)))) == form
    assert parse_document(form.to_yaml(), FormatDocument, "format").read() == form
