#!/usr/bin/env bash
# polars 2.1.0, duckdb 2.0.1, pandas 2.3.3, pyarrow 26.0.1, Python 3.11: the quartiles of 1, 2, 3, 4.
#
# Expected: 1.75 and 2.5 from each function named quantile, which is numpy's and R's default.
# Seen: polars' quantile gives 2 and 3, a value of the column ("nearest"), while its median and its SQL quantile_cont give
# 2.5; duckdb's quantile gives 1 and 2, its quantile_cont 1.75 and 2.5; pandas and pyarrow interpolate.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "polars==2.1.0" "duckdb==2.0.1" "pandas==2.3.3" "pyarrow==26.0.1"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

values, shares = [1, 2, 3, 4], (0.25, 0.5)
rows = "from (select unnest([1, 2, 3, 4]) as x)"
found = {
    "pandas": [float(pd.Series(values).quantile(each)) for each in shares],
    "pyarrow": pc.quantile(pa.array(values), list(shares)).to_pylist(),
    "polars": [pl.Series(values).quantile(each) for each in shares],
    "duckdb": [float(duckdb.sql(f"select quantile(x, {each}) {rows}").fetchall()[0][0]) for each in shares],
}
print(found, "polars' median", pl.Series(values).median())
wanted = {"pandas": [1.75, 2.5], "pyarrow": [1.75, 2.5], "polars": [2.0, 3.0], "duckdb": [1.0, 2.0]}
sys.exit(not (found == wanted and pl.Series(values).median() == 2.5))
PYTHON
