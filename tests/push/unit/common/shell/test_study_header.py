"""A fact of a study is one row of `FACTS`; texts and pages then show it."""

import pytest

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.shell import study_header
from dppca.common.shell.study_header import FACTS, HeaderFact, StudyHeader
from tests.support.checkout import ROOT
from tests.support.studies import make_study

STUDY = make_study("census", title="Health", purpose="Find out")
DOCUMENTS_ALONE = {"common/verification/files.py", "common/shell/study_header.py"}
"""What shows a file's words without its study, and the header."""


def test_texts_begin_with_the_operators_words_and_pages_with_the_name() -> None:
    header = StudyHeader(STUDY, StudyState.OPEN)
    assert header.lines() == STUDY.stated.lines()
    assert [name for name, _ in header.rows()] == [
        each.name
        for each in FACTS
        if each.name
        not in (
            "Deadline",
            "A person's rows",
            "Number of rows",
            "It is to answer",
            "Must be signed by",
        )
    ]
    assert dict(header.rows())["Digest"] == STUDY.digest
    assert "State" not in dict(StudyHeader(STUDY).rows())


def test_a_study_of_people_says_so_in_every_text() -> None:
    people = make_study("census", unit="person", max_rows_per_person=None)
    said = "A person's rows: any number; together they weigh as one row"
    assert StudyHeader(people).lines() == [said]


def test_a_study_whose_numbers_of_rows_are_secret_says_so_in_every_text() -> None:
    secret = StudyHeader(make_study("census", neighbours="added"))
    assert secret.lines() == ["Number of rows: secret: it leaves with noise alone"]


def test_questions_are_shown_in_every_text_in_words() -> None:
    asking = StudyHeader(make_study("small", questions=["mean x0 by x1", "whatever else"]))
    assert asking.lines() == ["It is to answer: mean: x0 by x1; whatever else"]


def test_whose_people_must_sign_is_shown_in_every_text() -> None:
    pin = {"needed": 2, "roles": "0" * 64}
    pinning = StudyHeader(make_study("small", signatories={"owner-1": pin}))
    assert pinning.lines() == ["Must be signed by: 2 people of owner-1"]


def test_one_more_fact_is_shown_by_texts_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, in_texts in (("Told", True), ("Kept", False), ("Silent", True)):
        told = HeaderFact(name, lambda header, name=name: header.study.name * (name != "Silent"))
        told = HeaderFact(told.name, told.of, in_texts)
        monkeypatch.setattr(study_header, "FACTS", (*study_header.FACTS, told))
    header = StudyHeader(STUDY)
    assert header.lines() == [*STUDY.stated.lines(), "Told: census"]
    assert header.rows()[-2:] == [("Told", "census"), ("Kept", "census")]


def test_no_text_shows_the_words_without_the_facts() -> None:
    showing = {
        str(path.relative_to(ROOT))
        for room in ("common", "owner", "curator", "deploy")
        for path in (ROOT / room).rglob("*.py")
        if "stated.lines()" in path.read_text()
    }
    assert showing == DOCUMENTS_ALONE
