"""Fixtures that the push tier may not have."""

from tests.support.fixtures import browser, live, open_site, postgres

__all__ = ["browser", "live", "open_site", "postgres"]
