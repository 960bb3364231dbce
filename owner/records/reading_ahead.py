"""Batches that one worker reads for others, and works on itself when enough of them wait."""

from collections import deque
from collections.abc import Iterable, Iterator
from threading import Condition
from typing import Generic, TypeVar

_Batch = TypeVar("_Batch")
_SPARE = 2  # waiting beyond one for each other worker, so that none waits for a long read


class ReadAhead(Generic[_Batch]):
    """Batches read ahead of ``n_others`` workers, at most two more than there are workers."""

    def __init__(self, n_others: int) -> None:
        self._most = n_others + _SPARE if n_others else 0
        self._waiting: deque[_Batch] = deque()
        self._ended = False
        self._changed = Condition()

    def left(self, batches: Iterable[_Batch]) -> Iterator[_Batch]:
        """Read, and yield what the reader is to work on because enough batches wait; for it."""
        for batch in batches:
            with self._changed:
                if self._ended:
                    return
                if len(self._waiting) < self._most:
                    self._waiting.append(batch)
                    self._changed.notify()
                    continue
            yield batch
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def taken(self) -> Iterator[_Batch]:
        """Yield batches that wait, until all are read; for the other workers."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                batch = self._waiting.popleft()
            yield batch

    def stop(self) -> None:
        """End all of it; batches that wait are dropped."""
        with self._changed:
            self._waiting.clear()
            self._ended = True
            self._changed.notify_all()
