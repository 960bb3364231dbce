"""Names and labels are compared without capitals, accents, blanks and marks."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.owner.records.normal_forms import likeness, normal_form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BirthDate", "birth_date"),
        ("HTTPServer", "http server"),
        ("Île-de-France", "ile de france"),
        ("Ｓｅｘ", "sex"),
        ("  MÄNNLICH ", "mannlich"),
        ("Straße", "STRASSE"),
        ("Łódź", "lodz"),
        ("ø", "O"),
    ],
)
def test_spellings_of_one_word_have_one_form(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)
    assert likeness(one, other) >= 0.95


@given(st.text(max_size=20))
def test_a_form_is_its_own_and_that_of_each_unicode_form(text: str) -> None:
    form = normal_form(text)
    assert normal_form(form) == form
    assert normal_form(unicodedata.normalize("NFD", text)) == normal_form(
        unicodedata.normalize("NFC", text)
    )


def test_likeness_falls_from_equal_names_to_others() -> None:
    names = ["birth_date", "Birth Date", "birthdate", "date_birth", "birth_day", "income"]
    scores = [likeness("birth_date", name) for name in names]
    assert scores[:4] == [1.0, 0.98, 0.95, 0.9]
    assert 0.55 < scores[4] < 0.85
    assert scores[5] < 0.55
    assert likeness("--", "..") == 0.0
