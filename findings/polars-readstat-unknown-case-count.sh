#!/usr/bin/env bash
# polars-readstat 0.25.0, Python 3.11: a .sav file that does not say how many cases it has.
#
# Expected: three rows. -1 in the header means that the number of cases is not known, as where a writer could not go back
# to it (PSPP writes it into a pipe); the rows follow all the same. pyreadstat 1.3.7 reads them.
# Seen: a table of no rows, and no error.
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
import struct
import sys
from pathlib import Path
import pandas as pd
import polars_readstat
import pyreadstat

pyreadstat.write_sav(pd.DataFrame({"x": [1.0, 2.0, 3.0]}), "rows.sav")
stored = Path("rows.sav").read_bytes()
assert struct.unpack("<i", stored[80:84]) == (3,)
Path("rows.sav").write_bytes(stored[:80] + struct.pack("<i", -1) + stored[84:])
seen = polars_readstat.scan_readstat("rows.sav").collect().height
own = pyreadstat.read_sav("rows.sav", output_format="dict")[0]["x"]
print("rows by polars-readstat:", seen, "| by pyreadstat:", len(own))
sys.exit(0 if seen == 0 and own == [1.0, 2.0, 3.0] else 1)
PYTHON
