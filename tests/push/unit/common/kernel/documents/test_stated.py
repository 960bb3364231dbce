"""What a study is for: a text is one visible paragraph, and no line of it passes for ours."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from dppca.common.kernel.documents.stated import WHOSE, Stated, quoted_lines
from dppca.common.kernel.documents.stated_fields import Purpose
from dppca.common.kernel.errors import StudyError
from dppca.common.kernel.study import study_from_canonical
from tests.support.examples import examples
from tests.support.studies import CENSUS, make_study

PURPOSE = TypeAdapter[str](Purpose)
FIELDS = {
    "title": "Work in three regions",
    "purpose": "Find what goes together with it.",
    "contact": "Dr A. Example, 123",
    "approval": "Board of the hub, 2029-114",
    "region": "Lower Saxony",
    "sector": "Healthcare",
}
WORDS = {
    "description": "Age at the visit",
    "why": "Risk rises with it",
    "unit": "years",
    "concept": "LOINC:30525-0",
}
DESCRIBED = [
    {**CENSUS[0], **WORDS},
    *({**each, "concept": f"DDI:{each['name']}"} for each in CENSUS[1:]),
]


@given(st.text(max_size=200))
@settings(max_examples=examples(200))
def test_a_text_that_is_taken_is_one_paragraph_and_its_own_form(text: str) -> None:
    try:
        taken = PURPOSE.validate_python(text)
    except ValidationError:
        return
    assert PURPOSE.validate_python(taken) == taken
    assert not taken.startswith(" ")
    assert "  " not in taken
    assert not {unicodedata.category(each) for each in taken} & {"Cc", "Cs", "Zl", "Zp"}


@given(st.dictionaries(st.sampled_from([*FIELDS]), st.text("ab 水，|", min_size=1, max_size=300)))
@settings(max_examples=examples(100))
def test_every_line_of_a_text_is_behind_its_bar_and_fits(texts: dict[str, str]) -> None:
    lines = quoted_lines(texts)
    bar = 2 + max(map(len, texts), default=0)
    for line in lines:
        assert line[bar : bar + 3] == " | "
        wide = sum(unicodedata.east_asian_width(each) in "WF" for each in line)
        assert len(line) + wide <= 76
    said = "".join(line[bar + 3 :] for line in lines).replace(" ", "")
    assert said == "".join(texts.values()).replace(" ", "")


def test_a_text_over_several_lines_is_one_paragraph() -> None:
    assert PURPOSE.validate_python(" Find\nwhat\u00a0 is\u3000there.\n") == "Find what is there."


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "text", ["a\x1b[2J", "a\u202eb", "a\tb", "a\u2028b", "", " ", "a" * 1001, 7]
)
def test_a_hidden_character_and_a_wrong_length_are_refused(name: str, text: object) -> None:
    with pytest.raises(StudyError, match=name):
        make_study(**{name: text})


@pytest.mark.parametrize("field", WORDS)
def test_words_on_an_attribute_are_refused_alike(field: str) -> None:
    for text in ("a\u202eb", "", "a" * 301):
        with pytest.raises(StudyError, match=field):
            make_study([{**CENSUS[0], field: text}, *CENSUS[1:]])


@pytest.mark.parametrize("attribute", CENSUS[1:])
def test_only_numbers_have_a_unit(attribute: dict[str, object]) -> None:
    with pytest.raises(StudyError, match="unit"):
        make_study([CENSUS[0], {**attribute, "unit": "kg"}])


@pytest.mark.parametrize("name", FIELDS)
def test_each_text_is_in_the_digest_and_leaves_no_trace_where_it_is_not_said(name: str) -> None:
    plain, said = make_study(), make_study(**{name: FIELDS[name]})
    assert said.digest != plain.digest
    assert study_from_canonical(said.canonical_bytes()) == said
    assert make_study(**dict.fromkeys(FIELDS)).digest == plain.digest
    assert not {*FIELDS} & json.loads(plain.canonical_bytes()).keys()


def test_words_on_attributes_change_the_digest_and_no_coding() -> None:
    plain, said = make_study(), make_study("census", attributes=DESCRIBED)
    assert said.digest != plain.digest
    assert said.table.layout == plain.table.layout
    assert study_from_canonical(said.canonical_bytes()) == said
    (age, *others) = json.loads(plain.canonical_bytes())["schema"]["attributes"]
    assert not any({*WORDS} & each.keys() for each in (age, *others))


def test_what_is_not_said_is_named_and_nothing_said_has_no_lines() -> None:
    assert Stated(title="a").unsaid == ("purpose", "contact", "approval", "region", "sector")
    assert Stated(title="a").lacking == ("purpose", "contact", "approval")
    assert Stated().lines() == []
    assert Stated(purpose="a", contact="b").undecided == ("approval",)
    assert Stated(contact="b").gap().startswith("NOT SAID: purpose, approval. ")
    assert Stated(purpose="a", contact="b", approval="none needed").gap() == ""
    assert Stated(title="a", purpose="b").lines() == [f"{WHOSE}:", "  title   | a", "  purpose | b"]
