"""The studies of a running daemon: decisions of the protocol, carried out one at a time.

Every step is the same: in the one writing thread, read the record, let `curator.protocol` or
`curator.admission` decide, store what they return, all or nothing. As there is one writer, nothing
changes between a decision and its transaction. Then whoever waits for the study is woken.

Nothing blocks the event loop: transactions run in the writing thread, decomposition and reading in
others. A step that has begun is finished even where its caller has gone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from common.checkpoints import checkpoint
from common.conversation import Header, StudyState
from common.errors import StoreError, UnknownStudyError, UnreachableError
from common.privacy.release import calibrate
from common.proof.components import SignedRelease, sealed_result
from common.proof.signatures import Signer
from common.study import Study
from curator import admission, protocol
from curator.admission import SyntheticHeader, Verdict
from curator.aggregate import aggregate
from curator.intake import Intake
from curator.log import note
from curator.protocol import Due
from curator.record import Content, Contribution, StudyRecord
from curator.store import Spool, Store

RETRY_AFTER_S = 30.0
CHECK_S = 2.0
STALL_S = 30.0

_T = TypeVar("_T")


def utc_now() -> datetime:
    """The clock, aware."""
    return datetime.now(UTC)


class Studies:
    """All studies of one daemon. Make it, and use it, in a running event loop.

    Parameters
    ----------
    store
        Open; closed by `close`.
    signer
        Gives the curator as it is now, for its key may change: countersigns receipts and seals
        results.
    clock
        The present, aware.
    check_s
        How often it is found out whether the store can be written.
    stall_s
        How long a step may wait for the disk before the store counts as not writable.
    """

    def __init__(
        self,
        store: Store,
        signer: Callable[[], Signer],
        *,
        clock: Callable[[], datetime] = utc_now,
        check_s: float = CHECK_S,
        stall_s: float = STALL_S,
    ) -> None:
        self.store = store
        self._signer = signer
        self._check_s = check_s
        self._stall_s = stall_s
        self._checked_s = time.monotonic()
        self._begun_s: dict[object, float] = {}
        self._clock = clock
        self._intake = Intake(store, clock)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._changed: defaultdict[bytes, asyncio.Condition] = defaultdict(asyncio.Condition)
        self._settling = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._calibrated: set[bytes] = set()
        self._not_before: dict[bytes, datetime] = {}
        self._draining = False
        self._writable = True

    @property
    def serving(self) -> bool:
        """Whether calls are taken and the store can be written, as far as is known."""
        return self.writable and not self._draining

    @property
    def writable(self) -> bool:
        """Whether the store could be written last time, and nothing hangs on its disk."""
        oldest = min(list(self._begun_s.values()), default=None)
        stalled = oldest is not None and time.monotonic() - oldest > self._stall_s
        return self._writable and not stalled

    def require(self, digest: bytes) -> StudyRecord:
        """The study of a digest, or `UnknownStudyError`."""
        record = self.store.study(digest)
        if record is None:
            message = f"there is no study {digest.hex()[:16]}"
            raise UnknownStudyError(message)
        return record

    def require_named(self, name: str) -> StudyRecord:
        """The study of a name, or `UnknownStudyError`."""
        record = self.store.named(name)
        if record is None:
            message = f"there is no study called {name!r}"
            raise UnknownStudyError(message)
        return record

    async def create(self, study: Study) -> tuple[StudyRecord, bool]:
        """Begin a study; also whether it was there already."""

        def step() -> tuple[StudyRecord, bool]:
            existing = self.store.named(study.name)
            record = protocol.create(existing, study, now=self._clock())
            if existing is None:
                self.store.create(record)
            return record, existing is not None

        return await self._write(step)

    async def admit(self, owner: str, header: Header) -> tuple[StudyRecord, Verdict]:
        """Decide on a contribution before its bytes are taken."""
        record = self.require(header.study_digest)
        if record.digest not in self._calibrated:  # it takes tens of milliseconds, once
            await asyncio.to_thread(calibrate, record.study)
            self._calibrated.add(record.digest)
            record = self.require(header.study_digest)
        history = self.store.history(owner)
        return record, admission.admit(record, owner, header, history, now=self._clock())

    async def contribute(
        self, owner: str, header: Header, upload: Spool
    ) -> tuple[StudyRecord, Verdict]:
        """Store a contribution whose bytes have all come; decided upon once more.

        Whatever else waits for the writing thread by then is stored with it (`curator.intake`).
        """
        arrived = self._intake.add(owner, header, upload)
        return await self._write(lambda: self._intake.settle(arrived), changes=header.study_digest)

    async def publish(
        self, owner: str, header: SyntheticHeader, upload: Spool
    ) -> tuple[StudyRecord, Verdict]:
        """Store synthetic rows that have been checked; decided upon once more."""

        def step() -> tuple[StudyRecord, Verdict]:
            record = self.require(header.study_digest)
            verdict = admission.admit_publication(record, owner, header)
            if verdict is Verdict.ACCEPT:
                record = admission.publish(record, owner, header, now=self._clock())
                self.store.save(record, upload)
            return record, verdict

        return await self._write(step)

    async def close_study(self, name: str) -> StudyRecord:
        """Take no more synthetic rows."""

        def step() -> StudyRecord:
            record = protocol.close(self.require_named(name))
            self.store.save(record)
            checkpoint("close")
            return record

        return await self._write(step)

    async def abort_study(self, name: str, reason: str) -> StudyRecord:
        """End an open study."""

        def step() -> StudyRecord:
            record = protocol.abort(self.require_named(name), reason)
            self.store.save(record)
            return record

        return await self._write(step, changes=self.require_named(name).digest)

    async def wait(self, digest: bytes, *, timeout_s: float) -> StudyRecord:
        """The study once it is no longer open, or as it is when the time is up.

        Raises
        ------
        UnreachableError
            The daemon is draining: ask again.
        """

        def settled() -> bool:
            return self._draining or self.require(digest).state is not StudyState.OPEN

        with suppress(TimeoutError):  # the answer then says that the study is open
            async with asyncio.timeout(timeout_s), self._changed[digest]:
                await self._changed[digest].wait_for(settled)
        record = self.require(digest)
        if self._draining and record.state is StudyState.OPEN:
            message = "the curator is stopping"
            raise UnreachableError(message)
        return record

    async def run(self, *, tick_s: float) -> None:
        """Settle what is due, at every tick and whenever something has come; until cancelled."""
        while True:
            await self.settle_due()
            if not self._writable or time.monotonic() - self._checked_s >= self._check_s:
                await self._try_store()
            self._wanted.clear()
            with suppress(TimeoutError):  # the next tick
                async with asyncio.timeout(tick_s):
                    await self._wanted.wait()

    async def settle_due(self) -> None:
        """Decompose or abort every study that is due; what fails is tried again later."""
        async with self._settling:
            for record in self.store.studies():
                now = self._clock()
                if now < self._not_before.get(record.digest, now):
                    continue
                try:
                    await self._settle(record, protocol.due(record, now=now))
                except StoreError as error:
                    wait = RETRY_AFTER_S
                    self._not_before[record.digest] = datetime.fromtimestamp(
                        now.timestamp() + wait, UTC
                    )
                    note(
                        "study not settled",
                        level=logging.ERROR,
                        study=record.study.name,
                        reason=str(error),
                        retry_s=wait,
                    )

    async def drain(self) -> None:
        """Answer whoever waits; new waits are answered at once."""
        self._draining = True
        for condition in list(self._changed.values()):
            async with condition:
                condition.notify_all()

    def close(self) -> None:
        """Finish what is being written and close the store."""
        self._writer.shutdown(wait=True)
        self.store.close()

    async def _settle(self, record: StudyRecord, what: Due) -> None:
        digest, name = record.digest, record.study.name
        if what is Due.ABORT:
            await self.abort_study(name, protocol.QUORUM_REASON)
            note("study aborted", study=name, missing=len(record.missing))
        elif what is Due.DECOMPOSE:
            checkpoint("decompose")
            content = await asyncio.to_thread(self._result, record)
            checkpoint("result")

            def step() -> StudyRecord:
                with self.store.spool() as spool:
                    spool.write(content)
                    result = Content(spool.n_bytes, spool.sha256)
                    decomposed = protocol.decompose(
                        self.require(digest), record.contributions, result, now=self._clock()
                    )
                    self.store.save(decomposed, spool)
                checkpoint("serve")
                return decomposed

            await self._write(step, changes=digest)
            note("study decomposed", study=name, owners=len(record.contributions))

    def _result(self, record: StudyRecord) -> bytes:
        vectors = self._vectors(record.contributions)
        result = aggregate(record.study, record.contributions, vectors)
        releases = [
            SignedRelease(c.owner, c.receipt, c.signature, c.certificate)
            for c in record.contributions
        ]
        return sealed_result(result, record.study, releases, self._signer())

    def _vectors(self, contributions: tuple[Contribution, ...]) -> Iterator[NDArray[np.int64]]:
        """One vector after the other, each in the place of the one before it."""
        vector = np.empty(0, "<i8")
        for contribution in contributions:
            if vector.nbytes != contribution.n_bytes:
                vector = np.empty(contribution.n_bytes // 8, "<i8")
            self.store.read_into(contribution.sha256, vector.data.cast("B"))
            yield vector.astype(np.int64, copy=False)

    async def _try_store(self) -> None:
        """Find out whether the store can be written; nothing else says that it can be again."""
        before = self._writable
        try:
            await self._write(self.store.check)
        except StoreError:
            return  # it was logged when it began
        finally:
            self._checked_s = time.monotonic()
        self._writable = True
        if not before:
            note("store writable again")

    async def _tell(self, record: StudyRecord) -> None:
        """Wake whoever waits for what a study has become: all wait for another state than open."""
        if record.state is not StudyState.OPEN:
            async with self._changed[record.digest]:
                self._changed[record.digest].notify_all()
        if protocol.due(record, now=self._clock()) is not Due.NOTHING:
            self._wanted.set()

    async def _write(self, step: Callable[[], _T], *, changes: bytes | None = None) -> _T:
        """Run a step in the writing thread, to its end even where the caller is cancelled."""

        async def finish() -> _T:
            loop = asyncio.get_running_loop()
            mark = object()
            self._begun_s[mark] = time.monotonic()
            try:
                answer = await loop.run_in_executor(self._writer, step)
            except StoreError as error:
                if self._writable:
                    note("store failed", level=logging.ERROR, reason=str(error))
                self._writable = False
                raise
            finally:
                del self._begun_s[mark]
            if changes is not None:
                await self._tell(self.require(changes))
            return answer

        task = asyncio.ensure_future(finish())
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                note("step failed, caller gone", level=logging.WARNING, error=str(task.exception()))
            raise
