"""Fixtures that need more than Python, for the folders of the merge and the night tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dppca.common.transport.testbed import Processes

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.postgres import PostgresServer


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
