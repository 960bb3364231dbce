"""How many uploads may arrive at once, in all and of one owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dppca.common.errors import BusyError


class UploadLimiter:
    """Limits concurrent uploads; raises `BusyError`, which is safe to retry.

    It is used in one event loop, so it has no lock.

    Parameters
    ----------
    max_total, per_owner
        The most uploads at once, in all and of one owner.
    """

    def __init__(self, *, max_total: int, per_owner: int) -> None:
        self._total = max_total
        self._each = per_owner
        self._running: Counter[str] = Counter()

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Hold a place while the block runs; `BusyError` where there is none."""
        if self._running[owner] >= self._each:
            raise BusyError(f"{owner} has {self._each} uploads running already")
        if self._running.total() >= self._total:
            raise BusyError(f"{self._total} uploads are running already")
        self._running[owner] += 1
        try:
            yield
        finally:
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
