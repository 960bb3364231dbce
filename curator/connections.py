"""Who holds the daemon's connections, and which of them must go.

gRPC ends TCP, TLS and HTTP/2 in its core; Python hears of a connection with its first call. So a
connection is *unidentified* until somebody with a good certificate makes a call on it, and then
belongs to that party. The two kinds have limits of their own, so that neither takes places from
the other:

- an unidentified connection has a time in which it must make a call. Of one address there may be
  a number at once, and of all addresses together. Above that the address that has most gives way,
  with its oldest: a party on its way in needs a fraction of a second, an attacker's connections
  grow old.
- a party may have a number of connections. Where all parties together have too many, anybody who
has
  most gives way, with its newest, and owners before operators.

Parties that share one address, behind a proxy or NAT, do not share the limit of connections with
each other: only connections that say nothing are counted by address. An address is one of IPv4, or
64 bits of IPv6, which is what one site has.

Pure but for `CallerRegistry`, which two threads use.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from heapq import heapify, heappop, heapreplace
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote

from dppca.common.transport.tls import Identity, Role
from dppca.curator.config import Limits

_PEERS_KEPT = 4096
_SITE_BITS = 64

Peer = tuple[str, int]
"""Address and port of the other end; a mapped IPv4 address is written as IPv4."""


class CloseReason(StrEnum):
    """Why a connection was closed: the label of a metric and the reason in the log."""

    SILENT = "no call in time"
    ADDRESS = "too many unidentified of one address"
    UNIDENTIFIED = "too many unidentified"
    PARTY = "too many of one party"
    ALL = "too many in all"


@dataclass(frozen=True, slots=True)
class Connection:
    """An open connection.

    Attributes
    ----------
    inode
        Number of its socket: two connections that are open at once never have the same.
    peer
        The other end.
    since
        Monotonic time at which it was first seen, in seconds.
    party
        Who has made a call on it; None before.
    """

    inode: int
    peer: Peer
    since: float
    party: Identity | None = None

    @property
    def who(self) -> str:
        """The party, or the site's address where there is none yet."""
        return group_address(self.peer[0]) if self.party is None else party_text(self.party)


def party_text(identity: Identity) -> str:
    """A party as the log writes it."""
    return f"{identity.role.value}:{identity.name}"


def select_excess(
    connections: Iterable[Connection], limits: Limits, *, now: float
) -> list[tuple[Connection, CloseReason]]:
    """Connections that must go so that the rest is within the limits, each with its ground."""
    oldest_first = sorted(connections, key=lambda c: (c.since, c.inode))
    strangers = [c for c in oldest_first if c.party is None]
    silent = [c for c in strangers if now - c.since >= limits.identify_s]
    waiting = strangers[len(silent) :]
    parties = [c for c in reversed(oldest_first) if c.party is not None]
    by_address, by_all = surplus(
        waiting,
        key=lambda c: c.who,
        each=limits.max_unidentified_per_address,
        total=limits.max_unidentified,
    )
    by_party, by_total = surplus(
        parties,
        key=lambda c: c.who,
        each=limits.max_connections_per_party,
        total=limits.max_connections,
        last=lambda c: c.party is not None and c.party.role is not Role.OWNER,
    )
    grounds = {
        CloseReason.SILENT: silent,
        CloseReason.ADDRESS: by_address,
        CloseReason.UNIDENTIFIED: by_all,
        CloseReason.PARTY: by_party,
        CloseReason.ALL: by_total,
    }
    return [(connection, ground) for ground, some in grounds.items() for connection in some]


def surplus(
    connections: Sequence[Connection],
    *,
    key: Callable[[Connection], Hashable],
    each: int,
    total: int,
    last: Callable[[Connection], bool] = lambda _: False,
) -> tuple[list[Connection], list[Connection]]:
    """What is above a limit of each group, and then above a limit of all.

    Parameters
    ----------
    connections
        In the order in which those of one group give way.
    last
        Groups that give way only when no other group has anything left.

    Returns
    -------
    tuple
        Above ``each``; and of the rest what is above ``total``, always taken from the party that
        has most.
    """
    groups: defaultdict[Hashable, list[Connection]] = defaultdict(list)
    for connection in connections:
        groups[key(connection)].append(connection)
    above = []
    groups_left: list[list[Connection]] = []
    for group in groups.values():
        cut = max(0, len(group) - each)
        above += group[:cut]
        groups_left.append(group[cut:])
    left = sum(map(len, groups_left))
    heap = [
        (last(group[0]), -len(group), place) for place, group in enumerate(groups_left) if group
    ]
    heapify(heap)
    fair: list[Connection] = []
    while left - len(fair) > total:
        final, size, place = heap[0]
        fair.append(groups_left[place][len(groups_left[place]) + size])
        if size == -1:
            heappop(heap)
        else:
            heapreplace(heap, (final, size + 1, place))
    return above, fair


class CallerRegistry:
    """Which party has made a call from which address and port.

    The interceptor tells, in the event loop; the code that watches the sockets asks, in a thread of
    its own.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard: dict[Peer, tuple[Identity, float]] = {}

    def heard(self, peer: str, identity: Identity) -> None:
        """A party has called. ``peer`` as gRPC writes it, such as ``ipv4:127.0.0.1:4711``."""
        key = parse_peer(peer)
        with self._lock:
            self._heard[key] = (identity, self._clock())

    def forget(self, peer: str) -> None:
        """What called there has no good certificate, or has none any more."""
        key = parse_peer(peer)
        with self._lock:
            self._heard.pop(key, None)

    def parties(self) -> Mapping[Peer, tuple[Identity, float]]:
        """Who has called, and when last (monotonic)."""
        with self._lock:
            return dict(self._heard)

    def keep(self, peers: Iterable[Peer], *, since: float) -> None:
        """Forget parties that have no connection any more and have not called since ``since``."""
        open_peers = set(peers)
        with self._lock:
            gone = [
                peer
                for peer, (_, when) in self._heard.items()
                if peer not in open_peers and when < since
            ]
            for peer in gone:
                del self._heard[peer]


@lru_cache(maxsize=_PEERS_KEPT)
def parse_peer(text: str) -> Peer:
    """Address and port of a gRPC peer; a peer without a port, of a Unix socket, has port 0."""
    kind, _, rest = text.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in {"ipv4", "ipv6"} or not port.isdigit():
        return text, 0
    return plain_address(host.removeprefix("[").removesuffix("]")), int(port)


@lru_cache(maxsize=_PEERS_KEPT)
def plain_address(text: str) -> str:
    """An address without scope; a mapped IPv4 address as IPv4."""
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


@lru_cache(maxsize=_PEERS_KEPT)
def group_address(address: str) -> str:
    """What counts as one address: one of IPv4, or the first 64 bits of IPv6."""
    if ":" not in address:
        return address
    return str(ip_network(f"{address}/{_SITE_BITS}", strict=False))
