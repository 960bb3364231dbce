#!/usr/bin/env bash
# lifelines 0.30.3, statsmodels 0.15.0, Python 3.11: median survival of people who all die, one each month.
#
# Expected: one answer where half are alive between two deaths: the first of these, or what lies between them.
# Seen, four people, deaths in months 1 to 4: lifelines says 2, statsmodels 3 (and R's survival 3.5.3, run beside,
# 2.5). Of six people lifelines says 4, which is the later one: there its half is 0.5000000000000001. So its answer
# depends on how a product is rounded.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "lifelines==0.30.3" "statsmodels==0.15.0" "numpy==2.4.6" "pandas==2.3.3"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
from lifelines import KaplanMeierFitter
from statsmodels.duration.survfunc import SurvfuncRight

found = {}
for people in (4, 6, 10):
    times, died = np.arange(1.0, people + 1), np.ones(people)
    first = KaplanMeierFitter().fit(times, died).median_survival_time_
    found[people] = float(first), float(SurvfuncRight(times, died).quantile(0.5))
    print(f"{people} people: lifelines {found[people][0]}, statsmodels {found[people][1]}")
sys.exit(found != {4: (2.0, 3.0), 6: (4.0, 4.0), 10: (5.0, 6.0)})
PYTHON
