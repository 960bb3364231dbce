"""What an operator's page says of owners, and of times that do not exist."""

import html
import io
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from dppca import write_dossier
from dppca.common.kernel.attestation.envelopes import write_signed
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import IdentityError
from dppca.common.pages.guard import COOKIE
from dppca.common.transport.codec import read_message, state_to_wire
from dppca.common.transport.greeting import VERSION, Greeting
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.commands.page.routes import OperatorApp, describe_owner
from dppca.curator.operator.client import OperatorClient
from dppca.curator.operator.responses import ListedStudy, OwnerStatus, StudyDetails
from tests.support.asgi import Answer, ask
from tests.support.sites import ProvedSite
from tests.support.studies import make_study

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def _details(state: StudyState) -> StudyDetails:
    summary = pb.StudySummary(name="census", state=state_to_wire(state), owners=3)
    return read_message(StudyDetails, pb.ShowStudyResponse(summary=summary, document=b"{}"))


def _owner(**fields: Any) -> OwnerStatus:
    return read_message(OwnerStatus, pb.OwnerStatus(name="owner-1", **fields))


def test_an_owner_has_come_or_is_awaited_or_late_or_took_no_part() -> None:
    soon = make_study(deadline=(NOW + timedelta(hours=1)).isoformat())
    past = make_study(deadline=(NOW - timedelta(hours=1)).isoformat())
    is_open, ended = _details(StudyState.OPEN), _details(StudyState.DECOMPOSED)
    assert describe_owner(_owner(received_s=1), soon, is_open, NOW) == "came"
    assert describe_owner(_owner(), soon, is_open, NOW) == "awaited"
    assert describe_owner(_owner(), make_study(), is_open, NOW) == "awaited"
    assert describe_owner(_owner(), past, is_open, NOW) == "late"
    assert describe_owner(_owner(), past, ended, NOW) == "did not take part"


@pytest.mark.parametrize("seconds", [1 << 62, -(1 << 62)])
def test_a_time_that_does_not_exist_is_an_error_that_is_said(seconds: int) -> None:
    summary = pb.StudySummary(state=pb.STUDY_STATE_OPEN, created_s=seconds)

    class Absurd:
        def studies(self) -> tuple[ListedStudy, ...]:
            return (read_message(ListedStudy, summary),)

    pages = OperatorApp(cast("OperatorClient", Absurd()), "hub:7443", ca=b"")
    session = pages.session
    cookie = f"{COOKIE}={session.cookie}"
    answer = ask(pages.application(), f"{session.place}/", cookie=cookie)
    assert (answer.status, "a time that does not exist" in answer.body) == (409, True)


def test_where_a_certificate_has_ended_the_page_says_which_and_who_renews_it() -> None:
    class Ended:
        greeting = None

        def studies(self) -> tuple[ListedStudy, ...]:
            raise IdentityError("the certificate of operator olga expired: `pki issue` renews it")

    pages = OperatorApp(cast("OperatorClient", Ended()), "hub:7443", ca=b"")
    cookie = f"{COOKIE}={pages.session.cookie}"
    answer = ask(pages.application(), f"{pages.session.place}/", cookie=cookie)
    assert answer.status == 200
    assert "The certificate was not accepted." in answer.body
    assert "operator olga expired: <code>pki issue</code> renews it." in answer.body
    assert "does not answer." not in answer.body.split("<main")[1].split("<h1>")[1]


@pytest.mark.parametrize("version", ["0.1.0", VERSION])
def test_the_page_says_what_the_curator_is_that_it_shows(version: str) -> None:
    class Older:
        greeting = Greeting(version)

        def studies(self) -> tuple[ListedStudy, ...]:
            return ()

    pages = OperatorApp(cast("OperatorClient", Older()), "hub:7443", ca=b"")
    cookie = f"{COOKIE}={pages.session.cookie}"
    answer = ask(pages.application(), f"{pages.session.place}/", cookie=cookie)
    assert answer.status == 200
    assert ("curator runs DPPCA 0.1.0" in answer.body) == (version != VERSION)


def test_a_dossier_asks_first_and_is_then_what_verify_writes(
    proved: ProvedSite, tmp_path: Path
) -> None:
    study, answers = proved.study, tmp_path / "dossier.yaml"
    summary = pb.StudySummary(name=study.name, state=state_to_wire(StudyState.DECOMPOSED), owners=2)
    shown = pb.ShowStudyResponse(summary=summary, document=study.canonical_bytes())

    class Hub:
        def show(self, name: str) -> StudyDetails:
            assert name == study.name
            return read_message(StudyDetails, shown)

        def download_components(self, name: str, path: Path) -> Any:
            assert name == study.name
            write_signed(path, proved.signed)
            return result_from_bytes(proved.signed.content, study)

    pages = OperatorApp(cast("OperatorClient", Hub()), "hub:7443", ca=proved.ca, answers=answers)
    cookie, place = f"{COOKIE}={pages.session.cookie}", pages.session.place

    def get() -> Answer:
        target = f"{place}/study/{study.name}/dossier"
        return ask(pages.application(), target, cookie=cookie)

    asked = get()
    assert asked.status != 200
    assert str(answers) in html.unescape(asked.body)
    lines = ["curators: [Hub]", "authors: [A]", "region: here", "purpose:"]
    lines += [f"  {study.name}: to try", "published:", f"  {study.name}: 2026-11-30", ""]
    answers.write_text("\n".join(lines))
    got = get()
    assert (got.status, got.headers["content-type"]) == (200, "application/zip")
    made = proved.components
    written = write_dossier(made, tmp_path / "out", ca=proved.ca, answers=answers)
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        assert archive.namelist() == [path.name for path in written]
        assert all(archive.read(each.name) == each.read_bytes() for each in written)
