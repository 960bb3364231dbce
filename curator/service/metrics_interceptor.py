"""Counter for every call of the two services; it does not read their contents.

The code that wraps a gRPC handler sees how the call ends: its status code and the trailer that
names the error's class. Health checks and reflection are not counted: they arrive every second and
tell nothing about studies.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from grpc.aio import ServerInterceptor

from dppca.common.transport.status import TRAILER
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.observability.metrics import Metrics

_CODES = {code.value[0]: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
_OURS = tuple(f"/{service.full_name}/" for service in pb.DESCRIPTOR.services_by_name.values())


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
