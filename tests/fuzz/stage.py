"""A curator in this process: an enrolled owner says anything at all, the handlers answer.

`Stage.play` takes bytes for a call: the first chooses the method, the rest are its messages, each
behind two bytes with its length. What must hold after every call is asserted there.
"""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.message import DecodeError, Message
from grpc.aio import AbortError

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import Form, StudyState, accounts_for
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import PeerError, StoreError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.kernel.study import Study
from dppca.common.transport.codec import form_to_wire
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.observability.log import LOGGER
from dppca.curator.service.admin import AdminService
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.federation import FederationService
from dppca.curator.service.recent_refusals import RecentRefusals
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.study_record import OwnerHistory, StudyRecord
from tests.support.census import arrow, decoded_rows, header_of, make_release
from tests.support.certificates import Authority, new_authority
from tests.support.party import sign_for_nobody, to_wire
from tests.support.studies import make_study

ATTACKER = "owner-1"
METHODS: tuple[tuple[str, type[Message], bool], ...] = tuple(
    (each.name, getattr(pb, each.input_type.name), each.client_streaming)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for each in service.methods
)
"""Every method: its name, what it takes, and whether that comes in a stream."""
_UNSEEN = "nobody-says-this-name"
_KEY = ec.derive_private_key(0x5EED, ec.SECP256R1())


def encode(method: str, messages: Sequence[Message]) -> bytes:
    """A call as `Stage.play` takes it."""
    index = next(index for index, (name, _, _) in enumerate(METHODS) if name == method)
    parts = [message.SerializeToString() for message in messages]
    return bytes([index]) + b"".join(len(part).to_bytes(2, "little") + part for part in parts)


def decode(data: bytes) -> tuple[int, list[bytes]]:
    """Method and messages; any bytes are some call."""
    index, messages, at = (data[0] if data else 0) % len(METHODS), [], 1
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "little")
        messages.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    return index, messages


class _Context:
    """What handlers ask of gRPC's context."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate
        self.sentence = ""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._certificate]}

    def time_remaining(self) -> float:
        return 0.1  # so that nothing waits

    def set_trailing_metadata(self, metadata: object) -> None:
        pass

    async def abort(self, code: object, sentence: str) -> None:
        self.sentence = sentence
        raise AbortError(sentence)


class _Failures(logging.Handler):
    """Keeps what handlers failed with: "call failed" is for defects."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record)


class Stage:
    """Three studies: ``open`` and ``done``, which name the attacker, and one that does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._failures = _Failures()
        LOGGER.addHandler(self._failures)
        LOGGER.setLevel(logging.ERROR)
        LOGGER.propagate = False
        authority = new_authority()
        self._hub = authority.issue(Role.CURATOR, "hub")
        self._parties = {
            name: _issue(authority, name) for name in ("owner-1", "owner-2", "owner-3")
        }
        self.studies_by_name = {
            "done": make_study(name="done"),
            _UNSEEN: make_study(name=_UNSEEN, owners=["owner-2", "owner-3"]),
            "open": make_study(name="open"),
        }
        self._secrets = [_UNSEEN.encode()]
        self._open_store(folder / "first")
        self._loop.run_until_complete(self._prepare())
        self._close_store()
        self._resets = 0
        self.reset()

    def seeds(self) -> list[bytes]:
        """Calls that are taken, for a search to begin with."""
        opened, done = self.studies_by_name["open"], self.studies_by_name["done"]
        digest, finished = bytes.fromhex(opened.digest), bytes.fromhex(done.digest)
        rows = arrow(decoded_rows())
        record = self._studies.require(finished)
        header = pb.SyntheticHeader(
            study_digest=finished,
            form=form_to_wire(Form.DECODED),
            n_rows=3,
            total_bytes=len(rows),
            sha256=_sha256(rows),
            components_sha256=lifecycle.require_result(record).sha256,
        )
        chunk = pb.PublishSyntheticRequest(chunk=pb.Chunk(content=rows))
        drawn = pb.DownloadSyntheticRequest(study_digest=finished, form=header.form)
        known = accounts_for(self._studies.store.history(ATTACKER).releases)
        continued = pb.ContinueLedgerRequest(
            ledger_length=7, ledger_head=bytes(32), accounts_for=known
        )
        return [
            encode("Contribute", self._contribution(opened, ATTACKER)),
            encode("Contribute", self._contribution(done, ATTACKER)),
            encode("Contribute", self._contribution(self.studies_by_name[_UNSEEN], ATTACKER)),
            encode("PublishSynthetic", [pb.PublishSyntheticRequest(header=header), chunk]),
            encode("GetStudy", [pb.GetStudyRequest(name="open")]),
            encode("GetStudy", [pb.GetStudyRequest(digest=digest)]),
            encode("GetResult", [pb.GetResultRequest(study_digest=finished, wait_ms=1)]),
            encode("GetResult", [pb.GetResultRequest(study_digest=digest, wait_ms=1)]),
            encode("ListStudies", [pb.ListStudiesRequest()]),
            encode("DownloadComponents", [pb.DownloadComponentsRequest(study_digest=finished)]),
            encode("DownloadSynthetic", [drawn]),
            encode("CreateStudy", [pb.CreateStudyRequest(document=opened.canonical_bytes())]),
            encode("ShowStudy", [pb.ShowStudyRequest(name="open")]),
            encode("CloseStudy", [pb.CloseStudyRequest(name="done")]),
            encode("AbortStudy", [pb.AbortStudyRequest(name="open", reason="mine")]),
            encode("ListContributions", [pb.ListContributionsRequest()]),
            encode("ContinueLedger", [continued]),
            encode("ShowOwner", [pb.ShowOwnerRequest(name="owner-2")]),
            encode("SettleLedger", [pb.SettleLedgerRequest(name="owner-2", reason="mine")]),
        ]

    def play(self, data: bytes) -> str:
        """One call by the attacker; the sentence it was refused with, "" where it was not.

        Raises
        ------
        AssertionError
            It failed inside, showed another's secret, or changed what is not the attacker's.
        """
        index, contents = decode(data)
        name, kind, streaming = METHODS[index]
        before = self._others()
        context = _Context(self._parties[ATTACKER].certificate)
        answers = self._loop.run_until_complete(
            self._call(name, kind, contents, streaming, context)
        )
        if self._failures.found:
            record = self._failures.found.pop()
            error = record.exc_info[1] if record.exc_info else None
            raise AssertionError(f"{name} failed inside: {record.getMessage()}") from error
        assert context.sentence not in {PeerError.public, StoreError.public}, context.sentence
        for answer in answers:
            for secret in self._secrets:
                assert secret not in answer, f"{name} shows what is another's"
        assert self._others() == before, f"{name} changed what is not the caller's"
        assert not list((self._state / "incoming").iterdir()), f"{name} left an upload behind"
        if self._mine() != self._mine_at_first:
            self._close_store()
            self.reset()
        return context.sentence

    def reset(self) -> None:
        """The state all calls begin with."""
        self._resets += 1
        copy = self._folder / f"copy-{self._resets}"
        shutil.copytree(self._folder / "first", copy)
        if self._resets > 1:
            shutil.rmtree(self._folder / f"copy-{self._resets - 1}")
        self._open_store(copy)
        self._mine_at_first = self._mine()

    def close(self) -> None:
        """Free the store and the loop."""
        self._close_store()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        LOGGER.removeHandler(self._failures)

    async def _call(
        self,
        name: str,
        kind: type[Message],
        contents: list[bytes],
        streaming: bool,
        context: _Context,
    ) -> list[bytes]:
        async def messages() -> AsyncIterator[Message]:
            for content in contents:
                yield kind.FromString(content)

        service: Any = self._federation if hasattr(FederationService, name) else self._admin
        request: Any = messages()
        if not streaming:
            try:
                request = kind.FromString(contents[0] if contents else b"")
            except DecodeError:
                return []
        handler = getattr(service, name)
        answers: list[bytes] = []
        try:
            called = handler(request, context)
            if hasattr(called, "__aiter__"):
                async for each in called:
                    answers.append(each.SerializeToString())  # noqa: PERF401 - kept if it ends badly
            else:
                answers.append((await called).SerializeToString())
        except AbortError:
            pass
        return answers

    async def _prepare(self) -> None:
        for study in self.studies_by_name.values():
            await self._studies.create(study)
        for study in self.studies_by_name.values():
            for owner in study.owners:
                if study.name == "open" and owner != "owner-2":
                    continue
                context = _Context(self._parties[owner].certificate)
                parts = self._contribution(study, owner)
                contents = [part.SerializeToString() for part in parts]
                await self._call("Contribute", pb.ContributeRequest, contents, True, context)
                assert not context.sentence, context.sentence
        await self._studies.advance_due()
        states = {record.study.name: record.state for record in self._store.studies()}
        assert states == {
            "open": StudyState.OPEN,
            "done": StudyState.DECOMPOSED,
            _UNSEEN: StudyState.DECOMPOSED,
        }

    def _contribution(self, study: Study, owner: str) -> list[pb.ContributeRequest]:
        number = int(owner[-1])
        release = make_release(study, seed=number)
        payload = release.payload()
        if owner != ATTACKER:
            self._secrets += [payload[at : at + 24] for at in range(0, len(payload) - 24, 40)]
        order = list(self.studies_by_name).index(study.name)  # ledgers only grow
        header = to_wire(header_of(release, ledger_length=10 + order))
        header.envelope = sign_for_nobody(header.envelope, make_signer(self._parties[owner]))
        half = len(payload) // 2
        return [
            pb.ContributeRequest(header=header),
            pb.ContributeRequest(chunk=pb.Chunk(offset=0, content=payload[:half])),
            pb.ContributeRequest(chunk=pb.Chunk(offset=half, content=payload[half:])),
        ]

    def _open_store(self, state: Path) -> None:
        self._state = state
        self._store = SqliteStore(state)
        self._studies = StudyCoordinator(self._store, lambda: make_signer(self._hub))
        refusals = RecentRefusals(utc_now)
        limits = Limits(max_wait_s=0.01)
        self._federation = FederationService(self._studies, limits, refusals)
        self._admin = AdminService(self._studies, limits, refusals)

    def _close_store(self) -> None:
        self._studies.close()

    def _others(self) -> tuple[list[StudyRecord], list[OwnerHistory]]:
        records = [
            replace(
                record,
                contributions=tuple(c for c in record.contributions if c.owner != ATTACKER),
                publications=tuple(p for p in record.publications if p.owner != ATTACKER),
            )
            for record in self._store.studies()
        ]
        return records, [self._store.history(name) for name in self._parties if name != ATTACKER]

    def _mine(self) -> tuple[list[StudyRecord], OwnerHistory]:
        return list(self._store.studies()), self._store.history(ATTACKER)


def _issue(authority: Authority, name: str) -> Credentials:
    """The attacker's key is always the same, so that a search may keep what it has signed."""
    now = datetime.now(UTC)
    key = _KEY if name == ATTACKER else None
    return authority.issue(Role.OWNER, name, end=now + timedelta(days=300), key=key)


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()
