"""A draft says what its dictionary says, leaves the rest blank, and is never made from rows."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml

from dppca.common.analysis.estimates.forecast import require_answerable
from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.documents.stated import Stated
from dppca.common.kernel.documents.stated_fields import MAX_DESCRIPTION
from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.schema.attributes import MAX_LABEL_LENGTH, Numeric
from dppca.common.kernel.study import Study
from dppca.common.shell.dictionaries.dictionary import FREE_TEXT, IDENTIFIER, read_codes
from dppca.common.shell.dictionaries.recognition import read_dictionary
from dppca.common.shell.dictionaries.table_forms import read_table
from dppca.curator.planning.study_draft import (
    DECIDE,
    Choices,
    choose_deadline,
    draft_study,
    open_places,
)

OWN = """\
name,type,lower,upper,labels,unknown,description,unit
age,integer,18,100,,,Age in years,years
bmi,number,10.5,60,,,"Mass, by height",
visit,date,2020-01-01,2024-12-31,,,,
pain,ordinal,,,none|mild|severe,,,
sex,binary,,,female | male,,,
region,label,,,north|east|south,Unknown,,
"""
REDCAP = """\
"Variable / Field Name","Form Name","Section Header","Field Type","Field Label",\
"Choices, Calculations, OR Slider Labels","Field Note",\
"Text Validation Type OR Show Slider Number","Text Validation Min","Text Validation Max",Identifier?
record_id,base,,text,Record,,,integer,1,9999,
born,base,,text,Name,,,,,,y
age,base,,text,Age,,,integer,18,110,
weight,base,,text,Weight,,,number_1dp,,,
height,base,,text,Height,,,number_1dp_comma_decimal,"140,5",210,
seen,base,,text,Seen on,,,date_dmy,2020-01-01,today,
smokes,base,,yesno,Smokes?,,,,,,
health,base,,radio,Health,"1, Good, or better | 2, Fair | 3, Poor",,,,,
drugs,base,,checkbox,Drugs,"A, Aspirin | -9, None",,,,,
mood,base,,slider,Mood,,,,,,
notes,base,,notes,Notes,,,,,,
"""
FRICTIONLESS = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "income", "type": "number", "title": "Income", "constraints": {"minimum": "0"}},
        {"name": "day", "type": "date", "constraints": {"minimum": "2020-01-01"}},
        {"name": "ill", "type": "boolean", "trueValues": ["1"], "falseValues": ["0"]},
        {"name": "work", "type": "string", "constraints": {"enum": ["a", "b", "c"]}},
        {
            "name": "grade",
            "type": "integer",
            "categories": [{"value": 1, "label": "low"}, {"value": 2}, {"value": 3}],
            "categoriesOrdered": True,
        },
        {"name": "comment", "type": "string"},
        {"name": "place", "type": "geopoint"},
    ]
}
STATED = dict.fromkeys(("title", "purpose", "contact", "approval"), "a text")
SAID = Choices("trial", ("a", "b"), "1.0", None, 1, stated=Stated(**STATED))


def read(folder: Path, content: str | bytes | object, name: str = "columns.csv") -> Any:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_dictionary(path)


def attributes(dictionary: Any, choices: Choices = SAID) -> dict[str, dict[str, Any]]:
    document: Any = load_yaml(draft_study(dictionary, choices, source="x"))
    listed = document["schema"]["attributes"]
    for each in listed:
        each.pop("description", None)
    return {each.pop("name"): each for each in listed}


def test_a_draft_proposes_questions_which_the_study_could_answer(tmp_path: Path) -> None:
    head = "name,type,lower,upper,labels\n"
    found = read(tmp_path, f"{head}age,integer,0,99,\nx y,label,,,a|b|c\nill,label,,,n|y\n")
    for target, last in ((None, []), ("ill", ["logit ill 'x y'"]), ("age", ["ols age 'x y' ill"])):
        text = draft_study(found, replace(SAID, target=target), source="x")
        assert study_from_yaml(text).questions is None
        asked = study_from_yaml(text.replace("# questions:", "questions:"))
        require_answerable(asked)
        by = "ill" if target == "ill" else "'x y'"
        assert list(asked.questions or ()) == [f"mean age by {by}", "table 'x y' ill", *last]
    assert "questions" not in draft_study(
        read(tmp_path, f"{head}ill,label,,,n|y\n"), SAID, source="x"
    )


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("name,type,lower,upper,labels,unknown\nb,label,,,n|y,\nc,{}\n", "columns.csv"),
        (
            'Variable / Field Name,Field Type,"Choices, Calculations, OR Slider Labels"\n'
            'b,yesno,\nc,dropdown,"1, EUR"\n',
            "columns.csv",
        ),
        (
            {
                "fields": [
                    {"name": "b", "constraints": {"enum": ["n", "y"]}},
                    {"name": "c", "constraints": {"enum": ["EUR"]}},
                ]
            },
            "schema.json",
        ),
    ],
    ids=["own", "REDCap", "Frictionless"],
)
def test_a_column_that_can_have_one_value_only_is_left_out(
    content: Any, name: str, tmp_path: Path
) -> None:
    kinds = [
        "label,,,EUR,",
        "label,,,EUR|EUR,",
        "ordinal,,,EUR,",
        "number,5,5.0,,",
        "date,2020-01-31,2020-01-31,,",
    ]
    for kind in kinds if isinstance(content, str) and "{}" in content else [""]:
        dictionary = read(tmp_path, content.format(kind) if kind else content, name)
        assert [each.name for each in dictionary.entries] == ["b"]
        (left_out,) = dictionary.omitted
        assert (left_out.name, "a constant tells nothing" in left_out.reason) == ("c", True)
        text = draft_study(dictionary, SAID, source="x")
        assert "#   c: it" in text or "#   c: its" in text
        assert open_places(text) == []
    if "{}" in content:
        two = read(tmp_path, content.format("label,,,EUR,other"), name)
        assert [each.name for each in two.entries] == ["b", "c"], "unknown is a label, too"


def test_a_dictionary_of_our_own_makes_a_whole_study(tmp_path: Path) -> None:
    dictionary = read(tmp_path, "\ufeff" + OWN)
    text = draft_study(dictionary, SAID, source="columns.csv")
    assert open_places(text) == []
    study: Study = study_from_yaml(text)
    assert attributes(dictionary) == {
        "age": {"type": "numeric", "lower": 18, "upper": 100, "integer": True, "unit": "years"},
        "bmi": {"type": "numeric", "lower": 10.5, "upper": 60},
        "visit": {
            "type": "date",
            "lower": yaml.safe_load("2020-01-01"),
            "upper": yaml.safe_load("2024-12-31"),
        },
        "pain": {"type": "ordinal", "levels": ["none", "mild", "severe"]},
        "sex": {"type": "binary", "values": ["female", "male"]},
        "region": {
            "type": "categorical",
            "categories": ["north", "east", "south"],
            "unknown": "Unknown",
        },
    }
    assert study.owners == ("a", "b")
    assert study.faults is not None, "a draft says which share of faults is too much"
    assert study.faults.refuse_if_above == 0.05
    assert "Mass, by height" in [each.description for each in study.table.attributes]


def test_a_spreadsheets_semicolons_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    plain = "name,type,lower,upper,labels\nage,number,0,100,\nsex,label,,,f|m\n"
    spelt = plain.replace(",", ";").replace("\n", "\r\n")
    assert read(tmp_path, spelt.encode()) == read(tmp_path, plain)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("name,type\nage,number\nbmi,number\nage,number\n", "columns 1 and 3"),
        ("name,type,lower,lower\nage,number,1,2\n", "has a column twice"),
        ("name,type,unknown\nborn,date,NA\n", "a study has no missing dates"),
        ("name;type;lower\nbmi;number;10,5\n", "a number such as 10.5"),
        ("name,type\nalter,Größe\n".encode("latin-1"), "save the dictionary as CSV in UTF-8"),
        (OWN.encode("utf-16"), "save the dictionary as CSV in UTF-8"),
        ('{"properties": {"age": {"type": "integer"}}}', "this is not a data dictionary"),
        ('{"age": 1}\n{"age": 2}\n', "lines of JSON are rows"),
    ],
)
def test_a_fault_of_a_dictionary_says_what_to_do(
    tmp_path: Path, content: str | bytes, said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        read(tmp_path, content)


_CONDITION = "Branching Logic (Show field only if...)"


@pytest.mark.parametrize(
    "content",
    [
        "name,type,lower,upper,unknown\nbmi,number,10,60,NA\nage,integer,0,99,\n",
        "Variable / Field Name,Field Type,Text Validation Type OR Show Slider Number,"
        f"Text Validation Min,Text Validation Max,{_CONDITION}\n"
        "bmi,text,number,10,60,[weighed] = '1'\nage,text,integer,0,99,\n",
        json.dumps(
            {
                "fields": [
                    {
                        "name": name,
                        "type": kind,
                        "constraints": {"minimum": low, "maximum": high, "required": required},
                    }
                    for name, kind, low, high, required in [
                        ("bmi", "number", 10, 60, False),
                        ("age", "integer", 0, 99, True),
                    ]
                ]
            }
        ),
    ],
    ids=["our own", "REDCap", "Frictionless"],
)
def test_a_number_that_may_be_missing_gets_an_indicator(tmp_path: Path, content: str) -> None:
    choices = Choices(name="s", owners=("a",), epsilon="1", rows_per_person=1)
    table = study_from_yaml(draft_study(read(tmp_path, content), choices, source="d")).table
    assert table.column_names == ("bmi is missing", "bmi", "age")


def test_an_ordinal_of_two_labels_is_a_binary(tmp_path: Path) -> None:
    dictionary = read(tmp_path, "name,type,labels\npain,ordinal,no|yes\n")
    choices = Choices("trial", ("a", "b"), "1.0", None, 1, histograms=True)
    assert attributes(dictionary, choices) == {"pain": {"type": "binary", "values": ["no", "yes"]}}


def test_a_whole_number_of_any_length_is_no_bound(tmp_path: Path) -> None:
    field = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 10**400}}
    found = attributes(read(tmp_path, {"fields": [field]}, "schema.json"))
    assert found["age"] == {"type": "numeric", "lower": 0, "upper": None, "integer": True}


def test_what_is_not_said_is_blank_and_has_no_default(tmp_path: Path) -> None:
    dictionary = read(tmp_path, "name,type\nbmi,number\nsex,label\n")
    text = draft_study(dictionary, Choices(), source="columns.csv")
    stated = ["title", "purpose", "contact", "approval"]
    blank = ["name", *stated, "owners", "epsilon", "max_rows_per_person"]
    blank += ["lower of bmi", "upper of bmi"]
    assert open_places(text) == [*blank, "categories of sex"]
    assert text.count(f"# {DECIDE}") == 11
    with pytest.raises(StudyError) as raised:
        study_from_yaml(text)
    for said in ("name: is blank", "owners: is blank", "epsilon", "attribute bmi", "sex"):
        assert said in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        "name,type,lower,upper,unit,description\na,number,0,9,l/d,Litres a day\n"
        "b,date,2020-01-01,2021-01-01,d,Day\n",
        {
            "fields": [
                {"name": "a", "type": "number", "description": "Litres a day", "unit": "l/d"}
                | {"constraints": {"minimum": 0, "maximum": 9}},
                {"name": "b", "type": "date", "title": "Day", "description": "d"}
                | {"constraints": {"minimum": "2020-01-01", "maximum": "2021-01-01"}},
            ]
        },
    ],
    ids=["own", "json"],
)
def test_descriptions_and_units_are_in_the_study_and_a_long_one_is_cut(
    tmp_path: Path, content: Any
) -> None:
    study = study_from_yaml(draft_study(read(tmp_path, content), SAID, source="x"))
    litres, day = study.table.attributes
    assert isinstance(litres, Numeric)
    assert (litres.description, litres.unit) == ("Litres a day", "l/d")
    assert day.description == "Day. d"
    head, long = "name,type,lower,upper,labels,description", f"{'word # ' * 99}\u202e"
    long = read(tmp_path, f"{head}\na,number,0,9,,{long}\nb,label,,,n|y,\n")
    words = study_from_yaml(draft_study(long, SAID, source="x")).table.attributes[0].description
    assert words is not None
    assert (len(words), words[-1]) == (MAX_DESCRIPTION, "…")


def test_a_unit_that_is_no_short_word_is_told_in_the_description(tmp_path: Path) -> None:
    unit = "millimoles\tper litre of venous blood, fasting"
    words = "did not answer " * 40
    content = f"""name,type,lower,upper,missing_values,unit,description
a,number,0,9,"-9, {words}","{unit}",Glucose
b,number,0,9,,"{unit}",
"""
    study = study_from_yaml(draft_study(read(tmp_path, content), SAID, source="x"))
    plain = unit.replace("\t", " ")
    assert [each.description for each in study.table.attributes] == [f"Glucose. {plain}", plain]
    assert all(getattr(each, "unit", "") is None for each in study.table.attributes)
    ((code, said),) = study.table.attributes[0].missing_values or ()
    assert (code, said[:14], said[-1], len(said)) == ("-9", words[:14], "…", MAX_LABEL_LENGTH)


def test_a_concept_of_a_dictionary_stands_in_the_study(tmp_path: Path) -> None:
    own = """name,type,lower,upper,labels,attribute,concept
sbp,number,50,250,,,LOINC:8480-6
reg_n,one-hot,,,north,region,
reg_s,one-hot,,,south,region,SNOMED:397669002
reg_e,one-hot,,,east,region,DDI:other
"""
    snomed = "http://snomed.info/id/271649006"
    fields = [
        {"name": "sbp", "type": "number", "constraints": {"minimum": 50, "maximum": 250}},
        {"name": "sex", "constraints": {"enum": ["f", "m"]}, "concept": "OMOP:4135376"},
    ]
    fields[0]["rdfType"] = snomed
    for name, content, concepts in (
        ("columns.csv", own, ["LOINC:8480-6", "SNOMED:397669002"]),
        ("schema.json", {"fields": fields}, [snomed, "OMOP:4135376"]),
    ):
        dictionary = read(tmp_path, content, name)
        study = study_from_yaml(draft_study(dictionary, SAID, source="x"))
        assert [each.concept for each in study.table.attributes] == concepts
        assert not dictionary.notes


def test_a_delta_makes_the_noise_gaussian_and_a_target_is_said(tmp_path: Path) -> None:
    choices = Choices("trial", ("a", "b"), "1.0", "1e-9", 2, "sex", histograms=True)
    study = study_from_yaml(draft_study(read(tmp_path, OWN), choices, source="x"))
    assert study.privacy.model_dump(mode="json", include={"mechanism", "epsilon", "delta"}) == {
        "mechanism": "gaussian",
        "epsilon": "1",
        "delta": "0.000000001",
    }
    assert study.table.targets == ("sex",)
    assert [study.table.attributes[index].name for index, _ in study.table.histograms] == [
        "age",
        "bmi",
        "visit",
        "pain",
    ]


def test_redcaps_dictionary_is_read_by_its_field_types(tmp_path: Path) -> None:
    dictionary = read(tmp_path, REDCAP)
    found = attributes(dictionary)
    assert found["age"] == {"type": "numeric", "lower": 18, "upper": 110, "integer": True}
    assert found["weight"] == {"type": "numeric", "lower": None, "upper": None}
    assert found["height"] == {"type": "numeric", "lower": 140.5, "upper": 210}
    assert found["seen"]["type"] == "date"
    assert found["seen"]["upper"] is None  # `today` is no bound that stays
    assert found["smokes"] == {"type": "binary", "values": ["0", "1"]}
    assert found["health"]["categories"] == ["1", "2", "3"]
    assert {"drugs___a", "drugs____9"} < set(found)
    assert found["mood"] == {"type": "numeric", "lower": 0, "upper": 100, "integer": True}
    omitted = {each.name: each.reason for each in dictionary.omitted}
    assert omitted == {
        "record_id": "it identifies people",
        "born": "it identifies people",
        "notes": "free text",
    }
    assert "1 = Good, or better; 2 = Fair" in draft_study(dictionary, SAID, source="x")


@pytest.mark.parametrize(
    ("dictionary", "said"),
    [
        (REDCAP, "redcap_event_name, redcap_repeat_instrument"),
        (OWN, "visit"),
        (OWN.replace("visit", "seen"), ""),
    ],
    ids=["REDCap", "a visit", "nothing"],
)
def test_a_draft_leaves_a_persons_rows_to_decide_and_says_why_there_may_be_several(
    tmp_path: Path, dictionary: str, said: str
) -> None:
    made = read(tmp_path, dictionary)
    text = draft_study(made, Choices(), source="x")
    assert "max_rows_per_person" in open_places(text)
    line = f"  # A person may have several rows, by {said}:\n  # count those of all events"
    assert (line in text) == bool(said)
    assert ("several rows" in text) == bool(said)
    decided = draft_study(made, Choices(rows_per_person=4), source="x")
    assert ("several rows" in decided, "max_rows_per_person: 4" in decided) == (bool(said), True)


@pytest.mark.parametrize(
    "document",
    [FRICTIONLESS, {"resources": [{"name": "rows", "schema": FRICTIONLESS}]}],
    ids=["schema", "package"],
)
def test_a_table_schema_is_read(tmp_path: Path, document: object) -> None:
    dictionary = read(tmp_path, document, "schema.json")
    found = attributes(dictionary)
    assert found["age"] == {"type": "numeric", "lower": 0, "upper": 120, "integer": True}
    assert found["income"] == {"type": "numeric", "lower": 0, "upper": None}
    assert found["ill"] == {"type": "binary", "values": ["0", "1"]}
    assert found["work"] == {"type": "categorical", "categories": ["a", "b", "c"]}
    assert found["grade"] == {"type": "ordinal", "levels": ["1", "2", "3"]}
    assert [each.name for each in dictionary.omitted] == ["comment", "place"]


def test_what_is_free_text_or_names_a_person_is_left_out_of_our_own_form() -> None:
    dictionary = read_table("name,type\nage,number\nnotes,Text\npatient,id\ncase,identifier\n")
    assert [each.name for each in dictionary.entries] == ["age"]
    reasons = {each.name: each.reason for each in dictionary.omitted}
    assert reasons == {"notes": FREE_TEXT, "patient": IDENTIFIER, "case": IDENTIFIER}
    with pytest.raises(SettingError, match="or text or id for a column that is left out"):
        read_table("name,type\n,text\n")


def test_codes_for_missing_of_our_own_form_and_of_the_option_are_in_the_draft() -> None:
    text = (
        "name,type,labels,missing_values\nage,integer,,\n"
        'sex,label,1|2|9,"9, not said | 8 |9.0, twice"\n'
    )
    dictionary = read_table(text, missing=read_codes("-99, Refused: all | 97"))
    draft = draft_study(dictionary, SAID, source="x")
    document: Any = load_yaml(draft)
    assert document["schema"]["missing_values"] == {"-99": "Refused: all", "97": ""}
    age, sex = document["schema"]["attributes"]
    assert "missing_values" not in age
    assert sex["missing_values"] == {"9": "not said", "8": ""}
    assert sex["values"] == ["1", "2"]
    assert "#   sex: 9 is listed as a label and as missing; it counts as missing" in draft


def test_a_redcap_field_may_turn_the_projects_codes_off() -> None:
    head = "Variable / Field Name,Field Type,Choices,Field Annotation\n"
    rows = "a,yesno,,@HIDDEN @NOMISSING\nb,yesno,,\n"
    dictionary = read_table(head + rows, missing=read_codes("0, No answer | UNK"))
    assert [each.labels for each in dictionary.entries] == [("0", "1")]  # b has one label left
    assert attributes(dictionary)["a"]["missing_values"] == {}
    assert [each.name for each in dictionary.omitted] == ["b"]


ONE_HOT = """\
name,type,labels,unknown,attribute,description
reg_n,one-hot,north,,region,Where
age,integer,,,,
reg_s,one-hot,south,not said,region,
reg_e,one-hot,no: east,,region,
"""
ONE_HOT_FIELDS = [
    {
        "name": "reg_n",
        "title": "Where",
        "oneHot": {"attribute": "region", "label": "north", "unknown": "not said"},
    },
    {"name": "age", "type": "integer"},
    {"name": "reg_s", "type": "integer", "oneHot": {"attribute": "region", "label": "south"}},
    {"name": "reg_e", "oneHot": {"attribute": "region", "label": "no: east"}},
]


@pytest.mark.parametrize("content", [ONE_HOT, {"fields": ONE_HOT_FIELDS}], ids=["own", "json"])
def test_one_hot_columns_become_one_attribute_and_the_draft_says_how_a_site_joins_them(
    tmp_path: Path, content: object
) -> None:
    dictionary = read(tmp_path, content)
    assert [each.name for each in dictionary.entries] == ["region", "age"]
    labels = ["north", "south", "no: east"]
    expected = {"type": "categorical", "categories": labels, "unknown": "not said"}
    assert attributes(dictionary)["region"] == expected
    lines = draft_study(dictionary, SAID, source="x").splitlines()
    (policy,) = [line for line in lines if "one_hot:" in line]
    assert load_yaml(policy.replace("#", "", 1)) == {
        "one_hot": {"region": dict(zip(["reg_n", "reg_s", "reg_e"], labels, strict=True))}
    }


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a,one-hot,north,,", "line 2 of the data dictionary: a column of type one-hot needs"),
        ("a,one-hot,,,region", "the one label that it stands for"),
        ("a,one-hot,north|south,,region", "the one label that it stands for"),
        ("a,one-hot,north,,region", "region needs two columns or more"),
        ("a,one-hot,north,,region\nb,one-hot,north,,region", "a label of its own for each"),
        ("a,one-hot,n,x,region\nb,one-hot,s,y,region", "one unknown label at most"),
        ("a,one-hot,n,,b\nb,one-hot,s,,b", "has a column called b, which one-hot"),
        ("a,one-hot,n,,region\na,one-hot,s,,region", "one name for its columns 1 and 2"),
    ],
)
def test_one_hot_columns_that_make_no_attribute_are_refused(lines: str, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        read_table(f"name,type,labels,unknown,attribute\n{lines}\nage,number,,,\n")


@pytest.mark.parametrize("joined", [{}, "region", {"attribute": "region"}, {"label": "north"}])
def test_a_field_that_does_not_say_what_it_stands_for_is_refused(
    tmp_path: Path, joined: object
) -> None:
    with pytest.raises(SettingError, match="oneHot of a field is"):
        read(tmp_path, {"fields": [{"name": "a", "oneHot": joined}]}, "schema.json")


VALUE = "Zebulon"
ROWS: list[tuple[str, str | bytes]] = [
    ("rows.csv", f"patient,age\n{VALUE},41\n"),
    ("rows.csv", f"name,type\n{VALUE},{VALUE} II\n"),
    ("rows.csv", f"name,type,lower\nage,number,{VALUE}\n"),
    ("rows.csv", f'name,type\nage,number\n"{VALUE}\n'),
    ("rows.csv", f"name,type\nage,number,{VALUE}\n"),
    ("rows.csv", f"concept_id,concept_name,domain_id\n{VALUE},x,Gender\n"),
    ("rows.csv", ""),
    ("rows.json", json.dumps([{"patient": VALUE}])),
    ("rows.json", json.dumps({"patient": VALUE})),
    ("rows.json", f'{{"fields": {VALUE}}}'),
    ("rows.json", json.dumps({"fields": [{"patient": VALUE}]})),
    ("rows.parquet", b"PAR1" + VALUE.encode()),
    ("rows.csv", b"\xff\xfe" + VALUE.encode("utf-16-le")),
    ("rows.csv", f"patient\n{VALUE}\n".encode() * 400_000),
]


@pytest.mark.parametrize(("name", "content"), ROWS, ids=lambda each: str(each)[:24])
def test_rows_are_refused_and_never_quoted(tmp_path: Path, name: str, content: str | bytes) -> None:
    with pytest.raises(SettingError) as raised:
        read(tmp_path, content, name)
    error: BaseException | None = raised.value
    while error is not None:
        assert VALUE not in str(error)
        error = error.__cause__
    assert name in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.csv", "patient;größe\r\nA;1,5\r\n".encode("windows-1252"), "a table of rows"),
        ("rows.csv", b"patient,age\n" + b"A,1\n" * 300_000, "a table of rows"),
        ("names.csv", "name;type;größe\r\n".encode("windows-1252"), "not text in UTF-8"),
        ("codes.sps", b"", "SPSS syntax"),
        ("codes.txt", b"VALUE LABELS a 1 'm\xe4n', 2 'x'.\n", "not text in UTF-8"),
        ("rows.xlsx", b"PK", "no workbook that can be read"),
        ("rows.ods", b"PK", "a spreadsheet, with rows"),
    ],
)
def test_a_table_of_rows_is_named_whatever_its_size_and_letters(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        read(tmp_path, content, name)


@pytest.mark.parametrize("text", ["999 not known", "-99: refused", "97 | 98=don't know"])
def test_a_code_and_its_words_need_a_comma(text: str) -> None:
    with pytest.raises(SettingError, match=r"need a comma between them and words: -?\d+, \w"):
        read_codes(text)


@pytest.mark.parametrize(("owners", "quorum"), [("a", 1), ("ab", 2), ("abc", 2), ("abcde", 4)])
def test_a_draft_waits_a_month_for_most_of_its_owners(
    tmp_path: Path, owners: str, quorum: int
) -> None:
    now = datetime(2029, 12, 31, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    choices = replace(SAID, owners=tuple(owners), deadline=choose_deadline(now))
    study = study_from_yaml(draft_study(read(tmp_path, OWN), choices, source="x"))
    assert study.required_contributions == quorum
    assert study.deadline == datetime(2030, 2, 1, 12, tzinfo=UTC)
    assert study.deadline - now > timedelta(days=30)
    nobody = replace(choices, owners=())
    assert "quorum" not in draft_study(read(tmp_path, OWN), nobody, source="x")


def test_a_draft_has_the_grid_and_weights_of_its_law_and_says_which_has_less_noise(
    tmp_path: Path,
) -> None:
    dictionary = read(tmp_path, OWN)
    joint = draft_study(dictionary, Choices(mechanism="matrix-laplace"), source="columns.csv")
    assert "  mechanism: matrix-laplace\n" in joint
    schema = yaml.safe_load(joint)["schema"]
    assert (schema["sum_weight"], schema["resolution_bits"]) == (0.75, 14)
    told = draft_study(dictionary, Choices(joint=("matrix-laplace", 0.512)), source="columns.csv")
    assert "  mechanism: laplace # `--mechanism matrix-laplace` has 0.51 times the noise" in told
    aimed = draft_study(
        dictionary, Choices(mechanism="matrix-laplace", target="sex"), source="columns.csv"
    )
    assert yaml.safe_load(aimed)["schema"]["targets"] == ["sex"]
