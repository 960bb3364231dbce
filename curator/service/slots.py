"""How many uploads may arrive at once, in all and of one owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from common.errors import BusyError


class Slots:
    """Places for uploads. Whoever finds none is told to come again, and loses nothing.

    Used in one event loop, so nothing is locked.

    Parameters
    ----------
    total, each
        Places in all, and of one owner.
    """

    def __init__(self, *, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, owner: str) -> Iterator[None]:
        """Hold a place while the block runs; `BusyError` where there is none."""
        if self._taken[owner] >= self._each:
            message = f"{owner} has {self._each} uploads running already"
            raise BusyError(message)
        if self._taken.total() >= self._total:
            message = f"{self._total} uploads are running already"
            raise BusyError(message)
        self._taken[owner] += 1
        try:
            yield
        finally:
            self._taken[owner] -= 1
            if not self._taken[owner]:
                del self._taken[owner]
