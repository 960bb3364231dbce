"""The current time, and times as text: our code reads the clock only here."""

from datetime import UTC, datetime, timedelta

from dppca.common.kernel.errors import PeerError

_DAYS, _YEARS = 10, 730  # days from which hours, and days, are left out


def utc_now() -> datetime:
    """Return the current time, aware."""
    return datetime.now(UTC)


def duration_text(duration: timedelta) -> str:
    """Two largest units of a duration, rounded down; days alone from 10 days, years from 730."""
    minutes = int(duration.total_seconds()) // 60
    days, hours = minutes // (24 * 60), minutes // 60 % 24
    if days >= _DAYS:
        return f"{days} d" if days < _YEARS else f"{days // 365} years"
    parts = ((days, "d"), (hours, "h"), (minutes % 60, "min"))
    return " ".join([f"{n} {unit}" for n, unit in parts if n][:2]) or "less than a minute"


def read_unix_time(seconds: int) -> datetime:
    """Convert another machine's time, in seconds since 1970 UTC; the result is aware.

    Raise `PeerError` if the time is outside the calendar.
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError) as error:
        raise PeerError(f"the other side named a time that does not exist: {seconds} s") from error
