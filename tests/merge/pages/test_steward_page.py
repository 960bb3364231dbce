"""The steward's page in a real browser: from what would leave, by consent, to the components."""

import json
import re
import subprocess
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import OWNER, Processes
from tests.support.browser import (
    HOSTILE,
    OpenSite,
    Watched,
    agree,
    follow,
    look_again_until,
    look_at_review,
    open_details,
    reach,
    require_accessible,
    require_told,
    serve_site_page,
    watched,
)
from tests.support.curator import Curator, far_moment
from tests.support.federations import MaskedFederation, make_masked_federation
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite, make_enrolled_site
from tests.support.studies import CENSUS


def _open_review(page: Page, study: str) -> None:
    page.get_by_role("link", name=study).click()
    look_at_review(page)


def test_three_sites_from_consent_to_components_and_what_synthetic_rows_are_worth(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    site, *others = [make_enrolled_site(curator, tmp_path) for _ in range(3)]
    marks = ("43.1234567", "XQZ-marked", "XQZ-too")
    with (site.folder / "rows.csv").open("a") as file:
        file.write(",".join(marks) + "\n")
    study = curator.begin(site.name, *(other.name for other in others))
    assert others[0].contribute(study)[0] == 0
    review = site.run("review", study.name)[1]
    with open_site(site) as (seen, served):
        page = seen.page
        require_accessible(page)
        page.get_by_role("link", name=study.name).click()
        look_at_review(page)
        require_accessible(page)
        text = page.inner_text("main")
        for said in (
            f"{review['entries']} noised numbers",
            review["question"],
            "ε 2 of 3",
            *(each["name"] for each in review["attributes"]),
            *(label for each in review["attributes"] for label in each["values"]),
            *review["asserted"],
        ):
            assert said in text
        pages = [page.content()]
        assert "unknown" in pages[0], "the marked labels are counted"

        page.get_by_role("button", name="Contribute").click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was drawn or charged")
        require_told(page)
        assert site.history.length == 0
        agree(page)
        # The page looks by itself: nobody loads it again.
        expect(page.get_by_text("ε 1 was charged, once, to people: 2 of 3")).to_be_visible()
        assert site.history.total("survey").epsilon == Decimal(1)
        assert site.history.is_held(study.digest)
        assert f"when {others[1].name} has contributed" in page.inner_text("main")
        require_accessible(page)

        assert others[1].contribute(study)[0] == 0
        fetch = page.get_by_role("button", name="Fetch the components")
        expect(fetch).to_be_visible()
        fetch.click()
        page.get_by_text("Largest loadings of component 1").wait_for(state="attached")
        require_accessible(page)
        assert "is done" not in page.inner_text("main"), "the result says so"
        shown = site.run("components", study.name)[1]
        pages.append(page.content())
        for component in shown["components"]:
            for each in component["loadings"]:
                assert f"{each['loading']:+.3f}" in (page.text_content("main") or "")

        with page.expect_download() as given:
            page.get_by_role("link", name="components.npz", exact=True).click()
        kept = site.folder / "studies" / study.name / "components.npz"
        assert given.value.path().read_bytes() == kept.read_bytes()
        (kept.parent / "notes.txt").write_text("of rows")
        page.reload()
        expect(page.get_by_text("notes.txt: made here, site-only")).to_be_visible()
        assert page.get_by_role("link", name="notes.txt").count() == 0
        assert page.request.get(f"{page.url}/file/notes.txt").status == 404

        page.get_by_role("button", name="Draw synthetic rows and compare").click()
        link = page.get_by_role("link", name="The comparison")
        expect(link).to_be_visible()
        link.click()
        assert "SITE-ONLY" in page.inner_text("main")
        require_accessible(page)
        pages.append(page.content())
        assert not [mark for text in pages for mark in marks if mark in text]
        page.get_by_role("link", name="Studies").click()
        page.get_by_role("link", name="Budget and ledger").click()
        expect(page.get_by_text("3 entries, 1 of them a charge")).to_be_visible()
        expect(page.get_by_text(re.compile("dppca-owner --site .* budget export"))).to_be_visible()
        require_accessible(page)
        seen.require_quiet_but("422 (Unprocessable Entity)")
    served.process.send_signal(2)
    assert served.process.wait(WAIT_S) == 0


def test_a_consent_takes_two_pages_and_no_scrolling(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent", targets=["work"], deadline=far_moment())
    with open_site(site, viewport={"width": 1280, "height": 800}) as (seen, _):
        page = seen.page
        page.get_by_role("link", name="Review").click()
        page.get_by_text("What leaves, once").wait_for()
        answer = page.get_by_role("region", name="Your answer")
        expect(answer.get_by_text("NOT SAID: purpose, contact, approval.")).to_be_visible()
        asked = site.run("review", study.name)[1]
        for shown in (
            page.locator("dl", has_text=f"{asked['entries']} noised numbers"),
            page.locator("dd", has_text="ε 1, once"),
            page.locator("dd", has_text="ε 2 of 3"),
            *(page.get_by_role("row", name=each["name"]) for each in asked["attributes"]),
            *(page.get_by_label(each) for each in asked["asserted"]),
            page.get_by_role("button", name="Contribute"),
        ):
            expect(shown).to_be_in_viewport(ratio=1)
        agree(page)
        expect(page.get_by_text("bytes on 200 rows left this site")).to_be_visible()
        expect(page.get_by_text("The components come when absent has contributed")).to_be_visible()
    assert site.history.is_held(study.digest)


def test_a_steward_says_no_or_not_now_at_this_site_alone_and_takes_it_back(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent")
    with open_site(site) as (seen, _):
        page = seen.page
        said = (("Not now", "not now", "“not now”"), ("Decline", "declined", "You declined"))
        for button, kind, words in said:
            page.get_by_role("link", name="Studies").click()
            page.get_by_role("link", name=study.name).click()
            look_at_review(page)
            page.get_by_role("button", name=button).click()
            expect(page.get_by_text(words)).to_be_visible()
            require_accessible(page)
            page.get_by_role("link", name="Studies").click()
            expect(page.get_by_text(kind, exact=True)).to_be_visible()
        (listed,) = site.run("studies")[1]["studies"]
        assert (listed["badge"]["group"], listed["contributed"]) == ("Ended", False)
        assert "declined" in listed["next"]
        page.get_by_role("link", name=study.name).click()
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("waits for you", exact=True)).to_be_visible()
        seen.require_quiet()
    assert not (site.folder / "studies" / study.name / "answer.json").exists()
    assert not site.history.charges


def test_by_keyboard_alone_and_without_script_to_components_and_ledger(
    site: OwnerSite, open_site: OpenSite, study: Study
) -> None:
    with open_site(site, java_script_enabled=False) as (seen, _):
        page = seen.page

        page.keyboard.press("Tab")
        assert page.locator(":focus").text_content() == "Skip to the content"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")
        follow(page, study.name)
        follow(page, "Review what would leave")
        look_again_until(page, "What leaves, once")
        for words in ("Nobody has more", "Contribute"):
            reach(page, words)
            page.keyboard.press("Space")
        look_again_until(page, "The joint components are ready")
        follow(page, "Fetch the components")
        open_details(page, "The same as a table")
        follow(page, "Draw synthetic rows and compare")
        look_again_until(page, "The comparison for")
        look_again_until(page, "is done")
        follow(page, "The comparison")
        assert "SITE-ONLY" in page.inner_text("main")
        open_details(page, "age as a table")
        follow(page, "Budget and ledger")
        reach(page, "Charges")  # a table that is wider than a telephone is scrolled by its arrows
        assert study.name in page.inner_text("main")
        follow(page, "Studies")
        seen.require_quiet()
    assert site.history.is_held(study.digest)


def test_two_tabs_that_agree_make_one_contribution_and_ctrl_c_says_what_was_charged(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent")
    with open_site(site) as (seen, served):
        _open_review(seen.page, study.name)
        other = seen.page.context.new_page()
        other.goto(seen.page.url)
        for page in (seen.page, other):
            agree(page)
        expect(seen.page.get_by_text("ε 1 was charged, once")).to_be_visible()
        other.goto(seen.page.url)
        expect(other.get_by_text("ε 1 was charged, once")).to_be_visible()
    history = site.history
    assert history.total("survey").epsilon == Decimal(1)
    assert len(history.reservations) == len(history.commitments) == 1
    served.process.send_signal(2)
    assert served.process.wait(WAIT_S) == 0
    said = " ".join(served.said().split())
    assert f"tudy {study.name} was charged to population people (epsilon 1, delta 0)" in said
    assert f"The contribution to study {study.name} has arrived at the curator" in said


def test_rows_that_took_the_place_of_those_looked_at_are_not_contributed(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    site = make_enrolled_site(curator, tmp_path, budget='epsilon: "3", delta: "1e-6"')
    study = curator.begin(site.name, "absent", mechanism="gaussian", delta="1e-6")
    rows = site.folder / "rows.csv"
    head, first, *others = rows.read_text().splitlines()
    with open_site(site) as (seen, _):
        _open_review(seen.page, study.name)
        seen.page.get_by_text("The promise in full").click()
        assert "rho" not in seen.page.inner_text("main"), "amounts for people are epsilons"
        rows.write_text("\n".join([head, *others, others[0], ""]))
        assert first != others[0]
        agree(seen.page)
        expect(seen.page.get_by_text("look at it again")).to_be_visible()
    assert site.history.length == 0


@pytest.mark.parametrize("step", ["read", "reserve", "draw", "commit", "send", "acknowledge"])
def test_a_page_that_is_killed_during_consent_has_charged_once(
    curator: Curator, site: OwnerSite, open_site: OpenSite, step: str
) -> None:
    study = curator.begin(site.name, "absent")
    with open_site(site, fault=f"kill@{step}") as (seen, served):
        _open_review(seen.page, study.name)
        agree(seen.page)
        assert served.process.wait(WAIT_S) == -9
    assert bool(site.history.reservations) == (step != "read")
    with open_site(site) as (seen, served):
        _open_review(seen.page, study.name)
        agree(seen.page)
        expect(seen.page.get_by_text("bytes on 200 rows left this site")).to_be_visible()
    history = site.history
    assert history.total("survey").epsilon == Decimal(1)
    assert len(history.reservations) == len(history.commitments) == 1
    assert history.is_held(study.digest)


def test_names_of_a_study_and_reasons_of_a_curator_are_text(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    attributes = [dict(each) for each in CENSUS]
    attributes[0] |= {"name": HOSTILE, "missing_values": {"97": HOSTILE}}
    attributes[1] |= {"name": "&lt;b&gt;{{ 7 * 7 }}", "values": [HOSTILE, "{% raw %}"]}
    attributes[2]["categories"] = ["javascript:alert(3)", "</table></main>", "\u202eko\u202c"[1:3]]
    name = curator.begin(site.name, attributes=attributes).name
    header = ",".join('"' + each["name"].replace('"', '""') + '"' for each in attributes)
    quoted = HOSTILE.replace('"', '""')
    rows = f'40,{{% raw %}},javascript:alert(3)\n500,"{quoted}",?\n60,?,?\n'
    (site.folder / "rows.csv").write_text(header + "\n" + rows * 50)
    aborted = curator.begin(site.name, "absent")
    curator.operator().abort(aborted.name, HOSTILE[:200])
    with open_site(site) as (seen, _):
        page = seen.page
        _open_review(page, name)
        assert f"Counted as missing: 97 ({HOSTILE}): {HOSTILE}." in page.inner_text("main")
        assert "{{ 7 * 7 }}" in page.inner_text("main")
        agree(page)
        page.get_by_role("button", name="Fetch the components").click()
        page.get_by_text("Largest loadings of component 1").wait_for(state="attached")
        assert HOSTILE in (page.text_content("main") or "")
        page.get_by_role("button", name="Draw synthetic rows and compare").click()
        page.get_by_role("link", name="The comparison").click()
        assert HOSTILE in page.inner_text("main")
        page.get_by_role("link", name="Studies").click()
        page.get_by_role("link", name=aborted.name).click()
        assert HOSTILE[:200] in page.inner_text("main")
        assert "ended without a result" in page.inner_text("main")
        assert page.title() == f"Study {aborted.name}"
        seen.require_quiet()


def test_another_page_another_host_and_a_second_browser_get_nothing(
    site: OwnerSite, browser: Browser, live: Processes
) -> None:
    served = serve_site_page(live, site)
    base, _, token = served.address.partition("/login")

    def status(path: str, **headers: str) -> int:
        connection = HTTPConnection(base.removeprefix("http://"), timeout=WAIT_S)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        assert site.name not in answer.read().decode()
        connection.close()
        return answer.status

    port = base.rpartition(":")[2]
    line = ["-P", "-m", OWNER, "--site", site.folder, "page", "--port", port, "--json"]
    second = live.start(line, stdout=subprocess.PIPE)
    told, _ = second.communicate(timeout=WAIT_S)
    assert second.returncode == 10
    assert "choose another with --port" in json.loads(told)["error"]["message"]
    assert status("/login?token=wrong") == 403
    assert status("/") == 403
    assert status(f"/login{token}", Host="evil.example") == 403
    assert status(f"/login{token}", Origin="http://evil.example") == 403
    with watched(browser) as seen:
        seen.page.goto(served.address)
        assert "No study" in seen.page.inner_text("main")
        place = seen.page.url
        cookies = seen.page.context.cookies()
        assert [(each["httpOnly"], each["sameSite"]) for each in cookies] == 2 * [(True, "Strict")]
        assert seen.page.evaluate("document.cookie") == ""
        with watched(browser) as other:
            assert "used before" in _text(other, served.address)
            told = _text(other, place)
            assert told.startswith("This page was not shown, and nothing was done")
            assert "has not logged in" in told
        served.process.kill()
        expect(seen.page.get_by_text("does not answer")).to_be_visible()


def _text(seen: Watched, address: str) -> str:
    seen.page.goto(address)
    return seen.page.inner_text("main")


def test_a_study_that_is_not_covered_is_told_with_the_reason_and_a_bad_column_first(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    header, *lines = (site.folder / "rows.csv").read_text().splitlines()
    words = [",".join(["forty", *line.split(",")[1:]]) for line in lines]
    (site.folder / "rows.csv").write_text("\n".join([header, *words, ""]))
    study = curator.begin(site.name, delta="1e-6")
    reason = "at which they have no finite epsilon"
    with open_site(site) as (seen, _):
        seen.page.get_by_text("Why", exact=True).click()
        assert reason in seen.page.inner_text("main")
        seen.page.get_by_role("link", name=study.name).click()
        look_at_review(seen.page)
        text = seen.page.inner_text("main")
        assert text.index("NOT READ: no value of age is a number") < text.index("What leaves")
        assert "This cannot be contributed" in text
        assert reason in text
        assert not seen.page.get_by_role("button", name="Contribute").count()


@pytest.fixture
def federation(curator: Curator, tmp_path: Path) -> MaskedFederation:
    """Three sites, all of which have contributed; two are openers."""
    made = make_masked_federation(curator, tmp_path)
    made.contribute()
    return made


def _look(page: Page, study: str) -> None:
    page.get_by_role("link", name=study).click()
    page.get_by_role("link", name="Look at what would be opened").click()


def test_two_openers_open_on_the_page_and_the_study_has_components(
    federation: MaskedFederation, open_site: OpenSite
) -> None:
    name, (first, second) = federation.study.name, federation.openers
    for site in (first, second):
        charges = site.history.charges
        with open_site(site) as (seen, served):
            page = seen.page
            expect(page.get_by_text("waits for you to open")).to_be_visible()
            page.get_by_role("link", name=name).click()
            page.get_by_role("link", name="Look at what would be opened").click()
            require_accessible(page)
            text = page.inner_text("main")
            for owner in federation.sites:
                assert owner.name in text
            assert "one sum of masks" in text
            page.get_by_role("button", name="Open this").click()
            expect(page.get_by_role("alert")).to_contain_text("Nothing was opened or sent")
            require_told(page)
            assert "open" not in site.entries
            agree(page, "Open this")
            expect(page.get_by_text(f"The opening of {name} is done")).to_be_visible()
            if site is first:
                text = page.inner_text("main")
                assert "This site has opened." in text
                assert f"Waits for {second.name} to open the sum" in text
                require_accessible(page)
            else:
                fetch = page.get_by_role("button", name="Fetch the components")
                expect(fetch).to_be_visible()
                fetch.click()
                page.get_by_text("Largest loadings of component 1").wait_for(state="attached")
            seen.require_quiet_but("422 (Unprocessable Entity)")
        assert site.entries.count("open") == site.entries.count("opened") == 1
        assert site.opener_keys == ()
        assert site.history.charges == charges
        served.process.send_signal(2)
        assert served.process.wait(WAIT_S) == 0
        assert "Nothing was charged by this command" in served.said()


@pytest.mark.parametrize("step", ["check", "open", "destroy", "acknowledge"])
def test_a_page_that_is_killed_while_it_opens_goes_on(
    federation: MaskedFederation, open_site: OpenSite, step: str
) -> None:
    name, site = federation.study.name, federation.openers[0]
    charges = site.history.charges
    with open_site(site, fault=f"kill@{step}") as (seen, served):
        _look(seen.page, name)
        agree(seen.page, "Open this")
        assert served.process.wait(WAIT_S) == -9
    assert ("open" in site.entries) == (step != "check")
    with open_site(site) as (seen, served):
        _look(seen.page, name)
        if step != "check":
            assert "Nobody knows whether that has arrived" in seen.page.inner_text("main")
        agree(seen.page, "Open this")
        expect(seen.page.get_by_text("This site has opened.")).to_be_visible()
    assert site.entries.count("open") == site.entries.count("opened") == 1
    assert site.opener_keys == ()
    assert site.history.charges == charges


def test_with_spares_a_page_votes_and_opens_once_the_others_have_voted(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    federation = make_masked_federation(curator, tmp_path, 4, n_openers=4, spares=1)
    federation.contribute()
    name, (site, *others) = federation.study.name, federation.openers
    with open_site(site, fault="kill@vote") as (seen, served):
        _look(seen.page, name)
        assert "votes for the set first" in seen.page.inner_text("main")
        agree(seen.page, "Open this")
        assert served.process.wait(WAIT_S) == -9
    with open_site(site) as (seen, served):
        _look(seen.page, name)
        agree(seen.page, "Open this")
        expect(seen.page.get_by_text(f"The vote of this site for {name} is done.")).to_be_visible()
        told = seen.page.inner_text("main")
        assert "once those that are named below have voted" in told
        assert not re.search(r"dppca-owner (--site \S+ )?open", told)
        assert all(other.name in told for other in others)
        assert site.entries.count("vote") == 1
        for other in others[:2]:
            other.run("open", name)  # which votes
        seen.page.get_by_role("link", name="Look at what would be opened").click()
        agree(seen.page, "Open this")
        done = seen.page.get_by_text(f"The opening of {name} is done")
        expect(done).to_be_visible()
    assert site.entries.count("vote") == site.entries.count("open") == 1


def test_an_opener_key_that_is_of_no_more_use_is_destroyed_on_the_page(
    curator: Curator, tmp_path: Path, open_site: OpenSite
) -> None:
    federation = make_masked_federation(curator, tmp_path)
    site, name = federation.openers[0], federation.study.name
    federation.contribute(site)
    curator.operator().abort(name)
    assert len(site.opener_keys) == 1
    with open_site(site) as (seen, _):
        seen.page.get_by_role("link", name=name).click()
        seen.page.get_by_role("link", name="Destroy it").click()
        agree(seen.page, "Open this")
        expect(seen.page.get_by_text("is destroyed")).to_be_visible()
    assert site.opener_keys == ()
