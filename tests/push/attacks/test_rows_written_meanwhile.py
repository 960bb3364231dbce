"""What is released was counted, whoever writes to a database meanwhile (`counted_rows`)."""

from pathlib import Path

import pytest

from tests.support.counted_rows import KINDS, MOMENTS, SqliteRows, make_release, require_counted
from tests.support.curator import Curator

REFUSED = {"opened": 19, "first reading": 19, "question": 19}
"""Rows are read again after the question, and then one person has 40 of them."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_rows_that_are_written_while_a_release_is_made_are_counted_or_not_released(
    curator: Curator, tmp_path: Path, kind: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = make_release(kind, SqliteRows(), curator, tmp_path)
    code = require_counted(of, moment, monkeypatch, tmp_path)
    assert code == REFUSED.get(moment, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_with_consent_beforehand_the_rows_that_were_counted_leave(
    curator: Curator, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = make_release(kind, SqliteRows(), curator, tmp_path, "--yes")
    assert require_counted(of, "first reading", monkeypatch, tmp_path) == 0
