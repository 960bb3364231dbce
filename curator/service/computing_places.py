"""Places for computations on studies: few studies at a time, the small ones beside a large one.

Decomposing a study takes milliseconds, or minutes and gigabytes if it has thousands of coded
columns. A large study has the place of large ones, of which there is one: so the memory is that of
one large study and a few small ones, and a small study never waits for a large one. Studies that
wait for a place get it in the order in which they came, each for one computation: one that has to
be done again waits at the end of the line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dppca.common.kernel.moments.threads import count_cores

SMALL_COLUMNS = 1024
"""Most coded columns of a small study: a matrix of 8 MiB, and a second to decompose."""
MOST_SMALL = 4
"""Most small studies at a time; at least one, as many as there are cores beside a large study."""


class ComputingPlaces:
    """Places in one event loop; ``n_small`` are for small studies, by default by the cores."""

    def __init__(self, n_small: int | None = None) -> None:
        self.n_small = n_small or min(MOST_SMALL, max(1, count_cores() - 1))
        self._small, self._large = asyncio.Semaphore(self.n_small), asyncio.Semaphore(1)
        self.running = self.waiting = 0

    @asynccontextmanager
    async def take(self, n_columns: int) -> AsyncIterator[None]:
        """Wait for the place of a study with ``n_columns`` coded columns, and hold it."""
        self.waiting += 1
        try:
            place = self._small if n_columns <= SMALL_COLUMNS else self._large
            await place.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            place.release()
