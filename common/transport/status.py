"""Conversion of errors to gRPC statuses, and back.

The server side ends every failed call here: with the status of the error's class, the class's
constant public sentence, and its name in the trailer `dppca-error`. Details stay in the local log.
The client side turns a failed call into an error of the same class, with a message that says what
to do.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn, Protocol, runtime_checkable

import grpc

from dppca.common.kernel import errors
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.identity.tls import Role

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

TRAILER = "dppca-error"
_LOG = logging.getLogger(__name__)

STATUS: dict[type[DppcaError], grpc.StatusCode] = {
    errors.InputError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.SchemaMismatchError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PrivacyError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.RangeError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.LedgerError: grpc.StatusCode.INTERNAL,
    errors.BusyError: grpc.StatusCode.UNAVAILABLE,
    errors.UnreachableError: grpc.StatusCode.UNAVAILABLE,
    errors.IdentityError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.UnknownStudyError: grpc.StatusCode.NOT_FOUND,
    errors.StudyStateError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ConflictError: grpc.StatusCode.ALREADY_EXISTS,
    errors.UploadError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.LimitError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.ChainError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.PeerError: grpc.StatusCode.INTERNAL,
    errors.NotReadyError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.StoreError: grpc.StatusCode.DATA_LOSS,
    errors.DppcaError: grpc.StatusCode.INTERNAL,
}
"""Status of each class; an unlisted class has the status of its nearest ancestor."""

RETRIED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
    }
)
"""Statuses after which the same call may succeed."""

WHAT_TO_DO: dict[type[DppcaError], str] = {
    errors.BusyError: "run the same command again later: nothing is lost or charged twice",
    errors.InputError: "the curator's log says why",
    errors.UnreachableError: "check the address and that the curator is running, then run the "
    "same command again: nothing is lost or charged twice",
    errors.IdentityError: "this party's certificate and the curator's must be signed by one "
    "authority, be valid today and not revoked, and name who uses them; both sides must speak TLS "
    "1.3",
    errors.StudyError: "its deadline must be in the future by the curator's clock too; a study "
    "that it continues must have its result here and the same people and attributes; the "
    "curator's log says what is wrong",
    errors.PermissionDeniedError: "use a certificate of the right role",
    errors.TooManyRowsError: "ask the operator for a study with a larger max_rows, of which each "
    "owner has an equal part",
    errors.UnknownStudyError: "`dppca-owner studies` lists those that name this owner. One that "
    "began without it takes no more owners; a new study with it costs those who came to the first "
    "once more",
    errors.StudyStateError: "ask the operator: `dppca-curator study show`",
    errors.ConflictError: "the curator keeps what it has; ask the operator what is stored",
    errors.SchemaMismatchError: "compare your study file with the operator's",
    errors.ChainError: "this site's ledger is older than one it used before: restore the newest "
    "copy of ledger.sqlite",
    errors.NotReadyError: "wait for the other owners and ask again",
    errors.StoreError: "the operator frees space on the curator's disk or makes it "
    "writable; then run the same command again: nothing is lost or charged twice",
    errors.PeerError: "the operator finds the reason in the curator's log",
    errors.LimitError: "the operator may raise the curator's limits",
    errors.UploadError: "run the same command again; if it fails again, the network changes bytes",
}


OPERATOR_WHAT_TO_DO: dict[type[DppcaError], str] = {
    errors.UnknownStudyError: "`dppca-curator study list` shows all studies",
    errors.StudyStateError: "`dppca-curator study show` tells its state",
    errors.ConflictError: "the curator keeps what it has",
}
"""Hints for operators that differ from those for owners."""


@runtime_checkable
class _FailedCall(Protocol):
    """Interface of gRPC's errors, blocking or not, which their base class does not declare."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


# gRPC's own answer above the server's total limit of calls; it has no trailer.
_TOO_MANY_CALLS = "concurrent rpc limit"
# gRPC's own words, without which UNAVAILABLE is no matter of certificates. Not "handshake" alone: a
# broken or slow one ("Handshake read failed") may succeed when tried again; no single word that the
# name of a host may have.
_OTHER_HOST = ("hostname verification check failed", " is not in peer certificate")
_HANDSHAKE = ("ssl_error_ssl", "tls handshake failed", "custom verification check", *_OTHER_HOST)
_CLOSED = re.compile(
    r"failed to connect to all addresses; last error: \w+: \S+: (Socket closed|recvmsg:[^()]*reset)"
)


def choose_status(error: DppcaError) -> grpc.StatusCode:
    """Return the status of an error, by its class or the nearest listed ancestor."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


async def abort(context: ServicerContext[object, object], error: DppcaError) -> NoReturn:
    """End a call on the server's side; only constants leave."""
    context.set_trailing_metadata(((TRAILER, type(error).__name__),))
    await context.abort(choose_status(error), error.public)
    raise AssertionError  # abort does not return


def from_rpc_error(
    error: grpc.RpcError, *, role: Role = Role.OWNER, hinted: bool = True, address: str = ""
) -> DppcaError:
    """Return the error of a failed call for a client of some role to ``address``, `HOST:PORT`.

    Without ``hinted`` the message does not say what to do. Words of gRPC, or of a proxy, go to the
    log: only what the other side's software answered is told.
    """
    code, details, trailers = _status_parts(error)
    answered = _by_name(str(trailers.get(TRAILER, "")))
    error_class = answered or _by_status(code, details)
    reason = error_class.public
    if answered is None:
        _LOG.info("gRPC answered %s: %s", code.name, one_line(details))
        reason = f"the curator at {address}: {reason}" if address else reason
    elif details:
        reason = one_line(details)
    return with_hint(error_class, reason, role) if hinted else error_class(reason)


def with_hint(error_class: type[DppcaError], reason: str, role: Role) -> DppcaError:
    """Return an error with its reason, and what a client of some role can do."""
    hint = WHAT_TO_DO.get(error_class)
    if role is Role.OPERATOR:
        hint = OPERATOR_WHAT_TO_DO.get(error_class, hint)
    return error_class(f"{reason.rstrip('.')}: {hint}" if hint else reason)


def is_unanswered(error: grpc.RpcError) -> bool:
    """Return True if the other side's software said nothing: it is away, or was not let talk."""
    code, details, trailers = _status_parts(error)
    kind = _by_status(code, details)
    return (
        TRAILER not in trailers
        and kind in (errors.UnreachableError, errors.IdentityError)
        and (code in RETRIED)
    )


def is_late(error: grpc.RpcError) -> bool:
    """Return True if the time of a call was over."""
    return _status_parts(error)[0] is grpc.StatusCode.DEADLINE_EXCEEDED


def is_closed_after_tls(error: grpc.RpcError) -> bool:
    """Return True if a new connection was closed after this side's handshake, without a word."""
    code, details, _ = _status_parts(error)
    return code is grpc.StatusCode.UNAVAILABLE and _CLOSED.search(details) is not None


def may_retry(error: grpc.RpcError) -> bool:
    """Return True if the same call may succeed later."""
    code, details, _ = _status_parts(error)
    kind = _by_status(code, details)
    return (
        kind is errors.BusyError
        or (code in RETRIED and kind is not errors.IdentityError)
        or is_store_failure(error)
    )


def is_store_failure(error: grpc.RpcError) -> bool:
    """Return True if the other side could not write or read its store, as on a full disk."""
    _, _, trailers = _status_parts(error)
    return _by_name(str(trailers.get(TRAILER, ""))) is errors.StoreError


def is_busy(error: grpc.RpcError) -> bool:
    """Return True if the other side works but has too many calls, so that waiting helps."""
    code, details, trailers = _status_parts(error)
    error_class = _by_name(str(trailers.get(TRAILER, ""))) or _by_status(code, details)
    return error_class is errors.BusyError


def is_other_host(error: grpc.RpcError) -> bool:
    """Return True if the other side's certificate is good but not for the dialled host."""
    code, details, _ = _status_parts(error)
    return code is grpc.StatusCode.UNAVAILABLE and any(
        word in details.lower() for word in _OTHER_HOST
    )


def _status_parts(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, dict[str, str | bytes]]:
    failed: object = error
    if not isinstance(failed, _FailedCall):
        return grpc.StatusCode.UNKNOWN, str(error), {}
    return failed.code(), failed.details() or "", dict(failed.trailing_metadata() or ())


def _by_name(name: str) -> type[DppcaError] | None:
    return next((kind for kind in errors.error_kinds() if kind.__name__ == name), None)


def _by_status(code: grpc.StatusCode, details: str) -> type[DppcaError]:
    if code is grpc.StatusCode.UNAVAILABLE and any(word in details.lower() for word in _HANDSHAKE):
        return errors.IdentityError
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_MANY_CALLS in details.lower():
        return errors.BusyError
    return {
        grpc.StatusCode.UNAVAILABLE: errors.UnreachableError,
        grpc.StatusCode.DEADLINE_EXCEEDED: errors.UnreachableError,
        grpc.StatusCode.ABORTED: errors.UnreachableError,
        grpc.StatusCode.CANCELLED: errors.UnreachableError,
        grpc.StatusCode.UNAUTHENTICATED: errors.IdentityError,
        grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError,
        grpc.StatusCode.NOT_FOUND: errors.UnknownStudyError,
        grpc.StatusCode.ALREADY_EXISTS: errors.ConflictError,
        grpc.StatusCode.RESOURCE_EXHAUSTED: errors.LimitError,
        grpc.StatusCode.FAILED_PRECONDITION: errors.StudyStateError,
        grpc.StatusCode.INVALID_ARGUMENT: errors.UploadError,
        grpc.StatusCode.DATA_LOSS: errors.StoreError,
    }.get(code, errors.PeerError)
