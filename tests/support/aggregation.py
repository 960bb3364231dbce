"""A masked sum in memory: terms, keys and uploads of a few owners, the same in every run."""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.masking import mask, seal_info
from dppca.common.kernel.aggregation.opening import Sums, answer, open_set, vote
from dppca.common.kernel.aggregation.pooling import require_opening, show_set, unmask
from dppca.common.kernel.aggregation.seals import OpenerKey, make_opener_key
from dppca.common.kernel.aggregation.streams import SEED_BYTES
from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Upload, Vote
from dppca.common.kernel.aggregation.terms import Member, OfferedKey, Terms, key_bytes
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.signing import Purpose, sign

STUDY = hashlib.sha256(b"a study").hexdigest()


def signing_key(seed: int) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(seed + 1, ec.SECP256R1())


def owner_name(place: int) -> str:
    return f"owner-{place:03}"


def share_out(terms: Terms, present: Collection[str]) -> dict[str, tuple[int, ...]]:
    """Assign each stream to one of its holders among the present openers."""
    shares: dict[str, list[int]] = {opener: [] for opener in terms.openers if opener in present}
    for stream, holders in enumerate(terms.holders):
        here = [opener for opener in holders if opener in shares]
        shares[min(here, key=lambda opener: len(shares[opener]))].append(stream)
    return {opener: tuple(streams) for opener, streams in shares.items() if streams}


@dataclass(frozen=True)
class Secrets:
    """All keys of all parties of a sum, and the openers' messages."""

    terms: Terms
    keys: dict[str, ec.EllipticCurvePrivateKey]
    secrets: dict[str, OpenerKey]

    def vote(self, shown: SealedSet, *, opener: str = "", bound: str | None = None) -> Vote:
        """Vote for a set as the opener to whom it is shown, or as another one."""
        opener = opener or shown.opener
        secret, key = self.secrets[opener], self.keys[opener]
        return vote(self.terms, shown, opener=opener, secret=secret, key=key, bound=bound)

    def open(
        self, shown: SealedSet, votes: Sequence[Vote], *, opener: str = "", bound: str | None = None
    ) -> Sums:
        opener = opener or shown.opener
        secret = self.secrets[opener]
        return open_set(self.terms, shown, votes, opener=opener, secret=secret, bound=bound)

    def answer(self, opener: str, sums: Sums, streams: tuple[int, ...]) -> Opening:
        return answer(self.terms, sums, streams, opener=opener, key=self.keys[opener])


@dataclass(frozen=True)
class Federation(Secrets):
    """All secrets of all parties, and the owners' uploads."""

    vectors: dict[str, NDArray[np.int64]]
    uploads: dict[str, Upload]

    @property
    def names(self) -> list[str]:
        return list(self.keys)

    @cached_property
    def seeds(self) -> dict[tuple[str, int], bytes]:
        """Seeds by owner and stream, taken from the seals."""
        found = {}
        for owner, upload in self.uploads.items():
            for opener, sealed in zip(self.terms.openers, upload.seals, strict=True):
                info = seal_info(self.terms, owner, opener)
                seeds = self.secrets[opener].unseal(sealed, info)
                for place, stream in enumerate(self.terms.held(opener)):
                    seed = seeds[SEED_BYTES * place : SEED_BYTES * (place + 1)]
                    assert found.setdefault((owner, stream), seed) == seed
        return found

    def shown(self, opener: str, owners: Iterable[str]) -> SealedSet:
        return show_set(self.terms, [self.uploads[each] for each in owners], opener=opener)

    def summed(self, owners: Iterable[str]) -> NDArray[np.int64]:
        return sum((self.vectors[each] for each in owners), np.zeros(self.terms.n_entries, int))

    def finish(
        self,
        owners: list[str],
        *,
        never: Iterable[str] = (),
        after_vote: Iterable[str] = (),
        after_opening: Iterable[str] = (),
    ) -> NDArray[np.int64]:
        """Compute the sum; some openers of the honest parties leave for good at some moment."""
        terms, sums, openings = self.terms, {}, list[Opening]()
        shown = {each: self.shown(each, owners) for each in terms.openers}
        there = [each for each in terms.openers if each not in set(never)]
        votes = []
        if terms.votes_needed:
            votes = [self.vote(shown[each]) for each in there]
        for each in there:
            if each not in set(after_vote):
                bound = shown[each].digest if votes else None
                sums[each] = self.open(shown[each], votes, bound=bound)
        here = [each for each in sums if each not in set(after_opening)]
        for each, streams in share_out(terms, here).items():
            openings.append(self.answer(each, sums[each], streams))
            require_opening(terms, shown[each].digest, openings[-1])
        return unmask(terms, [self.uploads[each] for each in owners], openings)


@cache
def federation(
    n_owners: int = 6,
    *,
    n_openers: int = 2,
    spares: int = 0,
    colluders: int = 1,
    quorum: int = 4,
    n_entries: int = 5,
) -> Federation:
    keys = {owner_name(i): signing_key(i) for i in range(n_owners)}
    names = list(keys)
    secrets = {each: make_opener_key(SeededEntropy(i)) for i, each in enumerate(names[:n_openers])}
    offered = {
        each: OfferedKey(secret.public, sign(keys[each], Purpose.OPENER, secret.public))
        for each, secret in secrets.items()
    }
    terms = Terms(
        STUDY,
        n_entries,
        quorum,
        colluders,
        spares,
        tuple(
            Member(each, key_bytes(key.public_key()), offered.get(each))
            for each, key in keys.items()
        ),
    )
    vectors = {
        each: np.random.default_rng(i).integers(-(1 << 40), 1 << 40, n_entries)
        for i, each in enumerate(names)
    }
    uploads = {
        each: mask(terms, each, vectors[each], key=keys[each], entropy=SeededEntropy(1000 + i))
        for i, each in enumerate(names)
    }
    return Federation(terms, keys, secrets, vectors, uploads)
