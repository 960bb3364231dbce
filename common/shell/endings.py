"""What has to end with the process, where commands end theirs without unwinding Python."""

from __future__ import annotations

import atexit
from collections.abc import Callable

_CALLS: list[Callable[[], None]] = []


def at_end(call: Callable[[], None]) -> None:
    """Call this before the process ends, however it ends by itself; it is called once."""

    def once() -> None:
        if call in _CALLS:
            _CALLS.remove(call)
            call()

    _CALLS.append(call)
    atexit.register(once)


def end_all() -> None:
    """Call what waits, the newest first."""
    while _CALLS:
        _CALLS.pop()()
