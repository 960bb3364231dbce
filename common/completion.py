"""What a shell offers for an argument when somebody presses Tab.

A shell waits for the answer, and shows what is printed in the middle of the line: so the answer
comes within a few seconds, nothing is printed, and where names cannot be found there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dppca.common.errors import DppcaError

ASK_S = 2.0
"""Longest wait for another machine's names."""


def find_names(sources: Iterable[Callable[[], Iterable[str]]], begun: str) -> list[str]:
    """Names from all sources that begin with what was written, ascending.

    A source that fails with an error of ours (no certificate, no connection) gives none.
    """
    names = set[str]()
    for source in sources:
        try:
            names.update(source())
        except DppcaError:
            continue
    return sorted(name for name in names if name.startswith(begun))
