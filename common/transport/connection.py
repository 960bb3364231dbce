"""A client's connection to a curator: opened when first used, closed with its block.

Every call has a deadline and is repeated only after temporary failures
(`dppca.common.transport.channels.with_retries`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, Self, TypeVar

from google.protobuf.message import Message

from dppca.common.documents.names import nearest_name
from dppca.common.errors import DppcaError, UnknownStudyError
from dppca.common.transport.channels import ATTEMPTS, open_channel, with_retries
from dppca.common.transport.hosts import DialTarget
from dppca.common.transport.tls import Credentials

CALL_TIMEOUT_S = 30.0

_T = TypeVar("_T")


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
