"""Small files that would become large ones, signed by a party that may sign.

Verify-then-parse keeps strangers out, not signers: an enrolled owner or the curator may be hostile,
so what a file says of its own size is refused by its form after the signature, too.
"""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.attestation.envelopes import (
    Claim,
    envelope_path,
    read_envelope,
    unchecked_predicate,
)
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.errors import AlteredError, ArtefactError
from dppca.common.kernel.identity.tls import Role
from dppca.common.verification.files import verify_file
from tests.support.envelopes import sign_again
from tests.support.sites import ProvedSite, make_proved_site

HUGE, ROOM = 1 << 26, 16 << 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[ProvedSite, dict[str, Path]]:
    proved = make_proved_site(tmp_path_factory.mktemp("bombs"))
    assert proved.site.run("synthesize", "site-test", "--rows", "20")[0] == 0
    asked = ("train", "site-test", "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, model = proved.site.run(*asked, "--yes")
    assert code == 0
    rows = proved.components.with_name("synthetic-coded.parquet")
    return proved, {"components": proved.components, "rows": rows, "model": Path(model["model"])}


def _archive(content: bytes, **members: bytes) -> bytes:
    """An archive with members in the place of those it has, or besides, that are compressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as true, zipfile.ZipFile(buffer, "w") as archive:
        for entry in true.infolist():
            if entry.filename not in members:
                archive.writestr(entry, true.read(entry))
        for name, member in members.items():
            archive.writestr(name, member, compress_type=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _asks_again(content: bytes) -> bytes:
    """A model whose schema asks for its largest array again and again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as true:
        members = {entry.filename: true.read(entry) for entry in true.infolist()}
    array = io.BytesIO()
    np.save(array, np.zeros(1 << 18))
    members["more.npy"] = array.getvalue()
    schema = json.loads(members["schema.json"])
    schema["more"] = [{"file": "more.npy"}] * 100
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def _large_page(_: bytes) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x0": ["x" * HUGE]}), buffer, compression="zstd")
    return buffer.getvalue()


def _compressed(content: bytes) -> bytes:
    buffer, zeros = io.BytesIO(), pa.array(np.zeros(HUGE // 8))
    table = pa.table(dict.fromkeys(pq.read_schema(io.BytesIO(content)).names, zeros))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(buffer, table.schema, options=options) as writer:
        writer.write_table(table)
    return buffer.getvalue()


BOMBS: dict[str, tuple[str, str, Callable[[bytes], bytes]]] = {
    "NPZ, a member more": (
        "components",
        ".npz",
        lambda content: _archive(content, **{"junk.npy": bytes(HUGE)}),
    ),
    "NPZ, a member in place": (
        "components",
        ".npz",
        lambda content: _archive(content, **{"pooled.npy": bytes(HUGE)}),
    ),
    "Parquet": ("rows", ".parquet", _large_page),
    "Arrow": ("rows", ".arrow", _compressed),
    "skops, compressed": (
        "model",
        ".skops",
        lambda content: _archive(content, **{"junk.npy": bytes(HUGE)}),
    ),
    "skops, asked for again": ("model", ".skops", _asks_again),
}
KINDS = {"components": Claim.COMPONENTS, "rows": Claim.ROWS, "model": Claim.MODEL}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_that_a_party_signed_is_refused_unread(
    made: tuple[ProvedSite, dict[str, Path]], tmp_path: Path, bomb: str
) -> None:
    proved, files = made
    kind, suffix, build = BOMBS[bomb]
    true = files[kind]
    claims = unchecked_predicate(read_envelope(true))
    who = (Role.CURATOR, "hub") if kind == "components" else (Role.OWNER, "owner-1")
    path = tmp_path / f"bomb{suffix}"
    content = build(true.read_bytes())
    sign_again(path, make_signer(proved.authority.issue(*who)), content, KINDS[kind], claims)
    assert envelope_path(path).is_file()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises((ArtefactError, AlteredError), match="the container"):
            verify_file(path, ca=proved.ca)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - len(content) < ROOM
    assert pa.total_allocated_bytes() - before < ROOM
