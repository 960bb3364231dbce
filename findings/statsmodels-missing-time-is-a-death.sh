#!/usr/bin/env bash
# statsmodels 0.15.0, Python 3.11: a survival curve and a log-rank test where one time is missing.
#
# Expected: an error, as in lifelines 0.30.3, or the row left out.
# Seen: that person is at risk all the time and dies at time nan: survival after three deaths of four is 0.25 and not 0.
# The log-rank test of two groups of three is 0.0002 (p = 0.99) with one time missing; without that row it is 4.26
# (p = 0.04). Nothing is said.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "lifelines==0.30.3" "statsmodels==0.15.0" "numpy==2.4.6" "pandas==2.3.3"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" -W error - <<'PYTHON'
import sys

import numpy as np
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

curve = SurvfuncRight(np.array([1, 2, 3, np.nan]), np.ones(4))
print("curve", curve.surv_times, curve.surv_prob, curve.n_risk)
times, group = np.array([1, 2, np.nan, 4, 5, 6]), np.array([0, 0, 0, 1, 1, 1])
known = ~np.isnan(times)
given = survdiff(times, np.ones(6), group)
without = survdiff(times[known], np.ones(5), group[known])
print(f"log-rank {given[0]:.4f} (p {given[1]:.3f}), without that row {without[0]:.4f} (p {without[1]:.3f})")
seen = np.allclose(curve.surv_prob, [0.75, 0.5, 0.25, 0]) and np.isnan(curve.surv_times[-1])
sys.exit(not (seen and given[1] > 0.9 and without[1] < 0.05))
PYTHON
