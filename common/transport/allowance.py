"""What an answer in many messages may take of the party that reads it.

The other side is not trusted, and each message may be small and late: without a bound on all of
them together, a list without an end would be followed for ever.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from google.protobuf.message import Message

from dppca.common.kernel.errors import LimitError

MOST_MESSAGES = 10_000  # of one answer
MOST_BYTES = 64 << 20  # of one answer, all messages together
MOST_S = 300.0  # seconds of one answer, from its first message to its last

_Answer = TypeVar("_Answer", bound=Message)


class Allowance:
    """Messages, bytes and seconds that are left for one answer, from now on.

    ``what`` is the answer's name in messages.
    """

    def __init__(
        self,
        what: str,
        *,
        messages: int = MOST_MESSAGES,
        n_bytes: int = MOST_BYTES,
        seconds: float = MOST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._clock = what, clock
        self._most = (messages, n_bytes, seconds)
        self._messages = self._bytes = 0
        self._began = clock()

    def take(self, n_bytes: int) -> None:
        """Count a message; raise `LimitError` if it is more than what is left."""
        self._messages += 1
        self._bytes += n_bytes
        taken = (self._messages, self._bytes, self._clock() - self._began)
        for used, most, unit in zip(taken, self._most, ("messages", "bytes", "s"), strict=True):
            if used > most:
                raise LimitError(
                    f"{self._what} does not end within {most:.0f} {unit}: tell the operator that "
                    "the curator's answer is too long or too slow"
                )

    def of(self, answers: Iterable[_Answer]) -> Iterator[_Answer]:
        """Yield the messages of a stream, each counted before it is used."""
        for answer in answers:
            self.take(answer.ByteSize())
            yield answer
