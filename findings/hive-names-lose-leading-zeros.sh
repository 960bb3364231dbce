#!/usr/bin/env bash
# polars 2.1.0, pyarrow 26.0.1, duckdb 2.0.1, Python 3.11: folders named `key=007`, as Hive names them.
#
# Expected: all three take the name for a number, 7, since all three guess types of names by default.
# Seen: polars and pyarrow give the integer 7; duckdb gives the text 007. Who joins such a folder with a
# list of keys finds nobody, or finds 7 and 007 to be one, by the tool that reads it.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "polars==2.1.0" "pyarrow==26.0.1" "duckdb==2.0.1"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
from pathlib import Path
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

for name in ("007", "08", "12"):
    Path(f"rows/key={name}").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1.0]}), f"rows/key={name}/part.parquet")
seen = {
    "polars": pl.scan_parquet("rows/**/*.parquet", hive_partitioning=True).collect()["key"].to_list(),
    "pyarrow": ds.dataset("rows", partitioning="hive").to_table()["key"].to_pylist(),
    "duckdb": [key for (key,) in duckdb.sql("SELECT key FROM read_parquet('rows/**/*.parquet')").fetchall()],
}
for tool, keys in seen.items():
    print(tool, sorted(keys))
numbers, names = [7, 8, 12], ["007", "08", "12"]
as_seen = sorted(seen["polars"]) == sorted(seen["pyarrow"]) == numbers and sorted(seen["duckdb"]) == names
sys.exit(0 if as_seen else 1)
PYTHON
