"""Clocks of time zones: the second that each one shows at a moment.

Offsets are those of Python's zoneinfo, which goes on by a zone's last rule for ever. pyarrow's
clocks stop at the last change that the zone's file lists, in 2037 or long before.

A clock is looked at every third day of each year that occurs: no zone of the IANA database changes
twice within three days, none changed before 1600, and from 2400 on all repeat after 400 years.
"""

import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

_STEP_S: Final = 3 * 86_400  # between looks at a zone's offset: no change is undone so soon
_CYCLE_S: Final = 146_097 * 86_400  # 400 years, in whole weeks
_FIRST, _LAST = 1600, 2400  # years between which a zone is asked for its changes
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)  # unit of offsets
_OFFSET: Final = re.compile(r"([+-])([01][0-9]|2[0-3]):?([0-5][0-9])")


def on_clock(zone: str, seconds: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return what the clock of a zone, such as ``Europe/Berlin`` or ``+01:00``, shows.

    None if this machine does not know the zone; ``right/`` ones count leap seconds, which UTC does
    not. Both are seconds since 1970, shape (n,), of any year; ``seconds`` are in UTC.
    """
    if fixed := _OFFSET.fullmatch(zone):
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        return seconds + (-60 if fixed[1] == "-" else 60) * minutes
    try:
        if zone.startswith("right/"):
            return None
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return None
    years = seconds.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    years = np.flatnonzero(np.bincount(np.maximum(years, _FIRST)))
    found = [_changes(zone, year) for year in years.tolist()]
    if not found:
        return seconds
    moments, offsets = map(np.concatenate, zip(*found, strict=True))
    places = np.maximum(moments.searchsorted(seconds, "right") - 1, 0)
    local: NDArray[np.int64] = seconds + offsets[places]
    return local


@lru_cache(maxsize=1 << 14)
def _changes(zone: str, year: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a year's begin and changes, and the offset from each on; all in seconds."""
    if year >= _LAST + 400:
        moments, offsets = _changes(zone, _LAST + year % 400)
        return moments + (year - _LAST) // 400 * _CYCLE_S, offsets
    clock = ZoneInfo(zone)

    def offset(second: int) -> int:
        moment = _EPOCH + timedelta(seconds=second)
        return (moment.astimezone(clock).utcoffset() or timedelta()) // _SECOND

    begin, end = (
        (datetime(each, 1, 1, tzinfo=UTC) - _EPOCH) // _SECOND for each in (year, year + 1)
    )
    before = offset(begin)
    found = [(begin, before)]
    for first in range(begin, end, _STEP_S):
        later = range(first + 1, min(first + _STEP_S, end) + 1)
        after = offset(later[-1])
        if after != before:
            found.append((later[bisect_left(later, True, key=lambda s: offset(s) == after)], after))
        before = after
    moments, offsets = np.array(found, np.int64).T
    return moments, offsets
