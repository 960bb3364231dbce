"""Text that others chose, as parts of files' names and on a terminal: laws over any text at all."""

import json
import unicodedata
from pathlib import PurePosixPath, PureWindowsPath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dppca.common.kernel.documents.names import (
    check_name,
    escaped_json,
    file_part,
    is_formula,
    one_line,
    shown,
)

anything = st.text(st.characters(exclude_categories=[]), max_size=140)
pathlike = st.text("aA1./\\~:-_+ \n\x00é", max_size=12)
names = anything | pathlike


def hidden(text: str) -> bool:
    """The obvious version: whether anything in the text cannot be seen."""
    categories = {unicodedata.category(c) for c in text if c not in "\u200c\u200d"}
    return bool(categories & {"Cc", "Cf", "Cs", "Cn", "Zl", "Zp"})


@given(names)
def test_a_part_of_a_file_name_stays_in_its_folder(name: str) -> None:
    for path in (file_part(name), f"model-{file_part(name)}-linear.skops"):
        assert PurePosixPath(path).parts == PureWindowsPath(path).parts == (path,)
        assert not path.startswith((".", "-"))
        assert not path.endswith(".")
        assert len(path.encode("ascii")) < 150


@given(names, names)
def test_different_names_have_different_files_also_where_case_is_not_told(
    one: str, other: str
) -> None:
    assume(one != other)
    assert file_part(one).casefold() != file_part(other).casefold()


@given(pathlike)
def test_a_name_like_the_part_of_another_has_another_part(name: str) -> None:
    part = file_part(name)
    assert part == name or file_part(part).casefold() != part.casefold()


@given(anything)
def test_nothing_hidden_reaches_a_terminal(text: str) -> None:
    assert not hidden(one_line(text))
    assert not hidden(shown(text).replace("\n", ""))
    assert shown(text).count("\n") == text.count("\n")
    assert hidden(text) or one_line(text) == text


@given(st.dictionaries(anything, anything, max_size=3))
def test_json_stays_the_same_document_and_hides_nothing(document: dict[str, str]) -> None:
    written = escaped_json(json.dumps(document, ensure_ascii=False))
    assert not hidden(written)
    assert json.loads(written) == json.loads(json.dumps(document))


@given(anything)
def test_a_new_name_is_refused_exactly_where_it_is_hidden_or_a_formula(text: str) -> None:
    if hidden(text) or is_formula(text):
        with pytest.raises(ValueError, match=r"invisible|spreadsheet") as refused:
            check_name(text)
        assert not hidden(str(refused.value))
    else:
        assert check_name(text) == text
