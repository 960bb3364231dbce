import hashlib
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import grpc
import pytest
from grpc._cython import cygrpc
from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.errors import (
    BusyError,
    ConflictError,
    IdentityError,
    LimitError,
    StoreError,
    UnknownStudyError,
    UnreachableError,
    UploadError,
)
from dppca.common.kernel.identity.tls import (
    Credentials,
    Identity,
    Role,
    Term,
    check_credentials,
    peer_identity,
)
from dppca.common.transport.channels import (
    ATTEMPTS,
    CHUNK_BYTES,
    CLIENT_OPTIONS,
    Patience,
    open_channel,
    server_options,
    with_retries,
)
from dppca.common.transport.codec import (
    Form,
    Reassembly,
    StudyState,
    chunks,
    form_from_wire,
    form_to_wire,
    state_from_wire,
    state_to_wire,
)
from dppca.common.transport.hosts import DialTarget, other_host_error
from dppca.common.transport.status import TRAILER
from dppca.common.wire import federation_pb2 as pb
from tests.support.certificates import Authority, new_authority
from tests.support.patience import WAIT_S
from tests.support.tls import answering

NOW = datetime.now(UTC)


class _Failure(grpc.RpcError):
    def __init__(self, code: grpc.StatusCode, details: str = "", name: str = "") -> None:
        self._code, self._details, self._name = code, details, name

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((TRAILER, self._name),) if self._name else ()


@dataclass(slots=True)
class _Clock:
    now: float = 0.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_good_credentials_say_when_they_expire_and_never_their_key(authority: Authority) -> None:
    end = (NOW + timedelta(days=12)).replace(microsecond=0)
    owner = authority.issue(Role.OWNER, "owner-1", end=end)
    assert check_credentials(owner, role=Role.OWNER, name="owner-1", now=NOW) == end
    assert "PRIVATE" not in repr(owner)


def test_what_is_wrong_with_credentials_is_named(authority: Authority) -> None:
    def refused(credentials: Credentials, words: str, name: str = "owner-1") -> None:
        with pytest.raises(IdentityError, match=words):
            check_credentials(credentials, role=Role.OWNER, name=name, now=NOW)

    good = authority.issue(Role.OWNER, "owner-1")
    other = authority.issue(Role.OWNER, "owner-1")
    past = {"start": NOW - timedelta(days=9), "end": NOW - timedelta(days=1)}
    refused(authority.issue(Role.OWNER, "owner-1", **past), "expired on")
    refused(authority.issue(Role.OWNER, "owner-1", start=NOW + timedelta(days=1)), "clock")
    refused(authority.issue(Role.OPERATOR, "owner-1"), "operator owner-1")
    refused(good, "not for owner owner-2", name="owner-2")
    for old in (good, authority.issue(Role.OPERATOR, "alice", **past)):
        with pytest.raises(IdentityError, match="pki issue --role operator"):
            check_credentials(old, role=Role.OPERATOR, name=None, now=NOW)
    refused(Credentials(new_authority().pem, good.certificate, good.key), "not signed by")
    refused(Credentials(good.ca, good.certificate, other.key), "does not belong to the certificate")
    refused(Credentials(good.ca, b"nonsense", good.key), "not PEM")
    refused(authority.issue(Role.OWNER, "owner-1", uris=()), "alternative names")
    two = ("urn:dppca:owner:owner-1", "urn:dppca:operator:owner-1")
    refused(authority.issue(Role.OWNER, "owner-1", uris=two), "exactly one")
    refused(authority.issue(Role.OWNER, "owner-1", uris=("urn:dppca:king:a",)), "role")


def _who_calls(context: grpc.ServicerContext) -> bytes:
    return peer_identity(context.auth_context()).uri.encode()


@pytest.fixture(scope="module")
def address(authority: Authority) -> Iterator[str]:
    with answering(authority.issue(Role.CURATOR, "hub"), _who_calls) as port:
        yield f"127.0.0.1:{port}"


def _ask(address: str, credentials: Credentials, deadline_s: float = WAIT_S) -> bytes:
    with open_channel(address, credentials) as channel:
        method = channel.unary_unary("/test/WhoAmI")
        return with_retries(
            lambda left: method(b"", timeout=left), deadline_s=deadline_s, attempts=3
        )


def test_a_party_is_the_name_in_its_certificate(address: str, authority: Authority) -> None:
    owner = authority.issue(Role.OWNER, "owner-7")
    assert _ask(address, owner) == Identity("owner-7", Role.OWNER).uri.encode()


def test_a_server_of_another_authority_is_an_identity_error(address: str) -> None:
    with pytest.raises(IdentityError, match="signed by one authority"):
        _ask(address, new_authority("other").issue(Role.OWNER, "owner-7"))


def test_an_owners_certificate_cannot_pose_as_the_curator(authority: Authority) -> None:
    impostor = authority.issue(Role.OWNER, "owner-1")
    with answering(impostor, _who_calls) as port, pytest.raises(IdentityError):
        _ask(f"127.0.0.1:{port}", authority.issue(Role.OWNER, "owner-2"))


@pytest.mark.parametrize(
    ("role", "where"), [(Role.OWNER, "site.yaml"), (Role.OPERATOR, "--curator")]
)
def test_a_certificate_for_another_host_is_named_with_the_host_that_was_dialled(
    address: str, authority: Authority, role: Role, where: str
) -> None:
    caller = authority.issue(role, "who-7")
    dialled = DialTarget(address, caller.ca, role, "other.example")
    with open_channel(address, caller, server_name="other.example") as channel:
        method = channel.unary_unary("/test/WhoAmI")
        with pytest.raises(IdentityError) as caught:
            with_retries(lambda left: method(b"", timeout=left), deadline_s=WAIT_S, dialled=dialled)
    said = str(caught.value)
    assert f"{address} is for localhost, 127.0.0.1, not for other.example" in said
    assert where in said
    assert "doctor" not in said


def test_names_in_a_certificate_of_another_authority_are_not_repeated(address: str) -> None:
    stranger = new_authority("other")
    said = str(other_host_error(DialTarget(address, stranger.pem, Role.OWNER)))
    assert "is for other hosts, not for 127.0.0.1" in said


def test_the_name_expected_is_the_host_unless_another_is_given() -> None:
    for address, server_name, expected in (
        ("hub.example:7443", None, "hub.example"),
        ("[2001:db8::1]:7443", None, "2001:db8::1"),
        ("127.0.0.1:7443", "hub.example", "hub.example"),
    ):
        assert DialTarget(address, b"", Role.OWNER, server_name).expected == expected


@pytest.mark.parametrize("first_bytes", [0, 1000], ids=["at once", "after its first bytes"])
def test_a_handshake_that_is_broken_off_may_succeed_when_tried_again(
    authority: Authority, first_bytes: int
) -> None:
    """A curator that ends, or a tunnel to one that has ended: no word about certificates."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def break_off() -> None:
            with suppress(OSError):  # the listener is closed: the test is over
                while True:
                    connection, _ = listener.accept()
                    accepted.append(connection.recv(first_bytes) if first_bytes else b"")
                    connection.close()

        thread = threading.Thread(target=break_off, daemon=True)
        thread.start()
        owner = authority.issue(Role.OWNER, "owner-7")
        with pytest.raises(UnreachableError):
            _ask(f"127.0.0.1:{listener.getsockname()[1]}", owner)
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(WAIT_S)
    assert accepted


class _Call:
    """Fails so many times, for good unless said."""

    def __init__(self, error: grpc.RpcError, *, times: float = inf) -> None:
        self._error, self._times, self.n_calls = error, times, 0

    def __call__(self, _timeout: float) -> str:
        self.n_calls += 1
        if self.n_calls <= self._times:
            raise self._error
        return "done"


def test_a_call_is_repeated_until_it_succeeds() -> None:
    clock, call = _Clock(), _Call(_Failure(grpc.StatusCode.UNAVAILABLE), times=2)
    assert with_retries(call, deadline_s=100, clock=clock.time, sleep=clock.sleep) == "done"


@pytest.mark.parametrize("deadline_s", [0.0, 1.0, 60.0])
def test_retries_end_with_the_deadline_or_the_attempts(deadline_s: float) -> None:
    clock, calls = _Clock(), []

    def call(timeout: float) -> None:
        calls.append(timeout)
        clock.now += 0.5
        raise _Failure(grpc.StatusCode.UNAVAILABLE)

    with pytest.raises(UnreachableError, match="same command again"):
        with_retries(call, deadline_s=deadline_s, clock=clock.time, sleep=clock.sleep)
    assert len(calls) <= 8
    assert clock.now <= deadline_s + 5.5
    assert all(timeout > 0 for timeout in calls)


@pytest.mark.parametrize(
    "busy",
    [
        _Failure(grpc.StatusCode.UNAVAILABLE, BusyError.public, "BusyError"),
        _Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "Concurrent RPC limit exceeded!"),
    ],
    ids=["of an owner", "in all"],
)
def test_who_finds_the_other_side_busy_comes_again_until_the_deadline(busy: _Failure) -> None:
    clock, call = _Clock(), _Call(busy, times=29)
    assert with_retries(call, deadline_s=600, clock=clock.time, sleep=clock.sleep) == "done"
    call = _Call(busy)
    with pytest.raises(BusyError, match="nothing is lost"):
        with_retries(call, deadline_s=60, clock=clock.time, sleep=clock.sleep)
    assert call.n_calls > 8


def test_what_cannot_pass_is_not_repeated_and_a_status_without_our_trailer_is_understood() -> None:
    for failure, error in (
        (
            _Failure(grpc.StatusCode.ALREADY_EXISTS, ConflictError.public, "ConflictError"),
            ConflictError,
        ),
        (_Failure(grpc.StatusCode.NOT_FOUND, "anything"), UnknownStudyError),
    ):
        call = _Call(failure)
        with pytest.raises(error):
            with_retries(call, deadline_s=100)
        assert call.n_calls == 1


@pytest.mark.parametrize("waits_s", [60.0, 600.0, 3600.0])
def test_who_has_patience_comes_again_until_it_is_over_and_says_so_once(waits_s: float) -> None:
    clock, told = _Clock(), list[str]()
    left = _Left(clock, waits_s)
    patience = Patience(left, told.append)
    away = _Failure(grpc.StatusCode.UNAVAILABLE, "Socket closed")

    def call(timeout: float) -> str:
        assert 0 < timeout <= 30
        if clock.now < waits_s - 10:
            clock.now += 0.01
            raise away
        return "done"

    how = {"patience": patience, "clock": clock.time, "sleep": clock.sleep}
    assert with_retries(call, deadline_s=30, **how) == "done"
    assert waits_s - 10 <= clock.now < waits_s
    assert len(told) == 1
    assert "Trying again until" in told[0]

    clock.now = 0.0
    lost = _Call(away)
    with pytest.raises(UnreachableError):
        with_retries(lost, deadline_s=30, **how)
    assert waits_s <= clock.now < waits_s + 5
    assert lost.n_calls > waits_s / 5, "at least every five seconds"


def test_patience_that_is_over_changes_nothing_and_a_call_has_its_whole_time_at_its_end() -> None:
    clock, lost = _Clock(), _Call(_Failure(grpc.StatusCode.UNAVAILABLE))
    how = {"clock": clock.time, "sleep": clock.sleep}
    with pytest.raises(UnreachableError):
        with_retries(lost, deadline_s=600, patience=Patience(lambda: 0.0), **how)
    assert lost.n_calls == ATTEMPTS
    times: list[float] = []
    with_retries(times.append, deadline_s=600, patience=Patience(lambda: 1.0), **how)
    assert times == [600]


@pytest.mark.parametrize(
    "failure",
    [
        _Failure(grpc.StatusCode.UNAUTHENTICATED, IdentityError.public, "IdentityError"),
        _Failure(grpc.StatusCode.NOT_FOUND, "x", "UnknownStudyError"),
        _Failure(grpc.StatusCode.UNAVAILABLE, "Tls handshake failed: SSL_ERROR_SSL: x"),
    ],
)
def test_patience_is_not_for_what_cannot_pass(failure: _Failure) -> None:
    call = _Call(failure)
    with pytest.raises((IdentityError, UnknownStudyError)):
        with_retries(call, deadline_s=30, patience=Patience(lambda: 3600.0))
    assert call.n_calls == 1


def test_a_curators_full_disk_is_waited_for_by_who_has_patience_alone() -> None:
    full = _Failure(grpc.StatusCode.DATA_LOSS, StoreError.public, "StoreError")
    clock, told, call = _Clock(), list[str](), _Call(full)
    how = {"clock": clock.time, "sleep": clock.sleep}
    with pytest.raises(StoreError, match="nothing is lost or charged twice"):
        with_retries(call, deadline_s=600, **how)
    assert call.n_calls == 1
    call = _Call(full)
    with pytest.raises(StoreError):
        with_retries(call, deadline_s=30, patience=Patience(_Left(clock, 600), told.append), **how)
    assert 60 <= call.n_calls <= 125, "every five to ten seconds"
    assert len(told) == 1


def test_who_closes_many_connections_after_the_handshake_refuses_whatever_the_patience() -> None:
    clock, told = _Clock(), list[str]()
    closed = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: "
    call = _Call(_Failure(grpc.StatusCode.UNAVAILABLE, f"{closed}Socket closed"))
    patience = Patience(lambda: 3600.0, told.append)
    with pytest.raises(UnreachableError):
        with_retries(call, deadline_s=30, patience=patience, clock=clock.time, sleep=clock.sleep)
    assert (call.n_calls, told) == (ATTEMPTS, [])


@dataclass(slots=True)
class _Left:
    clock: _Clock
    seconds: float

    def __call__(self) -> float:
        return max(0.0, self.seconds - self.clock.now)


@given(st.binary(max_size=100), st.integers(1, 40))
def test_chunks_make_their_content_again(content: bytes, size: int) -> None:
    parts = [
        pb.Chunk(offset=at, content=content[at : at + size]) for at in range(0, len(content), size)
    ]
    whole = Reassembly(
        total_bytes=len(content), sha256=hashlib.sha256(content).digest(), cap=len(content)
    )
    assert b"".join(whole.add(part) for part in parts) == content
    whole.finish()


def test_a_file_is_cut_at_the_chunk_size(tmp_path: Path) -> None:
    content = bytes(range(256)) * (CHUNK_BYTES // 256 * 2) + b"end"
    path = tmp_path / "content"
    path.write_bytes(content)
    with path.open("rb") as file:
        file.seek(7)
        parts = list(chunks(file))
        assert file.tell() == 7
    assert [part.offset for part in parts] == [0, CHUNK_BYTES, 2 * CHUNK_BYTES]
    assert [len(part.content) for part in parts] == [CHUNK_BYTES, CHUNK_BYTES, 3]
    assert b"".join(part.content for part in parts) == content


def test_truncated_reordered_oversized_and_changed_uploads_are_refused() -> None:
    def fresh() -> Reassembly:
        return Reassembly(total_bytes=6, sha256=hashlib.sha256(b"abcdef").digest(), cap=6)

    with pytest.raises(LimitError):
        Reassembly(total_bytes=7, sha256=b"", cap=6)
    truncated = fresh()
    truncated.add(pb.Chunk(offset=0, content=b"abc"))
    with pytest.raises(UploadError, match="3 of 6"):
        truncated.finish()
    with pytest.raises(UploadError, match="begins at byte 3"):
        fresh().add(pb.Chunk(offset=3, content=b"def"))
    with pytest.raises(UploadError, match="more than"):
        fresh().add(pb.Chunk(offset=0, content=b"abcdefg"))
    with pytest.raises(UploadError, match="has 0 bytes"):
        fresh().add(pb.Chunk(offset=0, content=b""))
    changed = fresh()
    changed.add(pb.Chunk(offset=0, content=b"abcdeF"))
    with pytest.raises(UploadError, match="digest"):
        changed.finish()


def test_states_and_forms_survive_the_wire_and_unknown_ones_do_not() -> None:
    assert [state_from_wire(state_to_wire(state)) for state in StudyState] == list(StudyState)
    assert [form_from_wire(form_to_wire(form)) for form in Form] == list(Form)
    with pytest.raises(UploadError):
        state_from_wire(0)
    with pytest.raises(UploadError):
        form_from_wire(99)


@pytest.mark.parametrize(
    ("term_days", "warned_days_before"), [(365, 30), (90, 30), (89, 89 / 3), (30, 10), (1, 1 / 3)]
)
def test_the_end_of_a_certificate_is_a_warning_in_its_last_part_only(
    authority: Authority, term_days: float, warned_days_before: float
) -> None:
    start = NOW.replace(microsecond=0)
    end = start + timedelta(days=term_days)
    issued = authority.issue(Role.OWNER, "owner-1", start=start, end=end)
    term = Term.from_pem(issued.certificate)
    assert term.ends == end
    assert term.ends - term.warn_from == timedelta(days=warned_days_before)


def test_every_option_is_one_that_grpc_knows() -> None:
    """It takes any name, and ignores those that it does not know."""
    library = Path(cygrpc.__file__).read_bytes()
    options = (*CLIENT_OPTIONS, *server_options(connections=1, calls=1, handshake_s=1.0))
    assert [name for name, _ in options if name.encode() not in library] == []
