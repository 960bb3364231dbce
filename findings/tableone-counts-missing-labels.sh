#!/usr/bin/env bash
# tableone 0.9.6 (Python), pandas 2.3.3, Python 3.11: shares of a Table 1 where some people have no label.
#
# Expected: shares of those who have a label, 50 of 80 are 62.5 %.
# Seen: by default "None" is a label of its own and stands in the denominator: 50.0 %. `include_null=False` gives 62.5.
# Means and deviations of numbers leave missing values out, in the same table.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "tableone==0.9.6" "pandas==2.3.3"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys
import pandas as pd
from tableone import TableOne

rows = pd.DataFrame({"smokes": ["no"] * 50 + ["yes"] * 30 + [None] * 20})


def shares(**options):
    table = TableOne(rows, columns=["smokes"], categorical=["smokes"], **options).tableone
    return {label: cell for (_, label), cell in table.iloc[1:, -1].items()}


by_default, without = shares(), shares(include_null=False)
print(by_default, without)
as_seen = by_default["no"] == "50 (50.0)" and "None" in by_default and without["no"] == "50 (62.5)"
sys.exit(0 if as_seen else 1)
PYTHON
