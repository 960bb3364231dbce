#!/usr/bin/env bash
# pyiceberg 0.12.0 with pyarrow 26.0.1, Python 3.11: a table that is partitioned by identity on a double column.
#
# Expected: scan(row_filter="dose == 0.1") gives the row whose dose is 0.1, as a scan without a filter does.
# Seen: it gives no row, and says nothing. The value of the partition comes back from the manifest as
# 0.10000000149011612, the nearest float32, although the file and the table's schema hold a double. The filter is
# compared with that value, so the file is left out. 0.5, which a float32 holds exactly, is found.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "pyiceberg[sql-sqlite,pyarrow]==0.12.0" "pyarrow==26.0.1" "sqlalchemy==2.0.44"
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

catalog = SqlCatalog("local", uri="sqlite:///catalogue.db", warehouse="warehouse")
catalog.create_namespace("ward")
table = catalog.create_table("ward.doses", schema=pa.schema([("row", pa.int64()), ("dose", pa.float64())]))
with table.update_spec() as change:
    change.add_field("dose", IdentityTransform())
table.append(pa.table({"row": [1, 2], "dose": [0.1, 0.5]}))

everything = sorted(row["dose"] for row in table.scan().to_arrow().to_pylist())
tenth = table.scan(row_filter="dose == 0.1").to_arrow().num_rows
half = table.scan(row_filter="dose == 0.5").to_arrow().num_rows
partitions = sorted(task.file.partition[0] for task in table.scan().plan_files())
print("all doses:", everything, "| rows with 0.1:", tenth, "| rows with 0.5:", half, "| partitions:", partitions)
sys.exit(0 if (everything, tenth, half) == ([0.1, 0.5], 0, 1) else 1)
PYTHON
