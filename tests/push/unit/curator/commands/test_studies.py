"""The list of studies as text, and what is asked before a study without words is created."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import ConsentError, IdentityError, StudyError
from dppca.common.transport.codec import read_message
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.cli import cli
from dppca.curator.commands.studies import list_text
from dppca.curator.operator.responses import ListedStudy
from tests.support.commands import run_here
from tests.support.studies import make_study


def test_the_list_says_what_a_study_costs_until_when_it_waits_and_for_whom() -> None:
    names = pb.NameList(first=["a", "b"], total=3)
    waiting = pb.StudySummary(
        name="census",
        title="Households, 2026",
        state=pb.STUDY_STATE_OPEN,
        contributions=1,
        owners=4,
        epsilon="1",
        delta="0.000001",
        deadline_s=1_800_000_000,
        missing=names,
        unheard=pb.NameList(first=["b"], total=1),
    )
    done = pb.StudySummary(name="done", state=pb.STUDY_STATE_CLOSED, contributions=2, owners=2)
    lines = list_text([read_message(ListedStudy, each) for each in (waiting, done)], width=None)
    assert lines.splitlines() == [
        "study   state   contributions  epsilon            deadline              missing"
        "          title",
        "census  open    1 of 4         1, delta 0.000001  2027-01-15 08:00 UTC  a, b and 1 more"
        "  Households, 2026",
        "done    closed  2 of 2",
        "Study census. Not heard of since the curator was started: b. "
        "`dppca-curator pki list` says who has a certificate, and `pki sign` enrols.",
    ]
    assert list_text([], width=None) == "No studies yet."


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _create(folder: Path, *options: str, **words: Any) -> tuple[int, str]:
    file = folder / "study.json"
    file.write_bytes(make_study("small", **words).canonical_bytes())
    reached = ("--curator", "127.0.0.1:1", "--credentials", folder / "none")
    code, _, told = run_here(cli, "study", "create", file, *reached, *options)
    return code, told


def test_a_question_that_the_study_cannot_answer_is_refused_before_anybody_is_asked(
    tmp_path: Path,
) -> None:
    code, told = _create(tmp_path, "--yes", questions=["mean height"])
    assert code == StudyError.exit_code
    assert "the study cannot answer its questions: mean height: " in told


def test_a_study_without_its_words_is_created_only_if_the_operator_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = IdentityError.exit_code  # it goes on, to credentials that are not there
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    code, told = _create(tmp_path, contact="the hub")
    assert code == ConsentError.exit_code
    assert "study.json does not say: purpose, approval. Stewards decide by them" in told
    assert _create(tmp_path, "--yes")[0] == begins
    said = {"purpose": "a", "contact": "b", "approval": "none needed"}
    assert _create(tmp_path, **said)[0] == begins
    for answer, ends in (("n\n", ConsentError.exit_code), ("y\n", begins)):
        monkeypatch.setattr(sys, "stdin", _Terminal(answer))
        code, told = _create(tmp_path)
        assert code == ends
        assert "does not say: purpose, contact, approval." in told
