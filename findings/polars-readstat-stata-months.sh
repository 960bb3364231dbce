#!/usr/bin/env bash
# polars-readstat 0.25.0, Python 3.11: months (%tm) and years (%ty) of a Stata file, which pyreadstat 1.3.7 wrote.
#
# Expected: 720 in a column shown as %tm is January 2020 (months since 1960), or the number 720; 2020 as %ty is the year.
# Seen: both are taken for days since 1960: 21 December 1961 and 13 July 1965, in columns of type Date, without a
# word. pandas reads 1 January 2020 for both.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "polars-readstat==0.25.0" "polars==2.1.0" "pandas==3.1.1" "pyreadstat==1.3.7" "pyarrow==26.0.1"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
from datetime import date
import pandas as pd
import polars_readstat
import pyreadstat

frame = pd.DataFrame({"month": [720.0], "year": [2020.0]})
pyreadstat.write_dta(frame, "rows.dta", variable_format={"month": "%tm", "year": "%ty"})
row = polars_readstat.scan_readstat("rows.dta").collect().row(0)
other = [str(day.date()) for day in pd.read_stata("rows.dta").iloc[0]]
print("polars-readstat:", row, "| pandas:", other)
sys.exit(0 if row == (date(1961, 12, 21), date(1965, 7, 13)) and other == ["2020-01-01"] * 2 else 1)
PYTHON
