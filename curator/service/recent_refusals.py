"""Recent refusals of a daemon, and the owners that have called it, for its operators.

The log has every refusal with its reason (up to a number of lines a minute); this list is what
operators read first: the party, the method, the count and the rule of each refusal. It lives in
memory and ends with the process.

It holds no text that a caller has chosen: the authority certified a party's name, a study's name is
one that the curator has and the party may see, methods and errors have names of this software, and
the sentence is the error's constant one. Its size is bounded: refusals of one party by one rule
are one entry with a count, and a party has at most `MOST_PER_PARTY` entries. If there are more than
`MOST` in all, the party with the most entries loses its oldest. So no party crowds out another.
Owners that have called are as many as the authority has certified.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from dppca.common.kernel.errors import DppcaError

MOST_PER_PARTY = 20  # entries that are kept
MOST = 400  # entries of all parties

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Calls of one party that one rule has refused.

    ``time_s`` is the time of the last of them, in seconds since 1970 UTC, and ``times`` their
    number. ``party`` is ``ROLE:NAME``, such as ``owner:hospital``, empty without a valid
    certificate; ``study`` is empty if the call named none that the party may see. ``sentence`` is
    the public one of the class ``error``.
    """

    time_s: int
    times: int
    party: str
    study: str
    method: str
    error: str
    sentence: str


class RecentRefusals:
    """Refusals of one daemon; used from its event loop only.

    ``clock`` returns the current time, aware. ``since_s`` is the start in seconds since 1970 UTC;
    ``dropped`` counts the entries for which there was no room since then, ``called`` has the names
    of owners of whom a call with a good certificate has come, refused or not, and ``versions`` what
    each party said last of its version, by ``ROLE:NAME``.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.since_s = int(clock().timestamp())
        self.dropped = 0
        self.called: set[str] = set()
        self.versions: dict[str, str] = {}
        self._entries: dict[_Key, Refusal] = {}  # the newest is the last

    def add(self, error: DppcaError, *, party: str, study: str, method: str) -> None:
        """Record a refusal."""
        kind = type(error)
        key = (party, study, method, kind.__name__)
        before = self._entries.pop(key, None)
        self._entries[key] = Refusal(
            time_s=int(self._clock().timestamp()),
            times=1 if before is None else before.times + 1,
            party=party,
            study=study,
            method=method,
            error=kind.__name__,
            sentence=kind.public,
        )
        counts = Counter(each.party for each in self._entries.values())
        if counts[party] > MOST_PER_PARTY:
            self._drop_oldest(party)
        elif len(self._entries) > MOST:
            self._drop_oldest(counts.most_common(1)[0][0])

    def newest(self, study: str = "") -> list[Refusal]:
        """Refusals of one study or of all, newest first."""
        return [each for each in reversed(self._entries.values()) if study in ("", each.study)]

    def _drop_oldest(self, party: str) -> None:
        del self._entries[next(key for key, each in self._entries.items() if each.party == party)]
        self.dropped += 1
