"""A page that keeps itself up to date says each change of a status once to a screen reader."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Route, expect

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.pages.rendering import STATIC, render
from dppca.owner.commands.page.jobs import Job
from dppca.owner.commands.page.site_pages import TEMPLATES
from tests.support.browser import watched
from tests.support.studies import make_study

PLACE = "http://127.0.0.1:8700/place/study/census"
_OF_A_STATE = """<script src="/static/live.js" defer></script>
<section id="live-{state}" data-live="0.1"><a href="/place/review">Review</a></section>"""
_HEAR = """window.heard = []; window.changed = 0;
new MutationObserver((changes) => {
    window.changed += 1;
    for (const region of document.querySelectorAll("[role=status], [aria-live]"))
        if (changes.some((each) => region.contains(each.target)))
            window.heard.push(region.textContent.trim());
}).observe(document.body, {childList: true, subtree: true, attributes: true});
window.status_element = document.querySelector("section [role=status]");"""


def test_a_status_is_said_when_it_changes_and_a_count_is_not(browser: Browser) -> None:
    job = Job("census", "The review of census", step="Counting", total=1000, unit="rows")

    def answer(route: Route) -> None:
        if "/static/" in route.request.url:
            route.fulfill(path=STATIC / route.request.url.rpartition("/")[2])
            return
        job.done += 1
        page: dict[str, Any] = {"face": [], "job": job, "study": make_study(), "steps": []}
        page |= {"site": "a", "cost": "1", "badge": {"kind": "wait", "words": "under way"}}
        shown = {"who": "a", "links": (), "place": "/place", "form_token": "x", "tab": "/"}
        text = render([TEMPLATES], "progress.html", **page, **shown, now=utc_now())
        route.fulfill(body=text, content_type="text/html")

    with watched(browser) as seen:
        page = seen.page
        page.route("**/*", answer)
        page.goto(PLACE)
        page.evaluate(_HEAR)
        expect(page.get_by_text("4 of 1,000 rows")).to_be_visible()
        assert page.evaluate("window.changed") > 0
        assert page.evaluate("window.heard") == []
        job.step, job.total = "going on", 0
        job.notes.append("It cannot be stopped any more.")
        status = page.locator("section [role=status]")
        expect(status).to_contain_text("going on")
        for _ in range(3):  # at the third look, all is shown of two at which nothing was new
            with page.expect_response(lambda seen: "/static/" not in seen.url):
                pass
        assert page.evaluate("window.heard") == ["going onIt cannot be stopped any more."]
        element = "window.status_element === document.querySelector('section [role=status]')"
        assert page.evaluate(element)
        expect(page.get_by_role("progressbar")).to_be_hidden()
        seen.require_quiet()


def test_a_page_that_is_being_left_is_not_loaded_again(browser: Browser) -> None:
    """To load it again would end the request of whoever has clicked."""
    asked: list[Route] = []

    def answer(route: Route) -> None:
        if "/static/" in route.request.url:
            route.fulfill(path=STATIC / route.request.url.rpartition("/")[2])
        elif route.request.url.endswith("/review"):
            asked.append(route)
        else:
            text = _OF_A_STATE.format(state="after" if asked else "before")
            route.fulfill(body=text, content_type="text/html")

    with watched(browser) as seen:
        page = seen.page
        page.route("**/*", answer)
        page.goto(PLACE)
        page.get_by_role("link").click(no_wait_after=True)
        for _ in range(3):  # at the third look, what the second one changed is done
            with page.expect_response(PLACE):
                pass
        (left,) = asked
        left.fulfill(body="<h1>The review</h1>", content_type="text/html")
        expect(page.get_by_role("heading")).to_have_text("The review")


@pytest.mark.parametrize(
    "kept",
    [
        "http://127.0.0.1:8701/fake",
        "//127.0.0.1:8701/fake",
        f"/{'a' * 32}/../fake",
        f"//{'a' * 32}/",
        "javascript:document.title='RUN'",
        "/login?token=known",
    ],
)
def test_a_place_that_another_server_left_is_not_followed(browser: Browser, kept: str) -> None:
    own = f"/{'0123456789abcdef' * 2}/"
    opened = list[str]()

    def answer(route: Route) -> None:
        if "/static/" in route.request.url:
            route.fulfill(path=STATIC / route.request.url.rpartition("/")[2])
            return
        opened.append(route.request.url)
        text = '<nav></nav><script src="/static/live.js" defer></script>'
        route.fulfill(body=text, content_type="text/html")

    with watched(browser) as seen:
        page = seen.page
        page.route("**/*", answer)
        page.goto("http://127.0.0.1:8700/elsewhere")
        page.evaluate("kept => localStorage.setItem('place', kept)", kept)
        for address in ("http://127.0.0.1:8700/", "http://127.0.0.1:8700/login"):
            page.goto(address, wait_until="networkidle")
            assert (page.url, page.title()) == (address, "")
        page.goto(f"http://127.0.0.1:8700{own}study")
        page.goto("http://127.0.0.1:8700/")
        page.wait_for_url(f"**{own}")
    assert all(url.startswith("http://127.0.0.1:8700/") for url in opened)
