"""gRPC's lines about refused handshakes become events; all others are left out or passed on."""

import io
import logging

import pytest

from dppca.curator.observability.handshakes import relay
from dppca.curator.observability.log import LOGGER

CORE = b"I1127 10:30:57.632152   24001 ssl_transport_security.cc:2563] "
FAILED = CORE + b"Handshake failed with error SSL_ERROR_SSL: error:1000007d:SSL routines:"
EXPIRED = FAILED + b"OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired\n"
CHATTER = b"W1127 10:31:01.501177   24154 log.cc:102] Got goaway\n"
FATAL = b"F1127 10:31:01.501177   24154 call.cc:102] Check failed: false\n"
OTHER = b"Fatal Python error: Aborted\n"


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, object]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), vars(record)["fields"]))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> _Kept:
    kept = _Kept()
    monkeypatch.setattr(LOGGER, "handlers", [kept])
    return kept


@pytest.mark.parametrize("core_lines", [False, True])
def test_a_refused_handshake_is_an_event_and_no_words_are_lost(
    kept: _Kept, core_lines: bool
) -> None:
    out = io.BytesIO()
    relay([OTHER, EXPIRED, CHATTER, b"\xff\n", FATAL], out, core_lines=core_lines)
    assert [name for name, _ in kept.lines] == ["handshake refused"]
    fields = kept.lines[0][1]
    assert "out of date, or this machine's clock is ahead" in str(fields["reason"])
    assert fields["detail"] == "CERTIFICATE_VERIFY_FAILED: certificate has expired"
    core = EXPIRED + CHATTER if core_lines else b""
    assert out.getvalue() == OTHER + core + b"\xff\n" + FATAL


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ("CERTIFICATE_VERIFY_FAILED: certificate is not yet valid", "clock is behind"),
        ("CERTIFICATE_VERIFY_FAILED: unable to get local issuer certificate", "another authority"),
        ("PEER_DID_NOT_RETURN_A_CERTIFICATE: x", "shows no certificate"),
        ("BAD_PACKET_LENGTH: x", "this daemon's certificate may have ended"),
        ("NO_SHARED_CIPHER: x", "does not speak TLS 1.3"),
        ("HTTP_REQUEST: x", "does not speak TLS"),
        ("SOMETHING_NEW: x", "SOMETHING_NEW: x"),
    ],
)
def test_each_reason_is_said_in_words(kept: _Kept, detail: str, reason: str) -> None:
    line = FAILED + b"OPENSSL_internal:" + detail.encode() + b"\n"
    relay([line], io.BytesIO(), core_lines=False)
    assert reason in str(kept.lines[0][1]["reason"])


def test_a_flood_of_one_reason_makes_few_lines(kept: _Kept) -> None:
    relay([FAILED + b"OPENSSL_internal:A_FLOOD: x\n"] * 500, io.BytesIO(), core_lines=False)
    assert 60 <= len(kept.lines) <= 120  # a minute may end meanwhile
