"""Study files: canonical form, digest, and errors that name the field at fault."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.schema.units import Person
from dppca.common.kernel.study import study_from_canonical, study_from_mapping
from tests.golden.make_digests import FILE, STUDIES, documents
from tests.support.studies import binary_of, numeric_of, study_document


def document(**changes: Any) -> dict[str, Any]:
    attributes: list[dict[str, Any]] = [numeric_of("x", 0, 1), binary_of("y", ["No", "Yes"])]
    made = study_document(attributes, **{"owners": ["a", "b", "c"], **changes})
    return {key: value for key, value in made.items() if value is not None}


def test_a_study_that_does_not_say_how_many_rows_a_person_may_have_is_refused() -> None:
    silent = document()
    del silent["schema"]["max_rows_per_person"]
    for unsaid in (silent, {**silent, "schema": {**silent["schema"], "max_rows_per_person": None}}):
        with pytest.raises(StudyError) as caught:
            study_from_mapping(unsaid)
        assert "write `max_rows_per_person: 1` if no person has more than one" in str(caught.value)
        assert "every sensitivity is multiplied by it" in str(caught.value)
    Schema.from_document(silent["schema"])  # rows can be coded: no privacy is computed from it
    silent["schema"]["max_rows_per_person"] = 7
    assert study_from_mapping(silent).max_rows_per_person == 7


def test_a_study_whose_number_of_rows_is_secret_divides_by_no_owners_own() -> None:
    silent = document()
    silent["schema"]["neighbours"] = "added"
    made = study_from_mapping(silent)
    assert made.has_secret_rows
    assert not study_from_mapping(document()).has_secret_rows
    assert study_from_canonical(made.canonical_bytes()) == made
    with pytest.raises(StudyError, match="divides by each owner's number of rows"):
        study_from_mapping({**silent, "covariance": "within"})
    with pytest.raises(StudyError, match="max_rows is 999999999, but neighbours: added keeps"):
        study_from_mapping({**silent, "max_rows": 999_999_999})
    assert study_from_mapping({**silent, "max_rows": 1_000_000_000}).max_rows == made.max_rows
    alone = {**silent["schema"], "only_tables": True, "tables": [{"table": ["x", "y"]}]}
    continues = {"study": "0" * 64, "result": "1" * 64}
    tables = {**silent, "schema": alone, "continues": continues, "components": None}
    assert study_from_mapping(tables).has_secret_rows
    alone["count_weight"] = 2
    with pytest.raises(StudyError, match="count_weight is for a number of rows that leaves with"):
        study_from_mapping(tables)


def test_a_study_of_people_says_no_number_of_rows() -> None:
    people = document(max_rows_per_person=None, unit="person", rows_counted=1)
    study = study_from_mapping(people)
    written = json.loads(study.canonical_bytes())["schema"]
    assert (study.unit, written["unit"]) == (Person(1), "person")
    assert not {"max_rows_per_person", "rows_counted"} & set(written)
    assert study_from_canonical(study.canonical_bytes()) == study
    assert study.digest != study_from_mapping(document()).digest
    with pytest.raises(StudyError, match="study study has unit: person, and this needs unit: row"):
        _ = study.max_rows_per_person


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit": "person"}, "unit: person protects people with any number of rows: leave"),
        ({"rows_counted": 1}, "rows_counted is for unit: person"),
    ],
)
def test_a_study_of_people_with_numbers_that_are_not_its_own_is_refused(
    changes: dict[str, Any], says: str
) -> None:
    with pytest.raises(StudyError, match=says):
        study_from_mapping(document(**changes))


def test_a_total_weight_of_people_is_as_secret_as_a_number_of_rows() -> None:
    capped = document(unit="person", max_rows_per_person=None, rows_counted=3)
    assert study_from_mapping(capped).has_secret_rows
    for changes, says in (
        ({"covariance": "within"}, "number of rows, which rows_counted above 1 keeps secret"),
        ({"max_rows": 5000}, "max_rows is 5000, but rows_counted above 1 keeps numbers"),
    ):
        with pytest.raises(StudyError) as caught:
            study_from_mapping({**capped, **changes})
        assert says in " ".join(str(caught.value).split())


def test_canonical_documents_and_digests_are_those_of_earlier_versions() -> None:
    assert documents() == json.loads(FILE.read_text("utf-8"))


@pytest.mark.parametrize("name", STUDIES)
def test_canonical_form_is_read_back_to_the_same_bytes(name: str) -> None:
    study = study_from_yaml(STUDIES[name])
    again = study_from_canonical(study.canonical_bytes())
    assert again == study
    assert again.digest == study.digest
    assert again.canonical_bytes() == study.canonical_bytes()


def test_groups_of_overlapping_owners_have_one_order() -> None:
    one = study_from_yaml(json.dumps(document(overlap=[["c", "b"], ["b", "a"]])))  # JSON is YAML
    other = study_from_mapping(document(overlap=[["a", "b"], ["b", "c"]]))
    assert one.digest == other.digest
    assert b'"overlap":[["a","b"],["b","c"]]' in one.canonical_bytes()
    assert study_from_canonical(one.canonical_bytes()) == one


@pytest.mark.parametrize("scalar", ["No", "yes", "on", "Off", "010", "1_0", "1:30", "0x1f", "1e5"])
def test_words_and_codes_in_a_study_file_are_labels(scalar: str) -> None:
    text = json.dumps(document()).replace('"Yes"', f"{scalar}z, {scalar}")
    text = text.replace(f'"No", {scalar}z', f"{scalar}z")
    study = study_from_yaml(text)
    assert study.table.attributes[1].model_dump()["values"] == (f"{scalar}z", scalar)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": None}, "study: name is missing"),
        ({"name": "Big Study"}, "name: a name has 1 to 64"),
        ({"owners": []}, "owners: must not be empty"),
        ({"owners": ["a", "a"]}, "study: owners must differ: a twice"),
        ({"owners": ["a", "B"]}, "owners entry 2: a name"),
        ({"quorum": 4}, "quorum 4 is above the 3 owners"),
        ({"quorum": 2}, "needs a deadline"),
        ({"deadline": "2030-01-01T00:00:00"}, "deadline: must have a zone"),
        ({"max_rows": 0}, "max_rows: "),
        ({"max_rows": 2}, "max_rows is 2, but there are 3 owners"),
        ({"overlap": "true"}, "overlap: must be false, true, or a list of groups"),
        ({"overlap": [["a"]]}, "overlap: a group is a list of the names of two or more"),
        ({"overlap": [["a", "a"]]}, "overlap: a group is a list of the names of two or more"),
        ({"overlap": [["a", "b"], ["b", "a"]]}, "overlap: groups must differ"),
        ({"overlap": [["a", "z"]]}, "overlap names z, who are not among owners"),
        ({"privacy": {"mechanism": "laplace"}}, "laplace needs either epsilon"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "0"}}, "epsilon: must be a decimal"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "nan"}}, "epsilon: must be a decimal"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "one"}}, "epsilon: must be a decimal"),
        ({"privacy": {"mechanism": "laplace", "epsilon": True}}, "epsilon: must be a decimal"),
        ({"privacy": {"mechanism": "laplace", "epsilon": "1e-31"}}, "more digits"),
        (
            {"privacy": {"mechanism": "laplace", "epsilon": 1, "scale": 1}},
            "epsilon or a scale",
        ),
        (
            {"privacy": {"mechanism": "laplace", "epsilon": 1, "delta": "0.1"}},
            "privacy: `delta` is not a field",
        ),
        ({"privacy": {"mechanism": "gaussian", "epsilon": 1}}, "privacy: delta is missing"),
        ({"privacy": {"mechanism": "gaussian", "epsilon": 1, "delta": 1}}, "delta must be below 1"),
        (
            {"privacy": {"mechanism": "wishart", "epsilon": 1}},
            "privacy: mechanism must be one of laplace, gaussian",
        ),
        ({"components": {}}, "one of contribution_rate, count"),
        ({"components": {"count": 2}}, "count 2 is above 1"),
        ({"components": {"contribution_rate": 1}}, "components.contribution_rate: "),
        ({"schema": {"attributes": []}}, "schema.attributes: "),
    ],
)
def test_field_at_fault_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(StudyError, match=says):
        study_from_mapping(document(**changes))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be a mapping"),
        ("study.yaml", "give the file.s text, or its pathlib"),
        ("age,sex\n40,f\n", "other text, such as a table: a study is YAML"),
        ("- a\n- b\n", "must be a mapping"),
        ("name: [", "not YAML"),
        ("name: a\nname: b\n", "given twice"),
        ("name: !!python/object:os.system {}\n", "not YAML"),
        ("[" * 10_000, "not YAML"),
        ("x" * (4 << 20) + "x", "larger than"),
        ("1: 2\n", "study"),
    ],
)
def test_file_that_is_no_study_is_refused(text: str, says: str) -> None:
    with pytest.raises(StudyError, match=says):
        study_from_yaml(text)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        study_from_mapping(document()).canonical_bytes() + b"\n",
        study_from_mapping(document()).canonical_bytes().replace(b'"overlap":false,', b""),
        json.dumps(document()).encode(),
    ],
)
def test_document_that_is_not_canonical_is_refused(content: bytes) -> None:
    with pytest.raises(StudyError):
        study_from_canonical(content)


def test_one_moment_in_two_zones_is_one_study_and_a_quorum_is_of_its_deadline() -> None:
    here = study_from_mapping(document(deadline="2030-01-01T12:00:00+02:00", quorum=2))
    there = study_from_mapping(document(deadline="2030-01-01T10:00:00Z", quorum=2))
    assert here.digest == there.digest
    assert not here.deadline_passed(datetime(2030, 1, 1, 9, 59, 59, tzinfo=UTC))
    assert here.deadline_passed(datetime(2030, 1, 1, 10, tzinfo=UTC))
    silent = study_from_mapping(document())
    assert not silent.deadline_passed(datetime(2999, 1, 1, tzinfo=UTC))
    assert (here.required_contributions, silent.required_contributions) == (2, 3)


@given(epsilon=st.decimals("1e-30", "1e30", allow_nan=False).filter(lambda d: d > 0))
def test_an_epsilon_is_one_number_however_it_is_written(epsilon: Decimal) -> None:
    if len(epsilon.as_tuple().digits) > 30:
        return

    def digest(value: object) -> str:
        privacy = {"mechanism": "laplace", "epsilon": value}
        study = study_from_mapping(document(privacy=privacy))
        assert study.privacy.epsilon == epsilon, "no digit is lost"
        return study.digest

    assert digest(epsilon) == digest(str(epsilon)) == digest(format(epsilon, "f"))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"privacy": {"mechanism": "matrix-laplace"}}, "epsilon"),
        ({"privacy": {"mechanism": "matrix-laplace", "scale": "3"}}, "scale"),
        ({"nominal_epsilon": "1"}, "nominal_epsilon"),
        ({"neighbours": "added", "count_weight": 2}, "does not go with count_weight"),
        ({"square_weight": 2}, "does not go with square_weight"),
        ({"sum_weight": 0.25}, "does not go with a sum_weight below 0.354"),
        ({"only_tables": True}, "only_tables"),
    ],
)
def test_what_noise_of_a_whole_release_does_not_go_with_is_refused(
    changes: dict[str, Any], says: str
) -> None:
    joint = {"mechanism": "matrix-laplace", "epsilon": "1"}
    assert study_from_mapping(document(privacy=joint)).privacy.is_joint
    if "nominal_epsilon" in changes:
        changes = {"privacy": joint | changes}
    with pytest.raises(StudyError, match=says):
        study_from_mapping(document(**{"privacy": joint, **changes}))
