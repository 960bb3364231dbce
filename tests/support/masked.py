"""Studies with ``trust: aggregate`` in memory, with all keys of all parties: no wire, no site."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.contribution import MaskedRelease, draw_masked
from dppca.common.kernel.aggregation.pooling import show_set, unmask
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Upload, Vote
from dppca.common.kernel.aggregation.terms import Terms, key_bytes
from dppca.common.kernel.attestation.components import sign_result
from dppca.common.kernel.attestation.contributions import SignedRelease
from dppca.common.kernel.attestation.envelopes import SignedFile
from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.attestation.sums import SignedStatement, SumEvidence
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.openings import OpeningDecision, OpeningHeader, store_opening, store_vote
from dppca.curator.study.study_record import OwnerHistory, StudyRecord
from tests.support.aggregation import Secrets, share_out, signing_key
from tests.support.census import header_of
from tests.support.certificates import Authority, sign_release
from tests.support.pooling import contribution_of
from tests.support.studies import study_document

_BINARIES = [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in "ab"]
N_ROWS = 1000
NOW = datetime(2026, 5, 1, tzinfo=UTC)
OPEN_BY = "2100-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class MaskedStudy(Secrets):
    study: Study

    def draw(
        self, owner: str, moments: Moments, name: str, entropy: EntropySource
    ) -> MaskedRelease:
        """Draw a masked release, identified by a name and repeatable but for the seals."""
        return draw_masked(
            self.study,
            calibrate(self.study),
            moments,
            terms=self.terms,
            owner=owner,
            key=self.keys[owner],
            release_id=hashlib.sha256(name.encode()).digest()[:16],
            ledger_sequence=1,
            entropy=entropy,
        )


def base64_text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def masked_document(
    keys: dict[str, ec.EllipticCurvePrivateKey], secrets: dict[str, OpenerKey], **changes: Any
) -> dict[str, Any]:
    """An operator's document with these keys; fields as given."""
    if changes.setdefault("mechanism", "gaussian") == "gaussian":
        changes.setdefault("delta", "1e-6")
    openers = {
        name: {
            "key": base64_text(secret.public),
            "signature": base64_text(sign(keys[name], Purpose.OPENER, secret.public)),
        }
        for name, secret in secrets.items()
    }
    document: dict[str, Any] = {
        "owners": sorted(keys),
        "trust": "aggregate",
        "colluders": 1,
        "identities": {
            name: base64_text(key_bytes(key.public_key())) for name, key in keys.items()
        },
        "openers": openers,
        "open_by": OPEN_BY,
        **changes,
    }
    return study_document(document.pop("attributes", _BINARIES), **document)


def make_masked_study(
    n_owners: int = 4, n_openers: int = 2, *, seed: int = 0, **changes: Any
) -> MaskedStudy:
    """A study of owner-1, owner-2, ..., of whom the first are openers."""
    names = [f"owner-{place + 1}" for place in range(n_owners)]
    keys = {name: signing_key(100 * seed + place) for place, name in enumerate(names)}
    entropy = SeededEntropy(seed)
    secrets = {name: make_opener_key(entropy) for name in names[:n_openers]}
    study = study_from_mapping(masked_document(keys, secrets, **changes))
    return MaskedStudy(Terms.from_study(study), keys, secrets, study)


def make_masked_release(made: MaskedStudy, owner: str, *, seed: int = 0) -> MaskedRelease:
    """Draw an owner's masked release from invented moments."""
    moments = Moments(N_ROWS, _sums(made.study, owner, seed))
    name, entropy = f"{made.study.digest}{owner}{seed}", SeededEntropy(_number(owner, seed))
    return made.draw(owner, moments, name, entropy)


def noised_sum(made: MaskedStudy, owners: Iterable[str], *, seed: int = 0) -> NDArray[np.int64]:
    total = np.zeros(made.study.table.layout.n_entries, np.int64)
    for owner in owners:
        entropy = SeededEntropy(_number(owner, seed))
        total += add_noise(_sums(made.study, owner, seed), calibrate(made.study), entropy=entropy)
    return total


def header_for(made: MaskedStudy, opening: Opening) -> OpeningHeader:
    content = opening.to_bytes()
    digest = bytes.fromhex(made.study.digest)
    return OpeningHeader(digest, b"", len(content), hashlib.sha256(content).digest())


class MaskedRecords:
    """Contributions of all owners to one study, and its openers' messages on a set of them."""

    def __init__(self, made: MaskedStudy) -> None:
        self.made = made
        self.terms = made.terms

    @cached_property
    def releases(self) -> dict[str, MaskedRelease]:
        return {owner: make_masked_release(self.made, owner) for owner in self.made.keys}

    def shown(self, opener: str, owners: Sequence[str] | None = None) -> SealedSet:
        uploads = [
            Upload.from_bytes(self.releases[owner].content, self.terms)
            for owner in owners or list(self.releases)
        ]
        return show_set(self.terms, uploads, opener=opener)

    def vote(self, opener: str, owners: Sequence[str] | None = None) -> Vote:
        return self.made.vote(self.shown(opener, owners))

    def opening(
        self,
        opener: str,
        streams: Sequence[int] | None = None,
        *,
        owners: Sequence[str] | None = None,
    ) -> Opening:
        """Open the streams that an opener holds, or those given."""
        votes = [self.vote(each, owners) for each in self.terms.openers]
        sums = self.made.open(self.shown(opener, owners), votes)
        wanted = self.terms.held(opener) if streams is None else tuple(streams)
        return self.made.answer(opener, sums, wanted)

    @cached_property
    def complete(self) -> StudyRecord:
        record = lifecycle.create(None, self.made.study, now=NOW)
        noise = calibrate(self.made.study)
        for owner, release in self.releases.items():
            header = header_of(release, owner)
            record, _ = contribute(record, header, OwnerHistory(), calibration=noise, now=NOW)
        return record

    @cached_property
    def sealed(self) -> StudyRecord:
        taken = self.complete.contributions
        digest = bytes.fromhex(self.shown(self.terms.openers[0]).digest)
        return lifecycle.seal(self.complete, taken, digest, now=NOW)

    @cached_property
    def voted(self) -> StudyRecord:
        """The sealed study with exactly the needed votes, of the first openers."""
        record = self.sealed
        for opener in self.terms.openers[: self.terms.votes_needed]:
            record = store_vote(record, opener, self.vote(opener).to_bytes(), now=NOW)
        return record

    def opened(self, record: StudyRecord, opening: Opening) -> StudyRecord:
        header, said = header_for(self.made, opening), opening.without_total()
        after, verdict = store_opening(record, opening.opener, header, said, now=NOW)
        assert verdict is OpeningDecision.ACCEPT
        return after

    def keep(self, store: SqliteStore, record: StudyRecord, *openings: Opening) -> None:
        """Store a new study with its bytes, in the order of arrival."""
        store.create(replace(self.complete, contributions=()))
        with ExitStack() as stack:
            spools = [stack.enter_context(store.blobs.spool()) for _ in self.releases]
            for spool, release in zip(spools, self.releases.values(), strict=True):
                spool.write(release.content)
            store.save(self.complete, *spools)
            store.save(replace(record, openings=()))
            spools = [stack.enter_context(store.blobs.spool()) for _ in openings]
            for spool, opening in zip(spools, openings, strict=True):
                spool.write(opening.total)
            store.save(record, *spools)


@dataclass(frozen=True)
class CertifiedStudy:
    """All parties of one study, with an authority that certified them."""

    masked: MaskedStudy
    authority: Authority

    @property
    def study(self) -> Study:
        return self.masked.study

    @property
    def terms(self) -> Terms:
        return self.masked.terms

    @cached_property
    def calibration(self) -> Calibration:
        return calibrate(self.study)

    @cached_property
    def credentials(self) -> dict[str, Credentials]:
        """Credentials with the keys in the study."""
        return {
            name: self.authority.issue(Role.OWNER, name, key=key)
            for name, key in self.masked.keys.items()
        }

    def contribute(self, owner: str, packed: NDArray[np.int64], n_rows: int) -> MaskedRelease:
        """Draw a masked contribution of exact sums, (D,)."""
        entropy = SeededEntropy(self.study.owners.index(owner))
        return self.masked.draw(owner, Moments(n_rows, packed), owner, entropy)

    def vote(self, uploads: Sequence[Upload], opener: str) -> Vote:
        return self.masked.vote(show_set(self.terms, uploads, opener=opener))

    def open(
        self, uploads: Sequence[Upload], *, present: Sequence[str] | None = None
    ) -> tuple[list[Vote], list[Opening]]:
        """Votes and openings of the present openers, by default all."""
        there = list(self.terms.openers if present is None else present)
        votes = [self.vote(uploads, each) for each in there] if self.terms.votes_needed else []
        openings = []
        for opener, streams in share_out(self.terms, there).items():
            shown = show_set(self.terms, uploads, opener=opener)
            sums = self.masked.open(shown, votes, bound=shown.digest if votes else None)
            openings.append(self.masked.answer(opener, sums, streams))
        return votes, openings

    def release(self, owner: str, contributed: MaskedRelease) -> SignedRelease:
        return sign_release(owner, contributed.receipt, self.credentials[owner])


@dataclass(frozen=True)
class MaskedRound:
    """A completed study: its messages and their sum."""

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

    def signed(
        self,
        *,
        evidence: SumEvidence | None = None,
        releases: Sequence[SignedRelease] | None = None,
        result: Result | None = None,
    ) -> SignedFile:
        """The result file and its envelope, signed by a curator without any check."""
        return sign_result(
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


def _sums(study: Study, owner: str, seed: int) -> NDArray[np.int64]:
    unit = 4**study.table.resolution_bits
    bound = N_ROWS * unit // 4
    rng = np.random.default_rng(_number(owner, seed))
    return rng.integers(-bound, bound, study.table.layout.n_entries, endpoint=True)


def _number(owner: str, seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{owner}/{seed}".encode()).digest()[:6], "big")
