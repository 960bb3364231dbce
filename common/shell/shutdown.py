"""Calls at the end of a process, for commands that end theirs without unwinding Python."""

import atexit
from collections.abc import Callable

_CALLS: list[Callable[[], None]] = []


def on_exit(call: Callable[[], None]) -> None:
    """Call a function once before the process ends by itself."""

    def once() -> None:
        if call in _CALLS:
            _CALLS.remove(call)
            call()

    _CALLS.append(call)
    atexit.register(once)


def run_exit_hooks() -> None:
    """Make the waiting calls, the newest first."""
    while _CALLS:
        _CALLS.pop()()
