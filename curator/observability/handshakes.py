"""Refused handshakes, as lines of the curator's log.

gRPC's Python interface tells a server nothing of a connection that fails before a call. Its core
writes a line to standard error, such as ::

    I1127 10:30:57.632152 24001 ssl_transport_security.cc:2563] Handshake failed with error
    SSL_ERROR_SSL: error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: ...

(in one line). So descriptor 2 of the daemon becomes a pipe to a child process, which turns these
lines into events, leaves out the core's other lines, and passes on all else byte by byte. The log
does not go through the pipe. A child, not a thread, because it outlives the daemon: the last words
of a process that aborts are not lost. It ends when the pipe does. The line names no peer: behind a
proxy that would be the proxy's address.
"""

import logging
import os
import re
import signal
import sys
from collections.abc import Iterable
from typing import BinaryIO

from dppca.curator.observability.log import LOGGER, log_event

_CORE_LINE = re.compile(rb"([IWEF])\d{4} [\d:.]+ +\d+ [\w.]+:\d+\] (.*)", re.DOTALL)
_REFUSED = re.compile(r"Handshake failed with error \w+: (?:error:\w+:[^:]*:[^:]*:)?(.*)")
_WORDS = {
    "certificate has expired": "the caller's certificate is out of date, or this machine's clock "
    "is ahead",
    "certificate is not yet valid": "the caller's certificate is not valid yet, or this machine's "
    "clock is behind",
    "issuer certificate": "the caller's certificate is of another authority",
    "self signed certificate": "the caller's certificate is of another authority",
    "DID_NOT_RETURN_A_CERTIFICATE": "the caller shows no certificate, as a client that looks why "
    "its connection failed",
    "BAD_PACKET_LENGTH": "the caller broke off: this daemon's certificate may have ended by the "
    "caller's clock, or be of another authority than the caller's",
    "NO_SHARED_CIPHER": "the caller does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "the caller does not speak TLS 1.3",
    "HTTP_REQUEST": "the caller does not speak TLS",
    "WRONG_VERSION_NUMBER": "the caller does not speak TLS",
}


def log_refused_handshakes(*, core_lines: bool) -> None:
    """Relay what C code writes to descriptor 2 from now on; the log and Python write as before.

    Call it after the log was configured, before threads are started. With ``core_lines``, gRPC's
    lines are passed on as well.
    """
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(writing)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends after the daemon
        try:
            with os.fdopen(reading, "rb") as lines, os.fdopen(2, "wb", 0) as out:
                relay(lines, out, core_lines=core_lines)
        finally:
            os._exit(0)
    os.close(reading)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    for handler in LOGGER.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)
    os.dup2(writing, 2)
    os.close(writing)


def relay(lines: Iterable[bytes], out: BinaryIO, *, core_lines: bool) -> None:
    """Log the refused handshakes among some lines, and write the others."""
    for line in lines:
        core = _CORE_LINE.match(line)
        refused = core and _REFUSED.match(core[2].decode(errors="replace").strip())
        if refused:
            _log(refused[1])
        if core is None or core_lines or core[1] == b"F":
            out.write(line)


def _log(detail: str) -> None:
    reason = next((words for part, words in _WORDS.items() if part in detail), detail)
    log_event(
        "handshake refused", level=logging.WARNING, limit=("", reason), reason=reason, detail=detail
    )
