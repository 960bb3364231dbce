"""Forecasts of a study from public numbers, before any budget is spent."""
