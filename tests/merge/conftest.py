"""Fixtures that the push tier may not have."""

from tests.support.fixtures import browser, live, postgres

__all__ = ["browser", "live", "postgres"]
