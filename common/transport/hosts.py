"""The dialled host, and a second look at it after a connection failed.

gRPC says little about a failure. It tries all addresses of a host and quotes one of them; it says
that a certificate does not name the host, but not which hosts it names. Under TLS 1.3 a server
refuses a client's certificate after the client's own handshake, and gRPC's server then closes
without an alert: the client is told "Socket closed", as by a curator that ends. So `look` dials
each address again, by Python's own TLS and without this party's certificate, and says how far it
got at best. Everything but the name is checked as before: the party's own authority must have
signed the certificate, so no one else can influence the message.
"""

import socket
import ssl
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import IdentityError
from dppca.common.kernel.identity.tls import Role, parse_identity
from dppca.common.transport.proxies import HttpProxy

LOOK_S = 10.0
"""Longest second look, at all addresses together."""

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME of OpenSSL
_TAKEN = (
    "the connection is taken, and nobody answers: the curator, or the proxy in front of it, may be "
    "full or stopped"
)


@dataclass(frozen=True, slots=True)
class DialTarget:
    """Target of a client's call, and the client's role.

    ``address`` is ``HOST:PORT``; ``ca`` is the authority's certificate in PEM; ``role`` is the
    client's; ``server_name`` is expected instead of the host; ``proxy`` lies on the way, or is
    None; ``certificate`` is the client's own, in PEM, empty if it is not known.
    """

    address: str
    ca: bytes
    role: Role
    server_name: str | None = None
    proxy: HttpProxy | None = None
    certificate: bytes = b""

    @property
    def expected(self) -> str:
        """Name that the certificate must contain."""
        return self.server_name or parse_host(self.address)


class Reach(IntEnum):
    """The furthest step of a connection."""

    UNKNOWN_NAME = 0
    REFUSED = 1
    SILENT = 2
    CLOSED = 3
    """Taken, and closed before TLS was agreed on."""
    NO_TLS = 4
    """Something else than TLS 1.3 is spoken."""
    UNTRUSTED = 5
    """The certificate is of another authority, or not valid yet by this machine's clock."""
    ENDED = 6
    """The certificate is a party's of this authority, and has ended by this machine's clock."""
    SECURED = 7
    """The handshake is complete on this side."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Result of a second look at the address that got furthest.

    ``detail`` is what the system or the TLS library says; ``certificate`` the other side's (DER),
    empty if its authority was not trusted.
    """

    reach: Reach
    detail: str = ""
    certificate: bytes = b""


def parse_host(address: str) -> str:
    """Return the host in a ``HOST:PORT``."""
    return address.rpartition(":")[0].strip("[]")


def look(dialled: DialTarget, *, limit_s: float = LOOK_S) -> Sight:
    """Dial each address once more, for at most ``limit_s`` in all.

    Raise `UnreachableError` if the site's HTTP proxy does not let the connection through.
    """
    end = time.monotonic() + min(limit_s, LOOK_S)
    best = Sight(Reach.UNKNOWN_NAME)
    connections = _connect(dialled, end)
    with closing(connections):
        for found in connections:
            seen = found if isinstance(found, Sight) else _secure(found, dialled.ca, end)
            best = max(best, seen, key=lambda sight: sight.reach)
            if best.reach is Reach.SECURED:
                break
    return best


def other_host_error(dialled: DialTarget) -> IdentityError:
    """Return the error for a certificate that is not for the dialled host; names both."""
    names = ", ".join(_names_in(look(dialled).certificate)) or "other hosts"
    where = (
        "with --curator"
        if dialled.role is Role.OPERATOR
        else "as curator or server_name in site.yaml"
    )
    return IdentityError(
        f"the certificate of the curator at {dialled.address} is for {names}, not for "
        f"{dialled.expected}: name a host that it is for {where}, or ask the operator to issue "
        f"it with --host {dialled.expected} as well"
    )


def _names_in(certificate: bytes) -> tuple[str, ...]:
    """Return host names and addresses in a certificate (DER); none if unreadable."""
    from cryptography import x509

    try:
        names = (
            x509.load_der_x509_certificate(certificate)
            .extensions.get_extension_for_class(x509.SubjectAlternativeName)
            .value
        )
    except (ValueError, x509.ExtensionNotFound):
        return ()
    addresses = (str(each) for each in names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _connect(dialled: DialTarget, end: float) -> Generator[socket.socket | Sight]:
    """Yield a connection to each address, or what became of it."""
    if dialled.proxy is not None:
        yield dialled.proxy.open_tunnel(dialled.address)
        return
    host, port = parse_host(dialled.address), int(dialled.address.rpartition(":")[2])
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        yield Sight(Reach.UNKNOWN_NAME, error.strerror or "")
        return
    for *_, place in places:
        try:
            left_s = max(end - time.monotonic(), 0.1)
            yield socket.create_connection((str(place[0]), port), timeout=left_s)
        except TimeoutError:
            yield Sight(Reach.SILENT, "no answer")
        except (ConnectionResetError, ConnectionAbortedError):
            yield Sight(Reach.CLOSED)
        except OSError as error:
            yield Sight(Reach.REFUSED, error.strerror or str(error))


def _judge_term(certificate: bytes) -> Sight:
    from cryptography import x509

    shown, now = x509.load_der_x509_certificate(certificate), utc_now()
    if now < shown.not_valid_before_utc:
        return Sight(Reach.UNTRUSTED, "certificate is not yet valid")
    if now < shown.not_valid_after_utc:
        return Sight(Reach.SECURED, "", certificate)
    try:
        parse_identity(shown)
    except IdentityError:
        return Sight(Reach.UNTRUSTED, "certificate has expired")
    return Sight(Reach.ENDED, "", certificate)


def _is_connected(raw: socket.socket) -> bool:
    try:
        raw.getpeername()
    except OSError:
        return False
    return True


def _secure(raw: socket.socket, ca: bytes, end: float) -> Sight:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names are shown, not compared; the signature is required
    context.set_alpn_protocols(["h2"])
    context.verify_flags |= _NO_CHECK_TIME  # the term is judged below, so that it can be told
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
        raw.settimeout(max(end - time.monotonic(), 0.1))
        with raw:
            if not _is_connected(raw):  # `wrap_socket` would leave its socket open
                return Sight(Reach.CLOSED)
            with context.wrap_socket(raw) as secured:
                return _judge_term(secured.getpeercert(binary_form=True) or b"")
    except TimeoutError:
        return Sight(Reach.SILENT, _TAKEN)
    except ssl.SSLCertVerificationError as error:
        return Sight(Reach.UNTRUSTED, error.verify_message)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
        return Sight(Reach.CLOSED)
    except (OSError, ValueError) as error:
        return Sight(Reach.NO_TLS, str(getattr(error, "reason", None) or error))
