import socket
from concurrent import futures
from contextlib import closing
from typing import Any

import pytest

from dppca.common.kernel.errors import IdentityError, UnreachableError
from dppca.common.kernel.identity.tls import Credentials, Role
from dppca.common.transport.channels import open_channel, with_retries
from dppca.common.transport.hosts import DialTarget
from dppca.common.transport.proxies import HttpProxy
from tests.support.certificates import Authority
from tests.support.http_proxy import connect_proxy
from tests.support.patience import WAIT_S
from tests.support.tls import answering

LOGIN = "site-1:MARKED-secret-77"


@pytest.fixture(scope="module")
def port(authority: Authority) -> Any:
    with answering(authority.issue(Role.CURATOR, "hub"), lambda _: b"MARKED-answer-31") as bound:
        yield bound


def _call(
    address: str,
    proxy: HttpProxy,
    credentials: Credentials,
    server_name: str | None = None,
    *,
    each_s: float = WAIT_S,
) -> bytes:
    dialled = DialTarget(address, credentials.ca, Role.OWNER, server_name, proxy)
    with open_channel(address, credentials, server_name=server_name, proxy=proxy) as channel:
        method = channel.unary_unary("/test/Answer")
        return with_retries(
            lambda left: method(b"MARKED-question", timeout=min(left, each_s)),
            deadline_s=WAIT_S,
            attempts=2,
            dialled=dialled,
        )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_tls_goes_through_a_proxy_from_end_to_end(
    port: int, authority: Authority, host: str, login: str
) -> None:
    with connect_proxy(login=login) as proxy:
        way = HttpProxy(proxy.address, login)
        answer = _call(f"{host}:{port}", way, authority.issue(Role.OWNER, "o"))
    assert answer == b"MARKED-answer-31"
    assert set(proxy.asked) == {f"{host}:{port}"}
    assert len(proxy.passed) > 1000
    assert b"MARKED" not in proxy.passed
    assert b"\x16\x03" in proxy.passed[:2], "the first byte is of a TLS handshake"


def test_variables_of_the_environment_neither_lead_elsewhere_nor_past_the_proxy(
    port: int, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = authority.issue(Role.OWNER, "o")
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_grpc_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*,localhost,127.0.0.1")
    with connect_proxy() as proxy:
        _call(f"localhost:{port}", HttpProxy(proxy.address), credentials)
    assert proxy.asked, "it went through"
    with open_channel(f"localhost:{port}", credentials) as channel:
        assert channel.unary_unary("/test/Answer")(b"", timeout=WAIT_S), "it went directly"


@pytest.mark.parametrize(
    ("settings", "login", "words"),
    [
        ({"refusal": "403 Forbidden MARKED"}, "", "refuses to connect to .* allow CONNECT"),
        ({"refusal": "502 Bad Gateway"}, "", "cannot reach .* the curator is running"),
        ({"login": LOGIN}, "", "asks for a name and password: .* proxy_login"),
        ({"login": LOGIN}, "site-1:MARKED-wrong", "refuses the name and password of proxy_login"),
        ({"cut_after": 300}, "", "run the same command again"),
    ],
)
def test_a_proxy_that_does_not_connect_is_said_and_not_gone_round(
    port: int, authority: Authority, settings: dict[str, Any], login: str, words: str
) -> None:
    with connect_proxy(**settings) as proxy:
        way = HttpProxy(proxy.address, login)
        with pytest.raises(UnreachableError, match=words) as caught:
            _call(f"localhost:{port}", way, authority.issue(Role.OWNER, "o"))
    assert "MARKED" not in str(caught.value) + repr(way)
    assert b"MARKED" not in proxy.passed


def test_a_proxy_that_is_silent_or_gone_or_no_proxy_is_named(
    port: int, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, target = authority.issue(Role.OWNER, "o"), f"localhost:{port}"
    with connect_proxy(silent=True) as proxy, monkeypatch.context() as hurried:
        hurried.setattr("dppca.common.transport.proxies.ANSWER_S", 0.5)
        with pytest.raises(UnreachableError, match="did not answer within"):
            _call(target, HttpProxy(proxy.address), owner, each_s=3)
        gone = proxy.address
    with pytest.raises(UnreachableError, match=f"the proxy {gone} cannot be reached"):
        _call(target, HttpProxy(gone), owner)
    with pytest.raises(UnreachableError, match="does not answer as an HTTP proxy"):
        HttpProxy(target).open_tunnel(target)


def test_a_certificate_for_another_host_is_named_through_a_proxy_too(
    port: int, authority: Authority
) -> None:
    owner = authority.issue(Role.OWNER, "o")
    with connect_proxy() as proxy, pytest.raises(IdentityError) as caught:
        _call(f"127.0.0.1:{port}", HttpProxy(proxy.address), owner, "other.example")
    assert "is for localhost, 127.0.0.1, not for other.example" in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [b"", b"\r\n", b"SSH-2.0-x\r\n", b"HTTP/1.1 2", b"HTTP/1.1 9999 x\r\n\r\n", b"\x00" * 70000],
    ids=["nothing", "an empty line", "another protocol", "half", "no status", "much"],
)
def test_whatever_a_proxy_answers_is_an_error_of_ours(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            client, _ = listener.accept()
            with closing(client):
                client.recv(1000)
                client.sendall(answer)

        with futures.ThreadPoolExecutor(1) as pool:
            done = pool.submit(serve)
            with pytest.raises(UnreachableError, match="does not answer as an HTTP proxy"):
                HttpProxy(f"127.0.0.1:{listener.getsockname()[1]}").open_tunnel("hub:1")
            done.result()


@pytest.mark.parametrize("target", ["hub.example:7443", "[2001:db8::1]:7443"])
def test_the_target_is_asked_for_as_it_is_written(target: str) -> None:
    with connect_proxy(refusal="403 no") as proxy:
        with pytest.raises(UnreachableError):
            HttpProxy(proxy.address).open_tunnel(target)
        assert proxy.asked == [target]
