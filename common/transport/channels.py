"""Channels: mutual TLS, keepalive and message sizes common to both ends; a client's calls on one.

Every call has a deadline. Retries are bounded in time, wait exponentially with full jitter
(Brooker, "Exponential backoff and jitter", 2015), and happen only after statuses that mean "the
same call may succeed". Every call of the protocol may be repeated, so a retry never does harm.

A caller with time to wait for a curator that is away has `Patience`; a call without it ends after a
few seconds. Pings find a connection that has gone silent within `SILENT_S`, whatever the call; gRPC
then dials again, at least every ten seconds, and asks again where a name leads.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self, TypeVar

import grpc
from google.protobuf.message import Message

from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import (
    DppcaError,
    IdentityError,
    LimitError,
    PeerError,
    UnknownStudyError,
    UnreachableError,
)
from dppca.common.kernel.identity.tls import (
    Credentials,
    Role,
    ended_text,
    parse_certificate,
    parse_identity,
    renewal,
)
from dppca.common.transport import require_tls_13
from dppca.common.transport.allowance import Allowance
from dppca.common.transport.greeting import Greeting, make_greeting, read_greeting
from dppca.common.transport.hosts import (
    LOOK_S,
    DialTarget,
    Reach,
    Sight,
    look,
    other_host_error,
    parse_host,
)
from dppca.common.transport.proxies import HttpProxy
from dppca.common.transport.status import (
    from_rpc_error,
    is_busy,
    is_closed_after_tls,
    is_late,
    is_other_host,
    is_store_failure,
    is_unanswered,
    may_retry,
    with_hint,
)
from dppca.common.wire import federation_pb2 as pb

MAX_MESSAGE_BYTES = 8 << 20
"""Largest message, in either direction: eight chunks, or a page of studies. Longer is a stream."""
MAX_STREAMS = 64
"""Calls at once on one connection: a curator's page and its lists need a few."""
CHUNK_BYTES = 1 << 20
"""Bytes of a file in one message: few enough that progress is seen on a slow line."""
KEEPALIVE_S = 10
"""Time without a byte after which a client pings, and a server three times later."""
PONG_S = 10
"""Time for the answer to a ping: far above any round trip, so that no sound line is cut."""
SILENT_S = KEEPALIVE_S + PONG_S
"""Time after which a client knows that a connection is silent."""
IDLE_S = 300
"""Time after which a server closes a connection without calls: others may need its place."""
CONNECT_TIMEOUT_S = 10.0
"""Time for a connection with its handshake, and the one after which a patient caller is told."""
CALL_TIMEOUT_S = 30.0
"""Time for a call with its retries, by default: one attempt may need all of it."""
ATTEMPTS = 8
"""Largest number of attempts without patience, not counting those that find the other side busy."""
STORE_S = 10.0
"""Longest pause before a call that the curator's disk could not take is made again."""
STUDIES_PAGE = 1000
"""Studies of a list in one message; each has less than 2 KiB, and a message 8 MiB."""
MOST_STUDIES = 100_000
"""Most studies of a list in all."""
_GLANCE_S = 2.0  # longest second look while a call goes on
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0  # bounds of the waits, drawn at random, that double
_REDIAL_MS = 5_000  # longest wait before a curator is dialled again, or its name asked for
_METADATA_BYTES = 16 << 10  # of one call: a bound for strangers

_T = TypeVar("_T")
_Greeting = pb.ListStudiesRequest | pb.GetStudyRequest | pb.CreateStudyRequest
_Greeted = TypeVar("_Greeted", pb.ListStudiesResponse, pb.GetStudyResponse, pb.CreateStudyResponse)

_COMMON_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_timeout_ms", PONG_S * 1000),
    # Without it gRPC 1.85 closes a silent connection after the default of 60 s.
    ("grpc.http2.ping_timeout_ms", PONG_S * 1000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)

CLIENT_OPTIONS: tuple[tuple[str, int | str], ...] = (
    *_COMMON_OPTIONS,
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.enable_retries", 0),  # our own retries are bounded and visible
    ("grpc.enable_http_proxy", 0),  # only the site file decides about a proxy
    ("grpc.use_local_subchannel_pool", 1),
    # A curator that refused or closed a connection, or did not answer, is dialled again soon.
    ("grpc.max_reconnect_backoff_ms", _REDIAL_MS),
    ("grpc.min_reconnect_backoff_ms", int(1000 * CONNECT_TIMEOUT_S)),
    ("grpc.dns_min_time_between_resolutions_ms", _REDIAL_MS),
)

SERVER_OPTIONS: tuple[tuple[str, int], ...] = (
    *_COMMON_OPTIONS,
    ("grpc.keepalive_time_ms", 3 * KEEPALIVE_S * 1000),
    # Clients ping every KEEPALIVE_S; the server accepts pings sooner.
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE_S * 1000 // 2),
    ("grpc.so_reuseport", 0),  # a second daemon on the port is an error
    ("grpc.max_metadata_size", _METADATA_BYTES),
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
    """Mutual TLS credentials that ``current`` supplies for each new connection.

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


@dataclass(frozen=True, slots=True)
class Patience:
    """How long calls go on to a curator that is away.

    ``left`` returns the seconds that a call which begins now has for it; ``told`` is called with a
    text for people, once in a call that has failed for longer than one without patience would.
    """

    left: Callable[[], float] = lambda: 0.0
    told: Callable[[str], None] = lambda _: None


def with_retries(
    call: Callable[[float], _T],
    *,
    deadline_s: float,
    attempts: int = ATTEMPTS,
    patience: Patience | None = None,
    dialled: DialTarget | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Run a call until it succeeds, fails permanently, or its time is over.

    ``call`` receives the seconds that it may take, as the RPC's timeout, and is called again from
    the start after a temporary failure. Each attempt, and all of them without ``patience``, may
    take ``deadline_s``. ``attempts`` limits those that are not covered by patience; it does not
    count those that find the other side busy, and counts those that are refused after a handshake,
    whatever the patience. ``dialled`` is the target for error messages, None in tests and tools.
    Raise the `DppcaError` of the last attempt.
    """
    patience, began = patience or Patience(), clock()
    waits_until = began + patience.left()
    end = max(began + deadline_s, waits_until)
    counted, closed, told, longest_wait_s = 0, 0, False, _FIRST_WAIT_S

    def is_patient() -> bool:
        return clock() < waits_until and closed < attempts

    while True:
        try:
            return call(max(min(deadline_s, end - clock()), 0.001))
        except grpc.RpcError as error:
            goes_on = may_retry(error) and _own_end(dialled) is None
            if goes_on:
                counted += not is_busy(error)
                closed = closed + 1 if is_closed_after_tls(error) else 0
                is_long = counted >= attempts or clock() - began >= CONNECT_TIMEOUT_S
                if is_long and not told and is_patient():
                    told = True
                    goes_on = _tell_waiting(error, dialled, patience, waits_until - clock())
                if is_store_failure(error):  # each is a whole upload: only for who has time
                    goes_on = goes_on and clock() < waits_until
                else:
                    goes_on = goes_on and (counted < attempts or is_patient()) and clock() < end
            if not goes_on:
                refused = closed >= attempts
                raise explain_failure(
                    error, dialled, limit_s=deadline_s, refused=refused
                ) from error
            # A disk is not freed in less than some seconds; else clients shall not come at once.
            full = is_store_failure(error)
            least, most = (STORE_S / 2, STORE_S) if full else (0, longest_wait_s)
        sleep(random.uniform(least, most))  # noqa: S311 - no secret
        longest_wait_s = min(2 * longest_wait_s, _LONGEST_WAIT_S)


def _tell_waiting(
    error: grpc.RpcError, dialled: DialTarget | None, patience: Patience, left_s: float
) -> bool:
    """Say why a call failed and until when it is tried again; False if it can never succeed."""
    failed = explain_failure(error, dialled, limit_s=_GLANCE_S, hinted=False)
    if isinstance(failed, UnreachableError) and not failed.may_pass:
        return False
    until = datetime.now(UTC) + timedelta(seconds=left_s)
    reason = str(failed).rstrip(".")
    patience.told(f"{reason}. Trying again until {until:%H:%M:%S} UTC; Ctrl-C ends it.")
    return True


def explain_failure(
    error: grpc.RpcError,
    dialled: DialTarget | None,
    *,
    limit_s: float = LOOK_S,
    refused: bool = False,
    hinted: bool = True,
) -> DppcaError:
    """Return the error of a failed call, with a message for the calling party.

    Without an answer from the other side's software, each address is looked at again, for at most
    ``limit_s``. ``refused`` is True if it closed each of many new connections after the handshake;
    without ``hinted`` the message does not say what to do.
    """
    if dialled is None:
        return from_rpc_error(error, hinted=hinted)
    ended = _own_end(dialled)
    if ended is not None:
        return ended
    if not is_unanswered(error):
        return from_rpc_error(error, role=dialled.role, hinted=hinted, address=dialled.address)
    if is_other_host(error):
        return other_host_error(dialled)
    try:
        sight = look(dialled, limit_s=limit_s)
    except UnreachableError as failed:  # by the proxy on the way
        return failed
    kind, reason = _explain(error, dialled, sight, refused=refused)
    said = refused or not hinted or sight.reach in (Reach.ENDED, Reach.NO_TLS)
    return kind(reason) if said else with_hint(kind, reason, dialled.role)


def _own_end(dialled: DialTarget | None) -> IdentityError | None:
    """Return the error of a client whose own certificate has ended while it was at work."""
    if dialled is None or not dialled.certificate:
        return None
    own = parse_certificate(dialled.certificate)
    if utc_now() < own.not_valid_after_utc:
        return None
    ended = ended_text(parse_identity(own), own.not_valid_after_utc)
    return IdentityError(f"{ended}. Then run the same command again: nothing is charged twice")


def _explain(
    error: grpc.RpcError, dialled: DialTarget, sight: Sight, *, refused: bool
) -> tuple[type[DppcaError], str]:
    where, reach = f"the curator at {dialled.address}", sight.reach
    unreached = f"{where} cannot be reached"
    if reach is Reach.CLOSED:
        return UnreachableError, (
            f"{unreached}: what listens there closes connections before TLS begins. It may be "
            "full (the curator, or the proxy in front of it, has all connections that it takes, in "
            "all or of this network address), or the curator behind the proxy is not running"
        )
    if reach is Reach.NO_TLS:
        given = "--curator" if dialled.role is Role.OPERATOR else "`curator` in site.yaml"
        return IdentityError, (
            f"what listens at {dialled.address} refuses TLS 1.3 ({sight.detail}): it is another "
            "program, such as a web server, or something on the way takes part in the connection. "
            f"Check host and port ({given}); curators usually listen at port 7443"
        )
    if reach is Reach.ENDED:
        return IdentityError, f"{where} shows {_ended_text(sight.certificate)}"
    if reach is Reach.UNTRUSTED:
        return IdentityError, (
            f"the certificate of {where} is refused here ({sight.detail}); this machine's clock "
            f"says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. If another server than the curator "
            "listens there, correct the address"
        )
    if reach is not Reach.SECURED:
        unknown = "no address of this name is known here"
        return UnreachableError, f"{unreached} ({sight.detail or unknown})"
    if is_late(error):
        return UnreachableError, f"{where} takes connections, but did not answer in time"
    kind = IdentityError if refused else UnreachableError
    return kind, (
        f"{where} takes connections, but closed this one without a reason. It may "
        "refuse this party's certificate: of another authority, or out of date by the curator's "
        "clock, which may be wrong, as this machine's may. Or it, or the proxy in front of it, was "
        "full or has just been stopped. The operator finds it in the curator's log, as `handshake "
        "refused`"
    )


def _ended_text(certificate: bytes) -> str:
    """Say when a curator's certificate (DER) has ended, and who renews it."""
    from cryptography import x509

    shown = x509.load_der_x509_certificate(certificate)
    return (
        f"a certificate that has expired, on {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC (this "
        f"machine's clock says {utc_now():%Y-%m-%d %H:%M}): {renewal(parse_identity(shown))}"
    )


class CuratorConnection:
    """Base of a curator's clients: a channel, and calls on it with retries.

    ``greeting`` is what the curator said of itself in the first call that asks for it, None before;
    ``warn`` is called with each remark on it, for people.
    """

    def __init__(
        self,
        dialled: DialTarget,
        credentials: Credentials,
        *,
        patience: Patience | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._dialled = dialled
        self._patience = patience
        self._warn = warn
        self.greeting: Greeting | None = None
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
        return with_retries(
            call,
            deadline_s=left,
            attempts=attempts,
            patience=self._patience,
            dialled=self._dialled,
        )

    def _ask(
        self, method: Callable[..., _T], request: Message, *, deadline_s: float | None = None
    ) -> _T:
        return self._call(lambda left: method(request, timeout=left), deadline_s=deadline_s)

    def _greet(
        self,
        method: Callable[..., _Greeted],
        request: _Greeting,
        *,
        deadline_s: float | None = None,
    ) -> _Greeted:
        """Make a call in which both sides say what they are, as the first of a command."""
        request.greeting.CopyFrom(make_greeting())

        def call(left: float) -> tuple[_Greeted, Greeting]:
            asked = utc_now()
            answer = method(request, timeout=left)
            return answer, read_greeting(answer.greeting, asked=asked)

        answer, greeting = self._call(call, deadline_s=deadline_s)
        if self.greeting is None:
            self.greeting = greeting
            for remark in greeting.remarks():
                self._warn(remark)
        return answer

    def _list_studies(
        self,
        method: Callable[..., pb.ListStudiesResponse],
        *,
        deadline_s: float | None = None,
    ) -> Iterator[pb.ListStudiesResponse]:
        """Yield all pages; an earlier version of the curator sends everything as one.

        Raise `PeerError` if a page does not lead to the next, or a study is listed twice;
        `LimitError` if the list is longer than a curator's can be, or takes too long.
        """
        request, seen = pb.ListStudiesRequest(most=STUDIES_PAGE), set[bytes]()
        allowed = Allowance("the curator's list of studies", messages=MOST_STUDIES // STUDIES_PAGE)
        while True:
            page = self._greet(method, request, deadline_s=deadline_s)
            allowed.take(page.ByteSize())
            if len(seen) + len(page.studies) > MOST_STUDIES:
                raise LimitError(f"the curator lists more than {MOST_STUDIES} studies")
            n_before = len(seen)
            seen.update(each.digest for each in page.studies)
            if len(seen) < n_before + len(page.studies):
                raise PeerError("the curator lists a study twice: tell the operator")
            yield page
            if not page.has_more:
                return
            last = page.studies[-1].digest if page.studies else b""
            if not last:
                raise PeerError("the curator's list of studies does not go on: tell the operator")
            request.after = last


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
