"""Rows of studies are as far from the real ones as the plan says, and forms are in its order."""

from benchmarks import forecast_rows
from benchmarks.experiment import group_runs

FALSE_ALARMS = 0.0  # all noise has a seed
FORMS = ("plain", "8 bins", "histograms", "20 bins")


def test_two_way_tables_are_forecast_within_the_range_and_in_order() -> None:
    trials = [
        forecast_rows.RowsTrial(table, form, epsilon, 0)
        for table in ("sensors", "loans")
        for form in FORMS
        for epsilon in ("3", "8")
    ]
    runs = [forecast_rows.run_trial(trial) for trial in trials]
    cells = [forecast_rows.judge(each) for each in group_runs(runs, forecast_rows.CELL).values()]
    assert sum(each["inside"] for each in cells) >= 0.85 * len(cells)
    orders = forecast_rows.count_orders(cells)
    assert orders["far, right"] >= 15
    assert orders["far, right"] >= 9 * orders["far, wrong"]
