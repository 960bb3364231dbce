"""Whether a study can work, before anything is spent: forecasts from public numbers alone."""
