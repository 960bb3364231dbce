"""Words of art are one click away, and links that stand alone are large enough to be hit."""

from playwright.sync_api import expect

from tests.support.browser import OpenSite, require_accessible
from tests.support.curator import Curator, far_moment
from tests.support.sites import OwnerSite

ALONE = "nav a, .list a, .row > a, li > a, td > a, summary, button"
SMALL = f"""[...document.querySelectorAll("{ALONE}")]
    .filter((each) => each.checkVisibility())
    .map((each) => [each.textContent, each.getBoundingClientRect().height])
    .filter(([, height]) => height < 24)"""


def test_a_word_is_one_click_from_the_review_and_links_of_lists_are_24_pixels_high(
    curator: Curator, site: OwnerSite, open_site: OpenSite
) -> None:
    curator.begin(site.name, "absent", deadline=far_moment(), epsilon="0.01")
    with open_site(site) as (seen, _):
        page = seen.page
        assert page.evaluate(SMALL) == []
        page.get_by_role("link", name="Review").click()
        answer = page.get_by_role("region", name="Your answer")
        expect(answer.get_by_text("THE NOISE HIDES RELATIONS")).to_be_visible()
        assert page.evaluate(SMALL) == []
        page.get_by_role("link", name="noised").click()
        expect(page.locator("#noise")).to_be_focused()
        expect(page.get_by_text("added at your site to each number that leaves")).to_be_visible()
        assert page.evaluate(SMALL) == []
        require_accessible(page)
        page.go_back()
        page.get_by_role("link", name="Words").click()
        expect(page.get_by_role("heading", name="Words")).to_be_visible()
        seen.require_quiet()
