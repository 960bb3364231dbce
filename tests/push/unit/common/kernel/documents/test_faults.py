"""Faults of a document are named by line, field and attribute, in words of our own."""

import re
from typing import Any

import pytest

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.study import study_from_mapping
from tests.support.studies import study_document

AGE = {"name": "age", "type": "numeric", "lower": 0, "upper": 110}
VALIDATORS = re.compile(r"Input should|Extra inputs|Field required|Value error|pydantic|numeric\.")


def faults(**changes: Any) -> str:
    document = study_document([AGE, {**AGE, "name": "bmi"}]) | changes
    with pytest.raises(StudyError) as raised:
        study_from_mapping(document)
    text = str(raised.value)
    assert not VALIDATORS.search(text), text
    return text


def of_attribute(**changes: Any) -> str:
    return faults(schema={"max_rows_per_person": 1, "attributes": [AGE, {**AGE, **changes}]})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"privacy": {"mechanism": "laplace", "epsilom": "1"}}, "privacy: .*mean `epsilon`?"),
        ({"privacy": {"mechanism": "laplce", "epsilon": "1"}}, "mean `laplace`?"),
        ({"privacy": {"epsilon": "1"}}, "privacy: mechanism is missing: laplace, gaussian"),
        ({"ownrs": ["a"]}, "study: .*mean `owners`?"),
        ({"quorum": "two"}, "quorum: must be a whole number"),
        ({"max_rows": 1 << 50}, "max_rows: must be 1099511627776 or less"),
        ({"deadline": "soon"}, "deadline: must be a date and time such as"),
        ({"name": None}, "name: is blank"),
        ({"owners": "a"}, "owners: must be a list"),
        ({"covariance": "both"}, "covariance: must be 'pooled' or 'within'"),
        ({"schema": {"max_rows_per_person": 1, "attributes": [5]}}, "attribute number 1: "),
    ],
)
def test_a_field_is_named_with_what_it_should_be(changes: dict[str, Any], says: str) -> None:
    assert re.search(says, faults(**changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "bmi", "uper": 3}, "attribute bmi: .*mean `upper`?"),
        ({"name": "bmi", "type": "numerc"}, "attribute bmi: type must be .*mean `numeric`?"),
        ({"name": "bmi", "lower": "low"}, "attribute bmi, lower: must be a number"),
        ({"name": "bmi", "bins": 1}, "attribute bmi, bins: must be 2 or more, or must be a list"),
        ({"name": "day", "type": "date", "upper": "soon"}, "day, upper: must be a date such as"),
    ],
)
def test_an_attribute_is_called_by_its_name(changes: dict[str, Any], says: str) -> None:
    assert re.search(says, of_attribute(**changes))


def test_faults_of_one_form_all_hold_and_its_fields_are_said_once() -> None:
    text = faults(privacy={"mechanism": "laplace", "wanted": "1", "given": "2"})
    assert "privacy: `wanted` is not a field; `given` is not a field; the fields are mech" in text
    assert text.count("the fields are") == 1


def test_what_cannot_be_read_is_named_by_line_and_all_that_is_missing_together() -> None:
    with pytest.raises(StudyError, match="name, owners, privacy, components, schema are missing"):
        study_from_yaml("version: 1\n")
    with pytest.raises(StudyError, match=r"not YAML: line 2, column 14: look here") as raised:
        study_from_yaml("name: s\nowners: [a: b: c\n")
    assert "\n" not in str(raised.value)


def test_what_a_study_file_says_wrongly_is_named_with_its_line() -> None:
    text = """name: s
owners: [a, b]
privacy: {mechanism: laplace, epsilon: "1"}
components: {count: 1}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: age, type: numeric, lower: 0, upper: 110}
    - name: bmi
      type: numeric
      lower: 10
      uper: 60
    - {name: sex, type: binari, values: [a, b]}
"""
    with pytest.raises(StudyError) as raised:
        study_from_yaml(text)
    assert str(raised.value).splitlines()[1:] == [
        "  line 12, attribute bmi: `uper` is not a field; did you mean `upper`?",
        "  line 13, attribute sex: type must be one of numeric, date, ordinal, binary, "
        "categorical; did you mean `binary`?",
    ]


def test_a_message_stays_short_and_on_its_lines_whatever_the_document_holds() -> None:
    text = faults(**{f"colour\n{number}\x1b": 1 for number in range(60_000)})
    assert len(text.splitlines()) <= 53
    assert "and 59,950 faults more" in text
    assert "\x1b" not in text
    assert len(faults(**{"x" * 1_000_000: 1})) < 1000


def test_faults_of_attributes_do_not_say_that_there_are_none() -> None:
    text = faults(schema={"max_rows_per_person": 1, "attributes": [{**AGE, "upper": None}]})
    assert "attribute age" in text
    assert "entries" not in text
    assert "must not be empty" in faults(schema={"max_rows_per_person": 1, "attributes": []})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{mechanism: laplace, epsilon: 1,5}", "line 3, privacy.5: is not a field"),
        ('{mechanism: laplace, epsilon: "1,5"}', "line 3, privacy.epsilon: must be a decimal"),
    ],
)
def test_a_decimal_comma_is_named(text: str, said: str) -> None:
    written = f"name: s\nowners: [a, b]\nprivacy: {text}\nschema: {{attributes: []}}\n"
    with pytest.raises(StudyError) as raised:
        study_from_yaml(written)
    (line,) = [each for each in str(raised.value).splitlines() if said in each]
    assert line.endswith("use a point for decimals and no mark for thousands, such as 1.5 or 1500")
