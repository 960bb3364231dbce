"""A dishonest curator with colluders, and the sums that its messages reveal.

Linear algebra finds its possible computations without trying them: each honest upload and each
honest opener's answer is a row over unknown words (honest owners' vectors, and honest owners'
streams that no colluder holds). A combination of rows that cancels all streams exposes a
combination of vectors. Rows are taken modulo 2, which finds every combination that exists modulo
2^64: divided by the power of two that its coefficients share, it has an odd one, and still cancels
modulo 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.aggregation.streams import add_stream
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Vote
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.signing import Purpose, sign
from tests.support.aggregation import Federation
from tests.support.site_openers import SiteOpener


@dataclass
class HonestOpener:
    who: Federation
    name: str
    bound: str | None = None
    key_destroyed: bool = False
    sums: Sums | None = None
    opened: SealedSet | None = None

    def vote(self, shown: SealedSet) -> Vote:
        if self.key_destroyed:
            raise DppcaError("the key is gone")
        made = self.who.vote(shown, opener=self.name, bound=self.bound)
        self.bound = made.set_digest
        return made

    def open(self, shown: SealedSet, votes: list[Vote]) -> None:
        if self.key_destroyed:
            raise DppcaError("the key is gone")
        self.sums = self.who.open(shown, votes, opener=self.name, bound=self.bound)
        self.bound, self.opened, self.key_destroyed = self.sums.set_digest, shown, True

    def answer(self, wanted: tuple[int, ...]) -> Opening:
        if self.sums is None:
            raise DppcaError("nothing was opened")
        return self.who.answer(self.name, self.sums, wanted)


@dataclass
class HostileCurator:
    """Collects all answers; it has the colluders' secrets."""

    who: Federation
    colluders: frozenset[str]
    openers: Mapping[str, HonestOpener | SiteOpener] = field(init=False)
    votes: list[Vote] = field(default_factory=list)
    answers: list[tuple[frozenset[str], Opening]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.openers = {
            each: HonestOpener(self.who, each)
            for each in self.who.terms.openers
            if each not in self.colluders
        }

    @property
    def honest(self) -> list[str]:
        return [each for each in self.who.names if each not in self.colluders]

    def ask_vote(self, opener: str, shown: SealedSet) -> None:
        self.votes.append(self.openers[opener].vote(shown))

    def ask_open(self, opener: str, shown: SealedSet) -> None:
        fitting = [each for each in self.votes if each.set_digest == shown.digest]
        self.openers[opener].open(shown, [*fitting, *self.bought_votes(shown.digest)])

    def ask_answer(self, opener: str, wanted: tuple[int, ...]) -> None:
        given = self.openers[opener].answer(wanted)
        shown = self.openers[opener].opened
        assert shown is not None
        owners = [entry.statement.owner for entry in shown.entries]
        self.answers.append((frozenset(owners), given))

    def bought_votes(self, digest: str) -> list[Vote]:
        """Votes of the colluding openers for any set."""
        terms, made = self.who.terms, []
        for each in sorted(self.colluders & set(terms.openers)):
            unsigned = Vote(terms.digest, digest, each, b"")
            signature = sign(self.who.keys[each], Purpose.VOTE, unsigned.signed())
            made.append(replace(unsigned, signature=signature))
        return made

    def exposed(self) -> list[frozenset[str]]:
        """A basis, modulo 2, of the sums of honest owners' vectors that can be computed."""
        unknown = [
            stream
            for stream, holders in enumerate(self.who.terms.holders)
            if not set(holders) & self.colluders
        ]
        column = {
            (owner, stream): 1 << place
            for place, (owner, stream) in enumerate(
                (owner, stream) for owner in self.honest for stream in unknown
            )
        }
        vector = {owner: 1 << place for place, owner in enumerate(self.honest)}
        rows = [
            (sum(column[owner, stream] for stream in unknown), vector[owner])
            for owner in self.honest
        ]
        for owners, given in self.answers:
            summed = (
                column[owner, stream]
                for owner in owners & set(self.honest)
                for stream in given.streams
                if stream in unknown
            )
            rows.append((sum(summed), 0))
        return [
            frozenset(owner for owner in self.honest if vector[owner] & kept)
            for kept in _reduced([kept for streams, kept in _eliminated(rows) if not streams])
        ]

    def require_answers_are_sums(self) -> None:
        """Check that each answer sums the honest owners' streams and the colluders' seals."""
        for owners, given in self.answers:
            total = np.zeros(self.who.terms.n_words, np.uint64)
            for owner in sorted(owners):
                for stream in given.streams:
                    seed = self.who.seeds[owner, stream]
                    add_stream(total, self.who.terms, seed, owner=owner, stream=stream)
            assert total.tobytes() == given.total


def _eliminated(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Eliminate the first parts modulo 2: rows with pivots, then those without."""
    pivots: dict[int, tuple[int, int]] = {}
    rest = []
    for streams, kept in rows:
        while streams and (top := streams.bit_length()) in pivots:
            streams, kept = streams ^ pivots[top][0], kept ^ pivots[top][1]
        if streams:
            pivots[streams.bit_length()] = streams, kept
        else:
            rest.append((0, kept))
    return [*pivots.values(), *rest]


def _reduced(kept: list[int]) -> list[int]:
    return [each for each, _ in _eliminated([(each, 0) for each in kept]) if each]
