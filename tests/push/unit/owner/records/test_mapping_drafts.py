"""A draft is a file that the product reads, and that it refuses while something is not decided."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.yaml_text import load_yaml
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Schema
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_drafts import Draft, DraftLine, make_draft, site_columns
from dppca.owner.records.mapping_files import parse_mapping
from dppca.owner.records.mapping_proposals import SiteColumn, Sureness
from tests.support.studies import binary_of, categorical_of, numeric_of

SCHEMA = Schema.from_document(
    {
        "missing_values": ["-7"],
        "attributes": [
            binary_of("sex", ["male", "female"]) | {"missing": "male"},
            categorical_of("smoking", ["never", "former", "current"], unknown="?"),
            numeric_of("age", 0, 110),
        ],
    }
)


def columns_of(folder: Path, text: str, key: str = "") -> Any:
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return site_columns(local_files(path).open(), SCHEMA.attributes, key)


def test_a_draft_of_sure_lines_is_a_mapping(tmp_path: Path) -> None:
    columns = columns_of(tmp_path, "Sex,smoking,age\nmännlich,never,1\nweiblich,current,2\n")
    draft = make_draft(SCHEMA, columns, missing=("999",))
    assert not draft.undecided
    document = parse_mapping(draft.text("x"), "x")
    assert document.missing == ("999", "-7")
    assert [*document.attributes] == ["sex"], "columns of their own names need no line"
    assert document.attributes["sex"].recode == {"männlich": "male", "weiblich": "female"}


def test_what_is_doubtful_waits_for_a_decision_or_a_yes(tmp_path: Path) -> None:
    text = "Sexx,smoking,age\nm,never,1\nw,sometimes,2\n"
    draft = make_draft(SCHEMA, columns_of(tmp_path, text))
    assert draft.undecided == ("sex", "smoking")
    with pytest.raises(SettingError, match=r"line 6, attributes\.sex: is not decided") as raised:
        parse_mapping(draft.text("x"), "x")
    assert "smoking" in str(raised.value)
    taken = make_draft(SCHEMA, columns_of(tmp_path, text), accepted=["sex"])
    assert taken.undecided == ("smoking",)
    with pytest.raises(SettingError, match="the study has no attribute sx"):
        make_draft(SCHEMA, columns_of(tmp_path, text), accepted=["sx"])


def test_decided_lines_stay_and_new_words_are_added(tmp_path: Path) -> None:
    text = "Sex,smoking,age\nm,never,1\nw,sometimes,2\n"
    before = {
        "version": 1,
        "missing": [999],
        "attributes": {
            "sex": {"column": "Sex", "recode": {"w": "female", "m": None}},
            "smoking": {"column": "smoking", "recode": {"never": "never"}, "otherwise": "?"},
            "age": {"column": "years", "times": 2},
            "bmi": "bmi",
        },
    }
    draft = make_draft(SCHEMA, columns_of(tmp_path, text), before=before)
    assert draft.missing[0] == "999"
    assert draft.gone == (
        "age: its column years is gone",
        "bmi: the study has no such attribute",
    )
    sex, smoking, age = draft.lines
    assert sex.rule == {"column": "Sex", "recode": {"w": "female"}}
    assert [*sex.open_cells] == ["m"]
    assert smoking.rule == before["attributes"]["smoking"]  # type: ignore[index]
    assert age.rule == {"column": "years", "times": 2}
    (sex, *_) = make_draft(
        SCHEMA, columns_of(tmp_path, "Sex,smoking,age\nmale,never,1\n"), before=before
    ).lines
    assert sex.rule == {"column": "Sex", "recode": {"w": "female", "male": "male"}}


def test_no_cell_of_the_key_or_of_free_text_is_a_word(tmp_path: Path) -> None:
    lines = "".join(f"P{n},word {n},9\n" for n in range(120))
    columns = columns_of(tmp_path, "sex,smoking,age\n" + lines, key="sex")
    assert "sex" not in columns
    assert not columns["smoking"].words
    assert not columns["age"].words


_words = st.text(
    st.characters(exclude_categories=["C", "Z"]) | st.just(" "), min_size=1, max_size=12
).filter(lambda text: text == text.strip())


@given(
    table=st.dictionaries(_words, st.sampled_from(["male", "female"]), min_size=1, max_size=9),
    column=_words,
    code=_words,
)
def test_every_word_is_read_back_as_it_was_written(
    table: dict[str, str], column: str, code: str
) -> None:
    rule = {"column": column, "recode": table}
    line = DraftLine("sex", rule, Sureness.SURE, "")
    document = load_yaml(Draft((line,), (code,)).text("x"))
    assert isinstance(document, dict)
    ((name, found),) = document["attributes"].items()
    assert name == "sex"
    assert str(found["column"]) == column
    assert {str(cell): label for cell, label in found["recode"].items()} == table
    assert [str(each) for each in document["missing"]] == [code]


def test_a_label_that_no_row_has_is_left_out_if_it_is_like_none() -> None:
    words = {"1": "never", "2": "former", "9": "no answer", "8": "current"}
    columns = {
        "smoking": SiteColumn("smoking", words, frozenset({"9", "8"})),
        "sex": SiteColumn("sex"),
        "age": SiteColumn("age"),
    }
    draft = make_draft(SCHEMA, columns)
    assert not draft.undecided
    assert draft.lines[1].rule == {
        "column": "smoking",
        "recode": {"1": "never", "2": "former", "8": "current"},
    }
