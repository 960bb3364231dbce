"""Ports of this machine for programs that need one."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a free port of the system while the block runs.

    It is bound and not listened on, so a connection to it is refused. A program that binds it by
    name with ``SO_REUSEADDR``, like servers do, may listen there meanwhile.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
