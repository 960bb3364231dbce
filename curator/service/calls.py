"""Layers around every RPC: authentication, limits, authorization, errors as statuses, counters.

`AuthInterceptor` serves every call of every service, health and reflection included. First it
checks the certificate: `dppca.curator.service.authenticator` is asked when a call begins, at every
later message of the call, and before its answer leaves. A party revoked in between gets no further,
and its upload is not stored.

Then it limits memory. gRPC reads a message when it is asked for one, and for a call with one
request it asks before the caller is known. Therefore every call is served here as one with many
requests, and a handler that expects one gets the first: no message is read before its sender
was admitted and has a place, and the messages of each method have a largest size. The calls of a
party are limited, and so are its messages on their way in, so that it does not delay others. Owners
together have fewer of both than there are: operators always find a place. Source: gRPC over HTTP/2
(doc/PROTOCOL-HTTP2.md) makes no difference between one request and a stream that ends after one.

A handler works on values and raises errors of `dppca.common.kernel.errors`. `unary` and
`server_stream` identify its caller from the certificate alone, check the role before reading a
request, and turn every exception into a status by `dppca.common.transport.status`. Only this
module, ``main`` and the coordinator's work on a study catch exceptions of any kind. Details go to
the log, constants to the caller.

`MetricsInterceptor` counts the calls of the two services; it does not read their contents. The code
that wraps a gRPC handler sees how the call ends: its status code and the trailer that names the
error's class. Health checks and reflection are not counted: they arrive every second and tell
nothing about studies.
"""

import asyncio
import inspect
import logging
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError
from grpc.aio import AbortError, ServerInterceptor, ServicerContext

from dppca.common.kernel.documents.yaml_text import MAX_DOCUMENT_BYTES
from dppca.common.kernel.errors import (
    BusyError,
    DppcaError,
    InputError,
    LimitError,
    PeerError,
    PermissionDeniedError,
)
from dppca.common.kernel.identity.tls import Identity, Role, peer_identity
from dppca.common.transport.channels import CHUNK_BYTES
from dppca.common.transport.status import TRAILER, abort
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.config import Limits
from dppca.curator.observability.log import LOGGER, LineLimiter, log_event
from dppca.curator.observability.metrics import Metrics
from dppca.curator.service.authenticator import Authenticator, PeerCertificate
from dppca.curator.service.recent_refusals import RecentRefusals

SMALL_BYTES = 64 << 10  # of a message without content
LARGE_BYTES: Mapping[str, int] = {
    "Contribute": CHUNK_BYTES + SMALL_BYTES,
    "PublishSynthetic": CHUNK_BYTES + SMALL_BYTES,
    "CreateStudy": 2 * MAX_DOCUMENT_BYTES,
    "Open": CHUNK_BYTES + SMALL_BYTES,
}
"""Largest message of a method; `SMALL_BYTES` for methods not listed."""
READS = 32
READS_OF_OTHERS = 8
"""Concurrent reads of messages: of all owners, and of operators."""
READS_PER_PARTY = 4  # concurrent, so that one party leaves places for others
FIRST_MESSAGE_S = 120.0  # for a call to say anything: it holds a place
_PAUSES = 2
"""Longest pause of a stream, as a multiple of an upload's: handlers have their own limits."""

_CODES = {code.value[0]: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
_OURS = tuple(f"/{service.full_name}/" for service in pb.DESCRIPTOR.services_by_name.values())
_FAILURES = LineLimiter(60, clock=time.monotonic)


class Refusing(Protocol):
    """A service that records its refusals, and what auditors look at: name, method and study."""

    refusals: RecentRefusals

    @property
    def note_look(self) -> Callable[[str, str, str], Awaitable[None]]:
        """Record a look before its answer leaves."""


_Service = TypeVar("_Service", bound=Refusing)
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Context = ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Caller:
    """The party that makes a call, with its certificate in PEM.

    ``remaining_s`` is the time until the client's deadline; None if it set none. ``note_study``
    records the study's name for the log and the list of refusals, and is called once the caller is
    known to be allowed to see the study.
    """

    identity: Identity
    remaining_s: float | None
    certificate: bytes
    note_study: Callable[[str], None]

    @property
    def name(self) -> str:
        """Name of the party."""
        return self.identity.name

    @property
    def is_owner(self) -> bool:
        """Return True if the party is an owner."""
        return self.identity.role is Role.OWNER


def unary(
    *roles: Role,
) -> Callable[
    [Callable[[_Service, _Request, Caller], Awaitable[_Response]]],
    Callable[[_Service, _Request, _Context], Awaitable[_Response]],
]:
    """Decorate a unary handler; only callers with one of ``roles`` are admitted."""

    def decorate(
        handler: Callable[[_Service, _Request, Caller], Awaitable[_Response]],
    ) -> Callable[[_Service, _Request, _Context], Awaitable[_Response]]:
        @wraps(handler)
        async def call(service: _Service, request: _Request, context: _Context) -> _Response:
            current = _Call(handler.__name__, context, service.refusals)
            try:
                response = await handler(service, request, current.admit(roles))
                await current.note_look(service)
                return response
            except (asyncio.CancelledError, AbortError):
                raise
            except Exception as error:
                await current.end(error)
                raise

        return call

    return decorate


def server_stream(
    *roles: Role,
) -> Callable[
    [Callable[[_Service, _Request, Caller], AsyncGenerator[_Response]]],
    Callable[[_Service, _Request, _Context], AsyncIterator[_Response]],
]:
    """Decorate a streaming handler; only callers with one of ``roles`` are admitted."""

    def decorate(
        handler: Callable[[_Service, _Request, Caller], AsyncGenerator[_Response]],
    ) -> Callable[[_Service, _Request, _Context], AsyncIterator[_Response]]:
        @wraps(handler)
        async def call(
            service: _Service, request: _Request, context: _Context
        ) -> AsyncIterator[_Response]:
            current = _Call(handler.__name__, context, service.refusals)
            try:
                # Closed with this call, not at garbage collection: it may hold a caller's place.
                async with aclosing(handler(service, request, current.admit(roles))) as responses:
                    async for response in responses:
                        await current.note_look(service)
                        yield response
            except (asyncio.CancelledError, AbortError, GeneratorExit):
                raise
            except Exception as error:
                await current.end(error)
                raise

        return call

    return decorate


class _Call:
    def __init__(self, method: str, context: _Context, refusals: RecentRefusals) -> None:
        self._method = method
        self._context = context
        self._refusals = refusals
        self._party = self._study = ""
        self._auditor: str | None = None
        self._began = time.monotonic()

    def admit(self, roles: tuple[Role, ...]) -> Caller:
        context = self._context.auth_context()
        identity = peer_identity(context)
        self._party = _party_text(identity)
        if identity.role not in roles:
            allowed = " or ".join(role.value for role in roles)
            raise PermissionDeniedError(
                f"{self._method} is for role {allowed}, not {identity.role.value}"
            )
        if identity.role is Role.AUDITOR:
            self._auditor = identity.name
        certificate = next(iter(context["x509_pem_cert"]))  # there, or peer_identity had refused
        return Caller(identity, self._context.time_remaining(), certificate, self._note_study)

    async def note_look(self, service: Refusing) -> None:
        """Record an auditor's look, once a call: its first answer says which study it is of."""
        auditor, self._auditor = self._auditor, None
        if auditor is not None:
            await service.note_look(auditor, self._method, self._study)

    async def end(self, error: Exception) -> None:
        if isinstance(error, DppcaError):
            await refuse(
                self._context,
                error,
                self._refusals,
                method=self._method,
                party=self._party,
                study=self._study,
                began=self._began,
            )
        if _FAILURES.take((self._party, self._method)) is not None:
            LOGGER.error(
                "call failed",
                exc_info=error,
                extra={"fields": {"method": self._method, "party": self._party or "unknown"}},
            )
        failed = PeerError(f"{self._method} failed")
        self._refusals.add(failed, party=self._party, study=self._study, method=self._method)
        await abort(self._context, failed)

    def _note_study(self, study: str) -> None:
        self._study = study


async def refuse(
    context: _Context,
    error: DppcaError,
    refusals: RecentRefusals,
    *,
    method: str,
    party: str,
    study: str,
    began: float,
) -> NoReturn:
    """Log and record a refusal, and end the call with its status.

    ``party`` and ``study`` are empty if they are not known; ``began`` is a monotonic time.
    """
    refusals.add(error, party=party, study=study, method=method)
    log_event(
        "call refused",
        level=logging.WARNING,
        limit=(party, type(error)),
        method=method,
        party=party or "unknown",
        error=type(error).__name__,
        reason=str(error),
        ms=round(1000 * (time.monotonic() - began)),
    )
    await abort(context, error)


class AuthInterceptor(ServerInterceptor):
    """Authenticates every call, and limits calls and messages, before its handler runs.

    ``authenticator`` decides who may call; ``limits`` bounds concurrent calls of one party, of all
    owners and in all; ``refusals`` records what this interceptor refuses.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        limits: Limits,
        refusals: RecentRefusals,
    ) -> None:
        self._authenticator = authenticator
        self._limits = limits
        self._refusals = refusals
        self._running: Counter[str] = Counter()
        self._owners_running = 0
        self._read_slots = {
            True: asyncio.Semaphore(READS),
            False: asyncio.Semaphore(READS_OF_OTHERS),
        }
        self._party_read_slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(READS_PER_PARTY)
        )

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Return the guarded handler of a method; None if there is no such method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method.rpartition("/")[2]
        cap = LARGE_BYTES.get(method, SMALL_BYTES)

        def read(content: bytes) -> Any:
            # Faults are returned, not raised: an exception's trace would keep the content alive.
            if len(content) > cap:
                return LimitError(f"a message of {len(content)} bytes; {method} takes {cap}")
            try:
                return handler.request_deserializer(content)
            except DecodeError:
                return InputError(f"a message to {method} cannot be read")

        make, guarded = (
            (grpc.stream_stream_rpc_method_handler, self._guard_stream(method, handler))
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler, self._guard_unary(method, handler))
        )
        return make(
            guarded, request_deserializer=read, response_serializer=handler.response_serializer
        )

    def _guard_unary(self, method: str, handler: Any) -> Callable[..., Any]:
        many = handler.request_streaming
        behaviour = handler.stream_unary if many else handler.unary_unary

        async def call(messages: AsyncIterator[Any], context: _Context) -> Any:
            try:
                async with self._admitted(method, messages, context) as (certificate, incoming):
                    answer = await behaviour(
                        incoming if many else await _only_message(incoming), context
                    )
                    self._authenticator.require_valid(certificate)
                    return answer
            except AbortError as error:
                raise _without_traceback(error) from None

        return call

    def _guard_stream(self, method: str, handler: Any) -> Callable[..., Any]:
        many = handler.request_streaming
        behaviour = handler.stream_stream if many else handler.unary_stream
        yields = inspect.isasyncgenfunction(inspect.unwrap(behaviour))

        async def call(messages: AsyncIterator[Any], context: _Context) -> AsyncGenerator[Any]:
            try:
                async with self._admitted(method, messages, context) as (certificate, incoming):
                    request = incoming if many else await _only_message(incoming)
                    if not yields:  # such as Watch of the health service, which writes itself
                        await behaviour(request, context)
                        return
                    async with aclosing(behaviour(request, context)) as responses:
                        async for response in responses:
                            self._authenticator.require_valid(certificate)
                            yield response
            except AbortError as error:
                raise _without_traceback(error) from None

        return call

    @asynccontextmanager
    async def _admitted(
        self, method: str, messages: AsyncIterator[Any], context: _Context
    ) -> AsyncGenerator[tuple[PeerCertificate, AsyncIterator[Any]]]:
        """Yield the caller's certificate and messages while the call runs, or refuse it."""
        began, party = time.monotonic(), ""
        try:
            certificate = self._authenticator.admit(context.auth_context())
            party = _party_text(certificate.identity)
            if certificate.identity.role is Role.OWNER:
                self._refusals.called.add(certificate.identity.name)
            with self._count_call(party, is_owner=_shares_places(certificate)):
                async with aclosing(self._admit_messages(messages, certificate)) as incoming:
                    yield certificate, incoming
        except DppcaError as error:
            await refuse(
                context,
                error,
                self._refusals,
                method=method,
                party=party,
                study="",
                began=began,
            )

    async def _admit_messages(
        self, messages: AsyncIterator[Any], certificate: PeerCertificate
    ) -> AsyncGenerator[Any]:
        """Yield messages within the caps; close it, because gRPC's iterator keeps the last one."""
        incoming = aiter(messages)
        try:
            while True:
                async with (
                    self._party_read_slots[_party_text(certificate.identity)],
                    self._read_slots[_shares_places(certificate)],
                ):
                    message = await self._next_message(incoming)
                self._authenticator.require_valid(certificate)
                if message is None:
                    return
                if isinstance(message, DppcaError):
                    raise message
                yield message
        finally:
            if isinstance(incoming, AsyncGenerator):
                await incoming.aclose()

    async def _next_message(self, incoming: AsyncIterator[Any]) -> Any:
        """Next message; None at the end. The time limit frees the place of a silent caller."""
        pause_s = max(FIRST_MESSAGE_S, _PAUSES * self._limits.idle_timeout_s)
        try:
            async with asyncio.timeout(pause_s):
                return await anext(incoming, None)
        except TimeoutError as error:
            raise InputError(f"no message arrived for {pause_s:.0f} s") from error

    @contextmanager
    def _count_call(self, party: str, *, is_owner: bool) -> Iterator[None]:
        limits, running = self._limits, self._running.total()
        if self._running[party] >= limits.max_calls_per_party:
            raise BusyError(f"{party} has {limits.max_calls_per_party} calls running already")
        if is_owner and self._owners_running >= limits.max_calls_of_owners:
            raise BusyError(f"owners have {limits.max_calls_of_owners} calls running already")
        if running >= limits.max_calls:
            raise BusyError(f"{limits.max_calls} calls are running already")
        self._running[party] += 1
        self._owners_running += is_owner
        try:
            yield
        finally:
            self._owners_running -= is_owner
            self._running[party] -= 1
            if not self._running[party]:
                del self._running[party]


def _without_traceback(error: AbortError) -> AbortError:
    """Return the error without its trace and history.

    gRPC keeps the error with the call, and the frames of the trace hold the call. Every message of
    a refused call would stay in this reference cycle until the garbage collector runs.
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _party_text(identity: Identity) -> str:
    return f"{identity.role.value}:{identity.name}"


def _shares_places(certificate: PeerCertificate) -> bool:
    """Return True for all but operators, of whom some places are their own."""
    return certificate.identity.role is not Role.OPERATOR


async def _only_message(incoming: AsyncIterator[Any]) -> Any:
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            message = await anext(incoming, None)
    except TimeoutError as error:
        raise InputError(f"no request arrived for {FIRST_MESSAGE_S:.0f} s") from error
    if message is None:
        raise InputError("the call ended without its request")
    return message


class MetricsInterceptor(ServerInterceptor):
    """Reports every call to ``counts``."""

    def __init__(self, counts: Metrics) -> None:
        self._counts = counts

    async def intercept_service(
        self,
        continuation: Callable[[Any], Awaitable[Any]],
        handler_call_details: Any,
    ) -> Any:
        """Return the handler of a call with counting around it."""
        handler = await continuation(handler_call_details)
        path: str = handler_call_details.method
        if handler is None or not path.startswith(_OURS):
            return handler
        return self._wrap(handler, path.rpartition("/")[2])

    def _wrap(self, handler: Any, method: str) -> Any:
        deserialize, serialize = handler.request_deserializer, handler.response_serializer

        def receive(content: bytes) -> Any:
            self._counts.received(len(content))
            return deserialize(content)

        def send(message: Any) -> bytes:
            content: bytes = serialize(message)
            self._counts.sent(len(content))
            return content

        async def answer(request: Any, context: Any) -> Any:
            behaviour = handler.stream_unary if handler.request_streaming else handler.unary_unary
            with self._counting(method, context):
                return await behaviour(request, context)

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            behaviour = handler.stream_stream if handler.request_streaming else handler.unary_stream
            with self._counting(method, context):
                async for response in behaviour(request, context):
                    yield response

        make = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[handler.request_streaming, handler.response_streaming]
        return make(stream if handler.response_streaming else answer, receive, send)

    @contextmanager
    def _counting(self, method: str, context: Any) -> Iterator[None]:
        began = time.monotonic()
        otherwise = grpc.StatusCode.OK
        try:
            yield
        except (asyncio.CancelledError, GeneratorExit):
            otherwise = grpc.StatusCode.CANCELLED
            raise
        except BaseException:
            otherwise = grpc.StatusCode.UNKNOWN
            raise
        finally:
            self._counts.ended(
                method,
                code=(_status_code(context) or otherwise).name,
                reason=dict(context.trailing_metadata() or ()).get(TRAILER),
                seconds=time.monotonic() - began,
            )


def _status_code(context: Any) -> grpc.StatusCode | None:
    """Return the status that was set; None for none, or for the OK that a context begins with."""
    code = context.code()
    return code if isinstance(code, grpc.StatusCode) else _CODES.get(code)
