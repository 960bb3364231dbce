"""One piece of work at a time; what was agreed to is what is done; errors are told."""

import threading
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dppca.common.kernel.errors import ConsentError, DataError, StudyStateError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.accounting import Budget
from dppca.owner.commands.page.jobs import Job, Jobs, PageDialogue, fingerprint
from dppca.owner.ledger.chain import History
from dppca.owner.release.contribution import Review, review
from dppca.owner.release.dialogue import ReleaseOffer
from dppca.owner.release.next_step import NextStep
from dppca.owner.render.review import ContributionPreview
from tests.support.ledgers import account_of
from tests.support.patience import WAIT_S
from tests.support.studies import make_study

ROWS = Moments(100, np.array([1, 1, 1], dtype=np.int64))


def _offer(planned: Review, moments: Moments = ROWS, *, is_live: bool = False) -> ReleaseOffer:
    unread: Any = None
    return ContributionPreview(
        site=unread,
        study=planned.study,
        state=unread,
        review=planned,
        moments=moments,
        data_set=unread,
        counted=unread,
        is_live=is_live,
    )


def _agreed(offer: ReleaseOffer) -> str:
    return fingerprint(offer.outline, offer.private())


def _review(
    *, n_rows: int = 100, data_set: str = "survey", budget: str = "3", name: str = "census"
) -> Review:
    account = account_of(data_set, Budget(Decimal(budget), Decimal(0)))
    return review(make_study(name=name), History(), n_rows=n_rows, account=account)


def test_only_what_was_on_the_page_is_agreed_to() -> None:
    planned = _review()
    job = Job("census", "x", consents=True)
    agreed = _agreed(_offer(planned))
    PageDialogue(job, agreed).begin(_offer(_review()).outline)
    dearer = replace(planned.request.price, epsilon=Decimal(2))
    for other in (
        _review(n_rows=101),
        _review(data_set="other"),
        _review(budget="4"),
        _review(name="other"),
        replace(planned, request=replace(planned.request, query_sha256="0" * 64)),
        replace(planned, request=replace(planned.request, price=dearer)),
        replace(planned, step=NextStep.DRAW),
    ):
        with pytest.raises(ConsentError, match="Nothing was drawn or charged"):
            PageDialogue(job, agreed).begin(_offer(other).outline)
    with pytest.raises(ConsentError):
        PageDialogue(job, agreed).begin(_offer(planned, is_live=True).outline)
    with pytest.raises(ConsentError):
        PageDialogue(job, "").begin(_offer(planned).outline)
    assert not job.notes
    live = PageDialogue(job, _agreed(_offer(planned, is_live=True)))
    live.begin(_offer(_review(n_rows=101), is_live=True).outline)
    assert job.notes == ["survey has 101 rows now."]


def test_one_piece_of_work_at_a_time() -> None:
    jobs, go = Jobs(), threading.Event()
    first = jobs.start(Job("a", "The first"), lambda _: go.wait())
    with pytest.raises(StudyStateError, match="The first is under way"):
        jobs.start(Job("b", "The second"), lambda _: None)
    go.set()
    first.wait()
    jobs.start(Job("b", "The second"), lambda _: None).wait()
    assert [jobs.of(name) is not None for name in ("a", "b", "c")] == [True, True, False]


def test_work_that_is_stopped_is_over_though_its_source_does_not_answer() -> None:
    jobs, answers, ends = Jobs(), threading.Event(), threading.Event()

    def read(job: Job) -> None:
        try:
            with job.progress("Reading rows", 10, unit="rows") as bar:
                answers.wait()
                bar.advance(5)
        finally:
            ends.set()

    job = jobs.start(Job("a", "It"), read)
    assert job.stop()
    assert (job.runs, jobs.running()) == (False, None)
    jobs.start(Job("b", "The next"), lambda _: None).wait()
    answers.set()
    assert ends.wait(WAIT_S)
    assert job.error is not None
    assert "Nothing was drawn, charged or sent" in job.error


def test_work_is_stopped_before_its_point_of_no_return_or_finished() -> None:
    job, go = Job("a", "It"), threading.Event()
    Jobs().start(job, lambda _: go.wait())
    job.commit_point()
    assert not job.stop()
    go.set()
    job.wait()
    assert job.error is None

    job, go = Job("a", "It"), threading.Event()
    Jobs().start(job, lambda _: go.wait())
    assert job.stop()
    with pytest.raises(ConsentError, match="Nothing was drawn"):
        job.commit_point()
    go.set()


def test_a_contribution_may_be_stopped_until_it_charges_or_sends() -> None:
    offer = _offer(_review())
    for pass_on in (
        lambda dialogue: dialogue.require_consent(offer),
        lambda dialogue: dialogue.progress("Sending", 10, unit="bytes"),
    ):
        go = threading.Event()
        job = Jobs().start(Job("a", "It", consents=True), lambda _, go=go: go.wait())
        dialogue = PageDialogue(job, _agreed(offer))
        dialogue.begin(offer.outline)
        with dialogue.progress("Reading rows", 10, unit="rows"):
            assert job.cancellable
        pass_on(dialogue)
        assert not job.stop()
        go.set()
        job.wait()
        assert job.error is None


@pytest.mark.parametrize("changed", [[9, 1, 1], [1, 1, 2], [0, 0, 0]])
def test_other_rows_than_were_looked_at_are_not_agreed_to(changed: list[int]) -> None:
    """As many rows, in the place of those that the page has counted."""
    job = Job("census", "x", consents=True)
    shown = _offer(_review())
    dialogue = PageDialogue(job, _agreed(shown))
    dialogue.begin(shown.outline)
    others = Moments(100, np.array(changed, dtype=np.int64))
    with pytest.raises(ConsentError, match="the rows, what would leave of them"):
        dialogue.require_consent(_offer(_review(), others))
    assert job.cancellable
    query = _offer(_review(), is_live=True)  # is asked again: its rows come and go
    dialogue = PageDialogue(job, _agreed(query))
    assert not dialogue.require_consent(_offer(_review(), others, is_live=True))
    assert not job.cancellable


def test_how_work_ends_that_was_stopped_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    go, ended = threading.Event(), threading.Event()

    def fail(_: Job) -> None:
        go.wait()
        ended.set()
        raise KeyError("a driver's own")

    job = Jobs().start(Job("a", "It"), fail)
    assert job.stop()
    go.set()
    assert ended.wait(WAIT_S)
    assert job.thread is not None
    job.thread.join(WAIT_S)
    assert job.error is not None
    assert "Nothing was drawn, charged or sent" in job.error
    assert "KeyError" in capsys.readouterr().err


def test_how_work_ended_is_told_but_not_a_defects_text(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = Jobs()

    def fail(error: BaseException) -> Job:
        def work(_: Job) -> None:
            raise error

        job = jobs.start(Job("a", "It"), work)
        job.wait()
        return job

    job = fail(DataError("the file is gone"))
    assert job.error == "the file is gone"
    job = fail(KeyError("a value of a row"))
    assert job.error is not None
    assert "a value of a row" not in job.error
    printed = capsys.readouterr().err
    assert "KeyError" in printed
    assert "a value of a row" not in printed

    class PanicError(BaseException):
        """As a library in Rust raises."""

    assert "a defect" in str(fail(PanicError()).error)


def test_work_for_which_there_is_no_thread_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    jobs = Jobs()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            jobs.start(Job("a", "It"), lambda _: None)
    assert (jobs.of("a"), jobs.running()) == (None, None)
