"""A curator with a certificate of its own that answers what it likes.

An owner believes nothing of a result that is not signed, and computes again what is: the lies are
told over a real connection, to the site's own commands.
"""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from dppca.common.kernel.attestation.components import sign_result
from dppca.common.kernel.attestation.contributions import (
    AcknowledgedContribution,
    acknowledge,
    open_release,
)
from dppca.common.kernel.attestation.envelopes import (
    SignedFile,
    read_signed,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import (
    Result,
    largest_envelope,
    largest_result,
    result_to_bytes,
)
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.common.transport.allowance import Allowance
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.greeting import VERSION, make_greeting
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import Contribution, LedgerHead
from dppca.owner.cli import cli
from dppca.owner.client import calls
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_studies import components_path
from tests.support.census import make_release
from tests.support.certificates import Authority, new_authority, sign_release, taken_of
from tests.support.commands import run_here
from tests.support.envelopes import claim
from tests.support.sites import OwnerSite, make_site
from tests.support.sites import proved as signed_by
from tests.support.studies import make_study

STUDY = "census"


OWNERS = ("owner-1", "owner-2")
NOTHING = SignedFile(b"", b"")


@dataclass
class Curator(rpc.FederationServicer):
    """Answers with the bytes that it was given; keeps what an owner sends."""

    study: Study
    told: SignedFile = NOTHING
    announced: int | None = None
    signs: Callable[[Any], bytes] = lambda _: b""
    taken: list[tuple[Any, bytes]] = field(default_factory=list)
    lists: Callable[[Any], pb.ListStudiesResponse] = lambda _: pb.ListStudiesResponse()
    holds: Callable[[], Iterator[pb.HeldContribution]] = lambda: iter(())
    greets: Callable[[], pb.Greeting] = pb.Greeting

    @property
    def state(self) -> pb.StudyState:
        return pb.STUDY_STATE_DECOMPOSED if self.told.content else pb.STUDY_STATE_OPEN

    def ListStudies(self, request: Any, context: Any) -> pb.ListStudiesResponse:  # noqa: N802
        answer = self.lists(request)
        answer.greeting.CopyFrom(self.greets())
        return answer

    def ListContributions(  # noqa: N802
        self, _: Any, context: Any
    ) -> Iterator[pb.HeldContribution]:
        return self.holds()

    def GetStudy(self, _: Any, context: Any) -> pb.GetStudyResponse:  # noqa: N802
        return pb.GetStudyResponse(
            document=self.study.canonical_bytes(), state=self.state, greeting=self.greets()
        )

    def Contribute(self, request: Any, context: Any) -> pb.ContributeResponse:  # noqa: N802
        parts = list(request)
        payload = b"".join(part.chunk.content for part in parts[1:])
        self.taken.append((parts[0].header, payload))
        return pb.ContributeResponse(
            state=pb.STUDY_STATE_OPEN, acknowledgement=self.signs(parts[0].header)
        )

    def GetResult(self, _: Any, context: Any) -> pb.GetResultResponse:  # noqa: N802
        return pb.GetResultResponse(
            state=self.state,
            total_bytes=len(self.told.content) if self.announced is None else self.announced,
            sha256=self.told.sha256,
        )

    def PublishSynthetic(self, _: Any, context: Any) -> pb.PublishSyntheticResponse:  # noqa: N802
        return pb.PublishSyntheticResponse()

    def DownloadSynthetic(self, _: Any, context: Any) -> Iterator[pb.Chunk]:  # noqa: N802
        return iter(())

    def DownloadComponents(  # noqa: N802
        self, _: Any, context: Any
    ) -> Iterator[pb.DownloadComponentsResponse]:
        content, envelope = self.told.content, self.told.envelope
        for start in range(0, len(envelope), CHUNK_BYTES):
            yield pb.DownloadComponentsResponse(envelope=envelope[start : start + CHUNK_BYTES])
        for offset in range(0, len(content), CHUNK_BYTES):
            chunk = pb.Chunk(offset=offset, content=content[offset : offset + CHUNK_BYTES])
            yield pb.DownloadComponentsResponse(chunk=chunk)


@dataclass(frozen=True)
class Room:
    """A site that has contributed, the liar that it dials, and the result that would be true."""

    site: OwnerSite
    study: Study
    authority: Authority
    curator: Curator
    releases: tuple[tuple[Contribution, bytes], ...]

    @property
    def kept(self) -> Path:
        return components_path(load_site(self.site.folder), STUDY)

    def result(self, *owners: str) -> Result:
        """The result of these owners' releases."""
        chosen = [(c, payload) for c, payload in self.releases if c.owner in owners]
        vectors = [np.frombuffer(payload, "<i8") for _, payload in chosen]
        return aggregate(self.study, calibrate(self.study), [c for c, _ in chosen], vectors)

    def signed(self, result: Result) -> SignedFile:
        """With the receipts of the owners that it names."""
        named = {share.owner for share in result.header.shares}
        signed = [c.release for c, _ in self.releases if c.owner in named]
        return sign_result(
            result,
            self.study,
            calibrate(self.study),
            signed,
            make_signer(self.authority.issue(Role.CURATOR, "hub")),
        )

    def sign_bytes(self, content: bytes) -> SignedFile:
        """Other bytes with the true claims, signed by the curator."""
        claims = unchecked_predicate(self.signed(self.result(*OWNERS)).envelope)
        signer = make_signer(self.authority.issue(Role.CURATOR, "hub"))
        return SignedFile(content, claim(claims, signer, content))

    def fetch(self, told: SignedFile) -> tuple[int, str]:
        """Exit code and message of `components` where the curator sends this."""
        self.curator.told = told
        code, said = self.site.run("components", STUDY)
        return code, said["error"]["message"] if "error" in said else json.dumps(said)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    authority = new_authority()
    study = make_study(
        name=STUDY, owners=list(OWNERS), overlap=True, quorum=1, deadline="2030-01-01T00:00:00Z"
    )
    keys = authority.issue(Role.CURATOR, "hub")
    curator = Curator(study, signs=lambda header: acknowledge(_taken(header), make_signer(keys)))
    server = grpc.server(futures.ThreadPoolExecutor(4))
    rpc.add_FederationServicer_to_server(curator, server)
    serving = health.HealthServicer()
    serving.set("", health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(serving, server)
    pair = [(keys.key, keys.certificate)]
    credentials = grpc.ssl_server_credentials(pair, keys.ca, require_client_auth=True)
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    owners = {name: authority.issue(Role.OWNER, name) for name in OWNERS}
    site = make_site(
        tmp_path / "site",
        curator=f"localhost:{port}",
        credentials=owners["owner-1"],
    )
    assert site.run("contribute", STUDY, "--yes")[0] == 0
    header, payload = curator.taken[0]
    other = make_release(study, seed=2)
    sent = open_release(header.envelope, "owner-1", KnownParties(authority.pem))
    signed = sign_release("owner-2", other.receipt, owners["owner-2"])
    releases = tuple(
        (Contribution(release, len(content), LedgerHead(1, bytes(32)), 0), content)
        for release, content in ((sent, payload), (signed, other.payload()))
    )
    yield Room(site, study, authority, curator, releases)
    server.stop(None).wait()


def _listed(number: int, *, named: int = 1) -> pb.StudySummary:
    return pb.StudySummary(name="n" * named, digest=number.to_bytes(32), state=1)


def _after(request: Any) -> int:
    return int.from_bytes(request.after) + 1


def _without_end(request: Any) -> pb.ListStudiesResponse:
    """Large pages, each of new studies."""
    first = _after(request)
    studies = [_listed(number, named=60_000) for number in range(first, first + 100)]
    return pb.ListStudiesResponse(studies=studies, has_more=True)


@pytest.mark.parametrize(
    ("lists", "error", "words"),
    [
        (_without_end, "LimitError", "does not end within 67108864 bytes"),
        (
            lambda asked: pb.ListStudiesResponse(studies=[_listed(_after(asked))], has_more=True),
            "LimitError",
            "does not end within 100 messages",
        ),
        (
            lambda _: pb.ListStudiesResponse(studies=map(_listed, range(100_001))),
            "LimitError",
            "more than 100000 studies",
        ),
        (lambda _: pb.ListStudiesResponse(has_more=True), "PeerError", "does not go on"),
        (
            lambda _: pb.ListStudiesResponse(studies=[_listed(7)], has_more=True),
            "PeerError",
            "a study twice",
        ),
        (
            lambda asked: pb.ListStudiesResponse(
                studies=[_listed(_after(asked) % 3)], has_more=True
            ),
            "PeerError",
            "a study twice",
        ),
        (lambda _: pb.ListStudiesResponse(studies=[pb.StudySummary()] * 2), "PeerError", "twice"),
    ],
    ids=[
        "without end",
        "one by one",
        "all at once",
        "no study",
        "the same page",
        "in a circle",
        "without digests",
    ],
)
def test_a_list_that_never_ends_is_refused(
    room: Room, lists: Callable[[Any], pb.ListStudiesResponse], error: str, words: str
) -> None:
    room.curator.lists = lists
    _, said = room.site.run("studies")
    assert said["error"]["class"] == error
    assert words in said["error"]["message"]


def test_doctor_ends_where_a_list_of_studies_does_not(room: Room) -> None:
    room.curator.lists = lambda asked: pb.ListStudiesResponse(
        studies=[_listed(_after(asked))], has_more=True
    )
    _, said = room.site.run("doctor")
    found = next(each for each in said["findings"] if each["area"] == "connection")
    assert found["error"] == "LimitError"
    assert "does not end within" in found["message"]


@pytest.mark.parametrize(
    ("version", "says"),
    [(VERSION, ""), ("", "it says none"), ("999.0", "runs DPPCA 999.0"), ("\x1b[2J", "says none")],
)
@pytest.mark.parametrize("command", [("studies",), ("review", STUDY)])
def test_another_version_is_told_once_and_before_anything_else(
    room: Room, command: tuple[str, ...], version: str, says: str
) -> None:
    room.curator.greets = lambda: pb.Greeting(version=version)
    _, _, told = run_here(cli, "--site", str(room.site.folder), *command)
    assert told.count("the curator runs DPPCA") + told.count("of an earlier version") == bool(says)
    assert says in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("ahead", "state", "says"),
    [
        (timedelta(days=1), "warning", "the clock of the curator is 23 h 59 min ahead of"),
        (timedelta(days=-1), "warning", "the clock of the curator is 1 d behind"),
        (timedelta(0), "ok", "agrees with the curator's"),
    ],
)
def test_doctor_compares_both_clocks_and_versions(
    room: Room, ahead: timedelta, state: str, says: str
) -> None:
    def greet() -> pb.Greeting:
        now = utc_now() + ahead - timedelta(seconds=30 * bool(ahead))
        made = make_greeting(now=now, held=bool(ahead))
        made.version = "0.1.0"
        return made

    room.curator.greets = greet
    _, said = room.site.run("doctor")
    found = {(each["area"], each["state"]): each["message"] for each in said["findings"]}
    assert says in found["clock", state]
    remarks = [each["message"] for each in said["findings"] if each["area"] == "curator"]
    assert "runs DPPCA 0.1.0, and this machine the newer" in remarks[0]
    assert len(remarks) == 1 + bool(ahead)


def _held(number: int, envelope: bytes) -> pb.HeldContribution:
    return pb.HeldContribution(study=f"s{number}", envelope=envelope)


@pytest.mark.parametrize(
    ("holds", "error", "words"),
    [
        (lambda sent: (_held(each, sent) for each in count()), "LimitError", "does not end within"),
        (lambda sent: (_held(7, sent) for _ in count()), "PeerError", "a contribution twice"),
        (lambda _: (_held(each, bytes(7 << 20)) for each in count()), "LimitError", "65536 bytes"),
        (lambda _: (_held(each, b"{") for each in count()), "SignatureError", "not JSON"),
    ],
    ids=["without end", "the same", "large ones", "no receipts"],
)
def test_contributions_without_end_are_refused(
    room: Room,
    holds: Callable[[bytes], Iterator[pb.HeldContribution]],
    error: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "Allowance", partial(Allowance, messages=20))
    room.curator.holds = lambda: holds(room.curator.taken[0][0].envelope)
    _, said = room.site.run("ledger", "recover", "--data-set", "survey", "--yes")
    assert said["error"]["class"] == error
    assert words in said["error"]["message"]


def _changed(result: Result, **header: Any) -> Result:
    return replace(result, header=replace(result.header, **header))


def _bare(room: Room, **header: Any) -> SignedFile:
    """The result without an envelope, its header changed."""
    return SignedFile(result_to_bytes(_changed(room.result(*OWNERS), **header)), b"")


def _of_another_authority(room: Room) -> SignedFile:
    return signed_by(room.result(*OWNERS), room.study, new_authority())


def _other_header(room: Room) -> SignedFile:
    true = room.result(*OWNERS)
    told = result_to_bytes(_changed(true, epsilon="0.000001"))
    return replace(room.signed(true), content=told)


def _signed_header(room: Room) -> SignedFile:
    return room.signed(_changed(room.result(*OWNERS), epsilon="0.000001"))


def _other_study(room: Room) -> SignedFile:
    """A result that verifies, of another study of the same parties."""
    other = make_study(owners=list(OWNERS), name=STUDY, max_rows=1_000_000, overlap=True)
    true = room.result(*OWNERS)
    header = replace(true.header, study_digest=other.digest)
    return signed_by(replace(true, header=header), other, room.authority)


def _others_release(room: Room) -> SignedFile:
    """A result with a release that was signed in this site's name, and that its ledger lacks."""
    true = room.result(*OWNERS)
    first, *others = true.header.shares
    shares = (replace(first, release_id="a" * 32, payload_sha256="a" * 64), *others)
    header = replace(true.header, shares=shares)
    return signed_by(replace(true, header=header), room.study, room.authority)


LIES: dict[str, tuple[Callable[[Room], SignedFile], int, str]] = {
    "no envelope, and a tiny epsilon": (
        lambda room: _bare(room, epsilon="0.000001", assumptions=("none\x1b]0;owned\x07",)),
        17,
        "not JSON",
    ),
    "no envelope, and the figure that is right": (_bare, 17, "not JSON"),
    "parties of another authority": (_of_another_authority, 17, "not signed by the authority"),
    "a header that was not signed": (_other_header, 18, "not the one that curator hub signed"),
    "a header that is not the receipt's": (_signed_header, 16, "header of the result"),
    "another study's result": (_other_study, 15, "belongs to another study"),
    "a byte more": (
        lambda room: _with_content(room, lambda content: content + b"\0"),
        18,
        "not the one that curator hub signed",
    ),
    "another release in this owner's name": (_others_release, 15, "ledger does not contain"),
    "this owner left out": (lambda room: room.signed(room.result("owner-2")), 51, "leaves out"),
}


@pytest.mark.parametrize("lie", LIES)
def test_what_does_not_hold_is_neither_kept_nor_shown(room: Room, lie: str) -> None:
    told, code, says = LIES[lie]
    found, message = room.fetch(told(room))
    assert (found, says in message) == (code, True), message
    assert "0.000001" not in message
    kept = {path.name for path in room.kept.parent.glob("*.npz")}
    assert kept == ({"contradiction.npz"} if code == 51 else set())


def test_what_holds_is_kept_and_its_figures_are_those_computed_anew(room: Room) -> None:
    told = room.signed(room.result(*OWNERS))
    code, said = room.fetch(told)
    assert code == 0
    assert json.loads(said)["epsilon"] == "2"
    assert read_signed(room.kept) == told


@pytest.mark.parametrize(
    "command",
    [
        ["synthesize"],
        ["train", "--target", "sex", "--kernel", "linear"],
        ["train", "--target", "sex", "--method", "dp-svm", "--epsilon", "1", "--yes"],
    ],
    ids=["synthesize", "dppca-svm", "dp-svm"],
)
def test_a_file_that_was_kept_without_proof_is_not_used_and_costs_nothing(
    room: Room, command: list[str]
) -> None:
    write_signed(room.kept, _bare(room, epsilon="0.000001"))
    before, files = room.site.history.length, {path.name for path in room.kept.parent.iterdir()}
    code, said = room.site.run(command[0], STUDY, *command[1:])
    assert code == 17
    assert f"dppca-owner components {STUDY}" in said["error"]["message"]
    assert room.site.history.length == before
    assert {path.name for path in room.kept.parent.iterdir()} == files


def test_a_kept_file_that_leaves_this_owner_out_is_not_used(room: Room) -> None:
    write_signed(room.kept, room.signed(room.result("owner-2")))
    code, said = room.site.run("synthesize", STUDY)
    assert (code, "leaves out owner-1" in said["error"]["message"]) == (51, True)


def _with_content(room: Room, change: Callable[[bytes], bytes]) -> SignedFile:
    """The true result's envelope with other bytes."""
    true = room.signed(room.result(*OWNERS))
    return replace(true, content=change(true.content))


def _with_member(room: Room, name: str, content: bytes, method: int) -> SignedFile:
    """The true result with one more member, or another in the place of one it has; signed."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(room.signed(room.result(*OWNERS)).content)) as true,
        zipfile.ZipFile(buffer, "w") as archive,
    ):
        for entry in true.infolist():
            if entry.filename != name:
                archive.writestr(entry, true.read(entry))
        archive.writestr(name, content, compress_type=method)
    return room.sign_bytes(buffer.getvalue())


@pytest.mark.parametrize("name", ["junk.npy", "junk", "pooled.npy", "header.npy"])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compressed_member_is_not_unpacked(room: Room, name: str, method: int) -> None:
    content = _with_member(room, name, bytes(1 << 25), method)
    tracemalloc.start()
    code, message = room.fetch(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (code, "container" in message) == (18, True), message
    assert peak < 1 << 23
    assert not room.kept.exists()
    path = room.kept.with_name("given.npz")
    write_signed(path, content)
    assert room.site.run("verify", str(path))[0] == 18


def test_a_member_that_a_result_does_not_have_is_refused(room: Room) -> None:
    stored = _with_member(room, "junk.npy", b"no array", zipfile.ZIP_STORED)
    assert room.fetch(stored)[0] == 18


def test_more_than_a_result_of_the_study_can_have_is_not_downloaded(room: Room) -> None:
    told = room.signed(room.result(*OWNERS))
    assert len(told.content) < largest_result(room.study) < 1 << 22
    assert len(told.envelope) < largest_envelope(room.study) < 1 << 22
    long = replace(told, envelope=told.envelope.ljust(largest_envelope(room.study) + 1))
    assert room.fetch(long)[0] == 47
    room.curator.announced = largest_result(room.study) + 1
    assert room.fetch(told)[0] == 47


def _taken(header: Any, **changes: Any) -> AcknowledgedContribution:
    return replace(taken_of(header, owner="owner-1"), **changes)


def _signer(authority: Authority, role: Role = Role.CURATOR, name: str = "hub") -> Signer:
    return make_signer(authority.issue(role, name))


FALSE: dict[str, tuple[Callable[[Room, Any], bytes], int, str]] = {
    "of another authority": (
        lambda _, header: acknowledge(_taken(header), _signer(new_authority())),
        17,
        "not signed by the authority",
    ),
    "of another release": (
        lambda room, header: acknowledge(
            _taken(header, release_id="00" * 16), _signer(room.authority)
        ),
        16,
        "another contribution",
    ),
    "none at all": (lambda *_: b"", 17, "not JSON"),
}


@pytest.mark.parametrize("what", FALSE)
def test_an_acknowledgement_that_does_not_hold_is_not_taken_for_one(room: Room, what: str) -> None:
    signs, code, says = FALSE[what]
    (room.kept.parent / "acknowledgement.json").unlink()  # of the contribution before
    room.curator.signs = lambda header: signs(room, header)
    found, said = room.site.run("contribute", STUDY, "--yes")
    assert (found, says in said["error"]["message"]) == (code, True), said
    assert not (room.kept.parent / "acknowledgement.json").exists()
    room.curator.signs = lambda header: acknowledge(_taken(header), _signer(room.authority))
    code, said = room.site.run("contribute", STUDY, "--yes")
    assert (code, Path(said["acknowledgement"]).name) == (0, "acknowledgement.json")
    assert len({header.envelope for header, _ in room.curator.taken}) == 1


def test_an_owner_that_is_left_out_shows_it_to_anybody_with_two_files(
    room: Room, tmp_path: Path
) -> None:
    room.curator.signs = lambda header: acknowledge(_taken(header), _signer(room.authority))
    assert room.site.run("contribute", STUDY, "--yes")[0] == 0
    code, message = room.fetch(room.signed(room.result("owner-2")))
    evidence, held = (
        room.kept.parent / name for name in ("contradiction.npz", "acknowledgement.json")
    )
    assert code == 51
    assert f"verify {evidence} --acknowledgement {held}" in message
    others = OwnerSite(tmp_path / "elsewhere", "nobody")
    ca = tmp_path / "ca.pem"
    ca.write_bytes(room.authority.pem)
    line = ["verify", str(evidence), "--ca", str(ca), "--acknowledgement", str(held)]
    code, said = others.run(*line)
    assert (code, "leaves owner-1 out" in said["error"]["message"]) == (51, True)
    code, said = room.site.run("verify", str(evidence))
    assert code == 51  # the site's own is taken by itself
    code, _ = others.run("verify", str(evidence), "--ca", str(ca))
    assert code == 0  # nobody who has the result alone can know
    code, said = others.run("verify", str(evidence), "--acknowledgement", str(held))
    assert (code, "--ca" in said["error"]["message"]) == (10, True)


def test_a_release_in_the_place_of_the_one_acknowledged_is_shown_too(room: Room) -> None:
    room.curator.signs = lambda header: acknowledge(_taken(header), _signer(room.authority))
    assert room.site.run("contribute", STUDY, "--yes")[0] == 0
    path = room.kept.parent / "other.npz"
    write_signed(path, _others_release(room))
    code, said = room.site.run("verify", str(path))
    assert (code, "in its place" in said["error"]["message"]) == (51, True)
    write_signed(path, room.signed(room.result(*OWNERS)))
    code, said = room.site.run("verify", str(path))
    assert code == 0
    assert [each["owner"] for each in said["acknowledged"]] == ["owner-1"]
