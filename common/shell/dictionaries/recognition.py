"""Reader for data dictionaries that detects the format and refuses files of rows."""

import codecs
import json
import re
from pathlib import Path

from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.shell.dictionaries.data_schemas import read_workbook
from dppca.common.shell.dictionaries.dictionary import Codes, Dictionary
from dppca.common.shell.dictionaries.json_forms import read_json
from dppca.common.shell.dictionaries.other_forms import HEADER, NO_DICTIONARY, name_text, other_form
from dppca.common.shell.dictionaries.table_forms import is_header, read_table
from dppca.common.shell.file_kinds import kind_of

_ROWS = (".parquet", ".pq", ".arrow", ".feather", ".gz")
_WORKBOOKS = (".xlsx", ".xlsm")
_TEXTS = (".json", ".jsonl", ".ndjson", ".xml", ".html")
"""Judged by what they hold."""


def read_dictionary(path: Path, *, missing: Codes = ()) -> Dictionary:
    """Read a public data dictionary; ``missing`` are codes that mean missing, besides its own.

    Raise `SettingError` if the file cannot be read, is too large, or is no dictionary; the message
    begins with its name and quotes none of its content.
    """
    try:
        if (refusal := _name_file(path.name.lower())) is not None:
            raise SettingError(refusal)  # noqa: TRY301 - gets the file's name, like the others
        if path.name.lower().endswith(_WORKBOOKS):
            content = _content(path)
            _require_small(content)
            return read_workbook(content, missing=missing)
        return _read(_text(path), missing)
    except (SettingError, DataError) as error:
        raise SettingError(f"{path}: {error}") from error


def _name_file(name: str) -> str | None:
    """Return the refusal of a file by the end of its name; None if its content decides."""
    if name.endswith((".sps", ".sas7bcat")):
        return other_form("spss" if name.endswith(".sps") else "catalogue")
    kind = kind_of(name)
    if name.endswith((*_TEXTS, *_WORKBOOKS)) or (kind is None and not name.endswith(_ROWS)):
        return None
    what = "a file of rows" if kind is None else f"{kind.what}, with rows"
    return (
        f"this is {what}, not a data dictionary, and no rows are read here: write a line "
        f"for each column, under the header {HEADER}"
    )


def _read(text: str, missing: Codes) -> Dictionary:
    if (known := name_text(text)) is not None:
        raise SettingError(known)
    if text.lstrip()[:1] not in ("{", "["):
        return read_table(text, missing=missing)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        # The cause is dropped because it would quote the text.
        raise SettingError(
            "it begins like JSON but is not valid JSON: correct it; lines of JSON are rows and "
            "are not read"
        ) from None
    return read_json(document, missing=missing)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise SettingError(f"the file cannot be read: {error.strerror}") from error


def _text(path: Path) -> str:
    content = _content(path)
    if len(content) > MAX_DOCUMENT_BYTES:
        _require_no_rows(content)
        _require_small(content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        _require_no_rows(content)
        raise SettingError(
            "this is not text in UTF-8: save the dictionary as CSV in UTF-8, or as JSON"
        ) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _require_small(content: bytes) -> None:
    if len(content) > MAX_DOCUMENT_BYTES:
        raise SettingError(
            f"the file is larger than {MAX_DOCUMENT_BYTES >> 20} MiB: give a dictionary of the "
            "columns that the study is about, not of everything, and no rows"
        )


def _require_no_rows(content: bytes) -> None:
    """Raise `SettingError` if the first line is a header of cells that no dictionary has.

    A table of rows is named before its size or its encoding, which nobody needs to mend.
    """
    first = content.removeprefix(codecs.BOM_UTF8).lstrip()
    header = re.split(rb"[\r\n]", first, maxsplit=1)[0].decode("latin-1")
    is_table = re.match(r"[^{\[<\0][^\0]*[,;\t]", header) is not None  # zeros: another encoding
    if is_table and name_text(header) is None and not is_header(header):
        raise SettingError(NO_DICTIONARY)
