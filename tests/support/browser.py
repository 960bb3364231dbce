"""Debian's Chromium, driven by Playwright, and pages that a command serves.

No browser is downloaded: without ``chromium`` on the path the tests say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from dppca.common.testbed import Processes
from tests.support.patience import WAIT_S

WIDTHS = (390, 800, 1280)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
SOON_MS = 60_000
"""For what a page shows next, in milliseconds."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that reaches this machine alone."""
    path = shutil.which("chromium")
    if path is None:
        message = "no Chromium: apt-get install chromium, as .ci/run does"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
        )
        yield browser
        browser.close()


@dataclass
class Watched:
    """A page of a browser, with all that it asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def require_quiet(self) -> None:
        """Nothing was executed that should not be, nothing asked of another host."""
        self.require_quiet_but("nothing")

    def require_quiet_but(self, expected: str) -> None:
        """The same, but that the browser may say which status an answer had."""
        assert [said for said in self.complaints if expected not in said] == []
        assert [url for url in self.requests if not url.startswith("http://127.0.0.1:")] == []


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Watched]:
    """A new window without cookies."""
    context = browser.new_context(**options)
    context.set_default_timeout(SOON_MS)
    seen = Watched(context.new_page())
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on(
        "console",
        lambda said: seen.complaints.append(said.text) if said.type == "error" else None,
    )
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.complaints.append(f"dialog {dialog.message}"))
    yield seen
    context.close()


@dataclass
class Served:
    """A command that serves a page."""

    address: str
    process: subprocess.Popen[bytes]


def serve_page(
    live: Processes, module: str, arguments: Sequence[object], *, fault: str | None = None
) -> Served:
    """Start a command, and read the address that it prints."""
    with NamedTemporaryFile() as log:
        process = live.start(["-P", "-m", module, *arguments], stdout=log, stderr=log, fault=fault)
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            said = Path(log.name).read_text()
            found = re.search(r"http://127\.0\.0\.1:\d+/login\?token=\S+", said)
            if found:
                return Served(found[0], process)
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise AssertionError(said)


def require_accessible(page: Page) -> None:
    """By axe's rules of WCAG 2.2 AA, at every width, light and dark; nothing is cut off."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            options = {"runOnly": {"type": "tag", "values": RULES}}
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, (width, scheme, found.generate_report())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.title()
    page.emulate_media(media="print")
    assert not [form for form in page.locator("form").all() if form.is_visible()]
    page.emulate_media(media="screen")
