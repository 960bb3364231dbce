"""One piece of work at a time; what was agreed to is what is done; errors are told."""

from __future__ import annotations

import threading
from dataclasses import replace
from decimal import Decimal

import pytest

from dppca.common.errors import ConsentError, DataError, StudyStateError
from dppca.common.privacy.accounting import Budget
from dppca.owner.commands.page.jobs import Job, Jobs, PageDialogue, fingerprint
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import Review, review
from tests.support.census import make_study
from tests.support.ledgers import account_of


def _review(*, n_rows: int = 100, data_set: str = "survey", budget: str = "3") -> Review:
    account = account_of(data_set, Budget(Decimal(budget), Decimal(0)))
    return review(make_study(), History(), n_rows=n_rows, account=account)


def test_only_what_was_on_the_page_is_agreed_to() -> None:
    planned = _review()
    job = Job("census", "x", consents=True)
    PageDialogue(job, fingerprint(planned)).begin(_review())
    for other in (
        _review(n_rows=101),
        _review(data_set="other"),
        _review(budget="4"),
        replace(planned, study=make_study(name="other")),
    ):
        with pytest.raises(ConsentError, match="Nothing was drawn or charged"):
            PageDialogue(job, fingerprint(planned)).begin(other)
    with pytest.raises(ConsentError):
        PageDialogue(job, "").begin(planned)


def test_one_piece_of_work_at_a_time() -> None:
    jobs, go = Jobs(), threading.Event()
    jobs.start("a", "The first", lambda _: go.wait())
    with pytest.raises(StudyStateError, match="The first is under way"):
        jobs.start("b", "The second", lambda _: None)
    go.set()
    jobs.wait()
    jobs.start("b", "The second", lambda _: None)
    jobs.wait()
    assert [jobs.of(name) is not None for name in ("a", "b", "c")] == [True, True, False]


def test_how_work_ended_is_told_but_not_a_defects_text(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = Jobs()

    def fail(error: Exception) -> Job:
        def work(_: Job) -> None:
            raise error

        jobs.start("a", "It", work)
        jobs.wait()
        job = jobs.of("a")
        assert job is not None
        return job

    job = fail(DataError("the file is gone"))
    assert (job.error, job.error_name) == ("the file is gone", "DataError")
    job = fail(KeyError("a value of a row"))
    assert job.error is not None
    assert "a value of a row" not in job.error
    assert "KeyError" in capsys.readouterr().err


def test_progress_is_counted_for_the_page() -> None:
    job = Job("a", "It", consents=True)
    with PageDialogue(job, "").progress("Reading rows", 10, unit="rows") as bar:
        bar.advance(4)
        bar.reach(7)
        assert (job.step, job.done, job.total, job.unit) == ("Reading rows", 7, 10, "rows")
    assert job.total == 0
