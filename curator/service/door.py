"""In front of every call of every service, health and reflection included.

First the certificate: `curator.gate` is asked when a call begins, at every message of a call that
goes on, and before its answer leaves: who is revoked meanwhile gets no further, and what it was
uploading is not stored.

Then the memory. gRPC takes a message in when it is asked for one, and for a call with one request
it asks before anybody knows who calls. So here every call is served as one with many requests,
of which the handler gets the first where it expects one: no message is asked for before its sender
was let in and has a place, and each method's messages have a largest size. A party has a number of
calls at once, and few messages on their way in; others are not kept waiting by it.

Source: gRPC over HTTP/2 (doc/PROTOCOL-HTTP2.md) makes no difference between one request and a
stream that ends after one.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc.aio import AbortError, ServerInterceptor, ServicerContext

from common.errors import BusyError, DppcaError, InputError, LimitError
from common.study import MAX_DOCUMENT_BYTES
from common.transport.channels import CHUNK_BYTES
from common.transport.codec import MAX_RECEIPT_BYTES
from curator.gate import Gate, Pass
from curator.service.calls import refuse

SMALL_BYTES = 64 << 10
LARGE_BYTES: Mapping[str, int] = {
    "Contribute": CHUNK_BYTES + MAX_RECEIPT_BYTES,
    "PublishSynthetic": CHUNK_BYTES + SMALL_BYTES,
    "CreateStudy": 2 * MAX_DOCUMENT_BYTES,
}
"""Largest message of a method; of others `SMALL_BYTES`."""
READS = 32
READS_PER_PARTY = 4
FIRST_MESSAGE_S = 120.0

_Context = ServicerContext[Any, Any]


class Door(ServerInterceptor):
    """Puts the gate and the caps before every handler.

    Parameters
    ----------
    gate
        Who comes in.
    max_calls
        Of one party at once.
    """

    def __init__(self, gate: Gate, *, max_calls: int) -> None:
        self._gate = gate
        self._max_calls = max_calls
        self._running: Counter[str] = Counter()
        self._reads = asyncio.Semaphore(READS)
        self._reads_of: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(READS_PER_PARTY)
        )

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler of a method behind the door; None where there is no such method."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method.rpartition("/")[2]
        cap = LARGE_BYTES.get(method, SMALL_BYTES)

        def read(content: bytes) -> Any:
            # Faults are values here: the trace of an exception would keep the content alive.
            if len(content) > cap:
                return LimitError(f"a message of {len(content)} bytes; {method} takes {cap}")
            try:
                return handler.request_deserializer(content)
            except DecodeError:
                return InputError(f"a message to {method} cannot be read")

        make, guarded = (
            (grpc.stream_stream_rpc_method_handler, self._streams(method, handler))
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler, self._answers(method, handler))
        )
        return make(
            guarded, request_deserializer=read, response_serializer=handler.response_serializer
        )

    def _answers(self, method: str, handler: Any) -> Callable[..., Any]:
        many = handler.request_streaming
        behaviour = handler.stream_unary if many else handler.unary_unary

        async def call(messages: AsyncIterator[Any], context: _Context) -> Any:
            try:
                async with self._inside(method, messages, context) as (shown, coming):
                    answer = await behaviour(coming if many else await _first(coming), context)
                    self._gate.require_good(shown)
                    return answer
            except AbortError as error:
                raise _light(error) from None

        return call

    def _streams(self, method: str, handler: Any) -> Callable[..., Any]:
        many = handler.request_streaming
        behaviour = handler.stream_stream if many else handler.unary_stream
        yields = inspect.isasyncgenfunction(inspect.unwrap(behaviour))

        async def call(messages: AsyncIterator[Any], context: _Context) -> AsyncGenerator[Any]:
            try:
                async with self._inside(method, messages, context) as (shown, coming):
                    request = coming if many else await _first(coming)
                    if not yields:  # as the health service's Watch: it writes its responses itself
                        await behaviour(request, context)
                        return
                    async with aclosing(behaviour(request, context)) as responses:
                        async for response in responses:
                            self._gate.require_good(shown)
                            yield response
            except AbortError as error:
                raise _light(error) from None

        return call

    @asynccontextmanager
    async def _inside(
        self, method: str, messages: AsyncIterator[Any], context: _Context
    ) -> AsyncGenerator[tuple[Pass, AsyncIterator[Any]]]:
        """The caller's pass and messages, while the call is served; refuses whom it must."""
        began, party = time.monotonic(), "unknown"
        try:
            shown = self._gate.admit(context.auth_context())
            party = _party(shown)
            with self._counted(party):
                async with aclosing(self._each(messages, shown)) as coming:
                    yield shown, coming
        except DppcaError as error:
            await refuse(context, error, method=method, party=party, began=began)

    async def _each(self, messages: AsyncIterator[Any], shown: Pass) -> AsyncGenerator[Any]:
        """Messages as they are let in; close it, for gRPC's own iterator keeps the last one."""
        coming = aiter(messages)
        try:
            while True:
                async with self._reads_of[_party(shown)], self._reads:
                    message = await anext(coming, None)
                self._gate.require_good(shown)
                if message is None:
                    return
                if isinstance(message, DppcaError):
                    raise message
                yield message
        finally:
            if isinstance(coming, AsyncGenerator):
                await coming.aclose()

    @contextmanager
    def _counted(self, party: str) -> Iterator[None]:
        if self._running[party] >= self._max_calls:
            message = f"{party} has {self._max_calls} calls running already"
            raise BusyError(message)
        self._running[party] += 1
        try:
            yield
        finally:
            self._running[party] -= 1
            if not self._running[party]:
                del self._running[party]


def _light(error: AbortError) -> AbortError:
    """The error without its trace and history.

    gRPC keeps it with the call, which the frames of the trace hold: a circle that lives until
    Python looks for circles, and with it every message that a refused call had brought.
    """
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


def _party(shown: Pass) -> str:
    return f"{shown.identity.role.value}:{shown.identity.name}"


async def _first(coming: AsyncIterator[Any]) -> Any:
    """The one message of a call that has one."""
    try:
        async with asyncio.timeout(FIRST_MESSAGE_S):
            message = await anext(coming, None)
    except TimeoutError as error:
        text = f"no request has come for {FIRST_MESSAGE_S:.0f} s"
        raise InputError(text) from error
    if message is None:
        text = "the call ended without its request"
        raise InputError(text)
    return message
