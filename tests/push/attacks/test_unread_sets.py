"""Openers ask for the sealed set and do not read it: each call held the whole set, and all seals.

Now a call holds the part of one owner, and an opener has one such call at a time. Memory is traced,
and a call that is not read is a generator that nobody asks for its next chunk.
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any, cast

import pytest
from grpc.aio import AbortError

from dppca.common.aggregation.sum_messages import SealedSet
from dppca.common.attestation.signatures import make_signer
from dppca.common.clock import utc_now
from dppca.common.errors import BusyError, StoreError
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.federation import FederationService
from dppca.curator.service.masked_sums import digest_set, read_seals, set_for
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.store import SqliteStore
from tests.support.certificates import Authority, new_authority
from tests.support.masked import MaskedRecords, make_masked_study

CALLS = 32
N_OWNERS, N_OPENERS = 16, 11
"""With two spares 462 streams: an opener is shown 8 kB of each owner."""


@pytest.fixture(scope="module")
def masked() -> MaskedRecords:
    return MaskedRecords(make_masked_study(N_OWNERS, N_OPENERS, spares=2))


@pytest.fixture
def store(masked: MaskedRecords, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("store") / "state")) as opened:
        masked.keep(opened, masked.sealed)
        yield opened


class Context:
    """What a handler asks of gRPC's context: who calls, and how to end the call."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._certificate]}

    def time_remaining(self) -> None:
        return None

    def set_trailing_metadata(self, metadata: object) -> None:
        pass

    async def abort(self, _: object, sentence: str) -> None:
        raise AbortError(sentence)


class Hub:
    """The curator's service with a sealed study, called without a network."""

    def __init__(self, masked: MaskedRecords, store: SqliteStore) -> None:
        self._masked = masked
        self._authority: Authority = new_authority()
        signer = make_signer(self._authority.issue(Role.CURATOR, "hub"))
        studies = StudyCoordinator(store, lambda: signer)
        self._service = FederationService(studies, Limits(), RecentRefusals(utc_now))

    def ask(self, opener: str) -> AsyncGenerator[pb.Chunk]:
        """A download of the set that nobody reads yet."""
        key = self._masked.made.keys[opener]
        context: Any = Context(self._authority.issue(Role.OWNER, opener, key=key).certificate)
        digest = bytes.fromhex(self._masked.made.study.digest)
        request = pb.DownloadSealedRequest(study_digest=digest)
        return cast("AsyncGenerator[pb.Chunk]", self._service.DownloadSealed(request, context))

    async def read(self, opener: str) -> SealedSet:
        content = b"".join([chunk.content async for chunk in self.ask(opener)])
        return SealedSet.from_bytes(content, self._masked.terms)


async def begin(call: AsyncGenerator[pb.Chunk]) -> bool:
    """Whether a call is served, or its opener has one already: read one chunk and no more."""
    try:
        return bool((await anext(call)).content)
    except AbortError as error:
        if str(error) != BusyError.public:
            raise
        return False


def attack(
    masked: MaskedRecords, store: SqliteStore, steps: Callable[[Hub], Awaitable[None]]
) -> None:
    async def main() -> None:
        await steps(Hub(masked, store))

    asyncio.run(main())


def test_an_opener_holds_one_set_however_often_it_asks(
    masked: MaskedRecords, store: SqliteStore
) -> None:
    async def steps(hub: Hub) -> None:
        first, second = masked.terms.openers[:2]
        held = [hub.ask(first) for _ in range(CALLS)]
        assert [await begin(call) for call in held] == [True] + [False] * (CALLS - 1)
        assert await hub.read(second) == masked.shown(second), "others are not kept waiting"

    attack(masked, store, steps)


@pytest.mark.parametrize("end", ["read to its end", "cancelled", "failed"])
def test_a_place_is_free_again_however_a_call_ends(
    masked: MaskedRecords, store: SqliteStore, end: str
) -> None:
    async def steps(hub: Hub) -> None:
        opener = masked.terms.openers[0]
        call = hub.ask(opener)
        assert await begin(call)
        if end == "cancelled":
            await call.aclose()
        elif end == "read to its end":
            assert len([chunk async for chunk in call]) == N_OWNERS
        else:
            path = store.content(masked.sealed.contributions[-1].sha256)
            content = path.read_bytes()
            path.write_bytes(b"damaged")
            with pytest.raises(AbortError, match=StoreError.public):
                [chunk async for chunk in call]
            path.write_bytes(content)
        assert await hub.read(opener) == masked.shown(opener)

    attack(masked, store, steps)


def test_all_openers_together_hold_one_each(masked: MaskedRecords, store: SqliteStore) -> None:
    async def steps(hub: Hub) -> None:
        openers = masked.terms.openers
        held = [hub.ask(opener) for opener in (*openers, *openers)]
        served = [await begin(call) for call in held]
        assert served == [True] * N_OPENERS + [False] * N_OPENERS

    attack(masked, store, steps)


def held_by(work: Callable[[], object]) -> int:
    """Most bytes at once while ``work`` runs, beside what was there before."""
    work()  # what is made once and kept is not counted
    tracemalloc.start()
    try:
        kept = work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    del kept
    return peak


def test_no_call_and_no_sealing_holds_more_than_the_part_of_one_owner(
    masked: MaskedRecords, store: SqliteStore
) -> None:
    opener, record = masked.terms.openers[3], masked.sealed
    of_owner = len(masked.shown(opener).to_bytes()) // N_OWNERS

    def begin_many() -> list[Iterator[bytes]]:
        begun = [set_for(store, record, opener) for _ in range(CALLS)]
        assert all(len(next(call)) and len(next(call)) for call in begun)
        return begun

    few = 6 * of_owner
    assert held_by(lambda: sum(map(len, set_for(store, record, opener)))) < few
    assert held_by(lambda: digest_set(store, record)) < few
    assert held_by(begin_many) < CALLS * few
    assert held_by(lambda: list(read_seals(store, record, opener))) > few, "the measure sees a set"
