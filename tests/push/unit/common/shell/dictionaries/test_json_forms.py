"""What a Frictionless schema says of cells is in the draft, or said to be left aside."""

from typing import Any

import pytest

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.dictionaries.dictionary import Dictionary
from dppca.common.shell.dictionaries.json_forms import read_json
from dppca.curator.planning.study_draft import Choices, draft_study, open_places, policy_format

AGE = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}}
BMI = {"name": "bmi", "type": "number", "constraints": {"minimum": 10, "maximum": 60}}
SAID = Choices("trial", ("a", "b"), "1.0", None, 1)


def schema_of(dictionary: Dictionary) -> dict[str, Any]:
    document: Any = load_yaml(draft_study(dictionary, SAID, source="x"))
    return {each["name"]: each for each in document["schema"].pop("attributes")} | {
        "": document["schema"]
    }


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (["", "-99", "NA"], {"-99": "", "NA": ""}),
        ([{"value": "-99", "label": "Refused"}, {"value": ""}], {"-99": "Refused"}),
        (["-99", -99, "-99.0", None], {"-99": ""}),
    ],
)
def test_missing_values_of_the_schema_are_the_studys(
    codes: list[object], expected: dict[str, str]
) -> None:
    sex = {"name": "sex", "type": "integer", "missingValues": ["9"]}
    sex["categories"] = [{"value": 1, "label": "m"}, {"value": 2}, {"value": 9, "label": "?"}]
    document = {"fields": [AGE, sex, {**BMI, "missingValues": [""]}], "missingValues": codes}
    dictionary = read_json(document)
    found = schema_of(dictionary)
    assert found[""]["missing_values"] == expected
    assert "missing_values" not in found["age"]
    assert found["bmi"]["missing_values"] == {}
    assert found["sex"] == {
        "name": "sex",
        "type": "binary",
        "missing_values": {"9": ""},
        "values": ["1", "2"],
        "description": "1 = m; 9 = ?",
    }
    assert "sex: 9 is listed as a label and as missing; it counts as missing" in dictionary.notes
    study = study_from_yaml(draft_study(dictionary, SAID, source="x"))
    assert dict(study.table.attributes[0].missing_values or ()) == expected


def test_a_resource_is_read_and_its_dialect_is_the_sites() -> None:
    resource = {
        "name": "p",
        "type": "table",
        "path": "p.csv",
        "encoding": "iso8859-1",
        "dialect": {"csv": {"delimiter": ";", "quoteChar": '"', "commentChar": "#"}},
        "schema": {"fields": [AGE, BMI]},
    }
    for document in (resource, {"resources": [resource]}):
        dictionary = read_json(document)
        assert [each.name for each in dictionary.entries] == ["age", "bmi"]
        assert policy_format(dictionary) == 'format: {delimiter: ";"}'
        assert dictionary.notes == (
            "the dialect: commentChar is left aside; see how rows of CSV are read",
            "the encoding is iso8859-1: save the rows in UTF-8",
        )
    assert policy_format(read_json({**resource, "dialect": {"delimiter": ","}})) == ""
    with pytest.raises(SettingError, match="in a file of its own"):
        read_json({**resource, "schema": "schema.json"})


def test_bounds_that_are_beyond_and_columns_that_tell_rows_apart() -> None:
    beyond = {"exclusiveMinimum": 0, "exclusiveMaximum": 10}
    fields = [
        {"name": "id", "type": "integer"},
        {"name": "code", "type": "integer", "constraints": {"unique": True}},
        {"name": "n", "type": "integer", "constraints": beyond},
        {"name": "x", "type": "number", "constraints": beyond},
    ]
    dictionary = read_json({"fields": fields, "primaryKey": "id", "foreignKeys": [{}]})
    bounds = [(each.lower, each.upper) for each in dictionary.entries]
    assert bounds == [("1", "9"), ("0", "10")]
    assert [each.reason for each in dictionary.omitted] == ["each row has its own"] * 2
    assert dictionary.notes == ("foreignKeys is left aside",)
    both = read_json({"fields": fields, "primaryKey": ["id", "n"]})
    assert both.notes == (
        "the columns of primaryKey tell rows apart: leave out what names a person",
    )


def test_what_no_study_can_hold_is_said() -> None:
    rules = {"required": True, "pattern": "x", "unique": False, "minimum": 0, "maximum": 9}
    fields: list[dict[str, object]] = [
        {"name": "n", "type": "integer", "constraints": rules, "x-unit": "kg", "bareNumber": False},
        {"name": "s", "type": "boolean", "trueValues": ["J", "j"], "falseValues": ["N"]},
    ]
    dictionary = read_json({"fields": fields})
    said = "\n".join(dictionary.notes)
    assert "n: x-unit, required, pattern is left aside" in said
    assert "n: bareNumber is false" in said
    assert "s: the file may also say j for J" in said
    draft = draft_study(dictionary, SAID, source="x")
    assert all(f"#   {each}" in draft for each in dictionary.notes)


@pytest.mark.parametrize(
    ("said", "labels"),
    [
        ({}, None),
        ({"trueValues": ["1"]}, None),
        ({"falseValues": ["no"]}, None),
        ({"trueValues": ["J", "j"], "falseValues": ["N"]}, None),
        ({"trueValues": [], "falseValues": "x"}, None),
        ({"trueValues": ["yes"], "falseValues": ["no"]}, "[no, yes]"),
        ({"trueValues": ["true", "True"], "falseValues": ["false", "FALSE"]}, '["false", "true"]'),
        ({"trueValues": [1, "1.0"], "falseValues": [0]}, '["0", "1"]'),
    ],
)
def test_a_boolean_of_several_words_is_left_to_decide_and_none_is_coded_as_false(
    said: dict[str, object], labels: str | None
) -> None:
    fields = [AGE, BMI, {"name": "ill", "type": "boolean", **said}]
    dictionary = read_json({"fields": fields})
    draft = draft_study(dictionary, SAID, source="x")
    assert ("values of ill" in open_places(draft)) is (labels is None)
    assert (f"      values: {labels}" in draft.splitlines()) is (labels is not None)
    assert any("which a study does not know" in each for each in dictionary.notes) is (
        labels is None
    )
    if not said:
        assert "false or False or FALSE or 0, and true or True or TRUE or 1" in draft


def test_bounds_are_read_as_the_cells_of_their_field_are_written() -> None:
    german = {"decimalChar": ",", "groupChar": "."}
    rules = {"minimum": "-1,5", "maximum": "1.000,25"}
    days = {"minimum": "31/01/2000", "maximum": "29/02/2020"}
    fields: list[dict[str, object]] = [
        {"name": "x", "type": "number", **german, "constraints": rules},
        {"name": "n", "type": "integer", "groupChar": ",", "constraints": {"maximum": "1,000"}},
        {"name": "d", "type": "date", "format": "%d/%m/%Y", "constraints": days},
        {"name": "t", "type": "date", "constraints": days},
        {"name": "z", "type": "number", "missingValues": "-99", "constraints": {"minimum": True}},
    ]
    dictionary = read_json({"fields": fields, "missingValues": "98"})
    bounds = {each.name: (each.lower, each.upper) for each in dictionary.entries}
    assert bounds == {
        "x": ("-1.5", "1000.25"),
        "n": (None, "1000"),
        "d": ("2000-01-31", "2020-02-29"),
        "t": (None, None),
        "z": (None, None),
    }
    assert "t: minimum, maximum is left aside" in dictionary.notes
    assert "z: missingValues, minimum is left aside" in dictionary.notes
    assert "missingValues is left aside" in dictionary.notes


@pytest.mark.parametrize("odd", ["x", 7, {}, [None], [{}], None, True])
def test_odd_values_are_no_crash(odd: object) -> None:
    keys = ("trueValues", "falseValues", "missingValues", "categories", "constraints", "format")
    more = ("decimalChar", "groupChar", "bareNumber")
    for kind in ("boolean", "number", "date", ["integer"]):
        field = {"name": "s", "type": kind, **dict.fromkeys((*keys, *more), odd)}
        document = {"fields": [AGE, BMI, field], "missingValues": odd, "primaryKey": odd}
        assert len(read_json({"schema": document, "dialect": odd}).entries) >= 2
