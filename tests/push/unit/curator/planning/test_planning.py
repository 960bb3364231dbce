"""Plans: forecasts over epsilon, what would be enough, and what is refused."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import RangeError, SettingError, TooManyRowsError
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.study import Study, Trust
from dppca.curator.planning.assumptions import Assumption, given_eigenvalues, power_law
from dppca.curator.planning.forecaster import GOOD, Feasibility
from dppca.curator.planning.plan import PlanSeconds, StudyPlan, advised_resolution, make_plan
from dppca.curator.planning.plan_text import plan_text
from tests.support.masked import make_masked_study
from tests.support.studies import make_study

DELTA = Decimal("1e-9")
SECONDS = PlanSeconds(draw=0.1, decompose=0.2, transfer=0.3, megabits=100)


def _study(**changes: Any) -> Study:
    attributes: list[dict[str, Any]] = [
        *({"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in range(5)),
        {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
    ]
    fields = {"name": "pilot", "owners": ["east", "west"], "components": {"count": 2}, **changes}
    return make_study(attributes, **fields)


def _plan(study: Study, rows: int, **settings: Any) -> StudyPlan:
    assumption = settings.pop("assumption", power_law(study.table.layout, 1, 0.5))
    settings.setdefault("delta", None)
    settings.setdefault("grid", [Decimal("0.1"), Decimal(10)])
    made = make_plan(study, dict.fromkeys(study.owners, rows), assumption, **settings)
    return replace(made, seconds=SECONDS)


def test_the_studys_own_line_stands_among_the_grids() -> None:
    plan = _plan(_study(), 500, delta=DELTA)
    assert [(line.mechanism, line.epsilon) for line in plan.forecasts] == [
        (mechanism, Decimal(epsilon))
        for mechanism in ("laplace", "gaussian", "matrix-laplace")
        for epsilon in ("0.1", "1", "10")
    ]
    assert plan.requested.mechanism == "laplace"
    assert plan.requested.epsilon == 1
    assert plan.alternative is not None
    assert (plan.alternative.mechanism, plan.alternative.epsilon) == (
        "matrix-laplace",
        Decimal(1),
    )
    captured = [line.forecast.captured for line in plan.forecasts[:3] if line.forecast]
    assert captured == sorted(captured)


def test_the_width_of_intervals_stands_under_each_epsilon() -> None:
    plan = _plan(_study(), 5000, grid=[Decimal("0.1"), Decimal(10)])
    lines = plan_text(plan).splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("Intervals of 95 %"))
    assert lines[first + 1].split()[-3:] == ["0.1", "1", "10"]
    ages = [line.widths[0].text for line in plan.forecasts if line.mechanism == "laplace"]
    shown = lines[first + 2].removeprefix("  mean of age").split("±")[1:]
    assert [f"± {each.strip()}" for each in shown] == ages


def test_a_plan_forecasts_the_studys_own_questions() -> None:
    asked = ["mean age by sex", "components"]
    found = _plan(make_study("census", questions=asked), 4000, grid=())
    assert [each.question for each in found.questions] == asked
    text = plan_text(found)
    assert "  mean: age by sex: age where sex=Female ± " in text
    assert "The study's questions" not in plan_text(_plan(make_study("census"), 4000, grid=()))


def test_tables_are_forecast_to_be_closer_with_a_larger_epsilon_and_with_more_rows() -> None:
    found = []
    for rows in (100, 1000, 10_000):
        plan = _plan(_study(), rows)
        tables = [line.tables for line in plan.forecasts if line.tables]
        found.append([each.likely for each in tables[:3]])
        asked = plan.requested.tables
        assert asked is not None
        said = f"off by {asked.low:.2g} to {asked.high:.2g} in nine of ten studies"
        assert said in plan_text(plan)
    assert all(1 >= a > b > c > 0 for a, b, c in found)  # epsilon 0.1, 1 and 10
    assert all(1 >= a > b > c > 0 for a, b, c in zip(*found, strict=True))
    alone = make_study([{"name": "c", "type": "categorical", "categories": list("uvw")}])
    assert "two-way tables" not in plan_text(_plan(alone, 500))


def test_a_plan_puts_no_form_first_that_is_about_as_good_or_that_noise_covers() -> None:
    numbers = [
        {"name": name, "type": "numeric", "lower": 0, "upper": 1, "histogram": True}
        for name in ("x", "y")
    ]
    few = make_study(numbers, name="pilot", owners=["east"], components={"count": 1})
    shown = [_plan(_study(), 5000), _plan(few, 2)]
    clear, covered = (plan.requested.tables for plan in shown)
    assert clear is not None
    assert clear.better_below is not None
    assert not clear.is_above(replace(clear, likely=clear.likely / 1.09))
    assert clear.is_above(replace(clear, likely=0.99 * clear.better_below))
    assert covered is not None
    assert covered.better_below is None
    close, lost = (plan_text(plan) for plan in shown)
    assert f"about as good, unless theirs is below {clear.better_below:.2g}" in close
    assert "noise covers which form of the study would be better" in lost


def test_a_plan_divides_the_budget_between_two_studies_where_it_is_enough() -> None:
    for rows, said in ((20, "would hide the counts"), (50_000, "epsilon 0.5 each, 1 together")):
        plan = _plan(_study(), rows)
        assert plan.rounds is not None
        assert plan.rounds.epsilon == Decimal("0.5")
        assert plan.rounds.size.is_clear == (rows > 20)
        assert said in plan_text(plan)
        assert ("three attributes or more" in plan_text(plan)) == (rows > 20)
        assert plan.numbers is not None
        assert f"rows: {plan.numbers.words}" in plan_text(plan)


def test_gaussian_noise_is_left_out_without_a_delta_and_a_study_of_it_brings_its_own() -> None:
    plan = _plan(_study(), 500)
    assert {line.mechanism for line in plan.forecasts} == {"laplace", "matrix-laplace"}
    assert plan.alternative is not None
    assert plan.alternative.mechanism == "matrix-laplace"
    study = _study(epsilon="1", delta="1e-6")
    plan = _plan(study, 500)
    assert plan.requested.mechanism == "gaussian"
    assert plan.requested.delta == Decimal("1e-6")
    with pytest.raises(SettingError, match="leave --delta out"):
        _plan(study, 500, delta=DELTA)


@pytest.mark.parametrize("mechanism", LAWS)
def test_the_smallest_epsilon_is_enough_and_three_quarters_of_it_are_not(
    mechanism: str,
) -> None:
    least = _plan(_study(), 800, delta=DELTA).need(mechanism).epsilon
    assert least is not None
    grid = [least * Decimal("0.75"), least]
    lines = [
        line
        for line in _plan(_study(), 800, delta=DELTA, grid=grid).forecasts
        if line.mechanism == mechanism and line.epsilon in grid
    ]
    assert [line.forecast.captured >= GOOD for line in lines if line.forecast] == [False, True]


def test_the_rows_and_the_owners_asked_for_are_enough_and_half_are_not() -> None:
    study, rows = _study(epsilon="0.2"), 100
    need = _plan(study, rows).need("laplace")
    assert need.rows_per_owner is not None
    assert need.owners is not None
    assert need.rows_per_owner > 2 * rows

    def captured(owners: int, rows: int) -> float:
        larger = study.model_copy(update={"owners": tuple(f"o{i}" for i in range(owners))})
        outlook = _plan(larger, rows).requested.forecast
        assert outlook is not None
        return outlook.captured

    assert captured(2, need.rows_per_owner) == pytest.approx(GOOD, abs=0.02)
    assert captured(2, need.rows_per_owner // 2) < GOOD - 0.02
    assert captured(need.owners, rows) == pytest.approx(GOOD, abs=0.03)
    assert captured(need.owners // 4, rows) < GOOD - 0.02


def test_a_study_with_few_rows_cannot_work_and_one_with_plenty_wants_no_delta() -> None:
    plan = _plan(_study(), 3)
    assert plan.requested.verdict is Feasibility.CANNOT
    assert "THIS STUDY CANNOT WORK at epsilon 1" in plan_text(plan)
    plan = _plan(_study(), 1_000_000, delta=DELTA)
    assert plan.requested.verdict is Feasibility.WORKS
    assert plan.recommended == "laplace"
    text = plan_text(plan)
    assert "works at epsilon 1 (laplace)" in text
    assert "as in the study: Laplace noise keeps " in text
    assert "Gaussian noise keeps" not in text


def test_gaussian_noise_is_recommended_where_it_captures_more() -> None:
    attributes = [{"name": f"x{i}", "type": "numeric", "lower": 0, "upper": 1} for i in range(40)]
    plan = _plan(
        _study(schema={"max_rows_per_person": 1, "attributes": attributes}), 1500, delta=DELTA
    )
    assert plan.recommended == "gaussian"
    text, other = plan_text(plan), plan.alternative
    assert other is not None
    assert other.forecast is not None
    assert "Recommended: the gaussian mechanism instead: Gaussian noise keeps " in text
    assert f"Gaussian noise keeps {100 * other.forecast.captured:.1f}" in text
    assert text.count("; its price is the delta") == 1
    assert plan.reason in text


def test_an_epsilon_whose_noise_leaves_the_integers_is_shown_as_refused() -> None:
    tiny = Decimal("1e-12")
    plan = _plan(_study(), 500, grid=[tiny])
    line = next(line for line in plan.forecasts if line.epsilon == tiny)
    assert (line.verdict, line.forecast, line.noise) == (Feasibility.REFUSED, None, None)
    assert "leave their range" in plan_text(plan)
    with pytest.raises(RangeError):
        _plan(_study(epsilon="1e-12"), 500)


def test_noise_out_of_all_proportion_has_no_remedy() -> None:
    flat = (1e-9,) * 6
    need = _plan(_study(), 1, assumption=Assumption(flat, "next to nothing")).needs[0]
    assert (need.epsilon, need.rows_per_owner, need.owners) == (None, None, None)


def test_rows_that_do_not_fit_the_study_are_refused() -> None:
    study = _study()
    for rows, words in (
        ({"east": 5}, "no rows for west"),
        ({"east": 5, "west": 5, "north": 5}, "no owner of study pilot: north"),
        ({"east": 5, "west": 0}, "at least 1 row, but not west"),
    ):
        with pytest.raises(SettingError, match=words):
            make_plan(study, rows, power_law(study.table.layout, 1, 1), delta=None)
    with pytest.raises(TooManyRowsError, match="at most 49 from each of its 2 owners"):
        _plan(_study(max_rows=99), 50)


def test_given_eigenvalues_are_sorted_and_filled_up_and_those_of_no_table_are_refused() -> None:
    layout = _study().table.layout
    found = given_eigenvalues(layout, [0.1, 0.5, -0.2], "pilot.npz")
    assert found.eigenvalues == (0.5, 0.1, 0, 0, 0, 0)
    assert found.source == "eigenvalues of pilot.npz"
    for values, words in (
        ([], "finite"),
        ([float("inf")], "finite"),
        ([0, -1], "above 0"),
        ([0.1] * 7, "7 eigenvalues"),
        ([2.0], "coded units"),
    ):
        with pytest.raises(SettingError, match=words):
            given_eigenvalues(layout, values, "file.txt")
    for exponent, share in ((-1, 1), (float("nan"), 1), (1, 0), (1, 1.5)):
        with pytest.raises(SettingError, match="a power law needs"):
            power_law(layout, exponent, share)


def test_the_advised_resolution_follows_the_smallest_component_of_interest() -> None:
    layout = _study().table.layout
    bits = [advised_resolution(layout, value) for value in (0.1, 1e-3, 1e-5, 1e-12)]
    assert bits == [6, 7, 10, 14]
    binary = _study(
        schema={
            "max_rows_per_person": 1,
            "attributes": [{"name": f"b{i}", "type": "binary", "values": [0, 1]} for i in "uv"],
        },
        components={"count": 1},
    )
    assert advised_resolution(binary.table.layout, 1e-12) == 6


def test_both_kinds_of_trust_stand_side_by_side() -> None:
    """The noise of the sum: sqrt(10) of one mechanism's, or sqrt(10 / 9)."""
    owners = [f"owner-{place}" for place in range(10)]
    plan = _plan(_study(owners=owners), 20, colluders=1)
    mine, other = plan.trusts
    assert (mine.trust, mine.honest, mine.forecast) == (Trust.OWNER, None, plan.requested)
    assert (other.trust, other.colluders, other.honest) == (Trust.AGGREGATE, 1, 9)
    assert (mine.factor, other.factor) == pytest.approx((np.sqrt(10), np.sqrt(10 / 9)))
    assert mine.forecast.noise is not None
    assert other.forecast.noise == pytest.approx(mine.forecast.noise / 3)
    assert mine.forecast.forecast is not None
    assert other.forecast.forecast is not None
    assert other.forecast.forecast.captured > mine.forecast.forecast.captured
    assert other.forecast.forecast.noise_edge < 0.5 * mine.forecast.forecast.noise_edge
    assert "trust: aggregate, colluders: 1 (h = 9)" in plan_text(plan)
    assert len(_plan(_study(owners=owners), 20).trusts) == 1


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_a_plan_of_a_sum_is_by_the_noise_of_its_pool(mechanism: str) -> None:
    attributes = _study().model_dump(mode="json", by_alias=True)["schema"]["attributes"]

    def planned(n_owners: int) -> StudyPlan:
        fields = {"epsilon": "0.2", "attributes": attributes, "components": {"count": 2}}
        study = make_masked_study(n_owners, 2, mechanism=mechanism, **fields).study
        return _plan(study, 30, delta=None if mechanism == "gaussian" else DELTA, grid=[])

    plan = planned(6)
    assert [each.trust for each in plan.trusts] == [Trust.AGGREGATE, Trust.OWNER]
    noises = [each.forecast.noise for each in plan.trusts]
    assert noises[1] == pytest.approx(noises[0] * np.sqrt(5), rel=1e-3)
    assert plan.trusts[0].forecast == plan.requested
    mine, other = plan.trusts
    assert other.if_more_collude is None
    assert mine.if_more_collude is not None
    assert (mine.if_more_collude.all_others is None) == (mechanism == "laplace")
    assert mine.if_more_collude.words in plan_text(plan)
    need = plan.need(plan.requested.mechanism)
    assert need.owners is not None
    assert need.owners > 6
    enough = planned(need.owners).requested.forecast
    assert enough is not None
    assert enough.captured == pytest.approx(GOOD, abs=0.03)


def test_a_study_has_the_colluders_that_it_says_or_those_that_its_owners_allow() -> None:
    masked, three = make_masked_study(4, 2).study, {"owners": ["a", "b", "c"]}
    plan = _plan(masked, 500, colluders=1, grid=[])
    assert len(plan.trusts) == 2
    assert plan.bytes_up > 8 * masked.table.layout.n_entries + 2 * 1136, "seals are sent too"
    for study, colluders, words in (
        (_study(), 1, "must be in 1..0"),
        (_study(**three), 2, "must be in 1..1"),
        (_study(**three, covariance="within"), 1, "trust: owner"),
        (masked, 2, "leave --colluders out"),
    ):
        with pytest.raises(SettingError, match=words):
            _plan(study, 500, colluders=colluders, grid=[])


def test_a_sum_whose_shares_would_be_too_small_is_shown_as_refused() -> None:
    narrow = {"mechanism": "gaussian", "scale": "0.003", "delta": "1e-6"}
    owners = [f"owner-{place}" for place in range(10)]
    study = _study(owners=owners, privacy=narrow, resolution_bits=6)
    _, other = _plan(study, 500, colluders=1, grid=[]).trusts
    assert (other.forecast.verdict, other.forecast.noise) == (Feasibility.REFUSED, None)
