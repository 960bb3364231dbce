"""The service of one daemon over the wire: studies, contributions, and who may call."""

import hashlib
import json
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from dppca.common.kernel.attestation.components import check_components, check_result
from dppca.common.kernel.attestation.contributions import (
    AcknowledgedContribution,
    read_acknowledgement,
    sign_release,
)
from dppca.common.kernel.attestation.envelopes import Claim
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.errors import NotReadyError
from dppca.common.kernel.identity.tls import Identity, Role
from dppca.common.kernel.study import Study
from dppca.common.transport.codec import state_from_wire
from dppca.common.transport.greeting import VERSION
from dppca.common.transport.testbed import SERVE
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.study.admission import largest_contribution
from dppca.curator.study.study_record import Header, LedgerHead
from tests.support.callers import CONFLICT, NOT_READY, OWNERS, STATE, TOO_LONG, UPLOAD, refused
from tests.support.census import (
    arrow,
    decoded_rows,
    header_of,
    make_release,
    nobody,
    sign_document,
    with_receipt,
)
from tests.support.certificates import new_authority
from tests.support.curator import Curator, far_moment
from tests.support.envelopes import claim
from tests.support.masked import make_masked_study
from tests.support.party import Party, to_wire, upload
from tests.support.patience import WAIT_S, wait_until
from tests.support.studies import make_study


@pytest.fixture(scope="module")
def operator(curator: Curator) -> Party:
    return curator.operator()


@pytest.fixture(scope="module")
def owners(curator: Curator) -> dict[str, Party]:
    return {name: curator.party(name) for name in OWNERS}


@pytest.fixture
def study(curator: Curator) -> Study:
    """A new open study."""
    return curator.begin(*OWNERS)


@pytest.fixture
def finished(study: Study, owners: dict[str, Party]) -> Study:
    """A new study that all owners have contributed to, and that is decomposed."""
    for seed, owner in enumerate(OWNERS):
        owners[owner].contribute_next(make_release(study, seed=seed))
    assert state_from_wire(owners["owner-1"].result(study).state) is StudyState.DECOMPOSED
    return study


def test_owners_find_joint_components_and_publish_rows(
    curator: Curator, finished: Study, owners: dict[str, Party], operator: Party
) -> None:
    answers = [owners[owner].result(finished, wait_s=0) for owner in OWNERS]
    content = owners["owner-2"].components(finished)
    assert {answer.sha256 for answer in answers} == {hashlib.sha256(content).digest()}
    assert {answer.total_bytes for answer in answers} == {len(content)}
    assert list(answers[0].contributed) == list(OWNERS)
    result = result_from_bytes(content, finished)
    assert [share.n_rows for share in result.header.shares] == [1000, 1000, 1000]
    assert result.header.epsilon == "1"
    envelope = owners["owner-2"].signed_components(finished).envelope
    checked = check_components(envelope, KnownParties(curator.authority.pem))
    check_result(result, checked)
    assert (checked.curator.name, checked.study) == ("hub", finished)
    assert [each["owner"] for each in checked.document["releases"]] == list(OWNERS)

    digest = answers[0].sha256
    rows = arrow(decoded_rows())
    for owner in ("owner-2", "owner-1"):
        answer = owners[owner].publish(finished, Form.DECODED, rows, n_rows=3, components=digest)
        assert not answer.already_stored
    again = owners["owner-1"].publish(finished, Form.DECODED, rows, n_rows=3, components=digest)
    assert again.already_stored
    joined = pa.ipc.open_stream(operator.synthetic(finished, Form.DECODED)).read_all()
    assert joined.num_rows == 6
    assert joined.column_names == ["age", "sex", "work"]
    assert joined["work"].to_pylist() == ["state"] * 6

    details = operator.show(finished.name)
    assert [owner.n_rows for owner in details.owners] == [1000] * 3
    assert [owner.synthetic_decoded_rows for owner in details.owners] == [3, 3, 0]
    operator.close_study(finished.name)
    late = partial(owners["owner-3"].publish, finished, Form.DECODED, rows)
    assert refused(partial(late, n_rows=3, components=digest)) == STATE
    assert owners["owner-3"].components(finished) == content


def test_rows_above_the_cap_are_refused_before_any_is_taken(
    finished: Study, owners: dict[str, Party], curator: Curator
) -> None:
    owner = owners["owner-1"]
    digest = owner.result(finished, wait_s=0).sha256
    header = pb.SyntheticHeader(
        study_digest=bytes.fromhex(finished.digest),
        form=pb.SYNTHETIC_FORM_CODED,
        n_rows=1,
        total_bytes=1 << 40,
        sha256=bytes(32),
        components_sha256=digest,
    )
    parts = [pb.PublishSyntheticRequest(header=header)]
    call = partial(owner.federation.PublishSynthetic, iter(parts), timeout=WAIT_S)
    assert refused(call) == TOO_LONG

    beyond = decoded_rows().set_column(0, "age", pa.array([20.0, 90.1, 30.0]))
    for rows in (b"\xff" * 500, arrow(beyond)):
        publish = partial(owner.publish, finished, Form.DECODED, rows, n_rows=3, components=digest)
        assert refused(publish) == UPLOAD
    curator.until_nothing_arrives()


def test_result_is_refused_until_there_is_one(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    assert refused(lambda: owners["owner-1"].components(study)) == NOT_READY
    assert refused(lambda: owners["owner-1"].synthetic(study, Form.CODED)) == NOT_READY
    for _ in range(2):
        operator.abort(study.name, "no longer needed")
    assert owners["owner-1"].result(study).reason == "no longer needed"
    for call in (
        lambda: owners["owner-1"].components(study),
        lambda: owners["owner-1"].contribute(make_release(study)),
        lambda: operator.close_study(study.name),
    ):
        assert refused(call) == STATE


def test_documents_are_checked_when_a_study_is_created(operator: Party, study: Study) -> None:
    assert operator.create(study).already_stored
    assert refused(lambda: operator.create(make_study(name=study.name, overlap=True))) == CONFLICT
    for document in (b"", b"{}", b"\xff", study.canonical_bytes() + b" ", b"[" * 10_000):
        request = pb.CreateStudyRequest(document=document)
        call = partial(operator.admin.CreateStudy, request, timeout=WAIT_S)
        assert refused(call) == ("INVALID_ARGUMENT", "StudyError")
    huge = pb.CreateStudyRequest(document=bytes(5 << 20))
    assert refused(lambda: operator.admin.CreateStudy(huge, timeout=WAIT_S)) == TOO_LONG


def test_a_study_whose_contributions_would_be_refused_is_never_created(tmp_path: Path) -> None:
    """Else its owners would be charged first, and find no way to send."""
    plain, masked = make_study(name="plain"), make_masked_study(name="masked").study
    smaller, larger = sorted(map(largest_contribution, (plain, masked)))
    for cap, fits in ((larger, True), (smaller - 1, False)):
        curator = Curator(tmp_path / f"{fits}")
        try:
            curator.start(*SERVE, "--max-contribution-bytes", str(cap))
            for study in (plain, masked):
                if fits:
                    assert not curator.operator().create(study).already_stored
                else:
                    call = partial(curator.operator().create, study)
                    assert refused(call) == TOO_LONG
        finally:
            curator.stop()


def test_a_quorum_at_the_deadline_is_enough_and_the_missing_are_named(movable: Curator) -> None:
    owners = {name: movable.party(name) for name in OWNERS}
    enough, too_few = (
        make_study(name=f"deadline-{quorum}", quorum=quorum, deadline=far_moment())
        for quorum in (2, 3)
    )
    for study in (enough, too_few):
        movable.operator().create(study)
        for seed, owner in enumerate(OWNERS[:2]):
            owners[owner].contribute_next(make_release(study, seed=seed))
    assert list(owners["owner-3"].result(enough, wait_s=0).missing) == ["owner-3"]
    movable.move_clock()
    answer = owners["owner-3"].end(enough)
    assert state_from_wire(answer.state) is StudyState.DECOMPOSED
    assert list(answer.missing) == ["owner-3"]
    result = result_from_bytes(owners["owner-3"].components(enough), enough)
    assert result.header.missing == ("owner-3",)
    assert result.header.n_rows == 2000
    late = make_release(enough, seed=7)
    assert refused(lambda: owners["owner-3"].contribute(late)) == STATE
    publish = partial(owners["owner-3"].publish, enough, Form.DECODED, arrow(decoded_rows()))
    assert refused(partial(publish, n_rows=3, components=answer.sha256)) == STATE
    answer = owners["owner-1"].end(too_few)
    assert state_from_wire(answer.state) is StudyState.ABORTED
    assert "deadline" in answer.reason


def test_another_version_is_served_and_logged_once(curator: Curator) -> None:
    for name, version in (("old", ""), ("new", "999.0"), ("same", VERSION)):
        party = curator.party(name)
        for _ in range(3):
            asked = pb.ListStudiesRequest(greeting=pb.Greeting(version=version))
            answer = party.federation.ListStudies(asked, timeout=WAIT_S)
            assert answer.greeting.version == VERSION
            assert abs(answer.greeting.clock_ms / 1000 - time.time()) < WAIT_S
    lines = [json.loads(line) for line in curator.log.read_text().splitlines()]
    told = {each["party"]: each["version"] for each in lines if each["event"] == "another version"}
    names = [each["party"] for each in lines if each["event"] == "another version"]
    assert (told["owner:old"], told["owner:new"]) == ("none said", "999.0")
    assert "owner:same" not in names
    assert (names.count("owner:old"), names.count("owner:new")) == (1, 1)


def test_health_and_reflection_answer(curator: Curator, owners: dict[str, Party]) -> None:
    channel = owners["owner-1"].channel
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "dppca.v1.Federation", "dppca.v1.Admin"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {"dppca.v1.Federation", "dppca.v1.Admin", "grpc.health.v1.Health"} <= set(services)


def test_the_log_is_json_and_holds_no_value(curator: Curator, finished: Study) -> None:
    # A result may be fetched a moment before the log says that it is there.
    wait_until(lambda: "study decomposed" in curator.log.read_text())
    log = curator.log.read_text()
    assert finished.name in log
    assert "Traceback" not in log
    events = [json.loads(line) for line in log.splitlines()]
    assert {"serving", "contribution", "study decomposed"} <= {each["event"] for each in events}
    told = [{key: value for key, value in each.items() if key != "time"} for each in events]
    numbers = set(re.findall(r"\b\d{6,}\b", json.dumps(told)))  # ports have fewer digits
    entries = {str(abs(int(entry))) for entry in make_release(finished, seed=0).packed}
    assert sum(len(entry) >= 6 for entry in entries) > 5
    assert not numbers & entries


def test_a_second_release_is_refused(study: Study, owners: dict[str, Party]) -> None:
    owner = owners["owner-1"]
    owner.contribute_next(make_release(study))
    other = make_release(study, seed=9)
    assert refused(lambda: owner.contribute_next(other)) == CONFLICT


def test_a_contribution_is_acknowledged_with_the_curators_signature_the_same_each_time(
    study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release, length = make_release(study), owners["owner-1"].next_ledger_length()
    first = owners["owner-1"].contribute(release, ledger_length=length)
    again = owners["owner-1"].contribute(release, ledger_length=length + 1)
    assert (first.already_stored, again.already_stored) == (False, True)
    assert first.acknowledgement == again.acknowledgement
    taken, signed_by = read_acknowledgement(
        first.acknowledgement, KnownParties(curator.authority.pem)
    )
    assert signed_by == Identity("hub", Role.CURATOR)
    assert taken == AcknowledgedContribution(
        study_digest=study.digest,
        owner="owner-1",
        release_id=release.release_id.hex(),
        n_rows=release.n_rows,
        payload_sha256=release.receipt.claims.payload_sha256,
    )


def _with_document(header: Header, **fields: object) -> Header:
    """The header with a receipt that may be none."""
    document = header.release.receipt.document() | fields
    return replace(
        header, release=replace(header.release, envelope=sign_document(document, nobody()))
    )


UPLOADS: dict[str, Callable[[Header, bytes], list[pb.ContributeRequest]]] = {
    "no header": lambda header, payload: list(upload(None, payload)),
    "two headers": lambda header, payload: [*upload(header, b""), *upload(header, payload)],
    "short head": lambda header, payload: list(
        upload(replace(header, chain=LedgerHead(2, b"short")), payload)
    ),
    "other fields": lambda header, payload: list(
        upload(_with_document(header, comment="trust me"), payload)
    ),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_a_bad_upload_is_refused_and_a_good_one_then_taken(
    kind: str, study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=owners["owner-1"].next_ledger_length())
    bad = UPLOADS[kind](header, release.payload())
    assert refused(lambda: owners["owner-1"].send(bad)) == UPLOAD
    assert not owners["owner-1"].result(study, wait_s=0).contributed
    good = upload(header, release.payload())
    assert not owners["owner-1"].send(good).already_stored
    curator.until_nothing_arrives()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda h: with_receipt(h, study_digest="0" * 64), ("NOT_FOUND", "UnknownStudyError")),
        (lambda h: with_receipt(h, epsilon="0.1"), ("FAILED_PRECONDITION", "SchemaMismatchError")),
        (lambda h: replace(with_receipt(h, n_entries=1 << 40), n_bytes=1 << 43), TOO_LONG),
        (lambda h: _with_document(h, software="x" * 70_000), TOO_LONG),
    ],
)
def test_a_header_is_refused_before_any_byte_is_taken(
    change: Callable[[Header], Header],
    expected: tuple[str, str],
    study: Study,
    owners: dict[str, Party],
) -> None:
    release = make_release(study)
    header = header_of(release, ledger_length=owners["owner-1"].next_ledger_length())
    sent = threading.Event()

    def parts() -> Iterator[pb.ContributeRequest]:
        yield pb.ContributeRequest(header=to_wire(change(header)))
        assert sent.wait(WAIT_S)  # the refusal must not need another message

    try:
        assert refused(lambda: owners["owner-1"].send(parts())) == expected
    finally:
        sent.set()


def test_a_release_is_taken_only_if_the_caller_signed_its_receipt(
    study: Study, owners: dict[str, Party], curator: Curator
) -> None:
    release, owner = make_release(study), owners["owner-1"]
    header = header_of(release, ledger_length=owner.next_ledger_length())
    receipt = release.receipt.canonical_bytes()
    mine = sign_release("owner-1", receipt, owner.signer)
    twin = curator.authority.issue(Role.OWNER, "owner-1")
    for envelope in (
        b"",
        b"\xff" * 1000,
        sign_release("owner-2", receipt, owners["owner-2"].signer),
        mine.replace(b'"payload":"', b'"payload":"e30'),
        claim(release.receipt.document(), owner.signer, kind=Claim.ROWS),
        sign_release("owner-1", receipt, make_signer(twin)),
    ):
        said = replace(header, release=replace(header.release, envelope=envelope))
        parts = iter(list(upload(said, release.payload())))
        call = partial(owner.federation.Contribute, parts, timeout=WAIT_S)
        assert refused(call)[1] in ("SignatureError", "UploadError")
    assert not owner.result(study, wait_s=0).contributed


def test_a_ledger_that_became_shorter_is_refused(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owner = owners["owner-1"]
    owner.ledger_length += 5
    owner.contribute_next(make_release(study))
    other = make_study(name=f"{study.name}-2")
    operator.create(other)
    for length, head in ((owner.ledger_length - 1, b"h"), (owner.ledger_length, b"i")):
        header = header_of(make_release(other), ledger_length=length, ledger_head=head * 32)
        parts = list(upload(header, make_release(other).payload()))
        assert refused(partial(owner.send, parts)) == ("FAILED_PRECONDITION", "ChainError")


def test_a_long_contribution_arrives_in_pieces_that_are_never_all_in_memory(
    curator: Curator, operator: Party, owners: dict[str, Party]
) -> None:
    attributes = [
        {"name": f"a{number}", "type": "numeric", "lower": 0, "upper": 1} for number in range(1500)
    ]
    study = make_study(
        name="wide",
        owners=["owner-1", "owner-2"],
        schema={"max_rows_per_person": 1, "resolution_bits": 6, "attributes": attributes},
    )
    operator.create(study)
    release = make_release(study)
    payload = release.payload()
    assert len(payload) > 9_000_000
    before, length = curator.peak_kib(), owners["owner-1"].next_ledger_length()
    parts = partial(upload, header_of(release, ledger_length=length), payload, chunk_bytes=1 << 20)
    owners["owner-1"].send(parts())
    assert curator.peak_kib() - before < 40_000
    assert owners["owner-1"].send(parts()).already_stored


def test_nobody_else_learns_that_a_study_exists(
    curator: Curator, finished: Study, operator: Party
) -> None:
    stranger = curator.party("stranger")
    digest = bytes.fromhex(finished.digest)
    release = make_release(finished)
    calls: list[Callable[[], object]] = [
        lambda: stranger.contribute(release),
        lambda: stranger.result(finished, wait_s=0),
        lambda: stranger.components(finished),
        lambda: stranger.synthetic(finished, Form.CODED),
        lambda: stranger.publish(finished, Form.CODED, b"x", n_rows=1, components=b"c" * 32),
        lambda: stranger.find(digest=digest),
        lambda: stranger.find(name=finished.name),
        lambda: stranger.find(name="none"),
    ]
    for call in calls:
        assert refused(call) == ("NOT_FOUND", "UnknownStudyError")
    assert list(stranger.list_studies().studies) == []
    asked = pb.ListContributionsRequest()
    assert list(stranger.federation.ListContributions(asked, timeout=WAIT_S)) == []


def test_roles_may_do_what_is_theirs_only(
    curator: Curator, study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owner = owners["owner-1"]
    hub = curator.connect(curator.authority.issue(Role.CURATOR, "hub"))
    calls: list[Callable[[], object]] = [
        lambda: owner.create(study),
        lambda: owner.show(study.name),
        lambda: owner.close_study(study.name),
        lambda: owner.abort(study.name),
        lambda: owner.admin.SettleLedger(
            pb.SettleLedgerRequest(name="owner-1", reason="mine"), timeout=WAIT_S
        ),
        lambda: operator.contribute(make_release(study)),
        lambda: operator.publish(study, Form.CODED, b"x", n_rows=1, components=b"c" * 32),
        lambda: hub.result(study, wait_s=0),
        lambda: hub.contribute(make_release(study)),
        lambda: hub.create(study),
        hub.list_studies,
    ]
    for call in calls:
        assert refused(call) == ("PERMISSION_DENIED", "PermissionDeniedError")


AUDITED = {"ListStudies", "GetStudy", "GetResult", "ShowStudy", "ShowOwner", "ListRefusals"}


def every_call(party: Party) -> dict[str, Callable[[], object]]:
    """Each call that a curator has, by its name, with an empty request."""
    found: dict[str, Callable[[], object]] = {}
    for service, stub in (("Federation", party.federation), ("Admin", party.admin)):
        for method in pb.DESCRIPTOR.services_by_name[service].methods:
            request = getattr(pb, method.input_type.name)()
            asked = iter([request]) if method.client_streaming else request
            call = partial(getattr(stub, method.name), asked, timeout=WAIT_S)
            found[method.name] = partial(_all_of, call, streams=method.server_streaming)
    return found


def _all_of(call: Callable[[], Any], *, streams: bool) -> object:
    return list(call()) if streams else call()


def test_an_auditor_reads_what_is_listed_and_nothing_else(curator: Curator, study: Study) -> None:
    auditor = curator.party("aud", Role.AUDITOR)
    calls = every_call(auditor)
    assert set(calls) > AUDITED
    for name in sorted(calls.keys() - AUDITED):
        assert refused(calls[name]) == ("PERMISSION_DENIED", "PermissionDeniedError"), name
    for name in sorted(AUDITED - {"ShowStudy", "GetStudy", "GetResult"}):
        calls[name]()
    assert auditor.show(study.name).summary.name == study.name
    assert auditor.find(name=study.name).document == study.canonical_bytes()
    assert auditor.result(study, wait_s=0).missing
    assert study.name in {each.name for each in auditor.list_studies().studies}


def test_what_an_auditor_looks_at_is_kept_in_a_chain_and_shown(
    tmp_path: Path, study: Study
) -> None:
    curator = Curator(tmp_path / "hub").start()
    curator.operator().create(study)
    auditor = curator.party("aud", Role.AUDITOR)
    for _ in range(2):
        auditor.show(study.name)
        auditor.list_studies()
    with pytest.raises(grpc.RpcError):
        auditor.show("no-such-study")
    with pytest.raises(grpc.RpcError):
        auditor.create(study)
    code, told = curator.operate("refusals")
    assert code == 0
    keys = ("number", "auditor", "method", "study")
    looks = [tuple(each[key] for key in keys) for each in told["looks"]]
    assert looks == [(2, "aud", "ListStudies", None), (1, "aud", "ShowStudy", study.name)]
    assert told["broken_look"] == 0
    assert len(curator.operate("refusals", "--study", study.name)[1]["looks"]) == 1
    curator.stop()
    with closing(sqlite3.connect(curator.state / "curator.sqlite")) as direct:
        direct.execute("UPDATE looks SET auditor = 'eve' WHERE number = 1")
        direct.commit()
    curator.start()
    again = curator.operate("refusals")[1]
    assert (again["broken_look"], again["looks_head"]) == (2, told["looks_head"])
    curator.stop()


def test_certificates_that_name_nobody_are_refused(curator: Curator) -> None:
    now = datetime.now(UTC)
    foreign = replace(new_authority().issue(Role.OWNER, "owner-1"), ca=curator.authority.pem)
    expired = curator.authority.issue(
        Role.OWNER, "owner-1", start=now - timedelta(days=9), end=now - timedelta(days=1)
    )
    nameless = curator.authority.issue(Role.OWNER, "owner-1", uris=())
    twofold = curator.authority.issue(
        Role.OWNER, "owner-1", uris=("urn:dppca:owner:owner-1", "urn:dppca:operator:alice")
    )
    for credentials in (foreign, expired):
        with pytest.raises(grpc.RpcError) as caught:
            curator.connect(credentials).list_studies()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
    for credentials in (nameless, twofold):
        party = curator.connect(credentials)
        assert refused(party.list_studies) == ("UNAUTHENTICATED", "IdentityError")


def test_without_a_certificate_there_is_no_conversation(curator: Curator) -> None:
    tls = grpc.ssl_channel_credentials(root_certificates=curator.authority.pem)
    with grpc.secure_channel(curator.address, tls) as channel:
        call = channel.unary_unary("/dppca.v1.Federation/ListStudies")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=WAIT_S)
    with grpc.insecure_channel(curator.address) as channel:
        call = channel.unary_unary("/dppca.v1.Federation/ListStudies")
        with pytest.raises(grpc.RpcError):
            call(b"", timeout=WAIT_S)


def test_hostile_bytes_do_not_stop_the_curator(
    curator: Curator, study: Study, owners: dict[str, Party]
) -> None:
    channel = owners["owner-1"].channel
    for method in ("ListStudies", "GetStudy", "GetResult"):
        for content in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", bytes(5000), b"\x08" * 9):
            with suppress(grpc.RpcError):  # bytes may happen to be a message without fields
                channel.unary_unary(f"/dppca.v1.Federation/{method}")(content, timeout=WAIT_S)
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/dppca.v1.Federation/Nothing")(b"", timeout=WAIT_S)
    upload_call = channel.stream_unary("/dppca.v1.Federation/Contribute")
    for content in (b"\xff" * 9, bytes(9 << 20)):
        with pytest.raises(grpc.RpcError):
            upload_call(iter([content]), timeout=WAIT_S)
    assert owners["owner-1"].result(study, wait_s=0).missing


def test_operators_see_who_was_refused_and_why(
    study: Study, owners: dict[str, Party], operator: Party
) -> None:
    owner = owners["owner-1"]
    for _ in range(3):
        refused(lambda: owner.components(study))
    refused(lambda: operator.close_study(study.name))
    newest, before = operator.refusals(study.name)
    assert (newest.party[:9], newest.method, newest.error) == (
        "operator:",
        "CloseStudy",
        "StudyStateError",
    )
    assert (before.party, before.method, before.study) == (
        "owner:owner-1",
        "DownloadComponents",
        study.name,
    )
    assert (before.error, before.sentence) == ("NotReadyError", NotReadyError.public)
    assert before.times == 3
    assert abs(before.time_s - datetime.now(UTC).timestamp()) < WAIT_S
    assert refused(lambda: owner.refusals()) == ("PERMISSION_DENIED", "PermissionDeniedError")
    assert refused(lambda: operator.refusals("none")) == ("NOT_FOUND", "UnknownStudyError")


def test_no_text_of_a_callers_choice_is_among_the_refusals(
    curator: Curator, study: Study, operator: Party
) -> None:
    before = len(operator.refusals(study.name))
    stranger, words = curator.party("stranger-of-words"), []
    for number in range(200):
        word = f"<script>{number}</script>"
        words.append(word)
        refused(partial(stranger.find, name=word))
    # A study that does not name it is none, also here.
    refused(lambda: stranger.result(study, wait_s=0))
    found = operator.refusals()
    ours = [each for each in found if each.party == "owner:stranger-of-words"]
    assert sorted((each.method, each.study, each.times) for each in ours) == [
        ("GetResult", "", 1),
        ("GetStudy", "", 200),
    ]
    assert not [each for each in found if any(word in str(each) for word in words)]
    assert len(operator.refusals(study.name)) == before
