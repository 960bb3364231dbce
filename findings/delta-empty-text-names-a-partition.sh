#!/usr/bin/env bash
# deltalake 1.6.6, polars 2.1.0, pyarrow 26.0.1, Python 3.11: an empty text in the column that partitions a Delta table.
#
# Expected: the same in both readers: a missing value, since the protocol says that an empty text stands for one.
# Seen: the log keeps "" beside null. deltalake's own reader (through pyarrow) gives two missing values; polars, which
# reads the log through deltalake, gives "" and a missing value. A group of its own for one is no group for the other.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "deltalake==1.6.6" "polars==2.1.0" "pyarrow==26.0.1"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

rows = pa.table({"ward": ["", None, "north"], "x": [1.0, 2.0, 3.0]})
write_deltalake("rows", rows, partition_by=["ward"])
own = DeltaTable("rows").to_pyarrow_table().sort_by("x")["ward"].to_pylist()
other = pl.scan_delta("rows").sort("x").collect()["ward"].to_list()
print("deltalake:", own, "| polars:", other)
sys.exit(0 if own == [None, None, "north"] and other == ["", None, "north"] else 1)
PYTHON
