"""Looks at the daemon's own sockets and closes those that `dppca.curator.connections` refuses.

A descriptor that gRPC opened is found in ``/proc/self/fd``, looked at and, where it must go, shut
down through a duplicate: between two steps gRPC may close a descriptor and the kernel give its
number to something else, but a duplicate stays what it is. Nothing stands in the way of the data:
bytes pass between gRPC and the kernel as before, and a connection is looked at once.

What is shut down is reset (``SO_LINGER`` of 0 s), so that an attacker cannot make the kernel
remember it, and gRPC then closes its descriptor.

Limits: between two looks there is room for `BURST` connections more. Anybody who opens more than
that in `PERIOD_S` needs a firewall in front (`docs/how-to/runbook.md`).
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import socket
import stat
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dppca.common.transport.channels import MAX_STREAMS
from dppca.curator.config import Limits
from dppca.curator.connections import (
    CallerRegistry,
    CloseReason,
    Connection,
    plain_address,
    select_excess,
)
from dppca.curator.observability.log import log_event

DESCRIPTORS = Path("/proc/self/fd")
PERIOD_S, PAUSE_S = 0.2, 2.0
BURST = 1024
"""Connections that gRPC takes above our own limits, between two looks."""
OTHER_DESCRIPTORS = 256
"""For the store, uploads, and libraries."""
LOG_EVERY_S = 60.0
_NAMES_KEPT = 4096
_RESET = struct.pack("ii", 1, 0)


class ConnectionWatcher:
    """Keeps the connections of one listening port within the limits.

    Parameters
    ----------
    port
        That the daemon listens on.
    callers
        Who has called from where.
    closed
        Told the ground of every connection that is closed.
    clock
        Monotonic, in seconds; the one that ``callers`` has.
    """

    def __init__(
        self,
        port: int,
        callers: CallerRegistry,
        limits: Limits,
        *,
        closed: Callable[[CloseReason], None],
        clock: Callable[[], float],
    ) -> None:
        self._port = port
        self._callers = callers
        self._limits = limits
        self._closed = closed
        self._clock = clock
        self._log = _ClosureLog(clock)
        self._open: dict[int, Connection] = {}
        self._closing: set[int] = set()
        self._others: set[int] = set()
        self._looked = float("-inf")
        self._stopped = threading.Event()

    def run(self) -> None:
        """Look until `stop` is called, from another thread."""
        if not DESCRIPTORS.is_dir():
            log_event(
                "connections not watched",
                level=logging.WARNING,
                reason=f"this system has no {DESCRIPTORS}: gRPC's own limits alone hold",
            )
            return
        wait_s = PERIOD_S
        while not self._stopped.wait(wait_s):
            wait_s = PERIOD_S
            try:
                self.look()
            except OSError as error:  # no descriptor is left for a duplicate
                log_event("connections not seen", level=logging.ERROR, reason=error.strerror)
                wait_s = PAUSE_S

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def counts(self) -> tuple[int, int]:
        """Connections of parties, and unidentified ones, when last looked."""
        connections = list(self._open.values())
        parties = sum(connection.party is not None for connection in connections)
        return parties, len(connections) - parties

    def look(self) -> None:
        """Find all connections and close those that must go."""
        began = self._clock()
        descriptors = self._descriptors()
        self._update(descriptors, began)
        for connection, ground in select_excess(self._open.values(), self._limits, now=began):
            if _reset(descriptors[connection.inode], connection.inode):
                self._closed(ground)
                self._log.add(ground, connection.who)
            self._closing.add(connection.inode)
            del self._open[connection.inode]
        self._log.write()
        self._looked = began

    def _descriptors(self) -> dict[int, int]:
        """Descriptor of every socket of this process, by its inode."""
        descriptors = {}
        for name in os.listdir(DESCRIPTORS):  # noqa: PTH208 - names alone are wanted, five times a second
            try:
                state = os.fstat(int(name))
            except OSError:
                continue  # closed meanwhile, as the one that lists the folder always is
            if stat.S_ISSOCK(state.st_mode):
                descriptors[state.st_ino] = int(name)
        return descriptors

    def _update(self, descriptors: dict[int, int], began: float) -> None:
        self._others &= descriptors.keys()
        self._closing &= descriptors.keys()
        known = self._others | self._closing
        parties = self._callers.parties()
        connections = {}
        for inode, descriptor in descriptors.items():
            if inode in known:
                continue
            connection = self._open.get(inode) or self._identify_connection(
                inode, descriptor, began
            )
            if connection is None:
                self._others.add(inode)
                continue
            party, when = parties.get(connection.peer, (None, 0.0))
            # An address and port may be used again: a call from before is another connection's.
            if inode not in self._open and when < self._looked:
                party = None
            if party != connection.party:
                connection = replace(connection, party=party)
            connections[inode] = connection
        self._open = connections
        self._callers.keep((c.peer for c in connections.values()), since=began)

    def _identify_connection(self, inode: int, descriptor: int, began: float) -> Connection | None:
        """A connection to our port; None for any other socket."""
        with _DuplicateSocket(descriptor, inode) as copy:
            if copy is None:
                return None
            try:
                if copy.getsockname()[1] != self._port:
                    return None
                address, port = copy.getpeername()[:2]
            except (OSError, IndexError, TypeError):
                return None  # the listening socket, one that ended, one of another family
        return Connection(inode, (plain_address(address), port), began)


class _DuplicateSocket:
    """A duplicate of a descriptor as a socket, while the block runs; None where it is another."""

    def __init__(self, descriptor: int, inode: int) -> None:
        self._socket: socket.socket | None = None
        try:
            copy = os.dup(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            return
        state = os.fstat(copy)
        if state.st_ino == inode and stat.S_ISSOCK(state.st_mode):
            self._socket = socket.socket(fileno=copy)
        else:
            os.close(copy)

    def __enter__(self) -> socket.socket | None:
        return self._socket

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()


def _reset(descriptor: int, inode: int) -> bool:
    """End a connection at once; False where it has ended by itself."""
    with _DuplicateSocket(descriptor, inode) as copy:
        if copy is None:
            return False
        try:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False  # the other end was quicker
    return True


class _ClosureLog:
    """One line for many connections: the first at once, more of the same ground in a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed: dict[CloseReason, Counter[str]] = {}
        self._written: dict[CloseReason, float] = {}

    def add(self, ground: CloseReason, who: str) -> None:
        counts = self._closed.setdefault(ground, Counter())
        counts[who if len(counts) < _NAMES_KEPT or who in counts else "further ones"] += 1

    def write(self) -> None:
        now = self._clock()
        for ground, counts in list(self._closed.items()):
            if now - self._written.get(ground, float("-inf")) < LOG_EVERY_S:
                continue
            ((most, of_most),) = counts.most_common(1)
            log_event(
                "connections closed",
                level=logging.WARNING,
                reason=ground.value,
                closed=counts.total(),
                most=most,
                of_most=of_most,
                others=len(counts) - 1,
            )
            self._written[ground] = now
            del self._closed[ground]


def max_connections(limits: Limits) -> int:
    """How many connections gRPC may take, with the descriptors that there are.

    The limit of this process is raised where the system allows it.
    """
    n_connections = limits.max_connections + limits.max_unidentified + BURST
    needed = n_connections + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):
            most = soft  # a sandbox does not let us
        if most < needed:
            n_connections = max(1, most - OTHER_DESCRIPTORS)
            log_event(
                "few descriptors",
                level=logging.WARNING,
                descriptors=most,
                needed=needed,
                connections=n_connections,
            )
    return n_connections


def max_rpcs(limits: Limits) -> int:
    """How many calls gRPC may take: one party's connections cannot fill the places of others."""
    return limits.max_calls + limits.max_connections_per_party * MAX_STREAMS
