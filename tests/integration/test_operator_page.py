"""The operator's page in a real browser, asking a real curator with the operator's certificate."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, expect

from dppca.common.study import Study
from dppca.common.testbed import CURATOR, Processes
from dppca.common.transport.tls import Role
from dppca.common.wire import federation_pb2 as pb
from tests.support.browser import (
    SOON_MS,
    Served,
    chromium,
    require_accessible,
    serve_page,
    watched,
)
from tests.support.census import make_study
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.owner_site import make_enrolled_site
from tests.support.patience import WAIT_S

pytestmark = [pytest.mark.integration, pytest.mark.browser]

HOSTILE = "<img src=x onerror=alert(1)><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def served(curator: Curator, tmp_path: Path) -> Iterator[Served]:
    folder = write_credentials(
        tmp_path / "operator", curator.authority.issue(Role.OPERATOR, f"op-{uuid4().hex[:8]}")
    )
    line = ["page", "--curator", curator.address, "--credentials", folder]
    with Processes() as live:
        yield serve_page(live, CURATOR, line)


def _study(curator: Curator, *owners: str, **changes: Any) -> Study:
    study = make_study(name=f"study-{uuid4().hex[:8]}", owners=list(owners), **changes)
    curator.operator().create(study)
    return study


def test_an_operator_sees_who_comes_without_loading_again_and_what_came_out(
    curator: Curator, tmp_path: Path, browser: Browser, served: Served
) -> None:
    sites = [make_enrolled_site(curator, tmp_path) for _ in range(2)]
    deadline = datetime.now(UTC) + timedelta(days=2, hours=3, minutes=30)
    study = _study(curator, *(site.name for site in sites), deadline=deadline.isoformat())
    with watched(browser) as seen:
        page = seen.page
        page.goto(served.address)
        require_accessible(page)
        page.get_by_role("link", name=study.name).click()
        row = page.get_by_role("row", name=sites[0].name)
        expect(row).to_contain_text("awaited")
        assert "2 d 3 h" in page.inner_text("main")
        require_accessible(page)
        assert sites[0].run("contribute", study.name, "--yes")[0] == 0
        expect(row).to_contain_text("came 20", timeout=SOON_MS)
        assert sites[1].run("contribute", study.name, "--yes")[0] == 0
        page.get_by_text("All signatures, digests and claims hold").wait_for(timeout=SOON_MS)
        require_accessible(page)
        text = page.inner_text("main")
        for owner in sites:
            assert owner.history.contribution_for(study.digest) is not None
            commitment = owner.history.commitment_for(study.digest)
            assert commitment is not None
            assert commitment.payload_sha256 in text
        assert "epsilon 1, delta 0" in text
        assert "Largest loadings of component 1" in text
        seen.require_quiet()
    served.process.send_signal(2)
    assert served.process.wait(WAIT_S) == 0


def test_an_aborted_study_says_why_in_words_alone(
    curator: Curator, browser: Browser, served: Served
) -> None:
    study = _study(curator, "absent", "away")
    request = pb.AbortStudyRequest(name=study.name, reason=HOSTILE)
    curator.operator().admin.AbortStudy(request, timeout=WAIT_S)
    with watched(browser) as seen:
        seen.page.goto(served.address)
        seen.page.get_by_role("link", name=study.name).click()
        assert HOSTILE in seen.page.inner_text("main")
        assert seen.page.title() == f"Study {study.name}"
        expect(seen.page.get_by_role("row", name="absent")).to_contain_text("took no part")
        seen.page.goto(seen.page.url + "-not-there")
        assert "no such study" in seen.page.inner_text("main").lower()
        seen.require_quiet_but("409")


def test_an_owners_certificate_is_no_operators(curator: Curator, tmp_path: Path) -> None:
    folder = write_credentials(tmp_path / "x", curator.authority.issue(Role.OWNER, "owner-x"))
    line = ["page", "--curator", curator.address, "--credentials", folder]
    with Processes() as live, pytest.raises(AssertionError, match="operator"):
        serve_page(live, CURATOR, line)
