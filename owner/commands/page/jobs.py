"""Work that a page has begun: one piece at a time, in a thread, with its progress.

It goes on without a browser, and ends as the command's work does. If the process is killed, the
ledger shows which steps were done, and the page continues from there.

The steward may stop it until its *point of no return*: before that it has changed nothing, and
having passed it, it is finished. Stopped work ends at once, even if a source of rows does not
answer: its thread ends when it next counts rows, and can no longer pass the point.
"""

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import ConsentError, DppcaError, StudyStateError
from dppca.common.shell.console import Progress, defect_text, say
from dppca.owner.release.dialogue import Outline, ReleaseOffer

_KEY = secrets.token_bytes(32)
_PACE_S = 1.0  # of work, before which the rest is not estimated
_STOPPED = "it was stopped. Nothing was drawn, charged or sent"


@dataclass(slots=True)
class Job:
    """Work for one study.

    Attributes
    ----------
    title
        Name of the work, for people.
    consents
        True if the work is a contribution.
    review
        Address of the review that it makes; empty for other work.
    step, done, total, unit
        Current step and its progress; ``total`` is 0 if it is not known.
    steps, place
        All steps in their order, where they are known before, and the number of those that ended.
    notes
        Messages to the steward, in order.
    error
        Reason why it ended without a result.
    cancellable
        True until it passes its point of no return.
    """

    study: str
    title: str
    consents: bool = False
    review: str = ""
    step: str = "starting"
    done: int = 0
    total: int = 0
    unit: str = ""
    steps: tuple[str, ...] = ()
    place: int = 0
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    thread: threading.Thread | None = None
    cancellable: bool = True
    stopped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _began: float = 0.0

    @property
    def share(self) -> int | None:
        """Share of the step that is done, in percent; None while it is not known."""
        return 100 * self.done // self.total if self.total else None

    @property
    def time_left(self) -> timedelta | None:
        """Time that the step takes from now on, at its pace so far; None while it is not known."""
        passed = time.monotonic() - self._began
        if not self.total or not self.done or passed < _PACE_S:
            return None
        return timedelta(seconds=passed * (self.total - self.done) / self.done)

    @property
    def runs(self) -> bool:
        """Return True if it has not ended."""
        return self.thread is not None and self.thread.is_alive() and not self.stopped

    def stop(self) -> bool:
        """End it; return False if it has passed the point of no return or had ended before."""
        with self._lock:
            if self.cancellable and self.runs and self.error is None:
                self.stopped = True
                self.error = _STOPPED
            return self.stopped

    def fail(self, error: str) -> None:
        """Record why it ended without a result, unless it was stopped."""
        with self._lock:
            if not self.stopped:
                self.error = error

    def wait(self, most_s: float | None = None) -> None:
        """Wait until it has ended or was stopped, or for ``most_s`` seconds."""
        if self.thread is not None and not self.stopped:
            self.thread.join(most_s)

    def check_cancelled(self) -> None:
        """Raise `ConsentError` if it was stopped."""
        if self.stopped:
            raise ConsentError(_STOPPED)

    def commit_point(self) -> None:
        """Pass the point of no return; `ConsentError` if it was stopped before."""
        with self._lock:
            self.check_cancelled()
            self.cancellable = False

    @contextmanager
    def progress(self, description: str, total: int, *, unit: str) -> Iterator[Progress]:
        """Show the progress of a step; `ConsentError` at the next count after it was stopped."""
        self.step, self.done, self.total, self.unit = description, 0, total, unit
        self.place = self.steps.index(description) if description in self.steps else self.place
        self._began = time.monotonic()
        yield _Counter(self)
        self.step, self.total = "going on", 0


class Jobs:
    """Work of a page, at most one piece at a time; the last of each study is remembered."""

    def __init__(self) -> None:
        self._last: dict[str, Job] = {}
        self._lock = threading.Lock()

    def running(self) -> Job | None:
        """Return the work that is under way, or None."""
        return next((job for job in self._last.values() if job.runs), None)

    def of(self, study: str) -> Job | None:
        """Return the last work for a study, ended or not."""
        return self._last.get(study)

    def start(self, job: Job, work: Callable[[Job], object]) -> Job:
        """Begin work and return it; `StudyStateError` while other work is under way."""
        with self._lock:
            under_way = self.running()
            if under_way is not None:
                raise StudyStateError(
                    f"{under_way.title} is under way: wait until it has ended. Nothing was done"
                )
            job.thread = threading.Thread(target=_run, args=(job, work), daemon=True)
            job.thread.start()  # raises if the system gives no thread: then there is no job
            self._last[job.study] = job
        return job


def _run(job: Job, work: Callable[[Job], object]) -> None:
    try:
        work(job)
    except DppcaError as error:
        job.fail(str(error) or error.public)
    except BaseException as error:  # noqa: BLE001 - a library in Rust may raise no Exception
        job.fail("a defect in this software, please report it with the lines in the terminal")
        say(defect_text(error), err=True)


class PageDialogue:
    """Implementation of `Dialogue` on a page; the steward has agreed before the rows are read.

    The job may be stopped until the rows are read: before a charge, and before stored bytes are
    sent again.

    Parameters
    ----------
    agreed
        `fingerprint` of the review that the page showed.
    """

    def __init__(self, job: Job, agreed: str) -> None:
        self._job, self._agreed = job, agreed

    def begin(self, outline: Outline) -> None:
        """See `Dialogue`; the current plan must be the one that was agreed to."""
        self._require_agreed(fingerprint(outline), of_rows=False)
        if outline.live_rows is not None:
            self.tell(f"{outline.data_set} has {many(outline.live_rows, 'rows')} now.")

    def require_consent(self, offer: ReleaseOffer) -> bool:
        """See `Dialogue`; consent was given on the page, and must fit the current plan and rows."""
        self._require_agreed(fingerprint(offer.outline, offer.private()), of_rows=True)
        self._job.commit_point()
        return False

    def tell(self, text: str) -> None:
        """See `Dialogue`."""
        self._job.notes.append(text)

    def progress(
        self, description: str, total: int, *, unit: str
    ) -> AbstractContextManager[Progress]:
        """See `Dialogue`; every step except reading rows is past the point of no return."""
        if unit != "rows":
            self._job.commit_point()
        return self._job.progress(description, total, unit=unit)

    def _require_agreed(self, ours: str, *, of_rows: bool) -> None:
        agreed = self._agreed if of_rows else self._agreed.partition("-")[0]
        if agreed != (ours if of_rows else ours.partition("-")[0]):
            raise ConsentError(
                "the rows, what would leave of them, or what it costs are not what the page "
                "showed: look at it again and agree again. Nothing was drawn or charged"
            )


class _Counter(Progress):
    def __init__(self, job: Job) -> None:
        super().__init__(job.step, job.total, shown=False)
        self._job = job

    def advance(self, amount: int = 1) -> None:
        super().advance(amount)
        self._job.done = self._done
        self._job.check_cancelled()


def fingerprint(outline: Outline, private: bytes = b"") -> str:
    """Return the codes of everything that the steward agrees to.

    The first code is for the facts of the outline, the second for the rows, with a dash between
    them. Both are made under a key that only this process has: a hash of rows would let others test
    guesses about them. Rows that others write to may change: then consent is to the query, and the
    page shows their number.

    Parameters
    ----------
    private
        `ReleaseOffer.private` of the rows that were read; empty if they were not read yet.
    """
    facts = canonical_json([outline.may_leave, outline.site_only])
    return f"{_code(facts)}-{_code(b'' if outline.live_rows is not None else private)}"


def _code(content: bytes) -> str:
    return hmac.digest(_KEY, content, "sha256").hex()
