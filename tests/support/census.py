"""Releases and rows of a study of a census."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from dppca.common.kernel.aggregation.contribution import MaskedRelease
from dppca.common.kernel.attestation.contributions import SignedRelease
from dppca.common.kernel.attestation.envelopes import Claim, sign_statement
from dppca.common.kernel.attestation.signatures import Signer, make_signer
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import Release, calibrate, draw, read_moment_receipt
from dppca.common.kernel.study import Study
from dppca.curator.study.study_record import Header, LedgerHead
from tests.support.certificates import new_authority


def make_release(study: Study, *, seed: int = 0, n_rows: int = 1000) -> Release:
    """Draw a repeatable release like an owner, from invented moments."""
    unit = 4**study.table.resolution_bits
    rng = np.random.default_rng(seed)
    bound = n_rows * unit // 4
    packed = rng.integers(-bound, bound, study.table.layout.n_entries, endpoint=True)
    return draw(
        study,
        calibrate(study),
        Moments(n_rows, packed.astype(np.int64)),
        release_id=hashlib.sha256(f"{study.digest}{seed}".encode()).digest()[:16],
        ledger_sequence=1,
        entropy=SeededEntropy(seed),
    )


@cache
def nobody() -> Signer:
    """Signer whose envelopes a `Party` signs again before it sends them."""
    return make_signer(new_authority().issue(Role.OWNER, "nobody"))


def header_of(
    release: Release | MaskedRelease,
    owner: str = "owner-1",
    *,
    ledger_length: int = 2,
    ledger_head: bytes = b"h" * 32,
) -> Header:
    """An owner's announcement of a release."""
    envelope = sign_document(release.receipt.document(), nobody())
    signed = SignedRelease(owner, release.receipt, envelope)
    return Header(signed, len(release.payload()), LedgerHead(ledger_length, ledger_head))


def sign_document(receipt: Mapping[str, Any], signer: Signer) -> bytes:
    """Envelope of a receipt with any content."""
    return sign_statement("release", receipt["payload_sha256"], Claim.RELEASE, receipt, signer)


def with_receipt(header: Header, **fields: Any) -> Header:
    document = header.release.receipt.document() | fields
    envelope = sign_document(document, nobody())
    changed = SignedRelease(header.owner, read_moment_receipt(document), envelope)
    return replace(header, release=changed)


def arrow(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def census_rows(n_rows: int) -> pa.Table:
    """Rows like those of a site; the same in every run."""
    rng = np.random.default_rng(n_rows)
    return pa.table(
        {
            "age": rng.integers(17, 90, n_rows),
            "sex": rng.choice(["Female", "Male"], n_rows),
            "work": rng.choice(["private", "state", "other"], n_rows),
        }
    )


def decoded_rows(n_rows: int = 3) -> pa.Table:
    return pa.table(
        {
            "age": [20.0 + row for row in range(n_rows)],
            "sex": ["Male"] * n_rows,
            "work": pa.array(["state"] * n_rows).dictionary_encode(),
        }
    )


def coded_rows(study: Study, n_rows: int = 3) -> pa.Table:
    return pa.table({name: np.zeros(n_rows) for name in study.table.column_names})
