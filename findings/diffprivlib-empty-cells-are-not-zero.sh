#!/usr/bin/env bash
# diffprivlib 0.6.6 with scikit-learn 1.5.2, Python 3.11: cells of a histogram in which there is nobody.
#
# Expected: noise around 0 in them, as in cells with people, so that 1,000 empty cells add nobody to the sum on average.
# Seen: what the noise takes below 0 is set to 0, so an empty cell counts 0.95 people on average at epsilon 0.5, and
# 1,000 of them add 950 people to 10. A full cell is right on average.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "diffprivlib==0.6.6" "scikit-learn==1.5.2" "numpy==2.4.6"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
from diffprivlib import tools

rows = np.full(10, 0.5)
settings = {"epsilon": 0.5, "bins": 1001, "range": (0, 1001)}
counts = np.array([tools.histogram(rows, random_state=seed, **settings)[0] for seed in range(50)])
empty, full = counts[:, 1:].mean(), counts[:, 0].mean()
print(f"empty {empty:.3f}, ten people {full:.2f}, all people {counts.sum(axis=1).mean():.0f}, least {counts.min()}")
sys.exit(not (counts.min() == 0 and 0.8 < empty < 1.1 and 8 < full < 12))
PYTHON
