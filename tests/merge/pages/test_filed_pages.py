"""Pages that people file or read on a telephone: printed on A4, and 390 points wide."""

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, expect

from tests.support.browser import OpenSite, look_at_review, require_accessible
from tests.support.curator import Curator, far_moment
from tests.support.sites import OwnerSite

A4 = 703
"""Width of a sheet of A4 within its margins, in points of the style sheet."""
TITLE = "Kinds of work by age"


def _require_filed(page: Page, *words: str, sheets: int = 2) -> None:
    """A printed page has these words, fits its sheets, and nothing on it can be pressed."""
    before = page.viewport_size
    assert before is not None
    page.emulate_media(media="print")
    printed = page.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert 0 < len(boxes) <= sheets, page.title()
    assert {(round(float(wide)), round(float(high))) for wide, high in boxes} == {(595, 842)}
    page.set_viewport_size({"width": A4, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= A4
    for pressed in page.locator("nav, form, button, .button, summary, select").all():
        expect(pressed).to_be_hidden()
    for text in words:
        expect(page.get_by_text(text).filter(visible=True).first).to_be_visible()
    page.emulate_media(media="screen")
    page.set_viewport_size(before)


def test_results_budget_estimates_and_comparison_are_filed_on_a4(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, title=TITLE)
    assert site.contribute(study)[0] == 0
    assert site.run("components", study.name, "--wait", "300")[0] == 0
    with open_site(site) as (seen, _):
        page, place = seen.page, seen.page.url
        page.get_by_role("link", name=TITLE).click()
        conditions = site.run("components", study.name)[1]["assumptions"]
        _require_filed(page, "Promise", *conditions, study.digest)
        expect(page.get_by_text(conditions[0])).to_be_hidden()
        page.get_by_role("link", name="Estimates with intervals").click()
        page.get_by_role("button", name="Estimate").click()
        page.get_by_role("button", name="Estimate").wait_for()
        _require_filed(page, TITLE, study.digest)
        page.goto(f"{place}ledger")
        _require_filed(page, "The chain verifies", study.name, "contribution")
        page.goto(f"{place}study/{study.name}")
        page.get_by_role("button", name="Draw synthetic rows and compare").click()
        page.get_by_role("link", name="The comparison").click()
        _require_filed(page, "SITE-ONLY", "Train on synthetic, test on real", sheets=4)
        seen.require_quiet()


def test_price_and_answer_stay_in_view_on_a_telephone_and_nowhere_else(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    study = curator.begin(site.name, "absent", "late", deadline=far_moment(), title=TITLE)
    with open_site(site, viewport={"width": 390, "height": 844}) as (seen, _):
        page = seen.page
        page.get_by_role("link", name=TITLE).click()
        look_at_review(page)
        answer, price = page.get_by_role("link", name="Answer"), page.locator(".bar")
        for share in (0, 0.1, 0.2):
            page.evaluate(f"scrollTo(0, {share} * document.body.scrollHeight)")
            expect(answer).to_be_in_viewport(ratio=1)
            expect(price).to_contain_text("ε 1, once 2 of 3 left")
        page.evaluate("scrollTo(0, 0)")
        answer.click()
        expect(page.get_by_role("heading", name="Your answer")).to_be_in_viewport(ratio=1)
        require_accessible(page)
        page.set_viewport_size({"width": 1280, "height": 800})
        expect(answer).to_be_hidden()
        seen.require_quiet()
    assert not site.history.charges
    assert study.title == TITLE


def test_list_and_page_say_for_whom_a_study_waits_and_until_when(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    end = (datetime.now(UTC) + timedelta(days=2, hours=3, minutes=30)).isoformat()
    study = curator.begin(site.name, "absent", "late", deadline=end, quorum=2, title=TITLE)
    with open_site(site) as (seen, _):
        page = seen.page
        listed = page.get_by_role("listitem").filter(has_text=study.name)
        expect(listed).to_contain_text(f"“{TITLE}”")
        expect(listed).to_contain_text("waits for you and 2 other owners until ")
        expect(listed).to_contain_text("(in 2 d 3 h)")
        page.get_by_role("link", name=TITLE).click()
        waits = page.locator(".waits")
        expect(waits).to_contain_text("Waits for you, absent and late until ")
        expect(waits).to_contain_text("(in 2 d 3 h). Then 2 of the 3 owners are enough.")
        assert site.contribute(study)[0] == 0
        expect(waits).to_contain_text("Waits for absent and late until ")
        page.get_by_role("link", name="Studies").click()
        expect(listed).to_contain_text("waits for 2 other owners until ")
        seen.require_quiet()
