"""Number of examples for a law: fewer at each push, more in the night.

A law names a number, ``@settings(max_examples=examples(60))``;
the profile of hypothesis, ``--hypothesis-profile=night``, scales it.
"""

from collections.abc import Callable

from hypothesis import settings

PROFILES: dict[str, Callable[[int], int]] = {
    "push": lambda n: max(10, n // 2),
    "night": lambda n: 5 * n,
}


def examples(n: int) -> int:
    """Examples of a law under the loaded profile."""
    return PROFILES[settings.get_current_profile_name()](n)
