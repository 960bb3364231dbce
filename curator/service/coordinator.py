"""Studies of a running daemon: decisions of the protocol, executed one at a time.

Every step is the same: in the one writing thread, read the record, let `dppca.curator.study`
decide, and store the record that it returns in one transaction. Because there is one writer,
nothing changes between a decision and its transaction. Then calls that wait for the study are
woken.

Long computations run between two looks at a study: the writing step decides by the record and the
clock of that moment if the study still waits for this result, sealed set or end for lateness. An
outdated result is dropped, and the study is looked at again. A fault of one study never stops the
work on others.

Several studies are computed at a time, each by one thread of BLAS: its bytes do not depend on what
else is computed, or on the cores (`dppca.curator.service.computing_places`).

Nothing blocks the event loop: transactions run in the writing thread, decomposition and reading in
others. A step that has begun is finished even if its caller has gone.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.sum_messages import SignedOpening
from dppca.common.kernel.attestation.components import FirstResult, sign_result
from dppca.common.kernel.attestation.contributions import AcknowledgedContribution, acknowledge
from dppca.common.kernel.attestation.envelopes import SignedFile
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.durable.checkpoints import CuratorStep, checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    DppcaError,
    GarbledSumError,
    StoreError,
    StudyStateError,
    TooFewRowsError,
    UnknownStudyError,
    UnreachableError,
)
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust
from dppca.common.transport.greeting import make_greeting
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.observability.log import LOGGER, log_event
from dppca.curator.service.computing_places import ComputingPlaces
from dppca.curator.service.group_commit import GroupCommit
from dppca.curator.service.masked_sums import digest_set, read_evidence, read_openings, read_uploads
from dppca.curator.service.transfer import note_failure
from dppca.curator.store import Spool, SqliteStore
from dppca.curator.study import admission, lifecycle, openings, settlement
from dppca.curator.study.admission import SyntheticHeader, UploadDecision
from dppca.curator.study.aggregate import aggregate, aggregate_masked
from dppca.curator.study.auditor_looks import following_look
from dppca.curator.study.lifecycle import NextAction
from dppca.curator.study.openings import OpeningDecision, OpeningHeader
from dppca.curator.study.sealed_set import missing_openers
from dppca.curator.study.study_record import (
    Contribution,
    Header,
    LedgerHead,
    OwnerHistory,
    Settlement,
    StoredResult,
    StudyRecord,
)

RETRY_AFTER_S = 30.0  # after a decomposition failed
CHECK_S = 2.0  # between two tests of the store
STALL_S = 30.0  # that a step may wait for the disk before the store is not writable

_DEFECT = "report this defect; restart the daemon to try again, or abort the study"
_WAITING = (StudyState.OPEN, StudyState.SEALED)
_Change = Callable[[StudyRecord], StudyRecord]
_T = TypeVar("_T")
_Settled = TypeVar("_Settled", bound=Settlement | None)


class StudyCoordinator:
    """All studies of one daemon. Create and use it in a running event loop.

    `close` also closes ``store``. ``signer`` returns the curator's current signer, because its key
    may change; it acknowledges contributions, countersigns receipts and seals results. ``clock``
    returns the current time, aware, and ``clock_held`` whether it has jumped
    (`dppca.curator.service.watched_clock`). The store is tested every ``check_s``, and counts as
    not writable once a step has waited for the disk longer than ``stall_s``.
    """

    def __init__(
        self,
        store: SqliteStore,
        signer: Callable[[], Signer],
        *,
        clock: Callable[[], datetime] = utc_now,
        clock_held: Callable[[], bool] = lambda: False,
        check_s: float = CHECK_S,
        stall_s: float = STALL_S,
    ) -> None:
        self.store = store
        self._signer = signer
        self._check_s = check_s
        self._stall_s = stall_s
        self._checked_s = time.monotonic()
        self._started_s: dict[object, float] = {}
        self._clock = clock
        self._clock_held = clock_held
        self._group_commit = GroupCommit(store, clock)
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._changed: defaultdict[bytes, asyncio.Condition] = defaultdict(asyncio.Condition)
        self._places = ComputingPlaces()
        self._advancing: dict[bytes, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._calibrations: dict[bytes, Calibration] = {}
        self._retry_at_s: dict[bytes, float] = {}  # by the event loop's clock
        self._defective: set[bytes] = set()
        self._draining = False
        self._writable = True

    @property
    def serving(self) -> bool:
        """Return True if calls are taken and the store can be written, as far as is known."""
        return self.writable and not self._draining

    @property
    def writable(self) -> bool:
        """Return True if the last write succeeded and no step hangs on the disk."""
        oldest = min(list(self._started_s.values()), default=None)
        stalled = oldest is not None and time.monotonic() - oldest > self._stall_s
        return self._writable and not stalled

    @property
    def n_stopped(self) -> int:
        """Number of waiting studies whose next step a defect prevents."""
        records = [self.require(digest) for digest in list(self._defective)]
        return sum(record.state in _WAITING for record in records)

    @property
    def n_computing(self) -> tuple[int, int]:
        """Number of studies that are being computed, and of those that wait for a place."""
        return self._places.running, self._places.waiting

    def greet(self) -> pb.Greeting:
        """What this curator says of itself: its version and its clock."""
        return make_greeting(now=self._clock(), held=self._clock_held())

    def require(self, digest: bytes) -> StudyRecord:
        """Return the study with a digest, or raise `UnknownStudyError`."""
        record = self.store.study(digest)
        if record is None:
            raise UnknownStudyError(f"study {digest.hex()[:16]} does not exist")
        return record

    def require_named(self, name: str) -> StudyRecord:
        """Return the study with a name, or raise `UnknownStudyError`."""
        record = self.store.named(name)
        if record is None:
            raise UnknownStudyError(f"no study is called {name!r}")
        return record

    async def create(self, study: Study) -> tuple[StudyRecord, bool]:
        """Create a study; return it, and True if it existed already."""

        def step() -> tuple[StudyRecord, bool]:
            existing = self.store.named(study.name)
            record = lifecycle.create(
                existing,
                study,
                first=self._continued(study),
                seen={owner: self.store.history(owner).roles for owner in study.owners},
                now=self._clock(),
            )
            if existing is None:
                self.store.create(record)
            return record, existing is not None

        return await self._write(step)

    async def calibration(self, record: StudyRecord) -> Calibration:
        """Return a study's noise, computed once in another thread and then cached."""
        calibration = self._calibrations.get(record.digest)
        if calibration is None:
            calibration = await asyncio.to_thread(calibrate, record.study)
            self._calibrations[record.digest] = calibration
        return calibration

    def _continued(self, study: Study) -> StudyRecord | None:
        """Return the study that another continues, if it is here."""
        continues = study.continues
        return None if continues is None else self.store.study(bytes.fromhex(continues.study))

    async def first_result(self, study: Study) -> FirstResult | None:
        """Return the result that a study continues."""
        record = self._continued(study)
        if record is None:
            return None
        first = Round(record.study, await self.calibration(record))
        return FirstResult(first, lifecycle.require_result(record).envelope)

    async def admit(self, header: Header) -> tuple[StudyRecord, UploadDecision]:
        """Decide on a contribution before its bytes are received."""
        record = self.require(header.study_digest)
        calibration = await self.calibration(record)
        record, history = self.require(header.study_digest), self.store.history(header.owner)
        return record, admission.admit(
            record, header, history, calibration=calibration, now=self._clock()
        )

    async def contribute(self, header: Header, upload: Spool) -> tuple[StudyRecord, UploadDecision]:
        """Decide again on a contribution whose bytes have all come, and store it.

        Other contributions that wait for the writing thread are stored with it
        (`dppca.curator.service.group_commit`).
        """
        calibration = await self.calibration(self.require(header.study_digest))
        pending = self._group_commit.add(header, upload, calibration)
        return await self._write(
            lambda: self._group_commit.commit(pending), changes=header.study_digest
        )

    def acknowledgement(self, stored: Header) -> bytes:
        """Sign the acknowledgement of a stored contribution; its terms are the same each time."""
        return acknowledge(AcknowledgedContribution.of(stored.release), self._signer())

    async def vote(self, opener: str, header: OpeningHeader) -> StudyRecord:
        """Store an opener's vote for the sealed set."""
        return await self._change(
            header.study_digest,
            lambda each: openings.store_vote(
                each,
                opener,
                header.vote,
                now=self._clock(),
                consent=header.consent,
                seen=self.store.history(opener).roles,
            ),
            passed="vote",
        )

    def admit_opening(
        self, opener: str, header: OpeningHeader
    ) -> tuple[StudyRecord, OpeningDecision]:
        """Decide on an opening before its bytes are received."""
        record = self.require(header.study_digest)
        seen = self.store.history(opener).roles
        return record, openings.admit_opening(record, opener, header, now=self._clock(), seen=seen)

    async def open(
        self, opener: str, header: OpeningHeader, signed: SignedOpening, upload: Spool
    ) -> tuple[StudyRecord, OpeningDecision]:
        """Decide again on an opening whose bytes have all come, and store it."""
        return await self._decide(
            header.study_digest,
            lambda each: openings.store_opening(
                each,
                opener,
                header,
                signed,
                now=self._clock(),
                seen=self.store.history(opener).roles,
            ),
            upload,
            passed="opened",
        )

    async def publish(
        self, owner: str, header: SyntheticHeader, upload: Spool
    ) -> tuple[StudyRecord, UploadDecision]:
        """Decide again on checked synthetic rows, and store them."""
        return await self._decide(
            header.study_digest,
            lambda each: admission.publish(each, owner, header, now=self._clock()),
            upload,
        )

    async def close_study(self, name: str) -> StudyRecord:
        """Stop accepting synthetic rows."""
        digest = self.require_named(name).digest
        return await self._change(digest, lifecycle.close, passed="close")

    async def abort_study(self, name: str, reason: str) -> StudyRecord:
        """Abort a study that waits for owners or openers."""
        digest = self.require_named(name).digest
        return await self._change(digest, lambda each: lifecycle.abort(each, reason))

    async def settle_ledger(self, owner: str, *, by: str, reason: str) -> Settlement:
        """Set aside the record of an owner's chain; again, return the last settlement."""
        return await self._settle(
            owner,
            lambda each: settlement.settle_chain(
                each, owner, by=by, reason=reason, now=self._clock()
            ),
        )

    async def note_look(self, auditor: str, method: str, study: str) -> None:
        """Record a look before its answer leaves; raise `StoreError` if that is not possible."""

        def step() -> None:
            # In the writing thread, one after the other.
            look = following_look(self.store.looks.lines, auditor, method, study, now=self._clock())
            if look is not None:
                self.store.keep_look(look)
                log_event("auditor looked", auditor=auditor, method=method, study=study)

        await self._write(step)

    async def continue_ledger(
        self, owner: str, chain: LedgerHead, known: bytes
    ) -> Settlement | None:
        """Let an owner continue with another chain; return None if no other one is recorded."""
        return await self._settle(
            owner,
            lambda each: settlement.continue_chain(each, owner, chain, known, now=self._clock()),
        )

    async def wait(self, digest: bytes, *, timeout_s: float) -> StudyRecord:
        """Return the study once it has stopped waiting, or its state when the time is up.

        Raise `UnreachableError` if the daemon is draining: the caller may ask again.
        """

        def settled() -> bool:
            return self._draining or self.require(digest).state not in _WAITING

        with suppress(TimeoutError):  # the record then shows that the study waits
            async with asyncio.timeout(timeout_s), self._changed[digest]:
                await self._changed[digest].wait_for(settled)
        record = self.require(digest)
        if self._draining and record.state in _WAITING:
            raise UnreachableError("the curator is stopping")
        return record

    async def run(self, *, tick_s: float) -> None:
        """Settle due studies at every tick and after every change, until cancelled."""
        try:
            while True:
                self._wake.clear()  # first, so that no later event is lost
                self._start_due()
                if not self._writable or time.monotonic() - self._checked_s >= self._check_s:
                    await self._check_store()
                with suppress(TimeoutError):  # the next tick
                    async with asyncio.timeout(tick_s):
                        await self._wake.wait()
        finally:
            for task in list(self._advancing.values()):
                task.cancel()

    async def advance_due(self) -> None:
        """Take the due step of every study, and wait until all are done.

        A failed step is retried later. A defect of this software (any error that is not of
        `dppca.common.kernel.errors`) stops the work on its study until the daemon is restarted.
        """
        self._start_due()
        await asyncio.gather(*self._advancing.values())

    def _start_due(self) -> None:
        """Begin the due step of every study on which nobody works."""
        loop = asyncio.get_running_loop()
        for record in self.store.studies():
            digest = record.digest
            if digest in self._advancing or digest in self._defective:
                continue
            waited = self._retry_at_s.get(digest, 0.0) <= loop.time()
            if waited and self._is_due(record):
                task = self._advancing[digest] = loop.create_task(self._advance(record))
                task.add_done_callback(partial(self._has_advanced, digest))

    def _is_due(self, record: StudyRecord) -> bool:
        try:
            return lifecycle.next_action(record, now=self._clock()) is not NextAction.NOTHING
        except Exception:  # noqa: BLE001 - a defect: the step meets it again, and records it
            return True

    def _has_advanced(self, digest: bytes, _: asyncio.Task[None]) -> None:
        del self._advancing[digest]
        self._wake.set()

    async def drain(self) -> None:
        """Answer all waiting calls; new waits are answered at once."""
        self._draining = True
        for condition in list(self._changed.values()):
            async with condition:
                condition.notify_all()

    def close(self) -> None:
        """Finish pending writes and close the store."""
        self._writer.shutdown(wait=True)
        self.store.close()

    async def _advance(self, record: StudyRecord) -> None:
        digest, name = record.digest, record.study.name
        try:
            match lifecycle.next_action(record, now=self._clock()):
                case NextAction.ABORT:
                    await self._abort(
                        digest, lambda before: lifecycle.abort_late(before, now=self._clock())
                    )
                case NextAction.SEAL:
                    await self._seal(record)
                case NextAction.DECOMPOSE:
                    async with self._places.take(record.study.table.layout.n_columns):
                        record = self.require(digest)
                        if lifecycle.next_action(record, now=self._clock()) is NextAction.DECOMPOSE:
                            await self._decompose(record)
        except StudyStateError as error:  # no fault: the next look starts again
            log_event("study changed meanwhile", study=name, reason=str(error))
        except DppcaError as error:
            self._retry_at_s[digest] = asyncio.get_running_loop().time() + RETRY_AFTER_S
            log_event(
                "study not settled",
                level=logging.ERROR,
                study=name,
                reason=str(error),
                retry_s=RETRY_AFTER_S,
            )
        except Exception as error:  # noqa: BLE001 - a defect, which is this study's alone
            self._defective.add(digest)
            LOGGER.error(
                "study stopped", exc_info=error, extra={"fields": {"study": name, "next": _DEFECT}}
            )

    async def _abort(self, digest: bytes, abort: _Change) -> None:
        aborted, before = await self._decide(digest, lambda each: (abort(each), each))
        late = {"missing": len(before.missing), "missing_openers": len(missing_openers(before))}
        log_event("study aborted", study=before.study.name, reason=aborted.reason, **late)

    async def _seal(self, record: StudyRecord) -> None:
        taken = record.contributions
        checkpoint("seal")
        set_digest = await asyncio.to_thread(digest_set, self.store, record)
        await self._change(
            record.digest,
            lambda before: lifecycle.seal(before, taken, set_digest, now=self._clock()),
            passed="sealed",
        )
        log_event("study sealed", study=record.study.name, owners=len(taken))

    async def _decompose(self, record: StudyRecord) -> None:
        digest, name, taken = record.digest, record.study.name, record.contributions
        checkpoint("decompose")
        try:
            first = await self.first_result(record.study)
            calibration = await self.calibration(record)
            signed = await asyncio.to_thread(self._compute, record, calibration, first)
        except (GarbledSumError, TooFewRowsError) as error:
            garbled = isinstance(error, GarbledSumError)
            why = lifecycle.GARBLED_REASON if garbled else lifecycle.TOO_FEW_ROWS_REASON
            await self._abort(
                digest,
                lambda before: lifecycle.abort_undecomposed(before, taken, why, now=self._clock()),
            )
            return
        checkpoint("result")

        def step() -> None:
            with self.store.blobs.spool() as spool:
                spool.write(signed.content)
                result = StoredResult(spool.n_bytes, spool.sha256, signed.envelope)
                before = self.require(digest)
                after = lifecycle.decompose(before, taken, result, now=self._clock())
                self._store(after, spool, passed="serve")

        await self._write(step, changes=digest)
        log_event("study decomposed", study=name, owners=len(taken))

    def _compute(
        self, record: StudyRecord, calibration: Calibration, first: FirstResult | None
    ) -> SignedFile:
        with one_blas_thread():
            return self._result(record, calibration, first)

    def _result(
        self, record: StudyRecord, calibration: Calibration, first: FirstResult | None
    ) -> SignedFile:
        study, contributions, evidence = record.study, record.contributions, None
        before = None if first is None else first.round
        if study.trust is Trust.AGGREGATE:
            uploads = read_uploads(self.store, record)
            opened = read_openings(self.store, record)
            result = aggregate_masked(study, calibration, contributions, uploads, opened, before)
            evidence = read_evidence(self.store, record)
        else:
            vectors = self._vectors(contributions)
            result = aggregate(study, calibration, contributions, vectors, before)
        releases = [each.release for each in contributions]
        return sign_result(result, study, calibration, releases, self._signer(), evidence, first)

    def _vectors(self, contributions: tuple[Contribution, ...]) -> Iterator[NDArray[np.int64]]:
        """Yield one vector after the other; all of one size share one buffer."""
        vector = np.empty(0, "<i8")
        for contribution in contributions:
            if vector.nbytes != contribution.n_bytes:
                vector = np.empty(contribution.n_bytes // 8, "<i8")
            self.store.blobs.read_into(contribution.sha256, vector.data.cast("B"))
            yield vector.astype(np.int64, copy=False)

    async def _check_store(self) -> None:
        """Test if the store can be written; no other step would notice its recovery."""
        before = self._writable
        try:
            await self._write(self.store.check)
        except StoreError:
            return  # it was logged when it began
        finally:
            self._checked_s = time.monotonic()
        self._writable = True
        if not before:
            log_event("store writable again")

    async def _notify_waiters(self, record: StudyRecord) -> None:
        """Wake the calls that wait for a study, and the loop if a step is due."""
        if record.state not in _WAITING:
            async with self._changed[record.digest]:
                self._changed[record.digest].notify_all()
        if lifecycle.next_action(record, now=self._clock()) is not NextAction.NOTHING:
            self._wake.set()

    async def _change(
        self, digest: bytes, change: _Change, *, passed: CuratorStep | None = None
    ) -> StudyRecord:
        """Carry out a change of a study, and return it."""
        after, _ = await self._decide(digest, lambda each: (change(each), None), passed=passed)
        return after

    async def _decide(
        self,
        digest: bytes,
        decide: Callable[[StudyRecord], tuple[StudyRecord, _T]],
        *uploads: Spool,
        passed: CuratorStep | None = None,
    ) -> tuple[StudyRecord, _T]:
        """Let ``decide`` look at a study in the writing thread, and store its answer's record."""

        def step() -> tuple[StudyRecord, _T]:
            after, verdict = decide(self.require(digest))
            self._store(after, *uploads, passed=passed)
            return after, verdict

        return await self._write(step, changes=digest)

    def _store(self, after: StudyRecord, *uploads: Spool, passed: CuratorStep | None) -> None:
        """Store a study if a step has changed it, then pass the step's checkpoint."""
        if after is not self.store.study(after.digest):
            self.store.save(after, *uploads)
            if passed is not None:
                checkpoint(passed)

    async def _settle(self, owner: str, decide: Callable[[OwnerHistory], _Settled]) -> _Settled:
        """Let ``decide`` look at an owner's history in the writing thread; store what is new."""

        def step() -> _Settled:
            history = self.store.history(owner)
            settled = decide(history)
            if settled is not None and settled not in history.settlements:
                self.store.settle(owner, settled)
            return settled

        return await self._write(step)

    async def _write(self, step: Callable[[], _T], *, changes: bytes | None = None) -> _T:
        """Run a step in the writing thread, to its end even if the caller is cancelled."""

        async def finish() -> _T:
            loop = asyncio.get_running_loop()
            mark = object()
            self._started_s[mark] = time.monotonic()
            try:
                answer = await loop.run_in_executor(self._writer, step)
            except StoreError as error:
                if self._writable:
                    log_event("store failed", level=logging.ERROR, reason=str(error))
                self._writable = False
                raise
            finally:
                del self._started_s[mark]
            if changes is not None:
                await self._notify_waiters(self.require(changes))
            return answer

        task = asyncio.ensure_future(finish())
        task.add_done_callback(note_failure)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                log_event(
                    "step failed, caller gone",
                    level=logging.WARNING,
                    limit=("caller gone", type(task.exception())),
                    error=str(task.exception()),
                )
            raise
