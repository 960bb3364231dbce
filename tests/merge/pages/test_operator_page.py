"""The operator's page in a real browser, asking a real curator with the operator's certificate."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, expect

from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import CURATOR, Processes
from tests.support.browser import (
    HOSTILE,
    Served,
    follow,
    look_again_until,
    open_details,
    reach,
    require_accessible,
    serve_page,
    watched,
)
from tests.support.callers import refused
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite, make_enrolled_site


@pytest.fixture
def served(curator: Curator, tmp_path: Path, live: Processes) -> Served:
    folder = write_credentials(
        tmp_path / "operator", curator.authority.issue(Role.OPERATOR, f"op-{uuid4().hex[:8]}")
    )
    line = ["page", "--curator", curator.address, "--credentials", folder]
    return serve_page(live, CURATOR, line)


def test_an_operator_sees_who_comes_without_loading_again_and_what_came_out(
    curator: Curator, tmp_path: Path, browser: Browser, served: Served
) -> None:
    sites = [make_enrolled_site(curator, tmp_path) for _ in range(2)]
    deadline = datetime.now(UTC) + timedelta(days=2, hours=3, minutes=30)
    study = curator.begin(*(site.name for site in sites), deadline=deadline.isoformat())
    with watched(browser) as seen:
        page = seen.page
        page.goto(served.address)
        require_accessible(page)
        listed = page.get_by_role("listitem").filter(has_text=study.name)
        first, second = sorted(site.name for site in sites)
        expect(listed).to_contain_text("ε 1 · 0 of 2 owners have come")
        expect(listed.get_by_title(f"{deadline:%Y-%m-%d %H:%M:%S} UTC")).to_contain_text("in 2 d")
        expect(listed).to_contain_text(f"waits for {first}, {second} until ")
        hint = "Not heard of since the curator was started: "
        expect(listed).to_contain_text(f"{hint}{first}, {second}. dppca-curator pki list")
        sites[0].run("studies")
        expect(listed).to_contain_text(f"{hint}{sites[1].name}. dppca-curator pki list")
        page.get_by_role("link", name=study.name).click()
        expect(page.get_by_text(f"was started: {sites[1].name}.")).to_be_visible()
        row = page.get_by_role("row", name=sites[0].name)
        expect(row).to_contain_text("awaited")
        waits = page.locator(".waits")
        expect(waits).to_contain_text(f"Waits for {sites[0].name} and {sites[1].name} until")
        expect(waits).to_contain_text("(in 2 d 3 h). All owners are needed.")
        require_accessible(page)
        assert sites[0].contribute(study)[0] == 0
        expect(row).to_contain_text("came")
        assert sites[1].contribute(study)[0] == 0
        page.get_by_text("All signatures, digests and claims hold").wait_for()
        require_accessible(page)
        text = page.inner_text("main")
        for owner in sites:
            assert owner.history.contribution_for(study.digest) is not None
            commitment = owner.history.commitment_for(study.digest)
            assert commitment is not None
            assert commitment.payload_sha256 in text
        assert "ε 1" in text
        line = r"^Component 1 \(\d+\.\d% of the variance\): (.+)\.$"
        meaning = re.search(line, text, re.MULTILINE)
        assert meaning is not None
        mixed = meaning[1].endswith("so its loadings say nothing")
        assert ("Largest loadings of component 1" in text) is not mixed
        seen.require_quiet()
    served.process.send_signal(2)
    assert served.process.wait(WAIT_S) == 0


def test_refusals_and_an_abort_are_shown_as_they_come_and_no_word_of_a_caller_is_obeyed(
    curator: Curator, browser: Browser, served: Served
) -> None:
    study = curator.begin("owner-of-refusals", "absent")
    owner, stranger = curator.party("owner-of-refusals"), curator.party("stranger-of-page")
    with watched(browser) as seen:
        page = seen.page
        page.goto(served.address)
        page.get_by_role("link", name=study.name).click()
        expect(page.get_by_text("None since the curator was started")).to_be_visible()
        for _ in range(2):
            refused(lambda: owner.components(study))
        row = page.get_by_role("row", name="owner:owner-of-refusals")
        expect(row.get_by_title("NotReadyError")).to_be_visible()
        expect(row).to_contain_text("DownloadComponents")
        expect(row.get_by_role("cell", name="2", exact=True)).to_be_visible()
        require_accessible(page)
        page.get_by_role("link", name="Refusals").click()
        refused(lambda: stranger.find(name=HOSTILE))
        row = page.get_by_role("row", name="owner:stranger-of-page")
        expect(row.get_by_title("UnknownStudyError")).to_be_visible()
        assert "onerror" not in page.content()
        require_accessible(page)
        curator.operator().abort(study.name, HOSTILE[:200])
        page.get_by_role("link", name="Studies").click()
        page.get_by_role("link", name=study.name).click()
        assert HOSTILE in page.inner_text("main")
        assert page.title() == f"Study {study.name}"
        expect(page.get_by_role("row", name="absent")).to_contain_text("did not take part")
        page.goto(page.url + "-not-there")
        assert "no such study" in page.inner_text("main").lower()
        seen.require_quiet_but("409")


@pytest.mark.parametrize("script", [True, False])
def test_by_keyboard_alone(
    curator: Curator, browser: Browser, served: Served, script: bool, site: OwnerSite, study: Study
) -> None:
    assert site.contribute(study)[0] == 0
    refused(lambda: curator.party(site.name).components(curator.begin(site.name)))
    with watched(browser, java_script_enabled=script) as seen:
        page = seen.page
        page.goto(served.address)
        page.keyboard.press("Tab")
        assert page.locator(":focus").text_content() == "Skip to the content"
        follow(page, study.name)
        reach(page, "Owners")
        look_again_until(page, "All signatures, digests and claims hold")
        open_details(page, "The same as a table")
        reach(page, "Receipts")
        follow(page, "Refusals")
        reach(page, "Recent refusals")
        follow(page, "Look again")
        follow(page, "Studies")
        seen.require_quiet()
