"""Fixtures of tests that show pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dppca.common.testbed import Processes

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a module; each opens windows of its own."""
    from tests.support.browser import chromium  # Playwright is for tests of pages alone

    with chromium() as started:
        yield started


@pytest.fixture
def live() -> Iterator[Processes]:
    """Processes that end with the test."""
    with Processes() as started:
        yield started
