"""Forms of dates: each text has one day at most."""

from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.owner.records.date_forms import read_form
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("form", "text", "day"),
    [
        ("DD.MM.YYYY", "31.01.2020", "2020-01-31"),
        ("DD.MM.YYYY", "31.01.2020 23:10", "2020-01-31 23:10"),
        ("DD.MM.YYYY", "1.2.2020", None),
        ("DD.MM.YYYY", "31.02.2020", None),
        ("DD.MM.YYYY", "31.01.20201", None),
        ("DD.MM.YYYY", "2020-01-31", None),
        ("D.M.YYYY", "1.2.2020", "2020-02-01"),
        ("D.M.YYYY", "01.02.2020", "2020-02-01"),
        ("mm/dd/yyyy", "01/02/2020", "2020-01-02"),
        ("YYYYMMDD", "20200131", "2020-01-31"),
        ("DD-MON-YYYY", "31-JAN-2020", "2020-01-31"),
        ("DD-MON-YYYY", "31-MAI-2020", None),
        ("DDMONYYYY", "31jan2020:10:05:00", "2020-01-31 10:05:00"),
        ("seconds since 1582-10-14", "13799808000", "2020-01-31"),
        ("seconds since 1582-10-14", "13799894399.9", "2020-01-31"),
        ("days since 1960-01-01", "21945", "2020-01-31"),
        ("days since 1960-01-01", "-0.5", "1959-12-31"),
        ("milliseconds since 1960-01-01", "1.896048e12", "2020-01-31"),
        ("days since 1960-01-01", "1e30", None),
        ("days since 1960-01-01", "Infinity", None),
        ("days since 1960-01-01", "1" * 99, None),
    ],
)
def test_a_date_is_read_by_its_form_alone(form: str, text: str, day: str | None) -> None:
    assert read_form(form)(text) == day


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("DD.MM.YY", "two digits has two meanings"),
        ("DMYYYY", "M and D need a mark"),
        ("YYYYMD", "M and D need a mark"),
        ("DD.MM.YYYY.", "dates have one form"),
        ("DD.DD.YYYY", "dates have one form"),
        ("days since yesterday", "dates have one form"),
        ("days since 1960-13-01", "month"),
    ],
)
def test_a_form_of_two_meanings_is_refused(form: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_form(form)


@settings(max_examples=examples(200))
@given(
    day=st.dates(),
    order=st.permutations(["YYYY", "MM", "DD"]),
    mark=st.sampled_from(["", ".", "/", "-", " "]),
)
def test_every_day_written_by_a_form_is_read_back(day: date, order: list[str], mark: str) -> None:
    parts = {"YYYY": f"{day.year:04}", "MM": f"{day.month:02}", "DD": f"{day.day:02}"}
    text = mark.join(parts[each] for each in order)
    assert read_form(mark.join(order))(text) == day.isoformat()
