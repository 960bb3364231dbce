"""A description of data that is no dictionary that is read is named, and said what to do with."""

import json
import re
from pathlib import Path

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.shell.dictionaries.recognition import read_dictionary

VALUE = "Zebulon"
CSVW = {"@context": "http://www.w3.org/ns/csvw", "tableSchema": {"columns": [{"name": VALUE}]}}
CROISSANT = {"@context": {"cr": "http://mlcommons.org/croissant/"}, "name": VALUE}
DDI = f'<?xml version="1.0"?>\n<codeBook xmlns="ddi:codebook:2_5"><var name="{VALUE}"/></codeBook>'
FORMS = [
    ("a.json", json.dumps(CSVW), "CSVW metadata"),
    ("a.json", json.dumps(CROISSANT), "Croissant metadata"),
    ("a.json", json.dumps({"recordSet": [{"field": [VALUE]}]}), "Croissant metadata"),
    ("a.xml", DDI, "a DDI codebook"),
    ("a.xml", f"<a>{VALUE}</a>", "XML"),
    ("a.sps", VALUE, "SPSS syntax"),
    ("a.txt", f"* {VALUE}.\n\n  value labels sex 1 '{VALUE}'.\n", "SPSS syntax"),
    ("a.txt", "MISSING VALUES age (97 THRU 99).\n", "SPSS syntax"),
    (
        "a.txt",
        f"COMMENT {VALUE}\n  of two lines.\nSET DECIMAL=DOT.\nGET FILE='a'.\n",
        "SPSS syntax",
    ),
    ("a.csv", f"pos,variable,label,col_type,missing\n1,{VALUE},,dbl,0\n", "labelled::look_for"),
    ("a.csv", f"column_name;data_type\n{VALUE};integer\n", "a database's columns"),
    ("a.csv", f"NAME,TYPE,LENGTH,VARNUM,LABEL\n{VALUE},1,8,2,\n", "SAS' PROC CONTENTS"),
    ("a.sas7bcat", VALUE, "a catalogue of SAS' formats"),
    ("a.SAV", VALUE, "a file of SPSS, with rows"),
    ("a.zsav", VALUE, "a file of SPSS, with rows"),
    ("a.por", VALUE, "a file of SPSS, with rows"),
    ("a.xpt", VALUE, "a file of SAS, with rows"),
    ("a.dta", VALUE, "a file of Stata, with rows"),
]


@pytest.mark.parametrize(("name", "content", "what"), FORMS, ids=lambda each: each[:20])
def test_each_is_named_as_what_it_is(tmp_path: Path, name: str, content: str, what: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(SettingError) as raised:
        read_dictionary(path)
    said = str(raised.value)
    assert what in said
    assert "under the header name,type,lower,upper," in said
    assert "a table of rows" not in said
    assert VALUE not in said


@pytest.mark.parametrize(
    "header", ["Value labels,age", "get,age", "missing values;age", "variable,age", " \n" * 2000]
)
def test_a_table_with_such_words_in_its_header_is_still_taken_for_rows(
    tmp_path: Path, header: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n1,2\n")
    with pytest.raises(SettingError, match="it looks like a table of rows") as caught:
        read_dictionary(path)
    shown = re.findall("`([^`]+)`", str(caught.value))
    path.write_text("\n".join([shown[2], *shown[:2]]))  # what it says is a dictionary is one
    assert [each.name for each in read_dictionary(path).entries] == ["age", "sex"]
