"""The time now: the one place where our own code asks for it when nobody gives it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dppca.common.errors import PeerError

_DAYS, _YEARS = 10, 730  # days from which hours, and days, are left out


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


def duration_text(duration: timedelta) -> str:
    """Duration in its two largest units, rounded down; of ten days and more in days alone."""
    minutes = int(duration.total_seconds()) // 60
    days, hours = minutes // (24 * 60), minutes // 60 % 24
    if days >= _DAYS:
        return f"{days} d" if days < _YEARS else f"{days // 365} years"
    parts = ((days, "d"), (hours, "h"), (minutes % 60, "min"))
    return " ".join([f"{n} {unit}" for n, unit in parts if n][:2]) or "less than a minute"


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
