"""Characters that make a name in an address a pattern."""

from typing import Final

WILD: Final = frozenset("*?[")
