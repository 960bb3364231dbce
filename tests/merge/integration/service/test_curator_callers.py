from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import grpc
import pytest

from dppca.common.documents.messages import Form
from dppca.common.errors import NotReadyError
from dppca.common.study import Study
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from tests.support.callers import refused
from tests.support.census import make_release
from tests.support.certificates import new_authority
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.patience import WAIT_S


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
