"""Sites of a study with ``trust: aggregate`` at a curator that runs; some are openers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.aggregation.contribution import MaskedRelease, draw_masked
from dppca.common.aggregation.opening import Sums, answer, open_set, vote
from dppca.common.aggregation.sum_messages import Opening, SealedSet, Vote
from dppca.common.aggregation.terms import Terms
from dppca.common.messages import StudyState
from dppca.common.numerics.moments.moments import Moments
from dppca.common.privacy.mechanisms import add_noise
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.study import Study
from dppca.common.transport.codec import state_from_wire
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from tests.support.curator import Curator
from tests.support.masked_studies import MaskedStudy, make_masked_study
from tests.support.party import Party
from tests.support.patience import WAIT_S, wait_until

N_ROWS = 1000


def make_masked_release(made: MaskedStudy, owner: str, *, seed: int = 0) -> MaskedRelease:
    """An owner's masked release, of moments that are made up; repeatable but for the seals."""
    return draw_masked(
        made.study,
        calibrate(made.study),
        Moments(N_ROWS, _sums(made.study, owner, seed)),
        terms=made.terms,
        owner=owner,
        key=made.keys[owner],
        release_id=hashlib.sha256(f"{made.study.digest}{owner}{seed}".encode()).digest()[:16],
        ledger_sequence=1,
        entropy=SeededEntropy(_number(owner, seed)),
    )


def noised_sum(made: MaskedStudy, owners: Iterable[str], *, seed: int = 0) -> NDArray[np.int64]:
    """What the masked releases of some owners add up to."""
    total = np.zeros(made.study.table.layout.n_entries, np.int64)
    for owner in owners:
        entropy = SeededEntropy(_number(owner, seed))
        total += add_noise(_sums(made.study, owner, seed), calibrate(made.study), entropy=entropy)
    return total


@dataclass
class MaskedSite:
    """An owner's connection and secrets, and what it did as an opener."""

    name: str
    party: Party
    made: MaskedStudy
    sums: Sums | None = None
    bound: str | None = None
    _releases: dict[int, MaskedRelease] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        return self.made.study

    @property
    def terms(self) -> Terms:
        return self.made.terms

    def contribute(self, *, seed: int = 0) -> pb.ContributeResponse:
        """The same release each time: it was stored before it was sent."""
        if seed not in self._releases:
            self._releases[seed] = make_masked_release(self.made, self.name, seed=seed)
        return self.party.contribute_next(self._releases[seed])

    def shown(self) -> SealedSet:
        return SealedSet.from_bytes(self.party.sealed(self.study), self.terms)

    def ask(self) -> pb.OpenResponse:
        return self.party.open(self.study)

    def make_vote(self) -> Vote:
        made = vote(
            self.terms,
            self.shown(),
            opener=self.name,
            secret=self.made.secrets[self.name],
            key=self.made.keys[self.name],
            bound=self.bound,
        )
        self.bound = made.set_digest
        return made

    def vote(self) -> pb.OpenResponse:
        return self.party.open(self.study, vote=self.make_vote().to_bytes())

    def make_opening(self, streams: Sequence[int] | None = None) -> Opening:
        """The opening of the streams that are wanted of it, or of these."""
        answered = self.ask()
        if self.sums is None:
            self.sums = open_set(
                self.terms,
                self.shown(),
                [Vote.from_bytes(each, self.terms) for each in answered.votes],
                opener=self.name,
                secret=self.made.secrets[self.name],
                bound=self.bound,
            )
        wanted = tuple(answered.wanted) if streams is None else tuple(streams)
        return answer(
            self.terms, self.sums, wanted, opener=self.name, key=self.made.keys[self.name]
        )

    def open(self, streams: Sequence[int] | None = None, **how: Any) -> pb.OpenResponse:
        return self.party.open(self.study, opening=self.make_opening(streams).to_bytes(), **how)


@dataclass
class MaskedSites:
    """All sites of one study at one curator."""

    made: MaskedStudy
    sites: dict[str, MaskedSite] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        return self.made.study

    @property
    def openers(self) -> list[MaskedSite]:
        return [self.sites[name] for name in self.made.terms.openers]

    def __getitem__(self, name: str) -> MaskedSite:
        return self.sites[name]

    def contribute(self, *names: str) -> None:
        """All of them, or those that are named."""
        for name in names or self.sites:
            self.sites[name].contribute()

    def until_sealed(self) -> None:
        """Until the curator has fixed the set."""
        wait_until(lambda: state_from_wire(self.wait(wait_s=0).state) is not StudyState.OPEN)

    def end(self) -> pb.GetResultResponse:
        """What has become of the study once it waits for nobody."""
        return self.openers[0].party.end(self.study)

    def wait(self, *, wait_s: float = WAIT_S) -> pb.GetResultResponse:
        return self.openers[0].party.result(self.study, wait_s=wait_s)


class MaskedHub:
    """A curator that runs, and owners with the same keys and connections in all of its studies."""

    def __init__(self, curator: Curator) -> None:
        self.curator = curator
        self._parties: dict[str, Party] = {}

    def join(self, *arguments: Any, **changes: Any) -> MaskedSites:
        """Begin a study; its owners have the certificates that the study names."""
        made = make_masked_study(*arguments, **changes)
        self.curator.operator().create(made.study)
        return MaskedSites(
            made,
            {name: MaskedSite(name, self._party(made, name), made) for name in made.keys},
        )

    def reconnect(self, sites: MaskedSites) -> None:
        """Connect the sites of a study to a curator that was started again."""
        self._parties.clear()
        for site in sites.sites.values():
            ledger_length = site.party.ledger_length
            site.party = self._party(sites.made, site.name)
            site.party.ledger_length = ledger_length

    def _party(self, made: MaskedStudy, name: str) -> Party:
        if name not in self._parties:
            issued = self.curator.authority.issue(Role.OWNER, name, key=made.keys[name])
            self._parties[name] = self.curator.connect(issued)
        return self._parties[name]


def _sums(study: Study, owner: str, seed: int) -> NDArray[np.int64]:
    unit = 4**study.table.resolution_bits
    bound = N_ROWS * unit // 4
    rng = np.random.default_rng(_number(owner, seed))
    return rng.integers(-bound, bound, study.table.layout.n_entries, endpoint=True)


def _number(owner: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{owner}/{seed}".encode()).digest()[:6], "big")
