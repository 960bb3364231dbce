"""Channels: mutual TLS, keepalive and message sizes common to both ends; a client's calls on one.

Every call has a deadline. Retries are bounded in number and time, wait exponentially with full
jitter (Brooker, "Exponential backoff and jitter", 2015), and happen only after statuses that mean
"the same call may succeed". Every call of the protocol may be repeated, so a retry never does harm.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, Self, TypeVar

import grpc
import tenacity
from google.protobuf.message import Message

from dppca.common.documents.names import nearest_name
from dppca.common.errors import DppcaError, IdentityError, UnknownStudyError, UnreachableError
from dppca.common.transport import require_tls_13
from dppca.common.transport.hosts import DialTarget, other_host_error, parse_host
from dppca.common.transport.proxies import HttpProxy
from dppca.common.transport.status import from_rpc_error, is_busy, is_other_host, may_retry
from dppca.common.transport.tls import Credentials

MAX_MESSAGE_BYTES = 8 << 20
MAX_STREAMS = 64
CHUNK_BYTES = 1 << 20
KEEPALIVE_S = 30
IDLE_S = 300
CONNECT_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 30.0
ATTEMPTS = 8
"""Largest number of attempts, not counting those that find the other side busy."""

_T = TypeVar("_T")

_COMMON_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)

CLIENT_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *_COMMON_OPTIONS,
    ("grpc.enable_retries", 0),  # our own retries are bounded and visible
    ("grpc.enable_http_proxy", 0),  # only the site file decides about a proxy
    ("grpc.use_local_subchannel_pool", 1),
    # A curator that refused or closed a connection is called again soon.
    ("grpc.max_reconnect_backoff_ms", 5_000),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON_OPTIONS,
    # Clients ping every KEEPALIVE_S; the server accepts pings slightly sooner.
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_S * 1000 - 5_000),
    ("grpc.so_reuseport", 0),  # a second daemon on the port is an error
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.max_concurrent_streams", MAX_STREAMS),  # of one connection
    # Windows that do not grow: at most 64 KiB for each call arrive before they are asked for. A
    # message that is asked for still arrives at once.
    ("grpc.http2.bdp_probe", 0),
)


def server_options(
    *, connections: int, calls: int, handshake_s: float
) -> tuple[tuple[str, int], ...]:
    """Options of a server that strangers can reach.

    gRPC accepts ``connections`` and closes further ones on arrival, from any client. At most
    ``calls`` may wait for our code at once; gRPC cancels any further ones, honest ones too.
    ``handshake_s`` is the limit for TLS and the first words of HTTP/2, in seconds.
    """
    return (
        *SERVER_OPTIONS,
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.server.max_pending_requests", calls),
        ("grpc.server.max_pending_requests_hard_limit", calls),
        ("grpc.server_handshake_timeout_ms", int(1000 * handshake_s)),
        # A client that was idle for so long reconnects at its next call.
        ("grpc.max_connection_idle_ms", IDLE_S * 1000),
    )


def open_channel(
    address: str,
    credentials: Credentials,
    *,
    server_name: str | None = None,
    proxy: HttpProxy | None = None,
) -> grpc.Channel:
    """Open a channel to a curator; it connects when first used.

    The curator's certificate must name the host of ``address``, a ``HOST:PORT``, or, if a tunnel
    lies between, ``server_name``. With a ``proxy``, the channel dials the proxy, which connects to
    the address; TLS still ends at the curator.
    """
    require_tls_13()
    options: list[tuple[str, int | str]] = list(CLIENT_OPTIONS)
    if proxy is not None:
        options += proxy.channel_options(address)
        server_name = server_name or parse_host(address)
    if server_name is not None:
        options.append(("grpc.ssl_target_name_override", server_name))
    try:
        tls = grpc.ssl_channel_credentials(
            root_certificates=credentials.ca,
            private_key=credentials.key,
            certificate_chain=credentials.certificate,
        )
        dialled = address if proxy is None else proxy.address
        return grpc.secure_channel(dialled, tls, options=options)
    except (ValueError, RuntimeError) as error:
        raise IdentityError(
            "the certificate or key cannot be used: fetch them again from where they were made"
        ) from error


def reloading_server_credentials(current: Callable[[], Credentials]) -> grpc.ServerCredentials:
    """Mutual TLS credentials that ``current`` supplies anew for each connection.

    A client needs a certificate of the same authority. Open connections keep their first ones.
    """
    require_tls_13()
    in_use = current()

    def configuration(credentials: Credentials) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration(
            [(credentials.key, credentials.certificate)], root_certificates=credentials.ca
        )

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal in_use
        latest = current()
        if latest == in_use:
            return None
        in_use = latest
        return configuration(latest)

    return grpc.dynamic_ssl_server_credentials(
        configuration(in_use),
        fetch,  # type: ignore[arg-type] # None is for "unchanged"; the stub forgets it
        require_client_authentication=True,
    )


def with_retries(
    call: Callable[[float], _T],
    *,
    deadline_s: float,
    attempts: int = ATTEMPTS,
    dialled: DialTarget | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Run a call until it succeeds, fails permanently, or the deadline has passed.

    ``call`` receives the seconds that are left, as the RPC's timeout, and is called again from the
    start after a temporary failure. ``deadline_s`` is for all attempts together; ``attempts`` does
    not count those that find the other side busy; ``dialled`` is the target for error messages,
    None in tests and tools. Raise the `DppcaError` of the last attempt.
    """
    end = clock() + deadline_s
    counted = 0

    def ended(state: tenacity.RetryCallState) -> bool:
        nonlocal counted
        error = state.outcome.exception() if state.outcome is not None else None
        counted += not (isinstance(error, grpc.RpcError) and is_busy(error))
        return counted >= attempts or clock() >= end

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, grpc.RpcError) and may_retry(error)
        ),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=5),
        stop=ended,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(lambda: call(max(end - clock(), 0.001)))
    except grpc.RpcError as error:
        raise explain_failure(error, dialled) from error


def explain_failure(error: grpc.RpcError, dialled: DialTarget | None) -> DppcaError:
    """Return the error of a failed call, with a message for the calling party."""
    if dialled is None:
        return from_rpc_error(error)
    if is_other_host(error):
        return other_host_error(dialled)
    failed = from_rpc_error(error, role=dialled.role, address=dialled.address)
    if dialled.proxy is not None and isinstance(failed, UnreachableError):
        try:
            dialled.proxy.open_tunnel(dialled.address).close()
        except UnreachableError as reason:
            return reason
    return failed


class CuratorConnection:
    """Base of a curator's clients: a channel, and calls on it with retries."""

    def __init__(self, dialled: DialTarget, credentials: Credentials) -> None:
        self._dialled = dialled
        self._ca = dialled.ca
        self._channel = open_channel(
            dialled.address, credentials, server_name=dialled.server_name, proxy=dialled.proxy
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.close()

    def _call(
        self,
        call: Callable[[float], _T],
        *,
        deadline_s: float | None = None,
        attempts: int = ATTEMPTS,
    ) -> _T:
        left = CALL_TIMEOUT_S if deadline_s is None else deadline_s
        return with_retries(call, deadline_s=left, attempts=attempts, dialled=self._dialled)

    def _ask(
        self, method: Callable[..., _T], request: Message, *, deadline_s: float | None = None
    ) -> _T:
        return self._call(lambda left: method(request, timeout=left), deadline_s=deadline_s)


class _NamedStudy(Protocol):
    @property
    def name(self) -> str: ...


@contextmanager
def guess_study(name: str, studies: Callable[[], Sequence[_NamedStudy]]) -> Iterator[None]:
    """If the block finds no study, raise an error that names the most similar one in sight."""
    try:
        yield
    except UnknownStudyError as error:
        try:
            near = nearest_name(name, [each.name for each in studies()])
        except DppcaError:  # the curator lists none: keep the first error
            raise error from None
        meant = "" if near is None else f"; did you mean {near}?"
        raise UnknownStudyError(f"{error}. You asked for {name}{meant}") from error
