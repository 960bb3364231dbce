"""Rounds of studies with ``trust: aggregate``: all that the parties send, without a wire."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dppca.common.aggregation.contribution import MaskedRelease, draw_masked
from dppca.common.aggregation.opening import answer, open_set, vote
from dppca.common.aggregation.pooling import show_set, unmask
from dppca.common.aggregation.sum_messages import Opening, Upload, Vote
from dppca.common.aggregation.terms import Terms
from dppca.common.attestation.components import sealed_result
from dppca.common.attestation.signatures import make_signer
from dppca.common.attestation.sums import SignedRelease, SignedStatement, SumEvidence
from dppca.common.numerics.moments.moments import Moments
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.results import Result
from dppca.common.study import Study
from dppca.common.transport.tls import Credentials, Role
from dppca.curator.study.aggregate import aggregate
from tests.support.aggregation import share_out
from tests.support.certificates import Authority, sign_release
from tests.support.masked_studies import MaskedStudy
from tests.support.pooling import contribution_of


@dataclass(frozen=True)
class CertifiedStudy:
    """All parties of one study, with an authority that certified them."""

    masked: MaskedStudy
    authority: Authority

    @property
    def study(self) -> Study:
        return self.masked.study

    @cached_property
    def terms(self) -> Terms:
        return self.masked.terms

    @cached_property
    def calibration(self) -> Calibration:
        return calibrate(self.study)

    @cached_property
    def credentials(self) -> dict[str, Credentials]:
        """With the keys that stand in the study."""
        return {
            name: self.authority.issue(Role.OWNER, name, key=key)
            for name, key in self.masked.keys.items()
        }

    def contribute(self, owner: str, packed: NDArray[np.int64], n_rows: int) -> MaskedRelease:
        """A masked contribution of exact sums, (D,); the same each time, but for its seals."""
        return draw_masked(
            self.study,
            self.calibration,
            Moments(n_rows, packed),
            terms=self.terms,
            owner=owner,
            key=self.masked.keys[owner],
            release_id=hashlib.sha256(owner.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=SeededEntropy(self.study.owners.index(owner)),
        )

    def vote(self, uploads: Sequence[Upload], opener: str) -> Vote:
        return vote(
            self.terms,
            show_set(self.terms, uploads, opener=opener),
            opener=opener,
            secret=self.masked.secrets[opener],
            key=self.masked.keys[opener],
            bound=None,
        )

    def open(
        self, uploads: Sequence[Upload], *, present: Sequence[str] | None = None
    ) -> tuple[list[Vote], list[Opening]]:
        """Votes and openings of the openers that are there, all of them unless said."""
        there = list(self.terms.openers if present is None else present)
        votes = [self.vote(uploads, each) for each in there] if self.terms.votes_needed else []
        openings = []
        for opener, streams in share_out(self.terms, there).items():
            shown = show_set(self.terms, uploads, opener=opener)
            sums = open_set(
                self.terms,
                shown,
                votes,
                opener=opener,
                secret=self.masked.secrets[opener],
                bound=shown.digest if votes else None,
            )
            key = self.masked.keys[opener]
            openings.append(answer(self.terms, sums, streams, opener=opener, key=key))
        return votes, openings

    def release(self, owner: str, contributed: MaskedRelease) -> SignedRelease:
        """A contribution's receipt, signed."""
        return sign_release(owner, contributed.receipt, self.credentials[owner])


@dataclass(frozen=True)
class MaskedRound:
    """A study that was carried out: what came, and the sum of it."""

    parties: CertifiedStudy
    contributed: dict[str, MaskedRelease]
    uploads: list[Upload]
    votes: list[Vote]
    openings: list[Opening]
    result: Result

    @property
    def evidence(self) -> SumEvidence:
        return SumEvidence(
            tuple(SignedStatement(each.statement, each.signature) for each in self.uploads),
            tuple(self.votes),
            tuple(each.without_total() for each in self.openings),
        )

    @property
    def releases(self) -> list[SignedRelease]:
        return [self.parties.release(*each) for each in self.contributed.items()]

    def sealed(
        self,
        *,
        evidence: SumEvidence | None = None,
        releases: Sequence[SignedRelease] | None = None,
        result: Result | None = None,
    ) -> bytes:
        """The result file, sealed by a curator whatever it is given."""
        return sealed_result(
            result or self.result,
            self.parties.study,
            self.parties.calibration,
            self.releases if releases is None else releases,
            make_signer(self.parties.authority.issue(Role.CURATOR, "hub")),
            evidence or self.evidence,
        )


def carry_out(
    parties: CertifiedStudy,
    sums: dict[str, NDArray[np.int64]],
    *,
    n_rows: int,
    present: Sequence[str] | None = None,
) -> MaskedRound:
    """Mask, open and add up the exact sums, (D,), of some owners, names ascending."""
    contributed = {
        owner: parties.contribute(owner, packed, n_rows) for owner, packed in sums.items()
    }
    uploads = [Upload.from_bytes(each.payload(), parties.terms) for each in contributed.values()]
    votes, openings = parties.open(uploads, present=present)
    total = unmask(parties.terms, uploads, openings)
    nothing = np.zeros_like(total)
    result = aggregate(
        parties.study,
        parties.calibration,
        [contribution_of(owner, each) for owner, each in contributed.items()],
        [total, *(nothing for _ in list(contributed)[1:])],
    )
    return MaskedRound(parties, contributed, uploads, votes, openings, result)
