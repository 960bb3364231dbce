"""Parties ask for a sealed set, or for joined rows, and do not read them.

Each call held the whole set and the seals of all owners; or a batch of rows that could be a whole
table, after it had read the whole result. Now a call holds the part of one owner or a small batch,
and a party has one such call at a time. Memory is traced, and a call that is not read is a
generator that nobody asks for its next chunk.
"""

import asyncio
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from grpc.aio import AbortError

from dppca.common.kernel.aggregation.sum_messages import SealedSet
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import BusyError, StoreError
from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.codec import form_to_wire
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.federation import FederationService
from dppca.curator.service.masked_sums import digest_set, read_seals, set_for
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import SyntheticHeader
from dppca.curator.study.row_streams import BATCH_ROWS
from dppca.curator.study.synthetic_rows import check_rows, join_rows
from tests.support.census import arrow, coded_rows, decoded_rows, header_of, make_release
from tests.support.certificates import Authority, new_authority, sign_release
from tests.support.masked import MaskedRecords, make_masked_study
from tests.support.studies import make_study

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
            path = store.blobs.path(masked.sealed.contributions[-1].sha256)
            content = path.read_bytes()
            path.write_bytes(b"damaged")
            with pytest.raises(AbortError, match=StoreError.public):
                [chunk async for chunk in call]
            path.write_bytes(content)
        assert await hub.read(opener) == masked.shown(opener)

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


def test_a_party_holds_one_table_of_rows_however_often_it_asks(tmp_path: Path) -> None:
    study, authority = make_study(owners=["owner-1", "owner-2"]), new_authority()
    digest, rows = bytes.fromhex(study.digest), arrow(decoded_rows())
    signer = make_signer(authority.issue(Role.CURATOR, "hub"))
    parties = {name: authority.issue(Role.OWNER, name) for name in study.owners}

    async def main() -> None:
        studies = StudyCoordinator(SqliteStore(tmp_path / "state"), lambda: signer)
        store = studies.store
        await studies.create(study)
        for seed, (name, party) in enumerate(parties.items()):
            release = make_release(study, seed=seed)
            signed = sign_release(name, release.receipt, party)
            header = replace(header_of(release), release=signed)
            with store.blobs.spool() as spool:
                spool.write(release.payload())
                await studies.contribute(header, spool)
        await studies.advance_due()
        components = lifecycle.require_result(studies.require(digest)).sha256
        with store.blobs.spool() as spool:
            spool.write(rows)
            published = SyntheticHeader(
                digest, Form.DECODED, 3, spool.n_bytes, spool.sha256, components
            )
            await studies.publish("owner-1", published, spool)
        service = FederationService(studies, Limits(), RecentRefusals(utc_now))
        request = pb.DownloadSyntheticRequest(study_digest=digest, form=form_to_wire(Form.DECODED))

        def ask(name: str) -> AsyncGenerator[pb.Chunk]:
            context: Any = Context(parties[name].certificate)
            return cast("AsyncGenerator[pb.Chunk]", service.DownloadSynthetic(request, context))

        held = [ask("owner-1") for _ in range(CALLS)]
        assert [await begin(call) for call in held] == [True] + [False] * (CALLS - 1)
        assert [chunk async for chunk in ask("owner-2")], "others are not kept waiting"
        await held[0].aclose()
        assert await begin(ask("owner-1"))
        studies.close()

    asyncio.run(main())


def test_a_call_for_rows_holds_a_small_batch_of_a_table_that_is_one_large_batch(
    tmp_path: Path,
) -> None:
    study, n_rows = make_study(), 40 * BATCH_ROWS
    path = tmp_path / "rows"
    path.write_bytes(arrow(coded_rows(study, n_rows)))

    def read() -> int:
        return sum(map(len, join_rows([path], study.table, Form.CODED)))

    assert held_by(read) < path.stat().st_size // 4
    whole = b"".join(join_rows([path], study.table, Form.CODED))
    (tmp_path / "joined").write_bytes(whole)
    check_rows(tmp_path / "joined", study.table, Form.CODED, n_rows=n_rows)
