"""What a cell's text says, by itself: numbers in every spelling, days, times, and missing."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.schema.texts import (
    MISSING_WORDS,
    day_of_text,
    is_missing,
    is_number_label,
    label_number,
    labels_of_one_number,
    number_of_text,
    seconds_of_text,
)

whole = st.integers(-(10**20), 10**20)


@given(whole=whole, places=st.integers(0, 6), zeros=st.integers(0, 3), data=st.data())
def test_a_number_is_one_number_in_every_spelling(
    whole: int, places: int, zeros: int, data: st.DataObject
) -> None:
    number = Decimal(whole).scaleb(-places)
    plain = f"{number:f}"
    point = "" if "." in plain or not zeros else "."
    spellings = [
        plain,
        plain + point + "0" * zeros,
        f"{number:e}",
        f"{number:E}".replace("E+", "E+0"),
        plain.replace("0.", ".", 1) if plain.lstrip("-").startswith("0.") else plain,
        plain if plain.startswith("-") else "+" + plain,
        f"{whole}E-{places}",
        plain + "." if "." not in plain else plain,
    ]
    spelled = data.draw(st.sampled_from(spellings))
    assert label_number(spelled) == number


@pytest.mark.parametrize(
    "text",
    [
        *["", ".", "-", "e5", "01", "-007", "00.5", "1e", "1e+", "1e1234", "1_0", "0x1", "1 0"],
        *["+-1", "٣", "1.2.3", "1,5", "1e5e5", "1" * 2000, "NaN", "inf", "1d5"],
    ],
)
def test_what_is_no_number_or_a_code_with_a_zero_before_it_spells_none(text: str) -> None:
    assert label_number(text) is None
    assert not is_number_label(text)


@given(st.one_of(whole.map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr)))
def test_numbers_as_they_are_written_are_number_labels(text: str) -> None:
    assert is_number_label(text.removesuffix(".0")) == (text not in ("-0", "-0.0"))


@pytest.mark.parametrize("code", ["1.10", "1.0", "0.50", ".5", "5.", "+1", "1E50", "1e5", "-0"])
def test_a_code_that_a_number_would_not_keep_is_a_text(code: str) -> None:
    assert not is_number_label(code)
    assert label_number(code) is not None


def test_labels_that_are_one_number_are_found() -> None:
    labels = ["1.1", "a", "1.10", "2", "010", "10", "2.0", "2e0"]
    assert labels_of_one_number(labels) == [["1.1", "1.10"], ["2", "2.0", "2e0"]]


@pytest.mark.parametrize("word", [*MISSING_WORDS, "", "nan", "-NaN", "nan(x_1)"])
def test_a_word_for_missing_is_no_number_and_no_day(word: str) -> None:
    assert is_missing(word)
    for value in (number_of_text(f" {word}\t"), day_of_text(f" {word}\t")):
        assert value != value


@pytest.mark.parametrize("word", ["na", "..", "NAN1", "none of these", "NULLS", "-", "N A"])
def test_other_words_are_not_missing(word: str) -> None:
    assert not is_missing(word)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2020-01-31T23:00:00Z", 82_800),
        (" 2020-01-31 22:30:15.5+02:00 ", 81_015),
        ("2020-01-31 07:05", 25_500),
        ("2020-01-31", None),
        ("2020-01-31 noon", None),
        ("31.01.2020 07:05", None),
        ("2020-01-31 0a:05:00", None),
        ("", None),
    ],
)
def test_the_time_of_a_day_is_read_from_text_with_a_day(text: str, seconds: int | None) -> None:
    assert seconds_of_text(text) == seconds
