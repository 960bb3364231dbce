"""An answer in place of a contribution is kept until it is taken back."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dppca.common.kernel.errors import ArtefactError
from dppca.owner.site.config import Site
from dppca.owner.site.study_answers import keep_answer, kept_answer

NOW = datetime(2026, 11, 22, 19, 30, tzinfo=UTC)


def test_an_answer_is_kept_replaced_and_taken_back(tmp_path: Path) -> None:
    site = Site(tmp_path, "owner-1", "hub:1")
    assert kept_answer(site, "survey") is None
    for said in ("later", "declined"):
        keep_answer(site, "survey", said, now=NOW)
        found = kept_answer(site, "survey")
        assert found is not None
        assert (found.answer, found.time) == (said, NOW)
    for _ in range(2):
        keep_answer(site, "survey", None, now=NOW)
        assert kept_answer(site, "survey") is None


def test_a_damaged_answer_is_named(tmp_path: Path) -> None:
    site = Site(tmp_path, "owner-1", "hub:1")
    keep_answer(site, "survey", "later", now=NOW)
    (path,) = tmp_path.rglob("answer.json")
    path.write_text('{"answer": "yes"}')
    with pytest.raises(ArtefactError, match=r"answer\.json is damaged"):
        kept_answer(site, "survey")
