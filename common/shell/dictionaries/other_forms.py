"""Descriptions of data that are no dictionary that is read: what each is, and what to do with it.

A form is known by its own words, never by what a table of rows could hold as well.
"""

import re

OWN_COLUMNS = (
    *("name", "type", "lower", "upper", "labels", "unknown", "missing_values", "attribute"),
    *("unit", "concept", "description"),
)
HEADER = ",".join(OWN_COLUMNS)
NO_DICTIONARY = (
    "this is not a data dictionary: it looks like a table of rows, and no rows are read here, "
    "because bounds and labels taken from rows are outside the privacy guarantee. Write a line for "
    "each of its columns, such as `age,integer,0,120,` or `sex,label,,,female|male`, under the "
    f"header `name,type,lower,upper,labels`; {', '.join(OWN_COLUMNS[5:])} may follow. Or "
    "take REDCap's, a Frictionless table schema, or the two sheets of Opal or of a DataSchema"
)
_FORMS = {
    "spss": ("SPSS syntax", "VALUE LABELS give its labels, MISSING VALUES its missing_values"),
    "ddi": ("a DDI codebook", "catgry gives its labels, invalrng its missing_values"),
    "xml": ("XML or HTML", "take names, labels and bounds from it"),
    "csvw": (
        "CSVW metadata",
        "or make it a Frictionless table schema: the columns of tableSchema are its fields, and "
        "datatype is type",
    ),
    "croissant": ("Croissant metadata", "the fields of its recordSet are the columns"),
    "look_for": ("a table of labelled::look_for", "value_labels gives its labels"),
    "sql": (
        "a list of a database's columns",
        "it has names and types; bounds and labels are in the documentation",
    ),
    "contents": (
        "the output of SAS' PROC CONTENTS",
        "it has names and formats; PROC FORMAT with CNTLOUT lists the labels",
    ),
    "catalogue": ("a catalogue of SAS' formats", "PROC FORMAT with CNTLOUT lists the labels"),
}
_HEADERS = {
    "look_for": {"variable", "col_type"},
    "sql": {"column_name", "data_type"},
    "contents": {"name", "type", "varnum"},
}
_SPSS = re.compile(
    r"\s*(GET (FILE|DATA)|DATA LIST|(ADD )?VALUE LABELS|VAR(IABLE)? (LABELS|LEVEL)|MISSING VALUES|"
    r"DATASET [A-Z]+|FILE HANDLE)[ /=]+[\w'\"]",
    re.IGNORECASE,
)
_HEAD = 1 << 12  # bytes by which a form is recognised


def other_form(key: str) -> str:
    """Return the refusal of a known form."""
    what, advice = _FORMS[key]
    return (
        f"this is {what}, which is not read: write a line for each column, under the header "
        f"{HEADER} ({advice})"
    )


def name_header(names: set[str]) -> str | None:
    """Return the refusal of a table by its header, in small letters; None for others."""
    found = (key for key, wanted in _HEADERS.items() if wanted <= names)
    key = next(found, None)
    return None if key is None else other_form(key)


def name_text(text: str) -> str | None:
    """Return the refusal of a text in XML or SPSS syntax; None for others."""
    head = text[:_HEAD]
    if head.lstrip()[:1] == "<":
        return other_form("ddi" if re.search(r"\bcodeBook\b|ddi:", head) else "xml")
    return other_form("spss") if any(map(_SPSS.match, head.splitlines())) else None
