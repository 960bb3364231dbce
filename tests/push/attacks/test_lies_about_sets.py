"""A curator that lies to openers, over a real connection, to the site's own commands.

It keeps what owners send, and shows openers sets of its making. A colluding owner gives it its own
key. Of an honest opener it gets one sum over one set of at least the quorum, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from concurrent import futures
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from dppca.common.kernel.aggregation.masking import seal_info
from dppca.common.kernel.aggregation.opening import vote
from dppca.common.kernel.aggregation.pooling import show_set
from dppca.common.kernel.aggregation.streams import add_stream
from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    SealedSet,
    SignedSeal,
    Upload,
    Vote,
)
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.attestation.contributions import acknowledge
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.signing import Purpose, sign
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.common.shell.console import run
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.owner.cli import cli
from dppca.owner.site.opener_keys import list_opener_keys, read_opener_key
from tests.support.certificates import new_authority, taken_of
from tests.support.federations import MASKED, study_of_sites
from tests.support.sites import OwnerSite, error_of, make_site

MISMATCH, SIGNATURE, REFUSED, SEAL = 12, 17, 26, 27
CONFLICT, UPLOAD, LIMIT, NOT_READY = 45, 46, 47, 50


@dataclass
class Liar(rpc.FederationServicer):
    """A curator that shows what it is told to, and keeps everything."""

    study: Study | None = None
    signer: Signer | None = None
    uploads: dict[str, bytes] = field(default_factory=dict)
    shown: bytes = b""
    votes: tuple[bytes, ...] = ()
    wanted: tuple[int, ...] = ()
    came: list[bytes] = field(default_factory=list)
    voted: list[bytes] = field(default_factory=list)

    def ListStudies(self, _: Any, context: Any) -> pb.ListStudiesResponse:  # noqa: N802
        return pb.ListStudiesResponse()

    def GetStudy(self, _: Any, context: Any) -> pb.GetStudyResponse:  # noqa: N802
        assert self.study is not None
        return pb.GetStudyResponse(document=self.study.canonical_bytes(), state=self.state)

    def GetResult(self, _: Any, context: Any) -> pb.GetResultResponse:  # noqa: N802
        return pb.GetResultResponse(state=self.state)

    def Contribute(self, request: Any, context: Any) -> pb.ContributeResponse:  # noqa: N802
        head, *parts = request
        content = b"".join(part.chunk.content for part in parts)
        owner = Upload.read_head(content, self.terms).statement.owner
        assert self.uploads.setdefault(owner, content) == content
        assert self.signer is not None
        taken = taken_of(head.header, owner=owner)
        return pb.ContributeResponse(
            state=pb.STUDY_STATE_OPEN, acknowledgement=acknowledge(taken, self.signer)
        )

    def DownloadSealed(self, _: Any, context: Any) -> Iterator[pb.Chunk]:  # noqa: N802
        for offset in range(0, len(self.shown), 1 << 20):
            yield pb.Chunk(offset=offset, content=self.shown[offset : offset + (1 << 20)])

    def Open(self, request: Any, context: Any) -> pb.OpenResponse:  # noqa: N802
        header, *parts = list(request)
        if header.header.vote:
            self.voted.append(header.header.vote)
        content = b"".join(part.chunk.content for part in parts)
        if content:
            self.came.append(content)
        return pb.OpenResponse(
            state=pb.STUDY_STATE_SEALED,
            votes=[*self.votes, *self.voted[:1]],
            wanted=() if content else self.wanted,
        )

    @property
    def state(self) -> pb.StudyState:
        return pb.STUDY_STATE_SEALED if self.shown else pb.STUDY_STATE_OPEN

    @property
    def terms(self) -> Terms:
        assert self.study is not None
        return Terms.from_study(self.study)

    def show(self, opener: str, owners: Iterable[str]) -> SealedSet:
        """The set of some owners as an honest curator would show it; shown from now on."""
        uploads = [Upload.from_bytes(self.uploads[owner], self.terms) for owner in owners]
        return self.tell(show_set(self.terms, uploads, opener=opener))

    def tell(self, shown: SealedSet) -> SealedSet:
        self.shown = shown.to_bytes()
        return shown


@dataclass(frozen=True)
class Room:
    """Four sites that have contributed; the first two are openers, the first is honest."""

    liar: Liar
    sites: list[OwnerSite]
    address: str

    @property
    def honest(self) -> OwnerSite:
        return self.sites[0]

    @property
    def names(self) -> list[str]:
        return [site.name for site in self.sites]

    def key(self, name: str) -> ec.EllipticCurvePrivateKey:
        site = next(site for site in self.sites if site.name == name)
        key = load_pem_private_key((site.folder / "key.pem").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def show(self, *owners: str) -> SealedSet:
        return self.liar.show(self.honest.name, owners)

    def open(self) -> tuple[int, Any]:
        assert self.liar.study is not None
        return self.honest.run("open", self.liar.study.name)

    def require_refused(self, code: int) -> str:
        """Nothing was opened, no sum came, and the key is kept for the set that is to come."""
        before = self.honest.history
        found, message = error_of(self.open())
        assert found == code, message
        assert self.honest.history == before
        assert self.liar.came == []
        assert len(list_opener_keys(self.honest.folder / "openers")) == 1
        return message


def _room(folder: Path, n_openers: int, **changes: Any) -> Iterator[Room]:
    authority = new_authority()
    keys = authority.issue(Role.CURATOR, "hub")
    liar = Liar(signer=make_signer(keys))
    server = grpc.server(futures.ThreadPoolExecutor(4))
    rpc.add_FederationServicer_to_server(liar, server)
    pair = [(keys.key, keys.certificate)]
    credentials = grpc.ssl_server_credentials(pair, keys.ca, require_client_auth=True)
    address = f"localhost:{server.add_secure_port('localhost:0', credentials)}"
    server.start()
    sites = []
    for place in range(4):
        name = f"owner-{place + 1}"
        issued = authority.issue(Role.OWNER, name)
        how = {"curator": address, "credentials": issued, **MASKED}
        sites.append(make_site(folder / name, name=name, **how))
    changes = {"quorum": 3, "deadline": "2090-01-01T00:00:00Z", **changes}
    liar.study = study_of_sites(
        sites, n_openers=n_openers, open_by="2100-01-01T00:00:00Z", **changes
    )
    for site in sites:
        line = ("contribute", liar.study.name, "--yes", "--digest", liar.study.digest)
        code, said = site.run(*line)
        assert code == 0, said
    liar.wanted = (0,)
    yield Room(liar, sites, address)
    server.stop(None).wait()


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    yield from _room(tmp_path, 2)


@pytest.fixture
def spared(tmp_path: Path) -> Iterator[Room]:
    yield from _room(tmp_path, 4, spares=1)


def test_one_opener_opens_one_set_and_no_second_whoever_asks(room: Room) -> None:
    shown = room.show(*room.names)
    code, document = room.open()
    assert (code, document["set_digest"]) == (0, shown.digest)
    (first,) = room.liar.came
    room.show(*room.names[:3])
    assert room.open()[0] == 0
    assert room.liar.came == [first, first]
    assert (
        len({Opening.from_bytes(each, room.liar.terms).set_digest for each in room.liar.came}) == 1
    )
    assert list_opener_keys(room.honest.folder / "openers") == ()


def test_a_set_below_the_quorum_is_refused(room: Room) -> None:
    room.show(*room.names[:2])
    assert "quorum" in room.require_refused(REFUSED)


def _with(shown: SealedSet, place: int, entry: SignedSeal) -> SealedSet:
    entries = list(shown.entries)
    entries[place] = entry
    return replace(shown, entries=tuple(entries))


def test_a_statement_or_a_seal_that_its_owner_did_not_sign_is_refused(room: Room) -> None:
    shown = room.show(*room.names[:3])
    entry, other = shown.entries[2], shown.entries[1]
    changed = replace(entry.statement, payload_sha256=other.statement.payload_sha256)
    signed_by_another = sign(room.key("owner-2"), Purpose.UPLOAD, entry.statement.to_bytes())
    for wrong in (
        replace(entry, statement=changed),
        replace(entry, signature=other.signature),
        replace(entry, signature=signed_by_another),
    ):
        room.liar.tell(_with(shown, 2, wrong))
        room.require_refused(SIGNATURE)
    for seal in (entry.seal[:-1] + bytes([entry.seal[-1] ^ 1]), other.seal):
        room.liar.tell(_with(shown, 2, replace(entry, seal=seal)))
        room.require_refused(SEAL)


def test_bytes_that_are_no_set_or_too_many_are_refused(room: Room) -> None:
    room.liar.shown = b"no set"
    room.require_refused(UPLOAD)
    room.liar.shown = bytes(1 << 22)
    room.require_refused(UPLOAD)
    room.show(*room.names)
    room.liar.shown += b"\0"
    room.require_refused(UPLOAD)


def test_more_votes_than_there_are_openers_are_refused(room: Room) -> None:
    room.show(*room.names)
    room.liar.votes = (b"vote",) * 3
    assert error_of(room.open())[0] == LIMIT
    assert room.liar.came == []


def test_streams_of_another_opener_are_not_answered(room: Room) -> None:
    room.show(*room.names)
    for wanted in ((1,), (0, 1), (0, 0), (7,)):
        room.liar.wanted = wanted
        assert error_of(room.open())[0] == REFUSED
        assert room.liar.came == []
    room.liar.wanted = (0,)
    assert room.open()[0] == 0
    assert len(room.liar.came) == 1


def test_a_document_with_an_opener_key_of_an_earlier_study_opens_nothing(room: Room) -> None:
    """The signature of an opener key names no study; the ledger of the opener does."""
    study = room.liar.study
    assert study is not None
    document = study.model_dump(mode="json", by_alias=True)
    document["name"] = "another-study"
    room.liar.study, room.liar.uploads = study_from_mapping(document), {}
    for site in room.sites:
        assert site.run("contribute", "another-study", "--yes")[0] == 0
    room.show(*room.names)
    message = room.require_refused(REFUSED)
    assert f"offered for study {study.name}" in message


def test_another_document_under_the_studys_name_opens_nothing(room: Room) -> None:
    """Its terms are others, too: seals of the one open in no set of the other."""
    study = room.liar.study
    assert study is not None
    room.show(*room.names)
    document = study.model_dump(mode="json", by_alias=True)
    room.liar.study = study_from_mapping({**document, "max_rows": 999_999})
    assert "max_rows" in room.require_refused(MISMATCH)


def _votes(room: Room, shown: dict[str, SealedSet], names: Iterable[str]) -> tuple[bytes, ...]:
    made = []
    for site in room.sites:
        if site.name in names:
            (key_id,) = list_opener_keys(site.folder / "openers")
            secret = read_opener_key(site.folder / "openers", key_id)
            assert secret is not None
            made.append(
                vote(
                    room.liar.terms,
                    shown[site.name],
                    opener=site.name,
                    secret=secret,
                    key=room.key(site.name),
                    bound=None,
                ).to_bytes()
            )
    return tuple(made)


def _shown(room: Room, owners: list[str]) -> dict[str, SealedSet]:
    return {name: room.liar.show(name, owners) for name in room.liar.terms.openers}


def test_with_spares_an_opener_votes_once_and_opens_on_enough_votes_for_its_set(
    spared: Room,
) -> None:
    everybody, fewer = _shown(spared, spared.names), _shown(spared, spared.names[:3])
    honest = spared.honest.name
    spared.liar.tell(everybody[honest])
    spared.liar.wanted = tuple(spared.liar.terms.held(honest))
    assert error_of(spared.open())[0] == NOT_READY
    (voted,) = spared.liar.voted
    assert Vote.from_bytes(voted, spared.liar.terms).set_digest == everybody[honest].digest
    # One vote too few, one vote twice, votes for another set, a forged one: nothing is opened.
    (good,) = _votes(spared, everybody, ["owner-2"])
    for votes, code in (
        ((good,), NOT_READY),
        ((good, good), NOT_READY),
        (_votes(spared, fewer, ["owner-2", "owner-3"]), CONFLICT),
        ((good, _as(good, "owner-3", spared)), SIGNATURE),
    ):
        spared.liar.votes = votes
        spared.require_refused(code)
    # Another set than the one that it voted for: refused, and no second vote comes.
    spared.liar.tell(fewer[honest])
    spared.liar.votes = _votes(spared, fewer, ["owner-2", "owner-3", "owner-4"])
    spared.require_refused(REFUSED)
    assert set(spared.liar.voted) == {voted}
    spared.liar.tell(everybody[honest])
    spared.liar.votes = _votes(spared, everybody, ["owner-2", "owner-3"])
    code, document = spared.open()
    assert (code, document["owners"]) == (0, 4)
    assert len(spared.liar.came) == 1


def _as(content: bytes, opener: str, room: Room) -> bytes:
    return replace(Vote.from_bytes(content, room.liar.terms), opener=opener).to_bytes()


def _secrets(room: Room) -> Iterator[bytes]:
    """What must be in no file, log or message of an honest owner: seeds and bare sums."""
    terms = room.liar.terms
    for owner, content in room.liar.uploads.items():
        upload = Upload.from_bytes(content, terms)
        for site in room.sites[:2]:
            key_id = hashlib.sha256(terms.opener_key(site.name)).hexdigest()
            secret = read_opener_key(site.folder / "openers", key_id)
            assert secret is not None
            place = terms.openers.index(site.name)
            yield secret.unseal(upload.seals[place], seal_info(terms, owner, site.name))


def _unmasked(room: Room) -> Iterator[bytes]:
    """Every owner's noised words without their masks, the guards at their end left out."""
    terms = room.liar.terms
    seeds = list(_secrets(room))
    for place, (owner, content) in enumerate(room.liar.uploads.items()):
        words = np.frombuffer(Upload.from_bytes(content, terms).payload, "<u8").copy()
        for stream in range(2):
            add_stream(words, terms, seeds[2 * place + stream], owner=owner, stream=stream)
        assert not words[-2:].any()
        yield words[:-2].tobytes()


def test_seeds_and_unmasked_sums_are_in_no_file_and_no_line_of_a_site(
    room: Room, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    room.liar.study = study_of_sites(
        room.sites,
        quorum=3,
        deadline="2090-01-01T00:00:00Z",
        open_by="2100-01-01T00:00:00Z",
    )
    room.liar.uploads = {}
    for site in room.sites:
        line = ["--site", str(site.folder), "contribute", room.liar.study.name, "--yes"]
        with caplog.at_level(0), pytest.raises(SystemExit) as left:
            run(cli, line)
        assert left.value.code == 0
    secrets = [*_secrets(room), *_unmasked(room)]
    assert len(secrets) == 12
    said = caplog.text + "".join(capfd.readouterr())
    assert "Sent" in said
    for secret in secrets:
        for form in (base64.b64encode(secret).decode(), secret.hex(), repr(secret)):
            assert form not in said
    room.show(*room.names)
    assert room.open()[0] == 0
    for site in room.sites:
        for path in site.folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                for secret in secrets:
                    assert secret not in content, path
                    assert base64.b64encode(secret) not in content
                    assert secret.hex().encode() not in content
