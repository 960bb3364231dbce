#!/bin/bash
# python-calamine 0.9.1 (openpyxl 3.1.5 writes and reads beside it, Python 3.11):
# a cell of a workbook that holds an error value (#N/A, #DIV/0!) is read as the empty text, as an empty cell is, and
# nothing is raised; openpyxl reads the same cells as "#N/A" and "#DIV/0!". So a table in which a formula has failed
# looks like one with values left out.
# Leaves with 0 while this is so, and with 1 once it has changed.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install python-calamine==0.9.1 openpyxl==3.1.5
cat > "$work/try.py" <<'END'
import sys

import openpyxl
from python_calamine import CalamineWorkbook

path = sys.argv[1]
book = openpyxl.Workbook()
sheet = book.active
sheet.append(["weight", "height"])
sheet.append([70, None])
sheet["A3"], sheet["B3"] = "#N/A", "#DIV/0!"
sheet["A3"].data_type = sheet["B3"].data_type = "e"
book.save(path)

by_openpyxl = [each.value for each in openpyxl.load_workbook(path).active[3]]
rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()
print("openpyxl:", by_openpyxl, "calamine:", rows[2], "an empty cell of it:", repr(rows[1][1]))
sys.exit((by_openpyxl, rows[2], rows[1][1]) != (["#N/A", "#DIV/0!"], ["", ""], ""))
END
"$work/venv/bin/python" "$work/try.py" "$work/book.xlsx"
