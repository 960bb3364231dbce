from __future__ import annotations

import hashlib
import json
import re
from functools import partial
from pathlib import Path

import pyarrow as pa
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from dppca.common.attestation.components import check_components, check_result
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.results import result_from_bytes
from dppca.common.documents.messages import Form, StudyState
from dppca.common.study import Study
from dppca.common.transport.codec import state_from_wire
from dppca.common.transport.testbed import SERVE
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.study.admission import largest_contribution
from tests.support.callers import CONFLICT, NOT_READY, OWNERS, STATE, TOO_LONG, UPLOAD, refused
from tests.support.census import arrow, decoded_rows, make_release
from tests.support.curator import Curator, far_moment
from tests.support.masked import make_masked_study
from tests.support.party import Party
from tests.support.patience import WAIT_S
from tests.support.studies import make_study


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


def test_a_quorum_at_the_deadline_is_enough_and_the_missing_are_named(
    movable: Curator,
) -> None:
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


def test_health_and_reflection_answer(curator: Curator, owners: dict[str, Party]) -> None:
    channel = owners["owner-1"].channel
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "dppca.v1.Federation", "dppca.v1.Admin"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {"dppca.v1.Federation", "dppca.v1.Admin", "grpc.health.v1.Health"} <= set(services)


def test_the_log_is_json_and_holds_no_value(curator: Curator, finished: Study) -> None:
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
