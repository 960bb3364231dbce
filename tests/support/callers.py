"""Owners and refusals, shared by tests of the curator's service."""

from collections.abc import Callable

import grpc
import pytest

from dppca.common.transport.status import from_rpc_error

OWNERS = ("owner-1", "owner-2", "owner-3")
STATE = ("FAILED_PRECONDITION", "StudyStateError")
NOT_READY = ("FAILED_PRECONDITION", "NotReadyError")
UPLOAD = ("INVALID_ARGUMENT", "UploadError")
CONFLICT = ("ALREADY_EXISTS", "ConflictError")
TOO_LONG = ("RESOURCE_EXHAUSTED", "LimitError")


def refused(call: Callable[[], object]) -> tuple[str, str]:
    """Status and error of a refused call; only the error's public sentence crossed the wire."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error = from_rpc_error(caught.value)
    assert caught.value.details() == type(error).public  # type: ignore[attr-defined]
    return caught.value.code().name, type(error).__name__  # type: ignore[attr-defined]
