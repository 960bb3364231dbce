"""Telling systemd how the daemon is, where systemd started it and asked to be told.

Reference: sd_notify(3), "Notes": one datagram of ``KEY=VALUE`` to the socket that the environment
names.
"""

from __future__ import annotations

import logging
import os
import socket

from dppca.curator.observability.log import log_event

_VARIABLE = "NOTIFY_SOCKET"


def notify_alive() -> None:
    """Say that the event loop turns, where the supervisor watches for it."""
    if "WATCHDOG_USEC" in os.environ:
        notify("WATCHDOG=1")


def notify(state: str) -> None:
    """Send one message such as ``READY=1``; nothing where nobody asked.

    A message that cannot be sent is logged and no failure: the supervisor draws its own
    conclusions.
    """
    path = os.environ.get(_VARIABLE)
    if not path:
        return
    address = "\0" + path[1:] if path.startswith("@") else path  # an abstract socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1.0)
            sender.sendto(state.encode(), address)
    except OSError as error:
        log_event(
            "supervisor not told", level=logging.WARNING, message=state, reason=error.strerror
        )
