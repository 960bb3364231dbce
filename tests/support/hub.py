"""A small study, releases for it, and what tests say to a curator on the wire."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pyarrow as pa

from common.conversation import Form, Header
from common.numerics.moments import Moments
from common.privacy.entropy import SeededEntropy
from common.privacy.release import Release, draw
from common.proof.signatures import Purpose, signer_of
from common.study import Study, study_from_mapping
from common.transport.channels import open_channel
from common.transport.codec import form_to_wire
from common.transport.tls import Credentials
from common.wire import federation_pb2 as pb
from common.wire import federation_pb2_grpc as rpc

ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "age", "type": "numeric", "lower": 17, "upper": 90},
    {"name": "sex", "type": "binary", "values": ["Female", "Male"]},
    {"name": "work", "type": "categorical", "categories": ["private", "state", "other"]},
]


def make_study(**changes: Any) -> Study:
    """Three owners, four kinds of entries, Laplace noise of a negligible size."""
    document: dict[str, Any] = {
        "name": "census",
        "owners": ["owner-1", "owner-2", "owner-3"],
        "privacy": {"mechanism": "laplace", "epsilon": "1.0"},
        "components": {"count": 2},
        "max_rows": 1_000_000,
        "schema": {"resolution_bits": 6, "attributes": ATTRIBUTES},
    }
    return study_from_mapping({**document, **changes})


def make_release(study: Study, *, seed: int = 0, n_rows: int = 1000) -> Release:
    """A release as an owner draws it, of moments that are made up; repeatable."""
    unit = 4**study.table.resolution_bits
    rng = np.random.default_rng(seed)
    bound = n_rows * unit // 4
    packed = rng.integers(-bound, bound, study.table.layout.n_entries, endpoint=True)
    return draw(
        study,
        Moments(n_rows, packed.astype(np.int64)),
        release_id=hashlib.sha256(f"{study.digest}{seed}".encode()).digest()[:16],
        ledger_sequence=1,
        entropy=SeededEntropy(seed),
    )


def header_of(
    release: Release, *, ledger_length: int = 2, ledger_head: bytes = b"h" * 32
) -> Header:
    """What an owner announces of a release."""
    payload = release.payload()
    return Header(
        study_digest=bytes.fromhex(release.receipt.study_digest),
        release_id=release.release_id,
        n_rows=release.n_rows,
        n_entries=len(payload) // 8,
        total_bytes=len(payload),
        sha256=hashlib.sha256(payload).digest(),
        ledger_length=ledger_length,
        ledger_head=ledger_head,
        receipt=release.receipt.canonical_bytes(),
    )


def with_receipt(header: Header, release: Release, **fields: Any) -> Header:
    """The header with some fields of its receipt changed."""
    return replace(header, receipt=replace(release.receipt, **fields).canonical_bytes())


def to_wire(header: Header) -> pb.ContributionHeader:
    return pb.ContributionHeader(
        **{
            name: getattr(header, name)
            for name in Header.__dataclass_fields__
            if name != "certificate"
        }
    )


def upload(
    header: Header | None, payload: bytes, *, chunk_bytes: int = 100
) -> Iterator[pb.ContributeRequest]:
    """A contribution as messages, in small chunks; no header where None."""
    if header is not None:
        yield pb.ContributeRequest(header=to_wire(header))
    for offset in range(0, len(payload), chunk_bytes):
        content = payload[offset : offset + chunk_bytes]
        yield pb.ContributeRequest(chunk=pb.Chunk(offset=offset, content=content))


class Party:
    """An owner or operator with a connection."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.signer = signer_of(credentials)
        self.channel: grpc.Channel = open_channel(address, credentials)
        self.federation = rpc.FederationStub(self.channel)
        self.admin = rpc.AdminStub(self.channel)

    def create(self, study: Study) -> pb.CreateStudyResponse:
        return self.admin.CreateStudy(
            pb.CreateStudyRequest(document=study.canonical_bytes()), timeout=20
        )

    def send(self, parts: Iterable[pb.ContributeRequest]) -> pb.ContributeResponse:
        return self.federation.Contribute(self.signed(parts), timeout=20)

    def signed(self, parts: Iterable[pb.ContributeRequest]) -> Iterator[pb.ContributeRequest]:
        """The parts, their header signed by this party unless it is already."""
        for part in parts:
            if part.WhichOneof("part") == "header" and not part.header.signature:
                receipt = part.header.receipt
                part.header.signature = self.signer.sign(Purpose.RELEASE, receipt)
            yield part

    def contribute(self, release: Release, **ledger: Any) -> pb.ContributeResponse:
        return self.send(upload(header_of(release, **ledger), release.payload()))

    def result(self, study: Study, *, wait_s: float = 15) -> pb.GetResultResponse:
        request = pb.GetResultRequest(
            study_digest=bytes.fromhex(study.digest), wait_ms=int(1000 * wait_s)
        )
        return self.federation.GetResult(request, timeout=wait_s + 5)

    def components(self, study: Study) -> bytes:
        request = pb.DownloadComponentsRequest(study_digest=bytes.fromhex(study.digest))
        return _joined(self.federation.DownloadComponents(request, timeout=20))

    def publish(
        self,
        study: Study,
        form: Form,
        content: bytes,
        *,
        n_rows: int,
        components: bytes,
    ) -> pb.PublishSyntheticResponse:
        header = pb.SyntheticHeader(
            study_digest=bytes.fromhex(study.digest),
            form=form_to_wire(form),
            n_rows=n_rows,
            total_bytes=len(content),
            sha256=hashlib.sha256(content).digest(),
            components_sha256=components,
        )
        parts = [pb.PublishSyntheticRequest(header=header)]
        for offset in range(0, len(content), 1000):
            chunk = pb.Chunk(offset=offset, content=content[offset : offset + 1000])
            parts.append(pb.PublishSyntheticRequest(chunk=chunk))
        return self.federation.PublishSynthetic(iter(parts), timeout=20)

    def synthetic(self, study: Study, form: Form) -> bytes:
        request = pb.DownloadSyntheticRequest(
            study_digest=bytes.fromhex(study.digest), form=form_to_wire(form)
        )
        return _joined(self.federation.DownloadSynthetic(request, timeout=20))

    def close(self) -> None:
        self.channel.close()


def arrow(table: pa.Table, **options: Any) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def decoded_rows(n_rows: int = 3) -> pa.Table:
    """Rows that conform to `make_study`'s schema."""
    return pa.table(
        {
            "age": [20.0 + row for row in range(n_rows)],
            "sex": ["Male"] * n_rows,
            "work": pa.array(["state"] * n_rows).dictionary_encode(),
        }
    )


def coded_rows(study: Study, n_rows: int = 3) -> pa.Table:
    """Rows in coded columns."""
    return pa.table({name: np.zeros(n_rows) for name in study.table.column_names})


def fresh_id() -> bytes:
    return os.urandom(16)


def _joined(chunks: Iterable[pb.Chunk]) -> bytes:
    content = b""
    for chunk in chunks:
        assert chunk.offset == len(content)
        content += chunk.content
    return content
