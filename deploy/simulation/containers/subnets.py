"""Small subnets for private networks, because an engine's own pools give about thirty networks.

Each network of a run takes a block of 8 addresses from a range that may be chosen, of those that no
network of the engine uses.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Network
from itertools import islice

from dppca.common.errors import AddressSpaceError, SettingError

DEFAULT_RANGE = "10.231.0.0/16"
BLOCK_PREFIX = 29
BLOCK_SIZE = 2 ** (32 - BLOCK_PREFIX)


def choose_subnets(
    text: str, count: int, *, used: Collection[str] = (), offset: int = 0
) -> tuple[str, ...]:
    """Blocks of a range that overlap none of those in use.

    Parameters
    ----------
    used
        IPv4 subnets.
    offset
        Block to begin with: runs that start at the same time and draw it at random seldom choose
        alike.

    Raises
    ------
    SettingError
        Not a range of IPv4 addresses such as 10.231.0.0/16, or too small.
    AddressSpaceError
        Too few of its blocks are free.
    """
    network = _range(text)
    n_blocks = 2 ** (BLOCK_PREFIX - network.prefixlen)
    if n_blocks < count:
        raise SettingError(f"{text} holds {n_blocks} networks, and {count} are needed")
    near = [subnet for subnet in map(IPv4Network, used) if subnet.overlaps(network)]
    blocks = (
        IPv4Network((int(network[0]) + (offset + i) % n_blocks * BLOCK_SIZE, BLOCK_PREFIX))
        for i in range(n_blocks)
    )
    free = (block for block in blocks if not any(block.overlaps(subnet) for subnet in near))
    chosen = tuple(str(block) for block in islice(free, count))
    if len(chosen) < count:
        raise AddressSpaceError(
            f"only {len(chosen)} networks of {text} are not in use, and {count} are needed: remove "
            "networks that are not used (`dppca-simulate clean`, `docker network prune`) or give "
            "other addresses with --subnet"
        )
    return chosen


def _range(text: str) -> IPv4Network:
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise SettingError(
            f"{text} is no range of IPv4 addresses such as {DEFAULT_RANGE}"
        ) from error
    if network.prefixlen > BLOCK_PREFIX:
        raise SettingError(f"{text} is too small: each network takes {BLOCK_SIZE} addresses")
    return network
