"""Questions of a study: what a line says, what it would get, and what is refused beforehand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dppca.common.analysis.estimates.answers import EXPLORATORY, Estimate, NotEstimable, as_family
from dppca.common.analysis.estimates.face import estimates
from dppca.common.analysis.estimates.forecast import ALPHA, forecast_questions, require_answerable
from dppca.common.analysis.estimates.questions import QUESTIONS, question_words, read_question
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.errors import SettingError, StudyError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import MAX_QUESTIONS, Study, study_from_canonical
from tests.support.pooling import pooled_result
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

FALSE_ALARMS = 0.0  # all draws have seeds
COLUMNS = [
    numeric_of("age", 0, 100, histogram=True, bins=20),
    binary_of("sex", ["f", "m"]),
    binary_of("ill", ["no", "yes"]),
    categorical_of("region", ["north", "east", "south"]),
]
ASKED = ("logit ill ~ sex + region", "mean age by sex", "correlation age ill", "components")


def _study(*questions: str, **changes: Any) -> Study:
    more = {"questions": questions} if questions else {}
    return make_study(COLUMNS, owners=["a", "b", "c"], epsilon="3", **more, **changes)


def _forecast(*questions: str, rows: int = 4000) -> dict[str, Any]:
    study = _study(*questions)
    found = forecast_questions(expected_moments(study, calibrate(study), [rows] * 3))
    return {each.question: each for each in found}


@pytest.mark.parametrize(
    ("line", "names", "options"),
    [
        ("mean age by sex", ("age",), {"by": "sex"}),
        ("logit ill ~ age + sex:region", ("ill ~ age + sex:region",), {}),
        ("difference age by region labels south north", ("age",),
         {"by": "region", "labels": ("south", "north")}),
        ("odds-ratio region=south ill=yes against north", ("region=south", "ill=yes"),
         {"against": "north"}),
        ("share 'first word' by sex", ("first word",), {"by": "sex"}),
        ("summary", (), {}),
        ("correlation age by sex", ("age", "by", "sex"), {}),
    ],
)  # fmt: skip
def test_a_line_is_read_as_the_command_reads_it(
    line: str, names: tuple[str, ...], options: dict[str, Any]
) -> None:
    found = read_question(line)
    assert (found.kind, found.names, found.options) == (line.split()[0], names, options)
    assert found.words == f"{QUESTIONS[found.kind].words}: {line.partition(' ')[2]}".rstrip(": ")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("average age", "average is no question: mean, share"),
        ("mean", "mean takes 1 names or labels, not 0"),
        ("mean age sex", "mean takes 1 names or labels, not 2"),
        ("difference age", "needs --by"),
        ("mean 'age", "a quotation mark has no partner"),
    ],
)
def test_what_is_no_question_is_refused_and_shown_as_it_stands(line: str, why: str) -> None:
    with pytest.raises(SettingError, match=why):
        read_question(line)
    assert question_words(line) == line
    with pytest.raises(StudyError, match="cannot answer its questions: ") as refused:
        require_answerable(_study(line))
    assert why in str(refused.value)


def test_questions_are_of_the_document_and_old_documents_are_as_they_were() -> None:
    silent, asking = _study(), _study(*ASKED)
    assert b"questions" not in silent.canonical_bytes()
    assert asking.digest != silent.digest
    assert study_from_canonical(asking.canonical_bytes()).questions == ASKED
    require_answerable(silent)
    for wrong, why in (
        ((ASKED[1], ASKED[1]), "questions must differ: mean age by sex twice"),
        ([f"mean age by {i}" for i in range(MAX_QUESTIONS + 1)], "questions"),
    ):
        with pytest.raises(StudyError, match=why):
            _study(*wrong)


@pytest.mark.parametrize(
    ("line", "way_out"),
    [
        ("median age by sex", "that needs a table of"),
        ("logit ill ~ age + sex", "table"),
        ("marginal-effects ill ~ age + sex", "table"),
        ("logit ill ~ sex:region", "it needs a released table of sex, region, ill"),
        ("mean bmi", "bmi"),
        ("survival age ill", "counted no cells of age beside ill"),
    ],
)
def test_a_question_that_a_study_cannot_answer_is_refused_with_the_way_out(
    line: str, way_out: str
) -> None:
    with pytest.raises(StudyError) as refused:
        require_answerable(_study(*ASKED[1:], line))
    told = str(refused.value)
    assert f"the study cannot answer its questions: {line}: " in told
    assert way_out in told
    assert not any(f"{each}: " in told for each in ASKED[1:])


def test_a_question_needs_no_more_than_what_it_was_told_to_need() -> None:
    tables = [{"table": ["age", "sex"], "cells": {"age": 10}}, {"table": ["sex", "region", "ill"]}]
    asked = ("median age by sex", "logit ill ~ sex:region")
    require_answerable(_study(*asked, tables=tables))


def test_forecasts_are_of_intervals_that_hold_all_at_once_and_narrow_with_rows() -> None:
    alone, both = _forecast("mean age by sex"), _forecast(*ASKED)
    widths = [each["mean age by sex"].widths[0].reach for each in (alone, both)]
    assert widths[0] < widths[1]
    assert _forecast(*ASKED, rows=40_000)["mean age by sex"].widths[0].reach < widths[1] / 2
    odds = both["logit ill ~ sex + region"]
    assert [each.question for each in odds.widths] == ["sex=m", "region=east", "region=south"]
    assert all(each.is_factor and 1 < each.reach < 2 for each in odds.widths)
    assert odds.text.startswith("sex=m a factor of 1.")
    assert both["components"].text == "no forecast"
    assert _forecast("mean bmi")["mean bmi"].text.startswith("CANNOT BE ANSWERED: ")


@pytest.mark.parametrize(
    ("line", "is_exploratory"),
    [
        ("logit ill ~ sex + region", False),
        ("logit 'ill ~ sex+region'", False),
        ("logit ill sex region", False),
        ("logit ill ~ region", True),
        ("marginal-effects ill ~ sex + region", True),
        ("mean age by sex", False),
        ("mean age", True),
    ],
    ids=lambda each: str(each).replace(" ", "-"),
)
def test_what_the_study_does_not_ask_is_exploratory(line: str, *, is_exploratory: bool) -> None:
    asked = estimates(_published(_study(*ASKED), 4000))
    answer = read_question(line).ask(asked)
    assert (EXPLORATORY in answer.assumptions) == is_exploratory
    assert (EXPLORATORY.split(":")[0] in " ".join(answer.summary().split())) == is_exploratory
    assert all(EXPLORATORY not in each.assumptions for each in as_family([answer], "holm"))
    without = estimates(_published(_study(), 4000))
    assert EXPLORATORY not in read_question(line).ask(without).assumptions


def test_values_that_are_spread_evenly_get_the_intervals_of_the_forecast() -> None:
    asked = estimates(_published(_study(*ASKED[:3]), 4000))
    answers = as_family([read_question(each).ask(asked) for each in ASKED[:3]], "bonferroni")
    found = _forecast(*ASKED[:3])
    for answer, line in zip(answers, ASKED[:3], strict=True):
        ends = dict(zip(answer.names, answer.conf_int(ALPHA), strict=True))
        known = [each for each in found[line].widths if each.question in ends]
        assert known  # all but of the label that is the largest by chance
        for each in known:
            low, high = ends[each.question]
            reach = (high / low) ** 0.5 - 1 if each.is_factor else (high - low) / 2
            assert reach == pytest.approx(each.reach - each.is_factor, rel=0.25)


def test_a_family_counts_every_estimate_and_a_refused_one_as_1() -> None:
    asked = estimates(_published(_study(*ASKED), 900))
    one = asked.correlation("age", "ill")
    refused = Estimate("lost", refused=NotEstimable("noise", "x", None, 4.0, None, None))
    two = replace(asked.mean("age", by="sex"), estimates=(refused,))
    holm, other = as_family([one, two], "holm")
    (own,) = one.pvalues
    assert holm.family is not None
    assert holm.family.size == 2
    assert holm.pvalues[0] == pytest.approx(min(1, 2 * own))
    assert np.isnan(other.pvalues[0])
    wide = as_family([one, two], "bonferroni")[0]
    np.testing.assert_allclose(wide.conf_int(0.05), one.conf_int(0.025))
    assert wide.document().family == 2
    assert "bonferroni of all 2 of the study" in " ".join(wide.summary().split())


def _published(study: Study, rows: int) -> Published:
    rng = np.random.default_rng(9)
    parts = [
        [rng.uniform(0, 100, rows), *(rng.integers(0, size, rows, np.int32) for size in (2, 2, 3))]
        for _ in range(3)
    ]
    moments = [accumulate_moments(study.table, part) for part in parts]
    return Published(study, pooled_result(study, moments, seed=9))
