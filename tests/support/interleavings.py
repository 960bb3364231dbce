"""A curator whose interleavings a test chooses: no thread, no time, no chance.

Coordinator and store are the product's. Their event loop runs nothing in other threads: work for a
thread is a `Job`, and a test decides when to begin it, do it and hand over its answer. One thread
writes the store, so its jobs keep their order. A test moves the clock. A job takes time, too: it
reads the time at which it began.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.aggregation.sum_messages import Opening
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import Release, calibrate
from dppca.common.kernel.study import Study, Trust
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.store import SqliteStore
from dppca.curator.store.sqlite import DATABASE
from dppca.curator.study import admission, lifecycle
from dppca.curator.study.admission import UploadDecision
from dppca.curator.study.openings import OpeningHeader
from dppca.curator.study.sealed_set import is_opened, wanted_streams
from dppca.curator.study.study_record import Header, OwnerHistory, StudyRecord
from tests.support.census import header_of, make_release
from tests.support.certificates import new_authority
from tests.support.masked import MaskedRecords, header_for, make_masked_study
from tests.support.studies import make_study
from tests.support.study_machine import START

DEADLINE, OPEN_BY = START + timedelta(hours=4), START + timedelta(hours=9)
TICK_S = 0.5
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
MASKED = MaskedRecords(
    make_masked_study(
        5, 4, spares=1, quorum=4, deadline=DEADLINE.isoformat(), open_by=OPEN_BY.isoformat()
    )
)
MASKED_STUDY, OPENERS = MASKED.made.study, MASKED.terms.openers
_MASKED_DIGEST = bytes.fromhex(MASKED_STUDY.digest)


def plain_study(name: str, *, deadline: datetime = DEADLINE) -> Study:
    """A study of three owners with ``trust: owner``; two are enough at the deadline."""
    owners = ["owner-1", "owner-2", "owner-3"]
    return make_study("small", name=name, owners=owners, quorum=2, deadline=deadline.isoformat())


@dataclass(eq=False)
class Job:
    """Work for another thread.

    ``began`` is the time at which it began, which it reads as the present; None before. ``outcome``
    sets the result of ``answer``; None until the work is done.
    """

    thread: Executor | None
    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    began: datetime | None = None
    outcome: Callable[[], None] | None = None


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop without threads or time: a test moves ``now``, and ``jobs`` wait for it."""

    def __init__(self, now: datetime) -> None:
        self.now, self.jobs = now, list[Job]()
        self._n_scheduled = 0
        self._at_work: datetime | None = None
        super().__init__()

    def time(self) -> float:
        return (self.now - START).total_seconds()  # small: timers compare by nanoseconds

    def clock(self) -> datetime:
        """Current time; within a job, the time at which it began."""
        return self._at_work or self.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        self._n_scheduled += 1
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        job = Job(executor, partial(func, *args), self.create_future())
        self.jobs.append(job)
        return job.answer

    def settle(self) -> None:
        """Run until only a job or time can cause progress."""
        while True:
            before = self._n_scheduled
            self.call_soon(self.stop)
            self.run_forever()
            if self._n_scheduled == before + 1:
                return

    @property
    def movable(self) -> list[Job]:
        """Jobs that may go on: one thread begins one when the last is done, and answers in turn."""
        jobs = []
        for place, job in enumerate(self.jobs):
            before = [] if job.thread is None else self.jobs[:place]
            before = [each for each in before if each.thread is job.thread]
            if not before or (job.outcome is None and before[-1].outcome is not None):
                jobs.append(job)
        return jobs

    def go_on(self, job: Job) -> None:
        """Begin a job, do one that has begun, or hand over the answer of one that is done."""
        if job.outcome is not None:
            self.jobs.remove(job)
            job.outcome()
            self.settle()
        elif job.began is None:
            job.began = self.now
        else:
            self._at_work = job.began
            try:
                job.outcome = partial(job.answer.set_result, job.work())
            except Exception as error:  # noqa: BLE001 - whoever waits for the job gets it
                job.outcome = partial(job.answer.set_exception, error)
            finally:
                self._at_work = None

    def work_off(self, *, but: Job | None = None) -> None:
        """Do all jobs except one, in order, and those that follow from them."""
        while jobs := [job for job in self.movable if job is not but]:
            self.go_on(jobs[0])

    def finish(self, job: Job) -> None:
        while job in self.jobs:
            self.go_on(job)

    def kill(self) -> None:
        """End like ``kill -9``: pending work is never done, and no call is answered."""
        for job in self.jobs:
            job.answer.cancel()
        self.jobs.clear()
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.close()


class SteppedCurator:
    """A daemon's coordinator over a store in a folder, and parties that call it.

    ``begun`` has studies and the owners that have contributed, oldest first; a study of ``trust:
    aggregate`` is `MASKED`'s. They are stored in the folder unless it has a store. ``now`` is the
    clock's first time.
    """

    def __init__(
        self, folder: Path, begun: Mapping[Study, Sequence[str]], *, now: datetime = START
    ) -> None:
        self._folder = folder
        self.acknowledged = {
            (bytes.fromhex(study.digest), owner)
            for study, owners in begun.items()
            for owner in owners
        }
        if not (folder / DATABASE).exists():
            _keep(folder, begun)
        self._start(now, begun)

    def _start(self, now: datetime, known: Iterable[Study]) -> None:
        """Start the daemon with cached noise of some studies."""
        self.calls: list[asyncio.Task[None]] = []
        self.loop = SteppedLoop(now)
        self.store = SqliteStore(self._folder)
        self.coordinator = StudyCoordinator(
            self.store, _signer, clock=self.loop.clock, check_s=math.inf, stall_s=math.inf
        )
        for study in known:
            self.loop.create_task(self.coordinator.calibration(self.record(study)))
            self.loop.settle()
            self.loop.work_off()
        self.daemon = self.loop.create_task(self.coordinator.run(tick_s=TICK_S))
        self.loop.settle()

    def close(self) -> None:
        """End the daemon like ``kill -9``; callers without an answer learn nothing."""
        self.loop.kill()
        self.coordinator.close()

    def restart(self) -> None:
        self.close()
        self._start(self.loop.now, ())

    def tick(self, moment: datetime | None = None) -> None:
        """Move the clock by a tick, or to a later moment, and let the daemon look."""
        self.loop.now = max(moment or START, self.loop.now + timedelta(seconds=TICK_S))
        self.loop.settle()

    def record(self, study: Study) -> StudyRecord:
        return self.coordinator.require(bytes.fromhex(study.digest))

    def contribute(self, study: Study, *owners: str) -> None:
        for owner in owners:
            self._call(self._contribute(study, owner))

    def vote(self, *openers: str) -> None:
        """Vote for the sealed set of `MASKED_STUDY`; do nothing without one."""
        record = self.store.study(_MASKED_DIGEST)
        if record is not None and record.sealing is not None:
            for opener in openers:
                self._call(self._vote(opener))

    def open(self, *openers: str) -> None:
        record = self.store.study(_MASKED_DIGEST)
        for opener in openers:
            if record is not None and (wanted := wanted_streams(record, opener)):
                self._call(self._open(opener, wanted))

    def abort(self, study: Study) -> None:
        self._call(self._abort(study))

    def require_sound(self) -> None:
        """Check the invariants of the daemon, of calls and of every study."""
        assert not self.daemon.done(), "the daemon has ended"
        assert self.coordinator.n_stopped == 0
        for call in self.calls:
            if call.done() and (error := call.exception()) is not None:
                assert isinstance(error, DppcaError), f"a call failed inside: {error!r}"
        for record in self.store.studies():
            taken = {owner for digest, owner in self.acknowledged if digest == record.digest}
            assert taken <= set(record.contributed), "what was acknowledged is gone"
            if record.reason == lifecycle.QUORUM_REASON:
                assert len(record.contributions) < record.study.required_contributions, (
                    "aborted with a quorum"
                )
            if record.reason == lifecycle.OPENERS_REASON:
                assert not is_opened(record), "aborted, though all was opened"
            assert record.reason != lifecycle.GARBLED_REASON
            if record.result is not None:
                counted = _owners_of(self.store.blobs.read(record.result.sha256), record.study)
                assert counted == record.contributed, "a result of other contributions"

    def require_settled(self) -> None:
        """Check that all due steps are done in the end: no study waits."""
        for moment in (START, DEADLINE, OPEN_BY):
            self.loop.work_off()
            self.tick(moment)
            for _ in range(2):  # once more for what has changed meanwhile
                self.loop.work_off()
                self.tick()
        self.loop.work_off()
        self.require_sound()
        for record in self.store.studies():
            assert record.state in {StudyState.DECOMPOSED, StudyState.ABORTED}

    def _call(self, call: Coroutine[Any, Any, None]) -> None:
        self.calls.append(self.loop.create_task(call))
        self.loop.settle()

    async def _contribute(self, study: Study, owner: str) -> None:
        content, header = _release(study, owner)
        _, verdict = await self.coordinator.admit(header)
        if verdict is UploadDecision.ACCEPT:
            with self.store.blobs.spool() as spool:
                spool.write(content)
                await self.coordinator.contribute(header, spool)
        self.acknowledged.add((header.study_digest, owner))

    async def _vote(self, opener: str) -> None:
        record = self.record(MASKED_STUDY)
        await self.coordinator.vote(
            opener,
            OpeningHeader(record.digest, ballot(opener, record.contributed), 0, b""),
        )

    async def _open(self, opener: str, streams: tuple[int, ...]) -> None:
        opening = opening_of(opener, streams, self.record(MASKED_STUDY).contributed)
        header = header_for(MASKED.made, opening)
        with self.store.blobs.spool() as spool:
            spool.write(opening.total)
            await self.coordinator.open(opener, header, opening.without_total(), spool)

    async def _abort(self, study: Study) -> None:
        await self.coordinator.abort_study(study.name, "no longer wanted")


def _keep(folder: Path, begun: Mapping[Study, Sequence[str]]) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(closing(SqliteStore(folder)))
        for study, owners in begun.items():
            record = lifecycle.create(None, study, now=START)
            store.create(record)
            spools = []
            for owner in owners:
                release, header = _release(study, owner)
                record, _ = admission.contribute(
                    record, header, OwnerHistory(), calibration=calibrate(study), now=START
                )
                spools.append(stack.enter_context(store.blobs.spool()))
                spools[-1].write(release)
            store.save(record, *spools)


@cache
def _signer() -> Signer:
    return make_signer(new_authority().issue(Role.CURATOR, "hub"))


@cache
def _release(study: Study, owner: str) -> tuple[bytes, Header]:
    if study.trust is Trust.AGGREGATE:
        release: Release | MaskedRelease = MASKED.releases[owner]
    else:
        release = make_release(study, seed=study.owners.index(owner))
    return release.payload(), header_of(release, owner)


@cache
def ballot(opener: str, owners: tuple[str, ...]) -> bytes:
    return MASKED.vote(opener, owners).to_bytes()


@cache
def opening_of(opener: str, streams: tuple[int, ...], owners: tuple[str, ...]) -> Opening:
    return MASKED.opening(opener, streams, owners=owners)


@cache
def _owners_of(result: bytes, study: Study) -> tuple[str, ...]:
    return tuple(share.owner for share in result_from_bytes(result, study).header.shares)
