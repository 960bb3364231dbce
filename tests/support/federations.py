"""Studies with ``trust: aggregate`` at a running curator, by its wire or by stewards' commands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Vote
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study
from dppca.common.transport.codec import state_from_wire
from dppca.common.wire import federation_pb2 as pb
from tests.support.curator import Curator
from tests.support.masked import MaskedStudy, make_masked_release, make_masked_study
from tests.support.party import Party
from tests.support.patience import WAIT_S, wait_until
from tests.support.sites import OwnerSite, make_enrolled_site
from tests.support.studies import make_study


@dataclass
class MaskedSite:
    """An owner's connection and secrets, and its state as an opener."""

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
        """Send the same release each time: it was stored before it was sent."""
        if seed not in self._releases:
            self._releases[seed] = make_masked_release(self.made, self.name, seed=seed)
        return self.party.contribute_next(self._releases[seed])

    def shown(self) -> SealedSet:
        return SealedSet.from_bytes(self.party.sealed(self.study), self.terms)

    def ask(self) -> pb.OpenResponse:
        return self.party.open(self.study)

    def make_vote(self) -> Vote:
        made = self.made.vote(self.shown(), bound=self.bound)
        self.bound = made.set_digest
        return made

    def vote(self) -> pb.OpenResponse:
        return self.party.open(self.study, vote=self.make_vote().to_bytes())

    def make_opening(self, streams: Sequence[int] | None = None) -> Opening:
        """Open the wanted streams, or those given."""
        answered = self.ask()
        if self.sums is None:
            votes = [Vote.from_bytes(each, self.terms) for each in answered.votes]
            self.sums = self.made.open(self.shown(), votes, bound=self.bound)
        wanted = tuple(answered.wanted) if streams is None else tuple(streams)
        return self.made.answer(self.name, self.sums, wanted)

    def open(self, streams: Sequence[int] | None = None, **how: Any) -> pb.OpenResponse:
        return self.party.open(self.study, opening=self.make_opening(streams).to_bytes(), **how)


@dataclass
class MaskedSites:
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
        for name in names or self.sites:
            self.sites[name].contribute()

    def until_sealed(self) -> None:
        wait_until(lambda: state_from_wire(self.wait(wait_s=0).state) is not StudyState.OPEN)

    def end(self) -> pb.GetResultResponse:
        """Return the study's outcome once it has stopped waiting."""
        return self.openers[0].party.end(self.study)

    def wait(self, *, wait_s: float = WAIT_S) -> pb.GetResultResponse:
        return self.openers[0].party.result(self.study, wait_s=wait_s)


class MaskedHub:
    """A running curator, and owners with the same keys and connections in all of its studies."""

    def __init__(self, curator: Curator) -> None:
        self.curator = curator
        self._parties: dict[str, Party] = {}

    def join(self, *arguments: Any, **changes: Any) -> MaskedSites:
        """Create a study; its owners have the certificates that the study names."""
        changes.setdefault("name", f"study-{uuid4().hex[:8]}")
        made = make_masked_study(*arguments, **changes)
        self.curator.operator().create(made.study)
        return MaskedSites(
            made, {name: MaskedSite(name, self._party(made, name), made) for name in made.keys}
        )

    def reconnect(self, sites: MaskedSites) -> None:
        """Connect the sites of a study to a restarted curator."""
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


MASKED: dict[str, Any] = {"budget": 'epsilon: "3.0", delta: "1e-6"', "colluders": 1}
"""What the policy of a site says that takes part in masked sums."""


@dataclass(frozen=True)
class MaskedFederation:
    curator: Curator
    sites: list[OwnerSite]
    study: Study

    @property
    def terms(self) -> Terms:
        return Terms.from_study(self.study)

    @property
    def openers(self) -> list[OwnerSite]:
        return [site for site in self.sites if site.name in self.terms.openers]

    def contribute(self, *sites: OwnerSite) -> None:
        """Let some sites contribute, or all, and then wait until the curator has sealed the set."""
        for site in sites or self.sites:
            code, document = site.run(
                "contribute", self.study.name, "--yes", "--digest", self.study.digest
            )
            assert code == 0, document
        if not sites:
            wait_until(lambda: self.state() != "open")

    def end(self) -> str:
        """Return the study's state once it has stopped waiting."""
        return state_from_wire(self.curator.operator().end(self.study).state).value

    def state(self) -> str:
        answer = self.curator.operator().result(self.study, wait_s=0)
        return state_from_wire(answer.state).value


def identity_of(site: OwnerSite, study: str, *, opener: bool = False) -> dict[str, Any]:
    code, document = site.run("identity", study, *(["--opener"] if opener else []))
    assert code == 0, document
    return document  # type: ignore[no-any-return]


def study_of_sites(
    sites: list[OwnerSite], *, n_openers: int = 2, name: str = "", **changes: Any
) -> Study:
    """Make a study from the sites' output of `identity`."""
    name = name or f"study-{uuid4().hex[:8]}"
    if changes.setdefault("mechanism", "gaussian") == "gaussian":
        changes.setdefault("delta", "1e-6")
    said = {
        site.name: identity_of(site, name, opener=place < n_openers)
        for place, site in enumerate(sites)
    }
    fields: dict[str, Any] = {
        "name": name,
        "owners": sorted(said),
        "trust": "aggregate",
        "colluders": 1,
        "identities": {owner: each["key"] for owner, each in said.items()},
        "openers": {
            owner: {field: each["opener"][field] for field in ("key", "signature")}
            for owner, each in said.items()
            if each["opener"] is not None
        },
        "open_by": (datetime.now(UTC) + timedelta(days=2)).isoformat(timespec="seconds"),
        **changes,
    }
    return make_study(**fields)


def make_masked_federation(
    curator: Curator, folder: Path, n_sites: int = 3, *, n_openers: int = 2, **changes: Any
) -> MaskedFederation:
    """New sites with rows, a policy for masked sums, and a study at the curator."""
    sites = [make_enrolled_site(curator, folder, **MASKED) for _ in range(n_sites)]
    study = study_of_sites(sites, n_openers=n_openers, **changes)
    curator.operator().create(study)
    return MaskedFederation(curator, sites, study)
