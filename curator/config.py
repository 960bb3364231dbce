"""Settings of the daemon."""

from dataclasses import dataclass, field
from pathlib import Path

from dppca.common.kernel.errors import SettingError

_LARGEST_PORT = 65_535  # of TCP


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps on the size, number and duration of calls: options of ``dppca-curator serve``.

    `dppca.curator.cli` describes each. They bound the memory for uploads: gRPC holds at most one
    message of 8 MiB for each call, and at most two chunks of each upload wait for the disk. A
    contribution is one packed vector; 8192 coded columns are 268 MB. Above the caps of uploads
    owners wait and retry; a call for the result waits at most ``max_wait_s``, and owners ask again.
    An owner that waits for a result has one call; an eighth of ``max_calls`` is reserved for
    operators. A connection above ``max_connections``, of all callers, is closed at once; the proxy
    in front (``deploy/proxy``) passes fewer, and counts by address. ``handshake_s`` is a new
    connection's time for TLS and the HTTP/2 preface.
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
        """Concurrent calls of all owners; the rest is reserved for operators."""
        return max(1, self.max_calls - self.max_calls // 8)


@dataclass(frozen=True, slots=True)
class DaemonConfig:
    """Settings of one daemon.

    ``state`` is the store's folder, created if missing. ``port`` is for gRPC, and ``metrics_port``
    for metrics and probes over HTTP, None without them; 0 takes any free port. ``credentials`` has
    certificate.pem, key.pem, ca.pem, and crl.pem if a certificate is revoked. ``port_file``
    receives ``HOST:PORT`` once calls are served. Deadlines and credentials are checked every
    ``tick_s``; running calls may finish within ``grace_s`` after SIGTERM.
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
    """Parse ``HOST:PORT``, port 0 to 65535, IPv6 in brackets; raise `SettingError` otherwise."""
    host, colon, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host == f"[{bare}]"
    good = colon and bare and port.isascii() and port.isdigit() and int(port) <= _LARGEST_PORT
    if not good or (":" in bare) != bracketed:
        raise SettingError(f"{text!r} is not an address: write HOST:PORT, such as 127.0.0.1:7443")
    return host, int(port)
