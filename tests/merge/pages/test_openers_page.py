"""An opener opens on the page: it sees what, at no cost, and agrees as to a contribution."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dppca.common.transport.testbed import Processes
from dppca.common.wire import federation_pb2 as pb
from dppca.owner.site.opener_keys import list_opener_keys
from tests.support.browser import (
    require_accessible,
    require_told,
    serve_site_page,
    watched,
)
from tests.support.curator import Curator
from tests.support.federations import MaskedFederation, make_masked_federation
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite


@pytest.fixture
def federation(curator: Curator, tmp_path: Path) -> MaskedFederation:
    """Three sites, all of which have contributed; two are openers."""
    made = make_masked_federation(curator, tmp_path)
    made.contribute()
    return made


def _look(page: Page, address: str, study: str) -> None:
    page.goto(address)
    page.get_by_role("link", name=study).click()
    page.get_by_role("link", name="Look at what would be opened").click()


def _agree(page: Page, study: str) -> None:
    page.get_by_label("To agree, type the name").fill(study)
    page.get_by_role("button", name="Open this").click()


def _kinds(site: OwnerSite) -> list[str]:
    direct = sqlite3.connect(site.folder / "ledger.sqlite")
    rows = direct.execute("SELECT document FROM entries ORDER BY sequence").fetchall()
    direct.close()
    return [json.loads(document)["kind"] for (document,) in rows]


def test_two_openers_open_on_the_page_and_the_study_has_components(
    federation: MaskedFederation, browser: Browser, live: Processes
) -> None:
    name, (first, second) = federation.study.name, federation.openers
    for site in (first, second):
        charges = site.history.charges
        served = serve_site_page(live, site)
        with watched(browser) as seen:
            page = seen.page
            page.goto(served.address)
            expect(page.get_by_role("row", name=name)).to_contain_text("one of its openers")
            page.get_by_role("link", name=name).click()
            page.get_by_role("link", name="Look at what would be opened").click()
            require_accessible(page)
            text = page.inner_text("main")
            for owner in federation.sites:
                assert owner.name in text
            assert "Nothing of any budget" in text
            _agree(page, "another")
            expect(page.get_by_role("alert")).to_contain_text("Nothing was opened or sent")
            require_told(page)
            assert "open" not in _kinds(site)
            _agree(page, name)
            expect(page.get_by_text(f"The opening of {name} is done")).to_be_visible()
            if site is first:
                text = page.inner_text("main")
                assert "This site has opened." in text
                assert f"waits for its openers: {second.name}" in text
                require_accessible(page)
            else:
                fetch = page.get_by_role("button", name="Fetch the components")
                expect(fetch).to_be_visible()
                fetch.click()
                page.get_by_text("Largest loadings of component 1").wait_for()
            seen.require_quiet_but("422 (Unprocessable Entity)")
        assert _kinds(site).count("open") == _kinds(site).count("opened") == 1
        assert list_opener_keys(site.folder / "openers") == ()
        assert site.history.charges == charges
        served.process.send_signal(2)
        assert served.process.wait(WAIT_S) == 0
        assert "Nothing was charged by this command" in served.said()


@pytest.mark.parametrize("step", ["check", "open", "destroy", "acknowledge"])
def test_a_page_that_is_killed_while_it_opens_goes_on(
    federation: MaskedFederation, browser: Browser, live: Processes, step: str
) -> None:
    name, site = federation.study.name, federation.openers[0]
    charges = site.history.charges
    served = serve_site_page(live, site, fault=f"kill@{step}")
    with watched(browser) as seen:
        _look(seen.page, served.address, name)
        _agree(seen.page, name)
        assert served.process.wait(WAIT_S) == -9
    assert ("open" in _kinds(site)) == (step != "check")
    served = serve_site_page(live, site)
    with watched(browser) as seen:
        _look(seen.page, served.address, name)
        if step != "check":
            assert "It is not known whether that has arrived" in seen.page.inner_text("main")
        _agree(seen.page, name)
        expect(seen.page.get_by_text("This site has opened.")).to_be_visible()
    assert _kinds(site).count("open") == _kinds(site).count("opened") == 1
    assert list_opener_keys(site.folder / "openers") == ()
    assert site.history.charges == charges


def test_with_spares_a_page_votes_and_opens_once_the_others_have_voted(
    curator: Curator, tmp_path: Path, browser: Browser, live: Processes
) -> None:
    federation = make_masked_federation(curator, tmp_path, 4, n_openers=4, spares=1)
    federation.contribute()
    name, (site, *others) = federation.study.name, federation.openers
    served = serve_site_page(live, site, fault="kill@vote")
    with watched(browser) as seen:
        _look(seen.page, served.address, name)
        assert "votes for the set first" in seen.page.inner_text("main")
        _agree(seen.page, name)
        assert served.process.wait(WAIT_S) == -9
    served = serve_site_page(live, site)
    with watched(browser) as seen:
        _look(seen.page, served.address, name)
        _agree(seen.page, name)
        expect(seen.page.get_by_text("this site has voted")).to_be_visible()
        assert _kinds(site).count("vote") == 1
        for other in others[:2]:
            other.run("open", name)  # which votes
        seen.page.get_by_role("link", name="Look at what would be opened").click()
        _agree(seen.page, name)
        done = seen.page.get_by_text(f"The opening of {name} is done")
        expect(done).to_be_visible()
    assert _kinds(site).count("vote") == _kinds(site).count("open") == 1


def test_an_opener_key_that_is_of_no_more_use_is_destroyed_on_the_page(
    curator: Curator, tmp_path: Path, browser: Browser, live: Processes
) -> None:
    federation = make_masked_federation(curator, tmp_path)
    site, name = federation.openers[0], federation.study.name
    federation.contribute(site)
    curator.operator().admin.AbortStudy(pb.AbortStudyRequest(name=name, reason="a test"))
    assert len(list_opener_keys(site.folder / "openers")) == 1
    served = serve_site_page(live, site)
    with watched(browser) as seen:
        seen.page.goto(served.address)
        seen.page.get_by_role("link", name=name).click()
        seen.page.get_by_role("link", name="Destroy it").click()
        _agree(seen.page, name)
        expect(seen.page.get_by_text("is destroyed")).to_be_visible()
    assert list_opener_keys(site.folder / "openers") == ()
