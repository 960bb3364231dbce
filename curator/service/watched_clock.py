"""A clock whose jumps are held back until they last.

What follows from time alone (the end of a study at its deadline, of openings at ``open_by``, of a
certificate) is not taken back. A wrong clock of some seconds would end studies for good, and cost
their owners' budgets for nothing. So the wall clock is compared with one that only counts the
seconds passed, and cannot be set::

    offset = wall - counted             is the same at each look, but for steps of the wall clock
    |offset - the one believed| > JUMP  is a jump: it is held back

While a jump is held, the time is the earlier one of the wall clock and of the clock as it was
believed before, so that nothing is over which is not over by both. The wall clock is believed again
as soon as it is where it was, or once it has kept to its new offset for `LASTS_S`. Corrections that
a time service makes in small steps are followed, at most one second in `FOLLOWED`; so a clock that
runs many times too fast is a jump, too.

Limits: what a process finds when it starts is believed. TLS itself judges certificates of new
connections by the wall clock. Where the system has no clock that counts while it sleeps, waking up
is a jump.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from dppca.common.kernel.durable.clock import duration_text, utc_now
from dppca.curator.observability.log import log_event

JUMP_S = 60.0  # from which a difference is no correction
LASTS_S = 900.0  # after which a new offset is believed
FOLLOWED = 10.0  # seconds for each second of a slow correction


def count_seconds() -> float:
    """Seconds from a fixed moment, also while the system slept, whatever the wall clock says."""
    counted = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if counted is None else time.clock_gettime(counted)


class WatchedClock:
    """The time, as far as it is believed: call it. Any thread may call.

    ``wall`` returns the wall clock's time, aware; ``counted`` seconds that are never set.
    """

    def __init__(
        self,
        wall: Callable[[], datetime] = utc_now,
        counted: Callable[[], float] = count_seconds,
    ) -> None:
        self._wall, self._counted = wall, counted
        self._lock = threading.Lock()
        self._looked_s = counted()
        self._offset_s = wall().timestamp() - self._looked_s
        self._jumped_s: float | None = None  # when the wall clock came to `_new_offset_s`
        self._new_offset_s = 0.0

    def __call__(self) -> datetime:
        """Look at both clocks, and return the time that is believed, aware."""
        with self._lock:
            wall, counted = self._wall(), self._counted()
            self._look(wall.timestamp() - counted, counted)
            if self._jumped_s is None:
                return wall
            steady = datetime.fromtimestamp(counted + self._offset_s, UTC)
            return min(wall, steady)

    @property
    def held(self) -> timedelta | None:
        """How far the wall clock has jumped, negative for back; None while it is believed."""
        self()
        with self._lock:
            if self._jumped_s is None:
                return None
            return timedelta(seconds=self._new_offset_s - self._offset_s)

    def _look(self, offset_s: float, counted_s: float) -> None:
        passed_s, self._looked_s = max(0.0, counted_s - self._looked_s), counted_s
        apart_s = offset_s - self._offset_s
        if abs(apart_s) <= JUMP_S:
            if self._jumped_s is not None:
                self._jumped_s = None
                log_event("clock is back", level=logging.WARNING)
            most_s = passed_s / FOLLOWED
            self._offset_s += max(-most_s, min(most_s, apart_s))
        elif self._jumped_s is None or abs(offset_s - self._new_offset_s) > JUMP_S:
            self._jumped_s, self._new_offset_s = counted_s, offset_s
            log_event("clock jumped", level=logging.ERROR, jump=self._text(apart_s), next=_NEXT)
        elif counted_s - self._jumped_s >= LASTS_S:
            self._jumped_s, self._offset_s = None, offset_s
            log_event("clock believed again", level=logging.WARNING, jump=self._text(apart_s))

    @staticmethod
    def _text(seconds: float) -> str:
        sign = "-" if seconds < 0 else "+"
        return f"{sign}{duration_text(timedelta(seconds=abs(seconds)))}"


_NEXT = (
    "deadlines and ends of certificates are held back until the clock is where it was, or has "
    f"stayed for {LASTS_S / 60:.0f} minutes: correct it, or restart the daemon if it is right now"
)
