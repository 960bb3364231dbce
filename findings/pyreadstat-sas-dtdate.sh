#!/usr/bin/env bash
# pyreadstat 1.3.7, Python 3.11: a column of SAS shown as DTDATE9. in a transport file.
#
# Expected: 16 March 2020. DTDATE shows the day of a datetime, a number of seconds since 1960.
# Seen: the number is taken for days, and the whole file raises OverflowError, whichever column is wanted first.
# A datetime of the first days of 1960 is read without an error, as a day millennia later: second 86400 of 1960, which
# is 2 January 1960, becomes 21 July 2196. With disable_datetime_conversion=True the number is right.
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


def read(seconds, **options):
    pyreadstat.write_xport(
        pd.DataFrame({"SEEN": [seconds]}), "rows.xpt", variable_format={"SEEN": "DTDATE9."}, file_format_version=5
    )
    try:
        return str(pyreadstat.read_xport("rows.xpt", output_format="dict", **options)[0]["SEEN"][0])
    except OverflowError:
        return "OverflowError"


seen = read(1.9e9), read(86400.0), read(1.9e9, disable_datetime_conversion=True)
print(seen)
sys.exit(0 if seen == ("OverflowError", "2196-07-21", "1900000000.0") else 1)
PYTHON
