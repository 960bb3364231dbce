"""Kinds of files of rows that are not read, by their suffix, and what to do with one.

Another name does not make another file: each has to be exported by a program that reads it.
"""

from typing import NamedTuple


class FileKind(NamedTuple):
    """Description of a file, after "it is", and advice for its rows."""

    what: str
    advice: str


def _statistical(program: str) -> FileKind:
    return FileKind(
        f"a file of {program}",
        "export it there as CSV in UTF-8, or by R's haven or Python's pyreadstat as Parquet; with "
        "codes in place of labels, and no value where one is declared missing",
    )


_PORTABLE = "save it in SPSS or PSPP as .sav, which is read"
_SHEET = "save it as .xlsx, which a site reads; `check` then says how to enter its sheet and header"
_R = "in R, read it and write it by arrow::write_parquet or write.csv with fileEncoding UTF-8"
_TABLE = "export a table with a column for each attribute as Parquet, or as CSV in UTF-8"
_UNPACK = "unpack it; of compressed files .csv.gz is read"
_KINDS = (
    (".por", FileKind("a file of SPSS", _PORTABLE)),
    (".sav .zsav .sps", _statistical("SPSS")),
    (".dta .dct", _statistical("Stata")),
    (".sas7bdat .sas7bcat .xpt .xport .v8xpt", _statistical("SAS")),
    (".jmp .mtw .gdt .wf1", _statistical("a statistical program")),
    (".xls .xlsb .ods .numbers .gnumeric", FileKind("a spreadsheet", _SHEET)),
    (".rds .rda .rdata", FileKind("a file of R", _R)),
    (".json .jsonl .ndjson .geojson", FileKind("JSON", _TABLE)),
    (".db .sqlite .sqlite3 .duckdb .mdb .accdb", FileKind("a database", _TABLE)),
    (".avro .orc .dbf .h5 .hdf5 .hdf .mat .npy .npz", FileKind("of a format not read", _TABLE)),
    (".pkl .pickle .xml .html .pdf .doc .docx", FileKind("no table of columns", _TABLE)),
    (".zip .7z .rar .tar .tgz .bz2 .xz .zst", FileKind("packed", _UNPACK)),
)


def kind_of(name: str) -> FileKind | None:
    """Return the kind of file that a name ends with; None if it is not known."""
    name = name.lower()
    return next((kind for ends, kind in _KINDS if name.endswith(tuple(ends.split()))), None)
