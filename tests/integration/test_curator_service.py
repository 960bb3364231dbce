from __future__ import annotations

import hashlib
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from common.conversation import Form, Header, StudyState
from common.proof.components import check_envelope, check_result
from common.proof.signatures import Purpose
from common.results import result_from_bytes
from common.study import Study
from common.transport.codec import state_from_wire
from common.transport.status import from_rpc_error, is_busy
from common.transport.tls import Role
from common.wire import federation_pb2 as pb
from tests.support.authority import new_authority
from tests.support.daemon import Hub
from tests.support.hub import (
    Party,
    arrow,
    coded_rows,
    decoded_rows,
    header_of,
    make_release,
    make_study,
    to_wire,
    upload,
    with_receipt,
)

pytestmark = pytest.mark.integration
OWNERS = ("owner-1", "owner-2", "owner-3")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One daemon for all tests of this module; each has studies of its own."""
    hub = Hub(tmp_path_factory.mktemp("hub")).start()
    yield hub
    hub.stop()


@pytest.fixture(scope="module")
def operator(hub: Hub) -> Party:
    return hub.operator()


@pytest.fixture(scope="module")
def owners(hub: Hub) -> dict[str, Party]:
    return {name: hub.party(name) for name in OWNERS}


@pytest.fixture
def study(operator: Party, request: pytest.FixtureRequest) -> Study:
    """A new open study."""
    study = make_study(name=f"s-{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}")
    operator.create(study)
    return study


@pytest.fixture
def finished(study: Study, owners: dict[str, Party]) -> Study:
    """A new study that all owners have contributed to, and that is decomposed."""
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute(make_release(study, seed=seed), ledger_length=ledger_of(owner))
    assert state_from_wire(owners["owner-1"].result(study).state) is StudyState.DECOMPOSED
    return study


_LEDGERS: dict[str, int] = {}


def ledger_of(owner: str) -> int:
    """The next length of an owner's ledger: it only grows, over all studies of the module."""
    _LEDGERS[owner] = _LEDGERS.get(owner, 1) + 1
    return _LEDGERS[owner]


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """Status and error of a call that is refused, and the proof that nothing else crossed."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error = from_rpc_error(caught.value)
    assert caught.value.details() == type(error).public  # type: ignore[attr-defined]
    return caught.value.code().name, type(error).__name__  # type: ignore[attr-defined]


def test_owners_find_joint_components_and_publish_rows(
    hub: Hub, finished: Study, owners: dict[str, Party], operator: Party
) -> None:
    answers = [owners[owner].result(finished, wait_s=0) for owner in OWNERS]
    content = owners["owner-2"].components(finished)
    assert {answer.sha256 for answer in answers} == {hashlib.sha256(content).digest()}
    assert {answer.total_bytes for answer in answers} == {len(content)}
    assert list(answers[0].contributed) == list(OWNERS)
    result = result_from_bytes(content, finished)
    assert [share.n_rows for share in result.header.shares] == [1000, 1000, 1000]
    assert result.header.epsilon == "1"

    digest = answers[0].sha256
    rows = arrow(decoded_rows())
    for owner in ("owner-2", "owner-1"):
        answer = owners[owner].publish(finished, Form.DECODED, rows, n_rows=3, components=digest)
        assert not answer.already_stored
    assert (
        owners["owner-1"]
        .publish(finished, Form.DECODED, rows, n_rows=3, components=digest)
        .already_stored
    )
    joined = pa.ipc.open_stream(operator.synthetic(finished, Form.DECODED)).read_all()
    assert joined.num_rows == 6
    assert joined.column_names == ["age", "sex", "work"]
    assert joined["work"].to_pylist() == ["state"] * 6

    details = operator.admin.ShowStudy(pb.ShowStudyRequest(name=finished.name), timeout=5)
    assert [owner.n_rows for owner in details.owners] == [1000] * 3
    assert [owner.synthetic_decoded_rows for owner in details.owners] == [3, 3, 0]
    operator.admin.CloseStudy(pb.CloseStudyRequest(name=finished.name), timeout=5)
    assert refused(
        lambda: owners["owner-3"].publish(finished, Form.DECODED, rows, n_rows=3, components=digest)
    ) == ("FAILED_PRECONDITION", "StudyStateError")
    assert owners["owner-3"].components(finished) == content


def test_a_waiting_owner_is_answered_when_the_last_one_has_come(
    study: Study, owners: dict[str, Party]
) -> None:
    found: list[pb.GetResultResponse] = []
    waiting = threading.Thread(target=lambda: found.append(owners["owner-1"].result(study)))
    waiting.start()
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute(make_release(study, seed=seed), ledger_length=ledger_of(owner))
    began = time.monotonic()
    waiting.join()
    assert time.monotonic() - began < 5
    assert state_from_wire(found[0].state) is StudyState.DECOMPOSED


def test_who_does_not_want_to_wait_is_answered_at_once(
    study: Study, owners: dict[str, Party]
) -> None:
    owners["owner-2"].contribute(make_release(study), ledger_length=ledger_of("owner-2"))
    answer = owners["owner-1"].result(study, wait_s=0)
    assert state_from_wire(answer.state) is StudyState.OPEN
    assert list(answer.contributed) == ["owner-2"]
    assert list(answer.missing) == ["owner-1", "owner-3"]
    assert answer.total_bytes == 0


def test_the_same_release_again_has_no_effect(study: Study, owners: dict[str, Party]) -> None:
    release = make_release(study)
    length = ledger_of("owner-1")
    assert not owners["owner-1"].contribute(release, ledger_length=length).already_stored
    for again in (length, length + 1):
        assert owners["owner-1"].contribute(release, ledger_length=again).already_stored
    answer = owners["owner-1"].result(study, wait_s=0)
    assert list(answer.contributed) == ["owner-1"]


def test_a_second_release_is_refused(study: Study, owners: dict[str, Party]) -> None:
    owner = owners["owner-1"]
    owner.contribute(make_release(study), ledger_length=ledger_of("owner-1"))
    other = make_release(study, seed=9)
    assert refused(lambda: owner.contribute(other, ledger_length=ledger_of("owner-1"))) == (
        "ALREADY_EXISTS",
        "ConflictError",
    )


def test_of_two_releases_at_once_one_is_refused(study: Study, hub: Hub) -> None:
    length = ledger_of("owner-1")
    ends: list[str] = []

    def send(seed: int) -> None:
        party, release = hub.party("owner-1"), make_release(study, seed=seed)
        busy = True
        while busy:  # an owner has two uploads at once, and comes again
            try:
                party.contribute(release, ledger_length=length)
                ends.append("stored")
                return
            except grpc.RpcError as error:
                busy = is_busy(error)
                end = type(from_rpc_error(error)).__name__
        ends.append(end)

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["ConflictError"] * 3 + ["stored"]


def changed_payload(payload: bytes) -> bytes:
    return bytes([payload[0] ^ 1]) + payload[1:]


UPLOADS: dict[str, Callable[[Header, bytes], list[pb.ContributeRequest]]] = {
    "nothing": lambda header, payload: [],
    "no header": lambda header, payload: list(upload(None, payload)),
    "header only": lambda header, payload: list(upload(header, b"")),
    "truncated": lambda header, payload: list(upload(header, payload[:-8])),
    "too long": lambda header, payload: list(upload(header, payload + bytes(8))),
    "bad digest": lambda header, payload: list(upload(header, changed_payload(payload))),
    "reordered": lambda header, payload: [
        (parts := list(upload(header, payload, chunk_bytes=40)))[0],
        *reversed(parts[1:]),
    ],
    "repeated": lambda header, payload: [
        (parts := list(upload(header, payload, chunk_bytes=40)))[0],
        parts[1],
        *parts[1:],
    ],
    "two headers": lambda header, payload: [
        *upload(header, b""),
        *upload(header, payload),
    ],
    "empty chunk": lambda header, payload: [
        *upload(header, b""),
        pb.ContributeRequest(chunk=pb.Chunk(offset=0, content=b"")),
    ],
    "empty message": lambda header, payload: [*upload(header, b""), pb.ContributeRequest()],
    "oversized chunk": lambda header, payload: [
        *upload(header, b""),
        pb.ContributeRequest(chunk=pb.Chunk(offset=0, content=bytes((1 << 20) + 1))),
    ],
    "length is not 8 * entries": lambda header, payload: list(
        upload(replace(header, total_bytes=header.total_bytes + 1), payload + b"x")
    ),
    "short digest": lambda header, payload: list(upload(replace(header, sha256=b"short"), payload)),
    "short release": lambda header, payload: list(upload(replace(header, release_id=b""), payload)),
    "no row": lambda header, payload: list(upload(replace(header, n_rows=0), payload)),
    "no receipt": lambda header, payload: list(upload(replace(header, receipt=b""), payload)),
    "garbage receipt": lambda header, payload: list(
        upload(replace(header, receipt=b"\xff" * 1000), payload)
    ),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_a_bad_upload_is_refused_and_a_good_one_then_taken(
    kind: str, study: Study, owners: dict[str, Party], hub: Hub
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=ledger_of("owner-1"))
    bad = UPLOADS[kind](header, release.payload())
    assert refused(lambda: owners["owner-1"].send(bad)) == ("INVALID_ARGUMENT", "UploadError")
    assert not owners["owner-1"].result(study, wait_s=0).contributed
    good = upload(header, release.payload())
    assert not owners["owner-1"].send(good).already_stored
    assert list((hub.state / "incoming").iterdir()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda h, r: replace(h, study_digest=b"x" * 32), ("NOT_FOUND", "UnknownStudyError")),
        (
            lambda h, r: replace(h, n_entries=1, total_bytes=8),
            ("FAILED_PRECONDITION", "SchemaMismatchError"),
        ),
        (
            lambda h, r: with_receipt(h, r, epsilon="0.1"),
            ("FAILED_PRECONDITION", "SchemaMismatchError"),
        ),
        (
            lambda h, r: replace(h, n_entries=1 << 40, total_bytes=1 << 43),
            ("RESOURCE_EXHAUSTED", "LimitError"),
        ),
        (
            lambda h, r: replace(h, receipt=bytes(70_000)),
            ("RESOURCE_EXHAUSTED", "LimitError"),
        ),
    ],
)
def test_a_header_is_refused_before_any_byte_is_taken(
    change: Callable[[Header, object], Header],
    expected: tuple[str, str],
    study: Study,
    owners: dict[str, Party],
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=ledger_of("owner-1"))
    sent = threading.Event()

    def parts() -> Iterator[pb.ContributeRequest]:
        yield pb.ContributeRequest(header=to_wire(change(header, release)))
        sent.wait(10)  # the refusal must not need another message

    try:
        assert refused(lambda: owners["owner-1"].send(parts())) == expected
    finally:
        sent.set()


@pytest.mark.parametrize(
    "signature",
    [
        pytest.param(lambda receipt, owners: b"", id="none"),
        pytest.param(
            lambda receipt, owners: owners["owner-2"].signer.sign(Purpose.RELEASE, receipt),
            id="another owner's",
        ),
        pytest.param(
            lambda receipt, owners: owners["owner-1"].signer.sign(Purpose.FILE, receipt),
            id="for another purpose",
        ),
        pytest.param(
            lambda receipt, owners: owners["owner-1"].signer.sign(Purpose.RELEASE, receipt + b" "),
            id="of another receipt",
        ),
    ],
)
def test_a_release_is_taken_only_if_the_caller_signed_its_receipt(
    signature: Callable[[bytes, dict[str, Party]], bytes], study: Study, owners: dict[str, Party]
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=ledger_of("owner-1"))
    bad = replace(header, signature=signature(header.receipt, owners))
    send = owners["owner-1"].federation.Contribute
    parts = list(upload(bad, release.payload()))
    assert refused(lambda: send(iter(parts), timeout=20)) == ("INVALID_ARGUMENT", "SignatureError")
    assert not owners["owner-1"].result(study, wait_s=0).contributed


def test_the_components_carry_a_receipt_that_everybody_signed(
    finished: Study, owners: dict[str, Party], hub: Hub
) -> None:
    result = result_from_bytes(owners["owner-1"].components(finished), finished)
    assert result.receipt is not None
    checked = check_envelope(json.loads(result.receipt), ca=hub.authority.pem)
    check_result(result, checked)
    assert checked.curator.name == "hub"
    assert checked.study == finished
    assert [each["owner"] for each in checked.document["releases"]] == list(OWNERS)


def test_a_ledger_that_became_shorter_is_refused(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owners["owner-1"].contribute(make_release(study), ledger_length=ledger_of("owner-1") + 5)
    _LEDGERS["owner-1"] += 5
    other = make_study(name=f"{study.name}-2")
    operator.create(other)
    for length, head in ((_LEDGERS["owner-1"] - 1, b"h"), (_LEDGERS["owner-1"], b"i")):
        header = header_of(make_release(other), ledger_length=length, ledger_head=head * 32)
        parts = list(upload(header, make_release(other).payload()))
        assert refused(partial(owners["owner-1"].send, parts)) == (
            "FAILED_PRECONDITION",
            "ChainError",
        )


def test_nobody_else_learns_that_a_study_exists(hub: Hub, finished: Study, operator: Party) -> None:
    stranger = hub.party("stranger")
    digest = bytes.fromhex(finished.digest)
    release = make_release(finished)
    calls: list[Callable[[], object]] = [
        lambda: stranger.contribute(release),
        lambda: stranger.result(finished, wait_s=0),
        lambda: stranger.components(finished),
        lambda: stranger.synthetic(finished, Form.CODED),
        lambda: stranger.publish(finished, Form.CODED, b"x", n_rows=1, components=b"c" * 32),
        lambda: stranger.federation.GetStudy(pb.GetStudyRequest(digest=digest), timeout=5),
        lambda: stranger.federation.GetStudy(pb.GetStudyRequest(name=finished.name), timeout=5),
        lambda: stranger.federation.GetStudy(pb.GetStudyRequest(name="none"), timeout=5),
    ]
    for call in calls:
        assert refused(call) == ("NOT_FOUND", "UnknownStudyError")
    listed = stranger.federation.ListStudies(pb.ListStudiesRequest(), timeout=5)
    assert list(listed.studies) == []


def test_roles_may_do_what_is_theirs_only(
    hub: Hub, study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owner = owners["owner-1"]
    calls: list[Callable[[], object]] = [
        lambda: owner.create(study),
        lambda: owner.admin.ShowStudy(pb.ShowStudyRequest(name=study.name), timeout=5),
        lambda: owner.admin.CloseStudy(pb.CloseStudyRequest(name=study.name), timeout=5),
        lambda: owner.admin.AbortStudy(
            pb.AbortStudyRequest(name=study.name, reason="mine"), timeout=5
        ),
        lambda: operator.contribute(make_release(study)),
        lambda: operator.publish(study, Form.CODED, b"x", n_rows=1, components=b"c" * 32),
        lambda: hub.party("owner-1", Role.CURATOR).result(study, wait_s=0),
    ]
    for call in calls[:-1]:
        assert refused(call) == ("PERMISSION_DENIED", "PermissionDeniedError")
    with pytest.raises(grpc.RpcError):
        calls[-1]()


def test_certificates_that_name_nobody_are_refused(hub: Hub) -> None:
    now = datetime.now(UTC)
    foreign = replace(new_authority().issue(Role.OWNER, "owner-1"), ca=hub.authority.pem)
    expired = hub.authority.issue(
        Role.OWNER, "owner-1", start=now - timedelta(days=9), end=now - timedelta(days=1)
    )
    nameless = hub.authority.issue(Role.OWNER, "owner-1", uris=())
    twofold = hub.authority.issue(
        Role.OWNER, "owner-1", uris=("urn:dppca:owner:owner-1", "urn:dppca:operator:alice")
    )
    for credentials in (foreign, expired):
        with pytest.raises(grpc.RpcError) as caught:
            hub.connect(credentials).federation.ListStudies(pb.ListStudiesRequest(), timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    for credentials in (nameless, twofold):
        party = hub.connect(credentials)
        assert refused(
            lambda: party.federation.ListStudies(  # noqa: B023
                pb.ListStudiesRequest(), timeout=5
            )
        ) == ("UNAUTHENTICATED", "IdentityError")


def test_without_a_certificate_there_is_no_conversation(hub: Hub) -> None:
    tls = grpc.ssl_channel_credentials(root_certificates=hub.authority.pem)
    with grpc.secure_channel(hub.address, tls) as channel:
        call = channel.unary_unary("/dppca.v1.Federation/ListStudies")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=5)
    with grpc.insecure_channel(hub.address) as channel:
        call = channel.unary_unary("/dppca.v1.Federation/ListStudies")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=5)


def test_hostile_bytes_do_not_stop_the_curator(
    hub: Hub, study: Study, owners: dict[str, Party]
) -> None:
    channel = owners["owner-1"].channel
    for method in ("ListStudies", "GetStudy", "GetResult"):
        for content in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", bytes(5000), b"\x08" * 9):
            with suppress(grpc.RpcError):  # bytes may happen to be a message without fields
                channel.unary_unary(f"/dppca.v1.Federation/{method}")(content, timeout=5)
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/dppca.v1.Federation/Nothing")(b"", timeout=5)
    upload_call = channel.stream_unary("/dppca.v1.Federation/Contribute")
    for content in (b"\xff" * 9, bytes(9 << 20)):
        with pytest.raises(grpc.RpcError):
            upload_call(iter([content]), timeout=10)
    assert owners["owner-1"].result(study, wait_s=0).missing


def test_result_is_refused_until_there_is_one(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    assert refused(lambda: owners["owner-1"].components(study)) == (
        "FAILED_PRECONDITION",
        "NotReadyError",
    )
    assert refused(lambda: owners["owner-1"].synthetic(study, Form.CODED)) == (
        "FAILED_PRECONDITION",
        "NotReadyError",
    )
    request = pb.AbortStudyRequest(name=study.name, reason="no longer needed")
    operator.admin.AbortStudy(request, timeout=5)
    operator.admin.AbortStudy(request, timeout=5)
    assert owners["owner-1"].result(study).reason == "no longer needed"
    for call in (
        lambda: owners["owner-1"].components(study),
        lambda: owners["owner-1"].contribute(make_release(study)),
        lambda: operator.admin.CloseStudy(pb.CloseStudyRequest(name=study.name), timeout=5),
    ):
        assert refused(call) == ("FAILED_PRECONDITION", "StudyStateError")


def test_documents_are_checked_when_a_study_is_created(operator: Party, study: Study) -> None:
    assert operator.create(study).already_stored
    assert refused(lambda: operator.create(make_study(name=study.name, overlap=True))) == (
        "ALREADY_EXISTS",
        "ConflictError",
    )
    for document in (b"", b"{}", b"\xff", study.canonical_bytes() + b" ", b"[" * 10_000):
        assert refused(
            lambda: operator.admin.CreateStudy(
                pb.CreateStudyRequest(document=document),  # noqa: B023
                timeout=5,
            )
        ) == ("INVALID_ARGUMENT", "StudyError")
    huge = pb.CreateStudyRequest(document=bytes(5 << 20))
    assert refused(lambda: operator.admin.CreateStudy(huge, timeout=5)) == (
        "RESOURCE_EXHAUSTED",
        "LimitError",
    )


ROWS: dict[str, Callable[[], tuple[bytes, int]]] = {
    "garbage": lambda: (b"\xff" * 500, 3),
    "empty": lambda: (b"", 3),
    "other count": lambda: (arrow(decoded_rows(3)), 4),
    "missing column": lambda: (arrow(decoded_rows().drop(["sex"])), 3),
    "other order": lambda: (arrow(decoded_rows().select(["sex", "age", "work"])), 3),
    "number as text": lambda: (
        arrow(decoded_rows().set_column(0, "age", pa.array(["1", "2", "3"]))),
        3,
    ),
    "out of bounds": lambda: (
        arrow(decoded_rows().set_column(0, "age", pa.array([20.0, 90.1, 30.0]))),
        3,
    ),
    "not finite": lambda: (
        arrow(decoded_rows().set_column(0, "age", pa.array([20.0, float("nan"), 30.0]))),
        3,
    ),
    "null": lambda: (
        arrow(decoded_rows().set_column(0, "age", pa.array([20.0, None, 30.0]))),
        3,
    ),
    "unknown label": lambda: (
        arrow(decoded_rows().set_column(1, "sex", pa.array(["Male", "Other", "Male"]))),
        3,
    ),
    "compressed": lambda: (arrow(decoded_rows(), compression="zstd"), 3),
    "truncated": lambda: (arrow(decoded_rows())[:-200], 3),
    "file format": lambda: (_arrow_file(), 3),
}


def _arrow_file() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, decoded_rows().schema) as writer:
        writer.write_table(decoded_rows())
    return sink.getvalue()


@pytest.fixture(scope="module")
def shared(owners: dict[str, Party], operator: Party) -> tuple[Study, bytes]:
    """A decomposed study that no test publishes to successfully, and its result's digest."""
    study = make_study(name="shared")
    operator.create(study)
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute(make_release(study, seed=seed), ledger_length=ledger_of(owner))
    return study, owners["owner-1"].result(study).sha256


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_do_not_conform_are_refused(
    kind: str, shared: tuple[Study, bytes], owners: dict[str, Party], hub: Hub
) -> None:
    study, digest = shared
    content, n_rows = ROWS[kind]()
    assert refused(
        lambda: owners["owner-1"].publish(
            study, Form.DECODED, content, n_rows=n_rows, components=digest
        )
    ) == ("INVALID_ARGUMENT", "UploadError")
    assert list((hub.state / "incoming").iterdir()) == []


def test_rows_above_the_cap_are_refused_before_any_is_taken(
    shared: tuple[Study, bytes], owners: dict[str, Party]
) -> None:
    study, digest = shared
    header = pb.SyntheticHeader(
        study_digest=bytes.fromhex(study.digest),
        form=pb.SYNTHETIC_FORM_CODED,
        n_rows=1,
        total_bytes=1 << 40,
        sha256=bytes(32),
        components_sha256=digest,
    )
    parts = [pb.PublishSyntheticRequest(header=header)]
    assert refused(
        lambda: owners["owner-1"].federation.PublishSynthetic(iter(parts), timeout=5)
    ) == ("RESOURCE_EXHAUSTED", "LimitError")


def test_coded_rows_need_the_coded_columns(
    shared: tuple[Study, bytes], owners: dict[str, Party]
) -> None:
    study, digest = shared
    for table in (decoded_rows(), coded_rows(study).drop(["age"])):
        publish = partial(owners["owner-1"].publish, study, Form.CODED, n_rows=3, components=digest)
        assert refused(partial(publish, arrow(table))) == ("INVALID_ARGUMENT", "UploadError")


def test_other_rows_of_one_form_are_refused(finished: Study, owners: dict[str, Party]) -> None:
    owner, digest = owners["owner-1"], owners["owner-1"].result(finished).sha256
    for count in (3, 4):
        rows = arrow(coded_rows(finished, count))

        def publish(rows: bytes = rows, count: int = count) -> object:
            return owner.publish(finished, Form.CODED, rows, n_rows=count, components=digest)

        if count == 3:
            publish()
        else:
            assert refused(publish) == ("ALREADY_EXISTS", "ConflictError")


def test_a_quorum_at_the_deadline_is_enough_and_the_missing_are_named(
    operator: Party, owners: dict[str, Party]
) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=6)  # to be there before it on a busy machine
    enough, too_few = (
        make_study(name=f"deadline-{quorum}", quorum=quorum, deadline=deadline.isoformat())
        for quorum in (2, 3)
    )
    for study in (enough, too_few):
        operator.create(study)
        for seed, owner in enumerate(OWNERS[:2]):
            owners[owner].contribute(make_release(study, seed=seed), ledger_length=ledger_of(owner))
    answer = owners["owner-3"].result(enough)
    assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    assert list(answer.missing) == ["owner-3"]
    result = result_from_bytes(owners["owner-3"].components(enough), enough)
    assert result.header.missing == ("owner-3",)
    assert result.header.n_rows == 2000
    late = make_release(enough, seed=7)
    assert refused(lambda: owners["owner-3"].contribute(late)) == (
        "FAILED_PRECONDITION",
        "StudyStateError",
    )
    assert refused(
        lambda: owners["owner-3"].publish(
            enough, Form.DECODED, arrow(decoded_rows()), n_rows=3, components=answer.sha256
        )
    ) == ("FAILED_PRECONDITION", "StudyStateError")
    answer = owners["owner-1"].result(too_few)
    assert state_from_wire(answer.state) is StudyState.ABORTED
    assert "deadline" in answer.reason


def test_operators_see_everything_and_owners_theirs(
    hub: Hub, study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owners["owner-1"].contribute(make_release(study), ledger_length=ledger_of("owner-1"))
    for party, contributed in ((owners["owner-1"], True), (owners["owner-2"], False)):
        listed = party.federation.ListStudies(pb.ListStudiesRequest(), timeout=5).studies
        assert listed[0].name == study.name
        assert listed[0].contributed is contributed
        assert (listed[0].contributions, listed[0].owners) == (1, 3)
    digest = bytes.fromhex(study.digest)
    for request in (pb.GetStudyRequest(digest=digest), pb.GetStudyRequest(name=study.name)):
        found = operator.federation.GetStudy(request, timeout=5)
        assert found.document == study.canonical_bytes()


def test_health_and_reflection_answer(hub: Hub, owners: dict[str, Party]) -> None:
    channel = owners["owner-1"].channel
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "dppca.v1.Federation", "dppca.v1.Admin"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {"dppca.v1.Federation", "dppca.v1.Admin", "grpc.health.v1.Health"} <= set(services)


def test_the_log_is_json_and_holds_no_value(hub: Hub, finished: Study) -> None:
    log = hub.log.read_text()
    assert finished.name in log
    assert "Traceback" not in log
    assert {"serving", "contribution", "study decomposed"} <= {
        json.loads(line)["event"] for line in log.splitlines()
    }
    packed = make_release(finished, seed=0).packed
    assert not any(str(entry) in log for entry in packed if abs(int(entry)) > 10_000)


def test_a_long_contribution_arrives_in_pieces_that_are_never_all_in_memory(
    hub: Hub, operator: Party, owners: dict[str, Party]
) -> None:
    attributes = [
        {"name": f"a{number}", "type": "numeric", "lower": 0, "upper": 1} for number in range(1500)
    ]
    study = make_study(
        name="wide",
        owners=["owner-1", "owner-2"],
        schema={"resolution_bits": 6, "attributes": attributes},
    )
    operator.create(study)
    release = make_release(study)
    payload = release.payload()
    assert len(payload) > 9_000_000
    before = _peak_kib(hub.process.pid)
    parts = upload(
        header_of(release, ledger_length=ledger_of("owner-1")), payload, chunk_bytes=1 << 20
    )
    owners["owner-1"].send(parts)
    assert _peak_kib(hub.process.pid) - before < 40_000
    again = upload(
        header_of(release, ledger_length=ledger_of("owner-1")), payload, chunk_bytes=1 << 20
    )
    assert owners["owner-1"].send(again).already_stored


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])
