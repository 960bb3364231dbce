"""Debian's Chromium, driven by Playwright, and pages that a command serves.

No browser is downloaded: without ``chromium`` on the path the tests say so.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from axe_playwright_python.base import AxeResults
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from dppca.common.transport.testbed import OWNER, Processes
from tests.support.patience import WAIT_S, wait_until
from tests.support.requirements import miss
from tests.support.sites import OwnerSite

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\" onfocus='alert(2)"
WIDTHS = (390, 800, 1280)
ZOOMED = 320
"""Width of a window of 1280 at 400 %, as in WCAG's reflow."""
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_AGAIN = 5
SOON_MS = 1000 * WAIT_S
"""Limit for a page's next content, in milliseconds."""

expect.set_options(timeout=SOON_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser that reaches only this machine."""
    path = shutil.which("chromium")
    if path is None:
        miss("Chromium", "apt-get install chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
        )
        yield browser
        browser.close()


def require_font(name: str) -> None:
    """End the test if the pages' own font is not on this machine."""
    found = subprocess.run(
        ["fc-match", "--format=%{family}", name], capture_output=True, text=True, check=True
    )
    if name not in found.stdout:
        miss(f"the font {name}", "apt-get install fontconfig fonts-dejavu-core")


@dataclass
class Watched:
    """A page of a browser, with all its requests and error messages."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def require_quiet(self) -> None:
        """Fail if the page executed unwanted code or asked another host."""
        self.require_quiet_but("nothing")

    def require_quiet_but(self, expected: str) -> None:
        """Like `require_quiet`, but the browser may report an expected status of an answer."""
        assert [said for said in self.complaints if expected not in said] == []
        assert [url for url in self.requests if not url.startswith("http://127.0.0.1:")] == []


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Watched]:
    context = browser.new_context(**options)
    context.set_default_timeout(SOON_MS)
    seen = Watched(context.new_page())
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on(
        "console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None
    )
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.complaints.append(f"dialog {dialog.message}"))
    yield seen
    context.close()


@dataclass
class Served:
    address: str
    process: subprocess.Popen[bytes]
    log: int

    def said(self) -> str:
        return os.pread(self.log, 1 << 20, 0).decode()


def serve_page(
    live: Processes, module: str, arguments: Sequence[object], *, fault: str | None = None
) -> Served:
    log = os.memfd_create("page")  # read without moving the place where the command writes
    process = live.start(["-P", "-m", module, *arguments], stdout=log, stderr=log, fault=fault)
    served = Served("", process, log)

    def address() -> re.Match[str] | None:
        ended = process.poll() is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/login\?token=\S+", served.said())
        assert found or not ended, served.said()
        return found

    served.address = wait_until(address, said=served.said)[0]
    return served


def serve_site_page(live: Processes, site: OwnerSite, *, fault: str | None = None) -> Served:
    return serve_page(live, OWNER, ["--site", site.folder, "page"], fault=fault)


OpenSite = Callable[..., AbstractContextManager[tuple[Watched, Served]]]
"""What the fixture `open_site` gives: a site's page in a window that has logged in."""


def require_accessible(page: Page) -> None:
    """Check axe's rules of WCAG 2.2 AA, at every width, light and dark; nothing is cut off."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            found = _run_axe(page)
            assert found.violations_count == 0, (width, scheme, found.generate_report())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.title()
    page.set_viewport_size({"width": ZOOMED, "height": 256})
    assert page.evaluate("document.documentElement.scrollWidth") <= ZOOMED, page.title()
    page.emulate_media(media="print")
    assert not [form for form in page.locator("form").all() if form.is_visible()]
    page.emulate_media(media="screen")


def _run_axe(page: Page) -> AxeResults:
    """Run axe's rules; again where a frame was just being loaded, which axe cannot look into."""
    options = {"runOnly": {"type": "tag", "values": RULES}}
    for _ in range(_AGAIN):
        try:
            return Axe().run(page, options=options)
        except Error as error:
            if "documentElement" not in str(error):
                raise
            page.wait_for_load_state()
    return Axe().run(page, options=options)


def require_told(page: Page) -> None:
    """Check that a wrong field has the keyboard focus, and the error message beside it."""
    page.set_viewport_size({"width": ZOOMED, "height": 256})
    # The form is sent again, and the page shown from its start: the place where it was would be
    # restored at any moment, even after the field has the focus.
    page.evaluate("history.scrollRestoration = 'manual'")
    page.reload()
    field = page.locator("[aria-invalid=true]")
    expect(field).to_be_focused()
    expect(field).to_have_accessible_description(page.get_by_role("alert").inner_text())
    expect(page.get_by_role("alert")).to_be_in_viewport()
    require_accessible(page)


_FOCUSED = """(() => {
    const here = document.activeElement;
    const label = here.labels?.[0]?.textContent.trim();
    return label || here.getAttribute("aria-label") || here.textContent.trim();
})()"""


def reach(page: Page, name: str) -> None:
    """Press Tab until the element with this name has the keyboard, and shows it."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if str(page.evaluate(_FOCUSED)).startswith(name):
            style = "getComputedStyle(document.activeElement).outlineStyle"
            assert page.evaluate(style) == "solid", name
            return
    raise AssertionError(f"{name} is out of reach")


def follow(page: Page, name: str) -> None:
    """`reach` a link or button, press Enter, and wait for the next page."""
    reach(page, name)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def open_details(page: Page, name: str) -> None:
    """`reach` a summary, and open it."""
    reach(page, name)
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open")


def look_again_until(page: Page, text: str) -> None:
    """Follow "Look again", like a user without script, until a page has this text."""

    def seen() -> bool:
        if text in page.inner_text("main"):
            return True
        page.get_by_role("link", name="Look again").focus()
        with page.expect_navigation():
            page.keyboard.press("Enter")
        return False

    wait_until(seen, said=lambda: text)


def look_at_review(page: Page) -> None:
    """Ask for the review of the page's study, and wait until script has loaded it."""
    page.get_by_role("link", name="Review what would leave").click()
    page.get_by_text("What leaves, once").wait_for()


def agree(page: Page, button: str = "Contribute") -> None:
    """Tick all that the page asks the steward to assert, and press the button."""
    for tick in page.get_by_role("checkbox").all():
        tick.check()
    page.get_by_role("button", name=button).click()
