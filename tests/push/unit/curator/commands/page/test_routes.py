"""What an operator's page says of time and of owners."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import NoReturn, cast

import grpc
import pytest

from dppca.common.messages import StudyState
from dppca.common.pages.guard import COOKIE
from dppca.common.transport.status import from_rpc_error
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from dppca.common.wire import federation_pb2_grpc as rpc
from dppca.curator.commands.page.routes import (
    OperatorPages,
    describe_opening,
    describe_owner,
    time_left,
)
from dppca.curator.operator.client import OperatorClient, OwnerLine, StudyDetails, StudyLine
from tests.support.asgi import Answer, ask
from tests.support.patience import WAIT_S
from tests.support.studies import make_study

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def _details(state: StudyState) -> StudyDetails:
    line = StudyLine("census", "0" * 64, state, 1, 3, 0)
    return StudyDetails(line, b"", (), "", None, None, ())


def _owner(**changes: object) -> OwnerLine:
    fields = {
        "name": "owner-1",
        "contributed": False,
        "rows": 0,
        "bytes": 0,
        "received_s": None,
        "synthetic_coded_rows": 0,
        "synthetic_decoded_rows": 0,
        "opener": False,
        "voted_s": None,
        "opened_s": None,
    }
    return OwnerLine(**{**fields, **changes})  # type: ignore[arg-type] # of the fields' types


def _page(client: object, path: str) -> Answer:
    pages = OperatorPages(cast("OperatorClient", client), "hub:7443", ca=b"")
    session = pages.session
    cookie = f"{COOKIE}={session.cookie}"
    return ask(pages.application(), session.place + path, cookie=cookie)


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (
            timedelta(days=2, hours=3, minutes=4, seconds=59),
            "2 d 3 h 4 min left until the deadline.",
        ),
        (timedelta(days=69, hours=3), "69 d left until the deadline."),
        (timedelta(days=26_701, hours=18), "73 years left until the deadline."),
        (timedelta(minutes=1), "1 min left until the deadline."),
        (timedelta(seconds=59), "less than 1 min left until the deadline."),
        (timedelta(), "The deadline has passed."),
        (timedelta(days=-1), "The deadline has passed."),
    ],
)
def test_the_time_that_is_left_is_rounded_down(left: timedelta, said: str) -> None:
    study = make_study(deadline=(NOW + left).isoformat())
    assert time_left(study, _details(StudyState.OPEN), NOW) == said
    assert time_left(study, _details(StudyState.DECOMPOSED), NOW) == ""


def test_without_a_deadline_a_study_waits_for_all() -> None:
    said = time_left(make_study(), _details(StudyState.OPEN), NOW)
    assert said == "It waits for all owners, without a deadline."


def test_an_owner_has_come_or_is_awaited_or_late_or_took_no_part() -> None:
    soon = make_study(deadline=(NOW + timedelta(hours=1)).isoformat())
    past = make_study(deadline=(NOW - timedelta(hours=1)).isoformat())
    is_open, ended = _details(StudyState.OPEN), _details(StudyState.DECOMPOSED)
    assert describe_owner(_owner(received_s=0), soon, is_open, NOW).startswith("came 1970-01-01")
    assert describe_owner(_owner(), soon, is_open, NOW) == "awaited"
    assert describe_owner(_owner(), make_study(), is_open, NOW) == "awaited"
    assert describe_owner(_owner(), past, is_open, NOW) == "late"
    assert describe_owner(_owner(), past, ended, NOW) == "took no part"


def test_an_opener_has_voted_and_opened_or_is_awaited() -> None:
    assert describe_opening(_owner(voted_s=0)) == ""
    assert describe_opening(_owner(opener=True)) == "awaited"
    said = describe_opening(_owner(opener=True, voted_s=0, opened_s=60))
    assert said == "voted 1970-01-01 00:00:00 UTC, opened 1970-01-01 00:01:00 UTC"


def test_an_earlier_version_of_the_curator_does_not_tell_its_refusals() -> None:
    server = grpc.server(ThreadPoolExecutor(1))  # which knows no RPC at all
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with (
        grpc.insecure_channel(f"127.0.0.1:{port}") as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        rpc.AdminStub(channel).ListRefusals(pb.ListRefusalsRequest(), timeout=WAIT_S)
    server.stop(None)

    class Earlier:
        def refusals(self, _: str) -> NoReturn:
            raise from_rpc_error(caught.value, role=Role.OPERATOR)

    answer = _page(Earlier(), "/refusals")
    assert answer.status == 200
    assert "does not tell what it has refused" in answer.body


@pytest.mark.parametrize("seconds", [1 << 62, -(1 << 62)])
def test_a_time_that_does_not_exist_is_an_error_that_is_said(seconds: int) -> None:
    class Absurd:
        def studies(self) -> list[StudyLine]:
            return [StudyLine("census", "0" * 64, StudyState.OPEN, 1, 3, seconds)]

    answer = _page(Absurd(), "/")
    assert (answer.status, "a time that does not exist" in answer.body) == (409, True)
