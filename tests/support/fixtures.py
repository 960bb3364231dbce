"""Fixtures that need more than Python, for the folders of the merge and the night tier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dppca.common.transport.testbed import Processes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.browser import OpenSite
    from tests.support.postgres import PostgresServer
    from tests.support.sites import OwnerSite


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One running PostgreSQL server; each test has its own tables."""
    from tests.support.postgres import postgres_server  # its driver is an extra

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module; each opens its own windows."""
    from tests.support.browser import chromium  # Playwright is for tests of pages alone

    with chromium() as started:
        yield started


@pytest.fixture
def live() -> Iterator[Processes]:
    """Processes that end with the test."""
    with Processes() as started:
        yield started


@pytest.fixture
def open_site(browser: Browser, live: Processes) -> OpenSite:
    """Serves a site's page by its command, and opens it in a window of its own."""
    from tests.support.browser import Served, Watched, serve_site_page, watched

    @contextmanager
    def opened(
        site: OwnerSite, *, fault: str | None = None, **options: Any
    ) -> Iterator[tuple[Watched, Served]]:
        served = serve_site_page(live, site, fault=fault)
        with watched(browser, **options) as seen:
            seen.page.goto(served.address)
            yield seen, served

    return opened
