#!/usr/bin/env bash
# pyarrow 26.0.1, polars 2.1.0, pandas 2.3.3, duckdb 2.0.1, Python 3.11: how many groups are 0.0 and -0.0?
#
# Expected: one, in each of them, since the two numbers are equal; and one for two NaN.
# Seen: pyarrow's `group_by` and `unique` make two of the zeros, the others one. NaN is one group in all of them.
# Such zeros come from a subtraction or from rounding -0.4. Who counts people of a column of floats by
# pyarrow counts one too many.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "pyarrow==26.0.1" "polars==2.1.0" "pandas==2.3.3" "duckdb==2.0.1"
"$work/venv/bin/pip" freeze
"$work/venv/bin/python" - <<'PYTHON'
import sys
import duckdb
import polars as pl
import pyarrow as pa

nan = float("nan")
rows = pa.table({"key": [0.0, round(-0.4, 0), -0.0, nan, nan], "n": [1, 1, 1, 1, 1]})
groups = {
    "pyarrow": rows.group_by("key").aggregate([("n", "sum")]).num_rows,
    "pyarrow unique": len(rows["key"].unique()),
    "polars": pl.from_arrow(rows).group_by("key").len().height,
    "pandas": len(rows.to_pandas().groupby("key", dropna=False).size()),
    "duckdb": len(duckdb.sql("SELECT key, count(*) FROM rows GROUP BY key").fetchall()),
}
print(groups)
sys.exit(0 if groups == {"pyarrow": 3, "pyarrow unique": 3, "polars": 2, "pandas": 2, "duckdb": 2} else 1)
PYTHON
