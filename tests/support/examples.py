"""How many examples a law is tried with: fewer at each push, more in the night.

A law names a number, ``@settings(max_examples=examples(60))``;
the profile of hypothesis, ``--hypothesis-profile=night``, says what becomes of the number.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import settings

PROFILES: dict[str, Callable[[int], int]] = {
    "push": lambda n: max(10, n // 2),
    "night": lambda n: 5 * n,
}


def examples(n: int) -> int:
    """Examples of a law under the profile that is loaded."""
    return PROFILES[settings.get_current_profile_name()](n)
