#!/usr/bin/env bash
# pandas 3.1.1, Python 3.11: a zero in a SAS transport file (.xpt), which pyreadstat 1.3.7 wrote.
#
# Expected: read_sas gives 0.0, which the 8 zero bytes of the cell are in IBM floating point.
# Seen: it gives 5.397605346934028e-79 for each zero, and the other numbers rightly. So x == 0 finds nobody,
# log(x) is finite, and a table of values has no 0. pyreadstat itself reads 0.0.
#
# Ends with 0 while this is so, with 1 once it behaves otherwise.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "pandas==3.1.1" "pyreadstat==1.3.7" "pyarrow==26.0.1"
"$work/venv/bin/pip" freeze
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import sys
import pandas as pd
import pyreadstat

pyreadstat.write_xport(pd.DataFrame({"CIGS": [0.0, 1.0, 20.0]}), "rows.xpt", file_format_version=5)
pandas = pd.read_sas("rows.xpt", format="xport")["CIGS"].tolist()
own = pyreadstat.read_xport("rows.xpt", output_format="dict")[0]["CIGS"]
print("pandas:", pandas, "| pyreadstat:", own)
sys.exit(0 if own == [0.0, 1.0, 20.0] and pandas[1:] == own[1:] and 0 < pandas[0] < 1e-70 else 1)
PYTHON
