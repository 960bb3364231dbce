"""Notifications to systemd about the daemon's state, if systemd started it and asked for them.

Reference: sd_notify(3), "Notes": one datagram of ``KEY=VALUE`` to the socket in the environment.
"""

import logging
import os
import socket

from dppca.curator.observability.log import log_event

_VARIABLE = "NOTIFY_SOCKET"


def notify_alive() -> None:
    """Report that the event loop turns, if the supervisor's watchdog is on."""
    if "WATCHDOG_USEC" in os.environ:
        notify("WATCHDOG=1")


def notify(state: str) -> None:
    """Send one message such as ``READY=1``; do nothing if no socket is set.

    A message that cannot be sent is logged and raises no error: the supervisor notices by itself.
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
