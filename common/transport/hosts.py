"""The dialled host, and the hosts in the certificate there.

gRPC reports that a host name was refused, but not the valid names. A second handshake reads them
from the certificate itself. Everything except the name is checked as before: the party's own
authority must have signed it, so no one else can influence the message.
"""

import socket
import ssl
from dataclasses import dataclass

from dppca.common.errors import IdentityError, UnreachableError
from dppca.common.transport.proxies import HttpProxy
from dppca.common.transport.tls import Role

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class DialTarget:
    """Target of a client's call, and the client's role.

    ``address`` is ``HOST:PORT``; ``ca`` is the authority's certificate in PEM; ``role`` is the
    client's; ``server_name`` is expected instead of the host; ``proxy`` lies on the way, or is
    None.
    """

    address: str
    ca: bytes
    role: Role
    server_name: str | None = None
    proxy: HttpProxy | None = None

    @property
    def expected(self) -> str:
        """Name that the certificate must contain."""
        return self.server_name or parse_host(self.address)


def parse_host(address: str) -> str:
    """Return the host in a ``HOST:PORT``."""
    return address.rpartition(":")[0].strip("[]")


def other_host_error(dialled: DialTarget) -> IdentityError:
    """Return the error for a certificate that is not for the dialled host; names both."""
    names = ", ".join(_fetch_names(dialled)) or "other hosts"
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


def _fetch_names(dialled: DialTarget) -> tuple[str, ...]:
    """Return host names and addresses in the certificate at an address; none if unreadable."""
    from cryptography import x509

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it failed before; the signature is still required
    context.set_alpn_protocols(["h2"])
    try:
        context.load_verify_locations(cadata=dialled.ca.decode("ascii"))
        with (
            _connect(dialled) as raw,
            context.wrap_socket(raw) as secured,
        ):
            content = secured.getpeercert(binary_form=True) or b""
        names = (
            x509.load_der_x509_certificate(content)
            .extensions.get_extension_for_class(x509.SubjectAlternativeName)
            .value
        )
    except (OSError, ValueError, UnreachableError, x509.ExtensionNotFound):
        return ()
    addresses = (str(each) for each in names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _connect(dialled: DialTarget) -> socket.socket:
    if dialled.proxy is not None:
        return dialled.proxy.open_tunnel(dialled.address)
    port = int(dialled.address.rpartition(":")[2])
    return socket.create_connection((parse_host(dialled.address), port), timeout=_TIMEOUT_S)
