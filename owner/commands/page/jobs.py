"""Work that a page has begun: one piece at a time, in a thread, with its progress.

A contribution goes on whether or not a browser looks, and ends as the command's does. If the
process is killed, the ledger knows how far it came, and the page goes on from there.
"""

from __future__ import annotations

import hashlib
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dppca.common.console import Progress, say
from dppca.common.errors import ConsentError, DppcaError, StudyStateError
from dppca.common.messages import StudyState
from dppca.owner.release.contribution import Review
from dppca.owner.site.agreement import Agreement


@dataclass(slots=True)
class Job:
    """Work for one study.

    Attributes
    ----------
    title, consents
        What is done, for people; whether it is a contribution.
    step, done, total, unit
        Where it is; ``total`` 0 where that is not known.
    notes
        What the steward should know, in order.
    error
        Why it ended without a result; its class is ``error_name``.
    """

    study: str
    title: str
    consents: bool
    step: str = "starting"
    done: int = 0
    total: int = 0
    unit: str = ""
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    error_name: str = ""
    thread: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.thread is not None and self.thread.is_alive()


class Jobs:
    """The work of a page, at most one piece at a time; the last of each study is remembered."""

    def __init__(self) -> None:
        self._last: dict[str, Job] = {}
        self._lock = threading.Lock()

    def running(self) -> Job | None:
        """What is under way."""
        return next((job for job in self._last.values() if job.runs), None)

    def of(self, study: str) -> Job | None:
        """The last work for a study, ended or not."""
        return self._last.get(study)

    def start(
        self, study: str, title: str, work: Callable[[Job], object], *, consents: bool = False
    ) -> None:
        """Begin work; `StudyStateError` while other work is under way."""
        with self._lock:
            under_way = self.running()
            if under_way is not None:
                raise StudyStateError(
                    f"{under_way.title} is under way: wait until it has ended. Nothing was done"
                )
            job = Job(study, title, consents)
            job.thread = threading.Thread(target=_run, args=(job, work), daemon=True)
            self._last[study] = job
            job.thread.start()

    def wait(self) -> None:
        """Wait until no work is under way."""
        job = self.running()
        if job is not None and job.thread is not None:
            job.thread.join()


def _run(job: Job, work: Callable[[Job], object]) -> None:
    try:
        work(job)
    except DppcaError as error:
        job.error, job.error_name = str(error) or error.public, type(error).__name__
    except Exception as error:  # noqa: BLE001 - any other error is a defect of this software
        say("".join(traceback.format_exception(error)).rstrip(), err=True)
        job.error = "a defect in this software, please report it with the lines in the terminal"
        job.error_name = type(error).__name__


class PageDialogue:
    """A `Dialogue` on a page, where the steward has agreed before the rows are read.

    Parameters
    ----------
    agreed
        `fingerprint` of the review that was on the page.
    """

    def __init__(self, job: Job, agreed: str) -> None:
        self._job, self._agreed = job, agreed

    def begin(self, planned: Review) -> None:
        """See `Dialogue`; what was agreed to must be what is planned now."""
        if fingerprint(planned) != self._agreed:
            raise ConsentError(
                "what would leave, or what it costs, is not what the page showed: look at it again "
                "and agree again. Nothing was drawn or charged"
            )

    def require_consent(
        self, planned: Review, state: StudyState, agreement: Agreement | None, counts: str
    ) -> bool:
        """See `Dialogue`; it was given on the page."""
        del planned, state, agreement, counts
        return False

    def tell(self, text: str) -> None:
        """See `Dialogue`."""
        self._job.notes.append(text)

    @contextmanager
    def progress(self, description: str, total: int, *, unit: str) -> Iterator[Progress]:
        """See `Dialogue`."""
        job = self._job
        job.step, job.done, job.total, job.unit = description, 0, total, unit
        yield _Counter(job)
        job.step, job.total = "going on", 0


class _Counter(Progress):
    def __init__(self, job: Job) -> None:
        super().__init__(job.step, job.total, shown=False)
        self._job = job

    def advance(self, amount: int = 1) -> None:
        super().advance(amount)
        self._job.done = self._done


def fingerprint(planned: Review) -> str:
    """Digest of what a steward agrees to: study, data set, rows, numbers, cost, what is left."""
    status = planned.budget_status
    figures = (
        planned.study.digest,
        planned.n_rows,
        planned.n_entries,
        planned.request.data_set,
        sorted(planned.request.cost_fields().items()),
        status.population,
        status.tied,
        status.spent_before,
        status.spent_after,
        planned.step,
    )
    return hashlib.sha256(repr(figures).encode()).hexdigest()
