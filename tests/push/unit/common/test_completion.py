"""Names for a shell: from all sources, sorted, and none from a source that fails."""

from __future__ import annotations

import pytest

from dppca.common.completion import find_names
from dppca.common.errors import UnreachableError


def _fail() -> list[str]:
    raise UnreachableError("nobody answers")


def test_names_of_all_sources_are_offered_once() -> None:
    sources = [lambda: ["lungs", "heart"], _fail, lambda: ["heart", "hearing"]]
    assert find_names(sources, "hea") == ["hearing", "heart"]
    assert find_names(sources, "") == ["hearing", "heart", "lungs"]


def test_a_defect_is_not_hidden() -> None:
    def defect() -> list[str]:
        raise KeyError("name")

    with pytest.raises(KeyError):
        find_names([defect], "")
