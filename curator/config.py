"""Settings of the daemon."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dppca.common.errors import SettingError

_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on what calls may bring and hold: options of ``dppca-curator serve``.

    The memory that uploads take is bounded by them: gRPC holds at most one message, of 8 MiB, for
    each call, and of each upload at most two chunks wait for the disk.

    Attributes
    ----------
    max_contribution_bytes
        Size of one packed vector; 8192 coded columns are 268 MB.
    max_synthetic_bytes
        Size of one owner's rows in one form.
    max_wait_s
        How long a call for the result may wait; owners ask again.
    idle_timeout_s
        How long an upload may pause.
    max_upload_s
        How long one upload may take.
    max_uploads, max_uploads_per_owner
        At once, in all and of one owner. Above them owners wait and come again.
    max_calls, max_calls_per_party
        At once, of all kinds; an owner that waits for a result has one. An eighth of ``max_calls``
        is kept for operators.
    max_connections
        At once, of all callers; a further one is closed as it comes. The proxy in front (``deploy/
        proxy``) passes fewer, and counts by address.
    handshake_s
        How long a new connection has for TLS and the first words of HTTP/2.
    """

    max_contribution_bytes: int = 512 << 20
    max_synthetic_bytes: int = 1 << 30
    max_wait_s: float = 300.0
    idle_timeout_s: float = 120.0
    max_upload_s: float = 1800.0
    max_uploads: int = 16
    max_uploads_per_owner: int = 2
    max_calls: int = 256
    max_calls_per_party: int = 32
    max_connections: int = 768
    handshake_s: float = 10.0

    @property
    def max_calls_of_owners(self) -> int:
        """Calls of all owners at once; the rest is kept for operators."""
        return max(1, self.max_calls - self.max_calls // 8)


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """Where a daemon keeps its state, where it listens, and who it is.

    Attributes
    ----------
    state
        Folder of the store; made where it is missing.
    host, port
        Where to listen; port 0 takes any.
    credentials
        Folder with certificate.pem, key.pem and ca.pem, and crl.pem where something is revoked.
    port_file
        Gets ``HOST:PORT`` once calls are served.
    tick_s
        How often deadlines, and the credentials folder, are looked at.
    grace_s
        How long running calls may take to finish after SIGTERM.
    metrics_port
        Where to answer scrapes and probes over HTTP, on ``metrics_host``; nowhere where None.
    """

    state: Path
    host: str
    port: int
    credentials: Path
    port_file: Path | None = None
    limits: Limits = field(default_factory=Limits)
    tick_s: float = 0.5
    grace_s: float = 30.0
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"


def parse_address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` with port 0 to 65535; IPv6 in brackets. `SettingError` otherwise."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host == f"[{bare}]"
    good = colon and bare and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT
    if not good or (":" in bare) != bracketed:
        raise SettingError(f"{text!r} is no address: write HOST:PORT, such as 127.0.0.1:7443")
    return host, int(port)
