"""Both pages in every state of a study, as people use them: tabs, back, reload, a used link."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dppca.common.kernel.identity.tls import Role
from dppca.common.transport.testbed import CURATOR, SERVE, Processes
from tests.support.browser import (
    OpenSite,
    agree,
    look_at_review,
    require_accessible,
    serve_page,
    watched,
)
from tests.support.certificates import write_credentials
from tests.support.curator import Curator
from tests.support.federations import make_masked_federation
from tests.support.noise import seed_noise
from tests.support.sites import OwnerSite, make_enrolled_site


def _require_state(page: Page, words: str) -> None:
    """The pill of an open page says so, though nobody has loaded it again."""
    expect(page.locator("h1 + .pill")).to_have_text(words)


def test_open_tabs_follow_a_study_from_open_to_its_result(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    site, other = (make_enrolled_site(curator, tmp_path) for _ in range(2))
    study = curator.begin(site.name, other.name)
    with open_site(site) as (seen, served):
        first, place = seen.page, seen.page.url
        listed, second = first.context.new_page(), first.context.new_page()
        listed.goto(place)
        for page in (first, second):
            page.goto(f"{place}study/{study.name}")
            _require_state(page, "waits for you")
            look_at_review(page)
        agree(first)
        for page in (first, second):  # the other tab still asked what is answered now
            _require_state(page, "waits for others")
        expect(listed.get_by_text("waits for others", exact=True)).to_be_visible()
        first.go_back()
        _require_state(first, "waits for others")
        first.reload()
        _require_state(first, "waits for others")

        second.close()
        reopened = first.context.new_page()
        for address in (served.address, place.rpartition("/")[0].rpartition("/")[0] + "/"):
            reopened.goto(address)  # the used link, and the bare address
            reopened.wait_for_url(place)
            expect(reopened.get_by_role("heading", name="Studies")).to_be_visible()
        reopened.goto(served.address.partition("?")[0])
        reopened.wait_for_url(place)
        bare = f"{place.rpartition('/')[0].rpartition('/')[0]}/"
        hostile = reopened.context.new_page()
        for left in (
            "http://127.0.0.1:1/x",
            "//127.0.0.1:1/x",
            "/login?token=x",
            f"{'/' + '0' * 32}/x",
        ):
            # Whoever had this port before may have left it.
            hostile.goto(place)
            hostile.evaluate("left => localStorage.setItem('place', left)", left)
            hostile.goto(bare)
            hostile.wait_for_load_state("networkidle")
            assert hostile.url == bare
        hostile.close()

        assert other.contribute(study)[0] == 0
        _require_state(first, "result ready")
        expect(listed.get_by_text("result ready")).to_be_visible()
        reopened.goto(f"{place}study/{study.name}")
        first.get_by_role("button", name="Fetch the components").click()
        for page in (first, reopened):
            _require_state(page, "result here")
        assert len(site.history.charges) == 1
        seen.require_quiet_but("403 (Forbidden)")


def test_pages_begin_with_the_news_that_nothing_was_found(
    curator: Curator,
    tmp_path: Path,
    open_site: OpenSite,
    live: Processes,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed_noise(monkeypatch)
    site = make_enrolled_site(curator, tmp_path)
    study = curator.begin(
        site.name, privacy={"mechanism": "laplace", "epsilon": "0.001"}, components={"count": 3}
    )
    assert site.contribute(study)[0] == 0
    assert site.run("components", study.name, "--wait", "300")[0] == 0
    wanted = re.compile(r"Nothing was found: all \d+ components may be noise\. ε 0\.001 is spent\.")
    with open_site(site) as (seen, _):
        page = seen.page
        expect(page.locator(".pill").first).to_be_visible()
        expect(page.locator(".pill.good")).to_have_count(0)
        page.goto(f"{page.url}study/{study.name}")
        _require_state(page, "nothing above the noise")
        notice = page.locator(".notice.wait")
        expect(notice).to_contain_text(wanted)
        expect(page.get_by_role("heading", name="Component 1")).to_be_hidden()
        page.get_by_text("3 components that noise alone can make: do not read them").click()
        expect(page.get_by_role("heading", name="Component 1")).to_be_visible()
        expect(page.locator("button.main")).to_have_count(0)
        require_accessible(page)
        seen.require_quiet()
    with watched(browser) as seen:
        page = seen.page
        page.goto(serve_page(live, CURATOR, ["page", *curator.connection]).address)
        page.get_by_role("link", name=study.name).click()
        expect(page.locator(".notice.wait")).to_contain_text(wanted)
        seen.require_quiet()


def test_open_tabs_follow_a_sum_from_open_to_its_opening_and_an_abort(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    federation = make_masked_federation(curator, tmp_path)
    name, (site, other) = federation.study.name, federation.openers
    ended = curator.begin(site.name, "absent")
    with open_site(site) as (seen, _):
        page, place = seen.page, seen.page.url
        aborted = page.context.new_page()
        aborted.goto(f"{place}study/{ended.name}")
        page.goto(f"{place}study/{name}")
        _require_state(page, "waits for you")
        federation.contribute()
        _require_state(page, "waits for you to open")
        page.get_by_role("link", name="Look at what would be opened").click()
        tab = page.context.new_page()
        tab.goto(page.url)
        agree(page, "Open this")
        for each in (page, tab):
            _require_state(each, "waits for openers")
        assert other.run("open", name)[0] == 0
        _require_state(page, "result ready")
        curator.operator().abort(ended.name, "for a test")
        _require_state(aborted, "ended")
        expect(aborted.get_by_text("“for a test”")).to_be_visible()
        seen.require_quiet()


def test_pages_wait_for_a_curator_that_does_not_answer(
    tmp_path: Path, browser: Browser, live: Processes, open_site: OpenSite
) -> None:
    curator = Curator(tmp_path / "hub").start()
    site = make_enrolled_site(curator, tmp_path)
    study = curator.begin(site.name, "absent")
    issued = curator.authority.issue(Role.OPERATOR, "op")
    credentials = write_credentials(tmp_path / "operator", issued)
    line = ["page", "--curator", curator.address, "--credentials", credentials]
    try:
        with open_site(site) as (steward, _), watched(browser) as hub:
            hub.page.goto(serve_page(live, CURATOR, line).address)
            for page in (steward.page, hub.page):
                expect(page.get_by_role("link", name=study.name)).to_be_visible()
            curator.kill()
            for page in (steward.page, hub.page):
                expect(page.get_by_text("The curator does not answer.")).to_be_visible()
                expect(page.get_by_role("link", name=study.name)).to_be_visible()
                require_accessible(page)
                page.get_by_role("link", name=study.name).click()
                expect(page.get_by_role("heading", name="does not answer")).to_be_visible()
            require_accessible(steward.page)
            at = ["--listen", curator.address, "--credentials", curator.credentials]
            live.start([*SERVE, "--state", curator.state, *at])
            for page in (steward.page, hub.page):
                expect(page.get_by_role("heading", name=study.name)).to_be_visible()
            steward.require_quiet_but("503 (Service Unavailable)")
    finally:
        curator.stop()


def test_a_changed_policy_is_read_by_an_open_page(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent", epsilon="5")
    policy = site.folder / "policy.yaml"
    with open_site(site) as (seen, _):
        page = seen.page
        page.get_by_role("link", name=study.name).click()
        _require_state(page, "not covered")
        look_at_review(page)
        expect(page.get_by_text("This cannot be contributed")).to_be_visible()
        policy.write_text(policy.read_text().replace('"3.0"', '"9"'))
        _require_state(page, "waits for you")
        expect(page.get_by_text("ε 4 of 9")).to_be_visible()
        require_accessible(page)
        seen.require_quiet()
