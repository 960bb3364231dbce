"""The site's own search, in a browser: what a reader looks for comes first."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Browser
from typing_extensions import override

from tests.support.browser import watched
from tests.support.checkout import ROOT
from tests.support.requirements import miss

SITE = ROOT / "build/site"


class _Quiet(SimpleHTTPRequestHandler):
    @override
    def log_message(self, *_: object) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Address of the site that `make docs` has built."""
    if not (SITE / "search/search_index.json").exists():
        miss("the documentation's site", "make docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("epsilon", "how-to/choose-epsilon.html"),
        ("delta", "how-to/choose-epsilon.html"),
        ("budget exhausted", "explanation/for-stewards.html"),
        ("docker", "how-to/simulate-in-containers.html"),
        ("exit code 21", "reference/errors.html"),
        ("trust aggregate", "how-to/share-one-sum.html"),
        ("verify", "how-to/check-what-you-were-given.html"),
        ("loadings", "how-to/read-components.html"),
        ("certificate", "how-to/certificates.html"),
        ("postgresql", "how-to/use-postgresql.html"),
        ("GDPR", "explanation/data-protection.html"),
        ("delete my data", "explanation/data-protection.html"),
        ("R", "how-to/use-from-r.html"),
        ("cite", "how-to/cite.html"),
        ("upgrade", "how-to/upgrade.html"),
        ("backup", "how-to/runbook.html"),
        ("Excel", "how-to/prepare-a-file.html"),
        ("SPSS", "how-to/prepare-a-file.html"),
        ("semicolon", "how-to/prepare-a-file.html"),
        ("decimal comma", "how-to/prepare-a-file.html"),
        ("missing", "how-to/prepare-a-file.html"),
        ("nothing was found", "explanation/questions.html"),
    ],
)
def test_what_is_looked_for_comes_first(
    browser: Browser, address: str, words: str, page: str
) -> None:
    with watched(browser) as seen:
        seen.page.goto(f"{address}index.html?q={quote_plus(words)}")
        found = seen.page.locator(".md-search-result__item > a").first
        found.wait_for(state="attached")
        assert str(found.get_attribute("href")).split("?")[0] == address + page
