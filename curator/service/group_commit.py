"""Group commit: all complete contributions that wait are stored in one transaction.

The disk takes the same time to make a transaction durable for one contribution as for ten. While
the one writing thread waits for the disk, other uploads end; its next turn takes all of them::

    upload 1  bytes durable ──▶ decided, stored ──▶ acknowledged
    upload 2          bytes durable ──▶ waits ──┬▶ decided, stored ──▶ acknowledged
    upload 3              bytes durable ──▶ waits ┘   (one transaction)

Rules:

* Each is decided by itself, in order of arrival, against a record that holds those before it. A
  refusal of one affects no other.
* No caller is answered before its group's transaction is durable, not even with a refusal: the
  contributions that it was compared with might not be stored.
* If storing several fails, none is stored, and each is tried by itself in its own turn. So an
  error always belongs to the contribution that receives it.

Reference: DeWitt et al., "Implementation techniques for main memory database systems" (1984), 5.2:
group commit.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.errors import DppcaError, UnknownStudyError
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.curator.store import Spool, SqliteStore
from dppca.curator.study import admission
from dppca.curator.study.admission import UploadDecision
from dppca.curator.study.study_record import Header, StudyRecord


@dataclass(eq=False, slots=True)
class PendingContribution:
    """A contribution whose bytes are stored, and its outcome once it is known."""

    header: Header
    upload: Spool
    calibration: Calibration
    outcome: tuple[StudyRecord, UploadDecision] | DppcaError | None = None


class GroupCommit:
    """Contributions that wait for the writing thread, which stores them in groups.

    Only the writing thread writes to ``store``; ``clock`` returns the current time, aware.
    """

    def __init__(self, store: SqliteStore, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._added: deque[PendingContribution] = deque()
        self._waiting: list[PendingContribution] = []  # used by the writing thread

    def add(self, header: Header, upload: Spool, calibration: Calibration) -> PendingContribution:
        """Add a contribution; pass the returned value to `commit` in the writing thread."""
        pending = PendingContribution(header, upload, calibration)
        self._added.append(pending)
        return pending

    def commit(self, pending: PendingContribution) -> tuple[StudyRecord, UploadDecision]:
        """Return the study and the durable verdict; others that wait for the study are stored too.

        Raise the contribution's error if it is refused (`dppca.curator.study.admission`), and
        `StoreError` if it could not be stored.
        """
        if pending.outcome is None:
            group = self._take_group(pending)
            try:
                self._store_all(group)
            except Exception:  # a defect is reported only to its own contribution
                if len(group) == 1:
                    raise
                self._store_all([pending])
        if isinstance(pending.outcome, DppcaError):
            raise pending.outcome
        if pending.outcome is None:
            raise AssertionError  # it was in its group
        return pending.outcome

    def _take_group(self, pending: PendingContribution) -> list[PendingContribution]:
        """Contributions that wait for the same study; only this one after a failure."""
        while self._added:
            self._waiting.append(self._added.popleft())
        if pending not in self._waiting:
            return [pending]
        study = pending.header.study_digest
        group = [each for each in self._waiting if each.header.study_digest == study]
        self._waiting = [each for each in self._waiting if each.header.study_digest != study]
        return group

    def _store_all(self, group: list[PendingContribution]) -> None:
        """Store all that are accepted in one transaction, then set every outcome."""
        digest = group[0].header.study_digest
        record = self._store.study(digest)
        if record is None:
            raise UnknownStudyError(f"study {digest.hex()[:16]} does not exist")
        now = self._clock()
        outcomes: list[UploadDecision | DppcaError] = []
        uploads: list[Spool] = []
        for each in group:
            history = self._store.history(each.header.owner)
            try:
                record, verdict = admission.contribute(
                    record, each.header, history, calibration=each.calibration, now=now
                )
                if verdict is UploadDecision.ACCEPT:
                    uploads.append(each.upload)
            except DppcaError as error:
                outcomes.append(error)
            else:
                outcomes.append(verdict)
        if uploads:
            self._store.save(record, *uploads)
            checkpoint("commit")
        for each, outcome in zip(group, outcomes, strict=True):
            each.outcome = outcome if isinstance(outcome, DppcaError) else (record, outcome)
