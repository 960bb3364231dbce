#!/usr/bin/env bash
# pandas 3.1.1 and pyreadstat 1.3.7, Python 3.11: five rows of one text in a transport file, the last three empty.
#
# Expected: five rows from both, or a word that the file cannot tell them from padding (blanks up to a multiple of 80
# bytes).
# Seen: pandas gives eight rows, pyreadstat, which wrote the file, two. None says anything. With a column of
# numbers beside the text both give five.
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


def rows(frame):
    pyreadstat.write_xport(frame, "rows.xpt", file_format_version=5)
    own = pyreadstat.read_xport("rows.xpt", output_format="dict")[0]["TEXT"]
    return len(pd.read_sas("rows.xpt", format="xport", encoding="infer")), len(own)


text = pd.DataFrame({"TEXT": ["a", "b", "", "", ""]})
seen = rows(text), rows(text.assign(N=[1.0, 2.0, None, None, None]))
print("rows by pandas and by pyreadstat, text alone:", seen[0], "| with numbers:", seen[1])
sys.exit(0 if seen == ((8, 2), (5, 5)) else 1)
PYTHON
