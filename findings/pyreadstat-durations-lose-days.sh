#!/usr/bin/env bash
# pyreadstat 1.3.7, Python 3.11: a duration of more than a day in a .sav file (formats DTIME and TIME).
#
# Expected: 26 hours, as a timedelta or as 93600 seconds.
# Seen: datetime.time(2, 0): the days are gone, and 26 hours and 2 hours are one value. With
# disable_datetime_conversion=True it is 93600.0.
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
from datetime import time
import pandas as pd
import pyreadstat

frame = pd.DataFrame({"stay": [26 * 3600.0, 2 * 3600.0], "worn": [26 * 3600.0, 2 * 3600.0]})
pyreadstat.write_sav(frame, "rows.sav", variable_format={"stay": "DTIME11", "worn": "TIME8"})
seen = {k: list(v) for k, v in pyreadstat.read_sav("rows.sav", output_format="dict")[0].items()}
raw = pyreadstat.read_sav("rows.sav", output_format="dict", disable_datetime_conversion=True)[0]["stay"]
print("converted:", seen, "| raw:", raw)
sys.exit(0 if seen == {"stay": [time(2)] * 2, "worn": [time(2)] * 2} and raw == [93600.0, 7200.0] else 1)
PYTHON
