"""The time now: the one place where our own code asks for it when nobody gives it."""

from __future__ import annotations

from datetime import UTC, datetime

from dppca.common.errors import PeerError


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


def read_unix_time(seconds: int) -> datetime:
    """A time that another machine said, aware.

    Parameters
    ----------
    seconds
        Since 1970 UTC.

    Raises
    ------
    PeerError
        No calendar has such a time.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError) as error:
        raise PeerError(f"the other side named a time that does not exist: {seconds} s") from error
