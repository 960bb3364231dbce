"""Limits on concurrent uploads, or downloads of one kind: in all and of one owner."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dppca.common.kernel.errors import BusyError


class PlaceLimiter:
    """Limits concurrent transfers; raises `BusyError`, which is safe to retry.

    It is used in one event loop, so it has no lock. ``what`` names the transfers for the message,
    such as ``uploads``; ``max_total`` and ``per_owner`` limit them in all and for one owner.
    """

    def __init__(self, what: str, *, max_total: int, per_owner: int) -> None:
        self._what = what
        self._total = max_total
        self._each = per_owner
        self._running: Counter[str] = Counter()

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Hold a place while the block runs; raise `BusyError` if none is free."""
        if self._running[owner] >= self._each:
            raise BusyError(f"{owner} has {self._each} {self._what} running already")
        if self._running.total() >= self._total:
            raise BusyError(f"{self._total} {self._what} are running already")
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
