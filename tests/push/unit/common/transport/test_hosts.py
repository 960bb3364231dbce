"""A second look at an address, and what is said of a call that got no answer there."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from dppca.common.kernel.errors import DppcaError, IdentityError, PeerError, UnreachableError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.transport.channels import Patience, explain_failure, open_channel, with_retries
from dppca.common.transport.hosts import DialTarget, Reach, look
from tests.support.certificates import Authority, new_authority
from tests.support.patience import WAIT_S
from tests.support.ports import reserved_port
from tests.support.tls import answering

NOW = datetime.now(UTC)
PAST = {"start": NOW - timedelta(days=9), "end": NOW - timedelta(days=1)}
FUTURE = {"start": NOW + timedelta(days=1), "end": NOW + timedelta(days=9)}


def _answer(_: grpc.ServicerContext) -> bytes:
    return b"here"


@contextmanager
def _taking(what_then: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a listener that treats every connection alike."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            with suppress(OSError):  # the listener is closed: the test is over
                while True:
                    what_then(listener.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)


def _speak_http(taken: socket.socket) -> None:
    taken.recv(1000)
    taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    taken.close()


def _call(address: str, caller: Credentials, role: Role = Role.OWNER) -> DppcaError:
    """The error of a call there."""
    dialled = DialTarget(address, caller.ca, role)
    with open_channel(address, caller) as channel:
        method = channel.unary_unary("/test/Answer")
        with pytest.raises(DppcaError) as caught:
            with_retries(
                lambda left: method(b"", timeout=left),
                deadline_s=WAIT_S,
                attempts=3,
                dialled=dialled,
                sleep=lambda _: None,
            )
    return caught.value


def test_who_is_not_there_is_named(authority: Authority) -> None:
    with reserved_port() as port:
        error = _call(f"127.0.0.1:{port}", authority.issue(Role.OPERATOR, "o"), Role.OPERATOR)
    assert isinstance(error, UnreachableError)
    assert str(error).startswith(f"the curator at 127.0.0.1:{port} cannot be reached (Connection r")


@pytest.mark.parametrize("host", ["certificate.invalid", "ssl-hub.invalid", "hub.invalid"])
def test_a_name_that_leads_nowhere_is_no_matter_of_certificates(
    authority: Authority, host: str
) -> None:
    error = _call(f"{host}:7443", authority.issue(Role.OWNER, "o"))
    assert isinstance(error, UnreachableError)
    assert f"{host}:7443 cannot be reached" in str(error)


def _reset(taken: socket.socket) -> None:
    """As HAProxy ends a connection that it rejects."""
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    taken.close()


@pytest.mark.parametrize("end", [socket.socket.close, _reset], ids=["closed", "reset"])
def test_what_closes_before_tls_may_be_full(
    authority: Authority, end: Callable[[socket.socket], None]
) -> None:
    with _taking(end) as address:
        error = _call(address, authority.issue(Role.OWNER, "o"))
    assert isinstance(error, UnreachableError)
    assert "closes connections before TLS begins. It may be full" in str(error)


def test_what_does_not_speak_tls_is_said(authority: Authority) -> None:
    with _taking(_speak_http) as address:
        error = _call(address, authority.issue(Role.OWNER, "o"))
    assert isinstance(error, IdentityError)
    assert f"what listens at {address} refuses TLS 1.3" in str(error)
    assert "such as a web server" in str(error)
    assert "`curator` in site.yaml" in str(error)
    assert "signed by one" not in str(error), "it has no certificate to compare"


@pytest.mark.parametrize(
    ("term", "words"), [(PAST, "has expired"), (FUTURE, "not yet valid")], ids=["past", "future"]
)
def test_a_wrong_clock_here_is_named(
    authority: Authority, term: dict[str, datetime], words: str
) -> None:
    with answering(authority.issue(Role.CURATOR, "hub", **term), _answer) as port:
        error = _call(f"127.0.0.1:{port}", authority.issue(Role.OWNER, "o"))
    assert isinstance(error, IdentityError)
    assert words in str(error)
    assert f"this machine's clock says {NOW:%Y-%m-%d}" in str(error)
    if term is PAST:
        assert f"{PAST['end']:%Y-%m-%d %H:%M} UTC" in str(error)
        assert "pki issue --role curator --name hub" in str(error)


def test_a_caller_whose_certificate_ends_meanwhile_waits_no_longer(authority: Authority) -> None:
    caller, told = authority.issue(Role.OWNER, "o", **PAST), list[str]()
    with reserved_port() as port:
        dialled = DialTarget(
            f"127.0.0.1:{port}", caller.ca, Role.OWNER, certificate=caller.certificate
        )
        with open_channel(dialled.address, caller) as channel:
            method = channel.unary_unary("/test/Answer")
            with pytest.raises(IdentityError, match=r"owner o expired on .* by this machine") as it:
                with_retries(
                    lambda left: method(b"", timeout=left),
                    deadline_s=WAIT_S,
                    patience=Patience(lambda: 10_000.0, told.append),
                    dialled=dialled,
                    sleep=lambda _: None,
                )
    assert "pki sign" in str(it.value)
    assert told == []


@pytest.mark.parametrize("wrong", ["another authority", "past", "future"])
def test_a_certificate_that_the_curator_refuses_is_named_among_what_it_can_mean(
    authority: Authority, wrong: str
) -> None:
    term = {"past": PAST, "future": FUTURE}.get(wrong, {})
    issuer = new_authority("other") if wrong == "another authority" else authority
    issued = issuer.issue(Role.OWNER, "o", **term)
    caller = Credentials(authority.pem, issued.certificate, issued.key)
    with answering(authority.issue(Role.CURATOR, "hub"), _answer) as port:
        error = _call(f"127.0.0.1:{port}", caller)
    assert isinstance(error, IdentityError)
    for word in ("certificate: of another authority", "clock", "full", "handshake refused"):
        assert word in str(error)


def test_of_several_addresses_the_one_that_got_furthest_counts(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host has an address where nothing listens, whichever of them comes first."""
    resolve, caller = socket.getaddrinfo, authority.issue(Role.OWNER, "o")
    with answering(authority.issue(Role.CURATOR, "hub"), _answer) as port:
        for hosts in (("127.0.0.1", "127.0.0.9"), ("127.0.0.9", "127.0.0.1")):
            places = [each for host in hosts for each in resolve(host, port, 0, 1)]
            monkeypatch.setattr(
                socket,
                "getaddrinfo",
                lambda host, *rest, **how: (
                    places if host == "hub.example" else resolve(host, *rest, **how)  # noqa: B023
                ),
            )
            dialled = DialTarget(f"hub.example:{port}", caller.ca, Role.OWNER)
            assert look(dialled).reach is Reach.SECURED
            error = explain_failure(_Quoted(), dialled)
            assert "takes connections, but closed this one" in str(error)
            assert "127.0.0.9" not in str(error)
            assert "refused" not in str(error).replace("`handshake refused`", "")


def test_words_of_grpc_or_of_a_proxy_go_to_the_log(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    dialled = DialTarget("hub.example:7443", authority.pem, Role.OWNER)
    with caplog.at_level("INFO"):
        error = explain_failure(_Quoted(grpc.StatusCode.INTERNAL), dialled)
    assert isinstance(error, PeerError)
    assert str(error).startswith(f"the curator at hub.example:7443: {PeerError.public[:-1]}: ")
    assert "last error" not in str(error)
    assert "last error" in caplog.text


class _Quoted(grpc.RpcError):
    """A failure with the words of an address that does not matter."""

    def __init__(self, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.9:1: Failed to "
            "connect to remote host: Connection refused"
        )

    def trailing_metadata(self) -> tuple[()]:
        return ()


def test_a_look_is_short_where_nobody_answers(authority: Authority) -> None:
    kept: list[socket.socket] = []
    with _taking(kept.append) as address:
        seen = look(DialTarget(address, authority.pem, Role.OWNER), limit_s=0.2)
    for each in kept:
        each.close()
    assert seen.reach is Reach.SILENT
    assert "may be full" in seen.detail
