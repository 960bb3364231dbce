"""Small subnets for private networks, because an engine's own pools give about thirty networks.

Each network of a run takes a block of 8 addresses: the engine's gateway, the curator, one other
party. Blocks lie in a range that may be chosen; which of them are in use on the engine only the
engine can say, so it is asked for one after the other until it takes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from common.errors import SettingError

DEFAULT_RANGE = "10.231.0.0/16"
BLOCK_PREFIX = 29


@dataclass(frozen=True, slots=True)
class Block:
    """Addresses of one network, as text."""

    subnet: str
    gateway: str
    curator: str
    other: str


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a range, first to last.

    Raises
    ------
    SettingError
        Not a range of IPv4 addresses such as 10.231.0.0/16, or too small for one block.
    """
    return (_block(subnet) for subnet in _range(text).subnets(new_prefix=BLOCK_PREFIX))


def capacity(text: str) -> int:
    """How many blocks a range holds; errors as of `blocks`."""
    return int(2 ** (BLOCK_PREFIX - _range(text).prefixlen))


def _range(text: str) -> IPv4Network:
    try:
        found = IPv4Network(text)
    except ValueError as error:
        message = f"{text} is no range of IPv4 addresses such as {DEFAULT_RANGE}"
        raise SettingError(message) from error
    if found.prefixlen > BLOCK_PREFIX:
        message = f"{text} is too small: each network takes {2 ** (32 - BLOCK_PREFIX)} addresses"
        raise SettingError(message)
    return found


def _block(subnet: IPv4Network) -> Block:
    gateway, curator, other = (str(subnet[i]) for i in (1, 2, 3))
    return Block(str(subnet), gateway, curator, other)
