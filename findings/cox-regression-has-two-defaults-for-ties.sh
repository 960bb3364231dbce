#!/usr/bin/env bash
# statsmodels 0.15.0, scikit-survival 0.28.0, lifelines 0.30.3, Python 3.11: Cox regression of times in whole months.
#
# Expected: one hazard ratio, since a likelihood has one maximum.
# Seen: where people die in the same month, by default statsmodels and scikit-survival take Breslow's likelihood, and
# lifelines (like R's survival 3.5.3, run beside) Efron's: of 200 people whose times are 1 to 19 months the hazard ratio
# is 1.53 or 1.61. Told ties="efron" all agree.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "lifelines==0.30.3" "statsmodels==0.15.0" "scikit-survival==0.28.0" \
    "numpy==2.4.6" "pandas==2.3.3"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import pandas as pd
from lifelines import CoxPHFitter
from sksurv.linear_model import CoxPHSurvivalAnalysis
from statsmodels.duration.hazard_regression import PHReg

rng = np.random.default_rng(0)
group = rng.integers(0, 2, 200).astype(float)
months = np.ceil(rng.exponential(np.where(group == 1, 2, 4)))
died = rng.random(200) < 0.7
both = np.array([*zip(died, months)], dtype=[("died", bool), ("months", float)])
frame = pd.DataFrame({"months": months, "died": died, "group": group})
X = group[:, None]
logs = {
    "statsmodels": PHReg(months, X, status=died).fit().params[0],
    "scikit-survival": CoxPHSurvivalAnalysis().fit(X, both).coef_[0],
    "lifelines": CoxPHFitter().fit(frame, "months", "died").params_["group"],
    "statsmodels, Efron": PHReg(months, X, status=died, ties="efron").fit().params[0],
    "scikit-survival, Efron": CoxPHSurvivalAnalysis(ties="efron").fit(X, both).coef_[0],
}
ratios = {name: round(float(np.exp(each)), 2) for name, each in logs.items()}
print(months.max(), ratios)
sys.exit([*ratios.values()] != [1.53, 1.53, 1.61, 1.61, 1.61])
PYTHON
