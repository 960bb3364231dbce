"""The time now: the one place where our own code asks for it when nobody gives it."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)
