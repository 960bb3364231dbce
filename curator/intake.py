"""Contributions whose bytes have all come and that wait to be stored: one transaction for all.

The disk's time to make a transaction durable is the same for one contribution and for ten. While
the one writing thread waits for the disk, other uploads end; its next turn takes all of them::

    upload 1  bytes durable ──▶ decided, stored ──▶ acknowledged
    upload 2          bytes durable ──▶ waits ──┬▶ decided, stored ──▶ acknowledged
    upload 3              bytes durable ──▶ waits ┘   (one transaction)

Rules:

* Each is decided upon by itself, in the order in which they came, by a record that holds those
  before it. What one is refused for touches no other.
* Nobody is answered before the transaction that holds them is durable, refusals included: what they
  were compared with might not be stored.
* Where storing several fails, none is stored, and each is tried by itself in its own turn. So an
  error is always that of the contribution it is told to.

Reference: DeWitt et al., "Implementation techniques for main memory database systems" (1984), 5.2:
group commit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from common.checkpoints import checkpoint
from common.conversation import Header
from common.errors import DppcaError, StoreError, UnknownStudyError
from curator import admission
from curator.admission import Verdict
from curator.record import StudyRecord
from curator.store import Spool, Store


@dataclass(eq=False, slots=True)
class Arrived:
    """A contribution that has come, and what became of it once that is known."""

    owner: str
    header: Header
    upload: Spool
    outcome: tuple[StudyRecord, Verdict] | DppcaError | None = None


class Intake:
    """The contributions that wait. Filled by the event loop, emptied by the writing thread.

    Parameters
    ----------
    store
        Written from the writing thread only.
    clock
        The present, aware.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock
        self._added: deque[Arrived] = deque()
        self._waiting: list[Arrived] = []  # of the writing thread

    def add(self, owner: str, header: Header, upload: Spool) -> Arrived:
        """Let a contribution wait; give what this returns to `settle` in the writing thread."""
        arrived = Arrived(owner, header, upload)
        self._added.append(arrived)
        return arrived

    def settle(self, arrived: Arrived) -> tuple[StudyRecord, Verdict]:
        """The study and the verdict, durable; stores whatever else waits for the same study.

        Raises
        ------
        DppcaError
            It is refused (`curator.admission`).
        StoreError
            It could not be stored.
        """
        if arrived.outcome is None:
            group = self._take_with(arrived)
            try:
                self._store_all(group)
            except StoreError:
                if len(group) == 1:
                    raise
                self._store_all([arrived])
        if isinstance(arrived.outcome, DppcaError):
            raise arrived.outcome
        if arrived.outcome is None:
            raise AssertionError  # it was in its group
        return arrived.outcome

    def _take_with(self, arrived: Arrived) -> list[Arrived]:
        """What waits for the same study; it alone where its group has failed before."""
        while self._added:
            self._waiting.append(self._added.popleft())
        if arrived not in self._waiting:
            return [arrived]
        study = arrived.header.study_digest
        group = [each for each in self._waiting if each.header.study_digest == study]
        self._waiting = [each for each in self._waiting if each.header.study_digest != study]
        return group

    def _store_all(self, group: list[Arrived]) -> None:
        """Decide on each, store what is accepted in one transaction, then say what became of each.

        Where it raises, nothing has become of any.
        """
        digest = group[0].header.study_digest
        record = self._store.study(digest)
        if record is None:
            message = f"there is no study {digest.hex()[:16]}"
            raise UnknownStudyError(message)
        now = self._clock()
        outcomes: list[Verdict | DppcaError] = []
        uploads: list[Spool] = []
        for each in group:
            history = self._store.history(each.owner)
            try:
                verdict = admission.admit(record, each.owner, each.header, history, now=now)
                if verdict is Verdict.ACCEPT:
                    record = admission.contribute(record, each.owner, each.header, history, now=now)
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
