"""Table 1: its cells are the answers of the single questions, in each layout."""

import csv
import io
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dppca.common.analysis.estimates import summaries
from dppca.common.analysis.estimates.answers import Estimate, NotEstimable
from dppca.common.analysis.estimates.summaries import Summary
from dppca.common.kernel.errors import SettingError
from tests.support.asked import asked, counted

FALSE_ALARMS = 0.0  # all noise has a seed


def _cell(found: Summary, *place: str) -> tuple[float, float, float]:
    """Estimate and ends of the cell of a variable, statistic, label and group."""
    places = [(c.variable, c.statistic, c.label, c.group) for c in found.cells]
    at = places.index(place)  # type: ignore[arg-type]
    return (found.params[at], *found.conf_int()[at])


def _single(answer: object, at: int = 0) -> tuple[float, float, float]:
    return (answer.params[at], *answer.conf_int()[at])  # type: ignore[attr-defined]


def test_each_cell_is_the_answer_of_its_question() -> None:
    few, many = counted().summary(by="sex"), asked().summary(by="region")
    assert_allclose(_cell(few, "age", "mean", "", "all"), _single(counted().mean("age")))
    by_sex = counted().mean("age", by="sex")
    assert_allclose(_cell(few, "age", "mean", "", "sex=m"), _single(by_sex, 1))
    median = counted().median("age", by="sex")
    assert_allclose(_cell(few, "age", "median", "", "sex=f"), _single(median), equal_nan=True)
    difference = counted().difference("age", "sex")
    assert_allclose(_cell(few, "age", "mean", "", "difference"), _single(difference))
    share = asked().proportion("job=b", by="region")
    assert_allclose(_cell(many, "job", "share", "b", "region=east"), _single(share, 1))
    assert_allclose(_cell(many, "job", "share", "b", "all"), _single(asked().proportion("job=b")))
    size, low, high = _cell(many, "rows", "n", "", "region=west")
    assert low <= size <= high
    assert_allclose(size, 6000 * asked().proportion("region=west").params[0])


def test_the_deviation_of_a_number_holds_that_of_the_rows() -> None:
    value, low, high = _cell(counted().summary("age"), "age", "SD", "", "all")
    assert low <= 15.6 <= high, "of ages drawn with a deviation of 15 in two sexes 8 apart"
    assert low <= value <= high


def test_a_mean_and_its_deviation_stand_in_one_row_as_in_journals() -> None:
    found = counted().summary("age", by="sex")
    shown = [
        "52.45 [52.03, 52.87] (15.31 [14.61, 15.98])",
        "48.75 [48.11, 49.39] ([12.5, 16.2])",
        "56.14 [55.51, 56.78] ([13.1, 16.5])",
    ]
    value, low, high = _cell(found, "age", "SD", "", "all")
    assert f"({value:.2f} [{low:.2f}, {high:.2f}])" in shown[0]
    text, html = found.summary(), _Cells()
    html.feed(found.to_html())
    (line,) = [each for each in text.splitlines() if "age, mean" in each]
    assert line.startswith("age, mean (SD)")
    assert [each in line for each in shown] == [True] * 3
    assert set(shown) <= set(html.seen)
    assert " & ".join(["age, mean (SD)", *shown]) in found.to_latex()
    assert "age, SD" not in text
    assert {row["statistic"] for row in csv.DictReader(io.StringIO(found.to_csv()))} >= {
        "mean",
        "SD",
    }


def test_a_deviation_that_is_not_given_by_group_leaves_the_mean_alone() -> None:
    found = asked().summary("age", by="sex")
    (line,) = [each for each in found.summary().splitlines() if each.startswith("age, mean (SD)")]
    assert line.count("[") == 5, "all, its deviation, two groups and their difference"
    assert line.count("(") == 2


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


def test_the_layouts_have_the_same_numbers() -> None:
    found = counted().summary(by="sex")
    shown = "7.40 [6.41, 8.38]"
    value, low, high = _cell(found, "age", "mean", "", "difference")
    assert shown == f"{value:.2f} [{low:.2f}, {high:.2f}]"
    assert shown in found.summary()
    assert shown in found.to_latex()
    html = _Cells()
    html.feed(found.to_html())
    assert shown in html.seen
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert len(rows) == len(found.estimates) == len(found.cells)
    at = [(row["variable"], row["group"]) for row in rows].index(("age", "difference"))
    assert_allclose(float(rows[at]["estimate"]), value)
    assert found.to_latex().count("&") == 4 * (found.to_latex().count(r"\\"))
    assert [found.lay_out(each) for each in summaries.LAYOUTS] == [
        *(found.summary(), found.to_html(), found.to_latex(), found.to_csv())
    ]
    with pytest.raises(SettingError, match="pdf is no layout; take text, html, latex, csv"):
        found.lay_out("pdf")


def test_json_says_where_each_estimate_stands() -> None:
    found = asked().summary("ill", by="sex").document()
    assert found.cells is not None
    assert len(found.cells) == len(found.estimates)
    assert {each.group for each in found.cells} == {"all", "sex=f", "sex=m", "difference"}
    assert asked().mean("age").document().cells is None


def test_what_was_not_released_has_no_row_and_is_said() -> None:
    found = asked().summary("age", by="sex")
    assert [each for each in found.left_out if "counted no cells of age" in each]
    assert not [each for each in found.cells if each.statistic == "median"]
    assert "counted no cells of age" in found.summary()
    adjusted = found.adjusted("bonferroni")
    widths = np.diff(adjusted.conf_int()) >= np.diff(found.conf_int())
    assert widths.all()
    assert isinstance(adjusted, Summary)


def test_a_cell_that_is_refused_is_a_dash_with_a_note() -> None:
    found = asked().summary("ill")
    why = NotEstimable("the noise hides it", "ill", None, 4.0, None, None)
    hidden = replace(
        found, estimates=(found.estimates[0], Estimate("x", refused=why), *found.estimates[2:])
    )
    text = hidden.summary()
    assert "– (a)" in text
    assert "(a) the noise hides it." in text
    assert "-- (a)" in hidden.to_latex()
