"""Authentication, authorization and error translation for every RPC.

A handler works on values and raises errors of `dppca.common.errors`. This module identifies its
caller from the certificate alone, checks the role before reading a request, and turns every
exception into a status by `dppca.common.transport.status`. Only this module, ``main`` and the
coordinator's work on a study catch exceptions of any kind. Details go to the log, constants to the
caller.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Any, NoReturn, Protocol, TypeVar

from grpc.aio import AbortError, ServicerContext

from dppca.common.errors import DppcaError, PeerError, PermissionDeniedError
from dppca.common.transport.status import abort
from dppca.common.transport.tls import Identity, Role, peer_identity
from dppca.curator.observability.log import LOGGER, LineLimiter, log_event
from dppca.curator.service.recent_refusals import RecentRefusals

_FAILURES = LineLimiter(60, clock=time.monotonic)


class Refusing(Protocol):
    """A service that records its refusals."""

    refusals: RecentRefusals


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
                return await handler(service, request, current.admit(roles))
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
        self._began = time.monotonic()

    def admit(self, roles: tuple[Role, ...]) -> Caller:
        context = self._context.auth_context()
        identity = peer_identity(context)
        self._party = f"{identity.role.value}:{identity.name}"
        if identity.role not in roles:
            allowed = " or ".join(role.value for role in roles)
            raise PermissionDeniedError(
                f"{self._method} is for role {allowed}, not {identity.role.value}"
            )
        certificate = next(iter(context["x509_pem_cert"]))  # there, or peer_identity had refused
        return Caller(identity, self._context.time_remaining(), certificate, self._note_study)

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
