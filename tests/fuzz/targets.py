"""What is fed, and what must hold: bytes are taken, or refused with an error of ours.

Any other exception is a defect: at the curator it would be a failed call, or the end of the daemon.
"""

import base64
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyreadstat
from google.protobuf.message import DecodeError, Message

from dppca.common.kernel.attestation.components import check_components
from dppca.common.kernel.attestation.contributions import open_release
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Result, result_from_bytes, result_to_bytes
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.identity.revoked import read_list
from dppca.common.kernel.identity.tls import Identity, Role, peer_identity
from dppca.common.kernel.privacy.release import calibrate, receipt_from_bytes
from dppca.common.kernel.study import study_from_canonical
from dppca.common.transport import codec
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.certificates.pki import init_authority, issue, sign_request
from dppca.curator.certificates.revocation import revoke
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.synthetic_rows import check_rows, join_rows
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.sources import Wanted
from dppca.owner.records.statistical import MAGIC, SUFFIXES
from dppca.owner.site.enrolment import enrol
from tests.fuzz.stage import Stage
from tests.support.census import arrow, coded_rows, decoded_rows, header_of, make_release
from tests.support.certificates import new_authority
from tests.support.party import to_wire
from tests.support.pooling import contribution_of
from tests.support.sites import proved
from tests.support.studies import make_study

STUDY = make_study()
_FORMS = (Form.CODED, Form.DECODED)
_MESSAGES: tuple[type[Message], ...] = (
    pb.ContributeRequest,
    pb.PublishSyntheticRequest,
    pb.GetStudyRequest,
    pb.GetResultRequest,
    pb.CreateStudyRequest,
    pb.GetResultResponse,
)
_KEPT = ExitStack()


@cache
def _folder() -> Path:
    """A folder of this process, in memory where there is such a place."""
    fast = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
    place = fast if fast.is_dir() else None
    return Path(_KEPT.enter_context(tempfile.TemporaryDirectory(prefix="dppca-fuzz-", dir=place)))


@cache
def _stage() -> Stage:
    stage = Stage(_folder() / "stage")
    _KEPT.callback(stage.close)
    return stage


@cache
def _authority() -> Path:
    folder = _folder() / "authority"
    init_authority(folder, name="fuzz", days=9, now=datetime.now(UTC))
    return folder


@cache
def _result() -> Result:
    return _pooled(make_release(STUDY).packed)


def close() -> None:
    """Remove what the targets have made."""
    for made in (_stage, _folder, _authority):
        made.cache_clear()
    _KEPT.close()


def servicer(data: bytes) -> None:
    """Any call of an enrolled owner: refused or answered, and nothing of others' is touched."""
    _stage().play(data)


def messages(data: bytes) -> None:
    """Any message, through everything that turns one into values."""
    if not data:
        return
    with suppress(DecodeError, DppcaError):
        message = _MESSAGES[data[0] % len(_MESSAGES)].FromString(data[1:])
        if isinstance(message, pb.ContributeRequest):
            release = open_release(message.header.envelope, "owner-1", KnownParties(None))
            whole = codec.Reassembly(
                total_bytes=message.header.total_bytes,
                sha256=bytes.fromhex(release.receipt.claims.payload_sha256),
                cap=1 << 20,
            )
            whole.add(message.chunk)
            whole.finish()
        elif isinstance(message, pb.PublishSyntheticRequest):
            codec.form_from_wire(message.header.form)
        elif isinstance(message, pb.GetResultResponse):
            codec.state_from_wire(message.state)


def receipts(data: bytes) -> None:
    """A receipt as an owner sends it."""
    with suppress(DppcaError):
        assert receipt_from_bytes(data).canonical_bytes() == data


def studies(data: bytes) -> None:
    """A study's document, as an operator sends it and an owner is sent it."""
    with suppress(DppcaError):
        assert study_from_canonical(data).canonical_bytes() == data


def results(data: bytes) -> None:
    """A result file, as a curator sends it to owners."""
    with suppress(DppcaError):
        result_from_bytes(data, STUDY)


def envelopes(data: bytes) -> None:
    """The envelope of a result, as it comes with the file."""
    with suppress(DppcaError):
        check_components(data, KnownParties(None))


def rows(data: bytes) -> None:
    """Synthetic rows as an owner publishes them; what is taken can be joined."""
    if len(data) < 2:
        return
    form, n_rows, content = _FORMS[data[0] % 2], data[1], data[2:]
    path = _folder() / "rows.arrow"
    path.write_bytes(content)
    try:
        check_rows(path, STUDY.table, form, n_rows=n_rows)
    except DppcaError:
        return
    stream = b"".join(join_rows([path], STUDY.table, form, b"{}"))
    assert pa.ipc.open_stream(stream).read_all().num_rows == n_rows


def statistical(data: bytes) -> None:
    """A file of SPSS, Stata or SAS: read to its last row, or refused."""
    if not data:
        return
    path = _folder() / f"rows{SUFFIXES[data[0] % len(SUFFIXES)]}"
    path.write_bytes(data[1:])
    with suppress(DppcaError):
        source = local_files(path).open()
        assert source.n_rows >= 0
        n_read = sum(len(arrays[0]) for arrays in source.read(Wanted(source.names[:9], 99)))
        source.require_rows(n_read)


def moments(data: bytes) -> None:
    """A contribution of any integers: pooling and decomposing come to an end."""
    size = STUDY.table.layout.n_entries
    packed = np.frombuffer((data + bytes(8 * size))[: 8 * size], "<i8")
    result = _pooled(packed)
    result_from_bytes(result_to_bytes(result), STUDY)


def requests(data: bytes) -> None:
    """A signing request from a site: what is signed is an owner's and nothing more."""
    output = _folder() / "certificate.pem"
    output.unlink(missing_ok=True)
    with suppress(DppcaError):
        made = sign_request(
            _authority(),
            request=_pem(data, "CERTIFICATE REQUEST"),
            name=None,
            output=output,
            days=1,
            now=datetime.now(UTC),
        )
        assert made.role is Role.OWNER


def certificates(data: bytes) -> None:
    """A caller's certificate, should TLS let it through; a list of revoked ones."""
    with suppress(DppcaError):
        peer_identity({"x509_pem_cert": [_pem(data, "CERTIFICATE")]})
    with suppress(DppcaError):
        read_list(_pem(data, "X509 CRL"), ca=(_authority() / "ca.pem").read_bytes())


def _pem(der: bytes, what: str) -> bytes:
    """The search changes what is inside; the wrapping would stop nearly all of it."""
    name, text = what.encode(), base64.encodebytes(der)
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (name, text, name)


def _der(path: Path) -> bytes:
    lines = path.read_text().splitlines()
    return base64.b64decode("".join(line for line in lines if not line.startswith("-----")))


def _pooled(packed: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Result:
    release = make_release(STUDY)
    vectors = [packed, make_release(STUDY, seed=1).packed]
    contributions = [contribution_of(owner, release) for owner in ("owner-1", "owner-2")]
    return aggregate(STUDY, calibrate(STUDY), contributions, vectors)


def _seeds_of_messages() -> list[bytes]:
    release = make_release(STUDY)
    payload = release.payload()
    header = to_wire(header_of(release))
    chunk = pb.Chunk(offset=0, content=payload)
    return [
        bytes([0]) + pb.ContributeRequest(header=header).SerializeToString(),
        bytes([0]) + pb.ContributeRequest(chunk=chunk).SerializeToString(),
        bytes([5]) + pb.GetResultResponse(state=pb.STUDY_STATE_OPEN).SerializeToString(),
    ]


def _seeds_of_rows() -> list[bytes]:
    plain = decoded_rows().set_column(2, "work", pa.array(["state", "other", "state"]))
    return [
        bytes([1, 3]) + arrow(decoded_rows()),
        bytes([1, 3]) + arrow(plain),
        bytes([1, 3]) + arrow(decoded_rows(), compression="zstd"),
        bytes([0, 3]) + arrow(coded_rows(STUDY)),
    ]


def _seeds_of_statistical() -> list[bytes]:
    frame = pd.DataFrame(
        {"age": [20.0, 97.0, None], "sex": [1.0, 2.0, 1.0], "ward": ["N", "", "S"]}
    )
    found = []
    for number, suffix in enumerate(SUFFIXES):
        path = _folder() / f"seed{suffix}"
        match suffix:
            case ".dta":
                pyreadstat.write_dta(frame, path, variable_value_labels={"sex": {1: "m", 2: "f"}})
            case ".xpt":
                pyreadstat.write_xport(frame, path)
            case ".sav" | ".zsav":
                ranges: Any = {"age": [{"lo": 97, "hi": 99}]}
                packed = suffix == ".zsav"
                pyreadstat.write_sav(frame, path, missing_ranges=ranges, compress=packed)
            case _:  # nothing that is free writes one here: its first bytes
                path.write_bytes(MAGIC["sas7bdat"][0] + bytes(1000))
        found.append(bytes([number]) + path.read_bytes())
    return found


def _seeds_of_moments() -> list[bytes]:
    size = STUDY.table.layout.n_entries
    extremes = (np.iinfo(np.int64).min, np.iinfo(np.int64).max, -1, 0)
    return [
        make_release(STUDY).payload(),
        *(np.full(size, value, "<i8").tobytes() for value in extremes),
    ]


def _seeds_of_envelopes() -> list[bytes]:
    return [proved(_result(), STUDY, new_authority()).envelope]


def _seeds_of_requests() -> list[bytes]:
    site = _folder() / "site"
    if not site.exists():
        enrol(site, name="owner-1", curator="localhost:1")
    return [_der(site / "request.pem")]


def _seeds_of_certificates() -> list[bytes]:
    authority, hub = _authority(), _folder() / "hub"
    now = datetime.now(UTC)
    if not hub.exists():
        alice = Identity("alice", Role.OPERATOR)
        issue(authority, identity=alice, hosts=(), output=hub, days=1, now=now)
        revoke(authority, now=now + timedelta(seconds=1), party=alice)
    return [_der(hub / "certificate.pem"), _der(authority / "crl.pem")]


Target = Callable[[bytes], None]
TARGETS: dict[str, tuple[Target, Callable[[], list[bytes]], int]] = {
    "servicer": (servicer, lambda: _stage().seeds(), 4),
    "rows": (rows, _seeds_of_rows, 3),
    "messages": (messages, _seeds_of_messages, 1),
    "receipts": (receipts, lambda: [make_release(STUDY).receipt.canonical_bytes()], 1),
    "studies": (studies, lambda: [STUDY.canonical_bytes()], 2),
    "results": (results, lambda: [result_to_bytes(_result())], 2),
    "envelopes": (envelopes, _seeds_of_envelopes, 1),
    "statistical": (statistical, _seeds_of_statistical, 1),
    "moments": (moments, _seeds_of_moments, 1),
    "requests": (requests, _seeds_of_requests, 1),
    "certificates": (certificates, _seeds_of_certificates, 1),
}
"""For each: the function that is fed, inputs to begin with, and its share of the time."""
