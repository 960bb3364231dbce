"""Numbers of things in a sentence."""

from types import MappingProxyType
from typing import Final

_ONE: Final = MappingProxyType({"people": "person", "studies": "study", "entries": "entry"})
"""Plurals that do not end in a mere s."""


def many(number: int, things: str, form: str = "") -> str:
    """Return a number of things, such as ``1 row``, ``2 rows`` and ``1 person``.

    ``things`` is the plural, and may have words before it; ``form`` is how the number is written.
    """
    *words, last = things.split(" ")
    if number == 1:
        last = _ONE.get(last, last.removesuffix("s"))
    return " ".join((format(number, form), *words, last))
