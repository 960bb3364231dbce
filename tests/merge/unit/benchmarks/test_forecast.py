"""Forecasts are compared for every subject, with histograms and without."""

from decimal import Decimal

import pytest

from benchmarks import forecast
from dppca.common.kernel.privacy.laws import LAWS


def test_a_study_with_histograms_is_forecast_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """At epsilon 5 next to everything is captured, whatever the noise that is drawn."""
    monkeypatch.setattr(forecast, "GRID", (Decimal(5),))
    found = forecast.compare("demo", forecast.SUBJECTS["demo"](), 2, lambda: None)
    assert [each.mechanism for each in found] == list(LAWS)
    for each in found:
        assert each.measured == pytest.approx(each.forecast, abs=0.02)
        assert each.measured > 0.95
