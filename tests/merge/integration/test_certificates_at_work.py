"""Who is let in, who is not, and what of it changes while the daemon runs."""

import json
import shutil
import signal
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from cryptography import x509

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import DppcaError
from dppca.common.kernel.identity.tls import Credentials, Identity, Role, load_credentials
from dppca.common.transport.status import from_rpc_error
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.certificates.pki import init_authority, issue, sign_request
from dppca.curator.certificates.revocation import list_certificates, revoke
from dppca.curator.cli import cli
from dppca.owner.site.enrolment import enrol
from tests.support.census import header_of, make_release
from tests.support.certificates import new_authority
from tests.support.commands import answer_of
from tests.support.curator import Curator
from tests.support.party import Party, upload
from tests.support.patience import WAIT_S, wait_until
from tests.support.sites import OwnerSite
from tests.support.studies import make_study
from tests.support.tls import shake_hands

NOW = datetime.now(UTC)
HUNG_UP = (
    "import os, signal; from dppca.curator import cli\n"
    "from dppca.curator.store import SqliteStore\n"
    "opened = SqliteStore.__init__\n"
    "def hang_up(*how):\n"
    "    os.kill(os.getpid(), signal.SIGHUP)\n"
    "    opened(*how)\n"
    "SqliteStore.__init__ = hang_up; cli.main()"
)
"""A curator whose terminal is closed while it opens its store."""


class Federation(Curator):
    """A hub whose certificates the commands made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pki = folder / "authority"
        init_authority(self.pki, name="test", days=400, now=NOW)
        self.credentials = folder / "credentials"
        self.issue(self.credentials, days=20, age_days=100)

    def issue(self, folder: Path, *, days: int, age_days: int = 0) -> None:
        """A certificate with so many days left, issued so many days ago."""
        identity = Identity("hub", Role.CURATOR)
        hosts = ("localhost", "127.0.0.1")
        issued = NOW - timedelta(days=age_days)
        term = days + age_days
        issue(self.pki, identity=identity, hosts=hosts, output=folder, days=term, now=issued)

    def enrol(self, site: Path, *, days: int = 90, age_days: int = 0) -> Credentials:
        """A site's folder as `init` and `pki sign` make it; named as the folder."""
        line = ("init", "--name", site.name, "--curator", self.address)
        assert OwnerSite(site, site.name).run(*line)[0] == 0
        shutil.copy(self.pki / "ca.pem", site)
        self.sign(site / "request.pem", site / "certificate.pem", days=days, age_days=age_days)
        return credentials_of(site)

    def sign(
        self,
        request: Path,
        output: Path,
        *,
        days: int = 90,
        age_days: int = 0,
        renews: str | None = None,
    ) -> None:
        issued = NOW - timedelta(days=age_days)
        term = days + age_days
        content = request.read_bytes()
        sign_request(
            self.pki,
            request=content,
            name=None,
            output=output,
            days=term,
            now=issued,
            renews=renews,
        )

    def events(self) -> list[dict[str, object]]:
        """Whole lines only: the daemon may be writing another."""
        return [json.loads(line) for line in self.log.read_text().split("\n")[:-1]]


def credentials_of(site: Path) -> Credentials:
    return load_credentials(CredentialFolder(site))


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    curator = Federation(tmp_path_factory.mktemp("hub"))
    curator.start()
    yield curator
    curator.stop()


def refusal(call: Callable[[], object]) -> str:
    """Name of the error that a call ends with; "" where it does not."""
    try:
        call()
    except grpc.RpcError as error:
        return type(from_rpc_error(error)).__name__
    except DppcaError as error:
        return type(error).__name__
    return ""


def serial_of(credentials: Credentials) -> int:
    return x509.load_pem_x509_certificate(credentials.certificate).serial_number


def operator(curator: Federation, tmp_path: Path) -> Party:
    folder = tmp_path / "alice"
    identity = Identity("alice", Role.OPERATOR)
    issue(curator.pki, identity=identity, hosts=(), output=folder, days=90, now=NOW)
    return curator.connect(credentials_of(folder))


def test_a_revoked_owner_is_refused_on_a_connection_that_was_open_before(
    curator: Federation, tmp_path: Path
) -> None:
    good = curator.connect(curator.enrol(tmp_path / "owner-1"))
    study = make_study(name="with-a-revoked", owners=["owner-1", "owner-9"])
    alice = operator(curator, tmp_path)
    alice.create(study)
    credentials = curator.enrol(tmp_path / "owner-9")
    bad = curator.connect(credentials)
    assert refusal(bad.list_studies) == ""

    # An upload that has begun before: its last message is held back until the list is in force.
    release = make_release(study)
    first, *rest = upload(header_of(release), release.payload())
    held, begun = threading.Event(), threading.Event()
    ends: list[str] = []

    def parts() -> Iterator[pb.ContributeRequest]:
        yield first
        begun.set()
        held.wait(WAIT_S)
        yield from rest

    def send() -> None:
        signed = bad.signed(parts())
        ends.append(refusal(lambda: bad.federation.Contribute(signed, timeout=3 * WAIT_S)))

    uploading = threading.Thread(target=send)
    uploading.start()
    assert begun.wait(WAIT_S)

    output = curator.credentials / "crl.pem"
    line = ("pki", "revoke", "--directory", curator.pki, "--name", "owner-9", "--output", output)
    code, done = answer_of("dppca-curator", cli, *line)
    assert (code, done["revoked"]) == (0, [f"{serial_of(credentials):x}"])
    wait_until(lambda: refusal(bad.list_studies) == "IdentityError")
    held.set()
    uploading.join()
    assert ends == ["IdentityError"]
    assert not good.result(study, wait_s=0).contributed
    assert refusal(curator.connect(credentials).list_studies) == "IdentityError"
    health = bad.channel.unary_unary("/grpc.health.v1.Health/Check")
    assert refusal(lambda: health(b"", timeout=WAIT_S)) == "IdentityError"
    assert refusal(good.list_studies) == ""

    # Operators are told of it, but not whom: the certificate is not good any more.
    unknown = [
        each for each in alice.refusals() if each.error == "IdentityError" and not each.party
    ]
    assert {"ListStudies", "Check"} <= {each.method for each in unknown}

    # What is revoked stays so, whatever becomes of the file.
    for content in (b"nonsense", None):
        seen = len(curator.events())
        output.unlink() if content is None else output.write_bytes(content)
        wait_until(
            lambda: any(
                event["event"] == "revocation list not reloaded"
                for event in curator.events()[seen:]  # noqa: B023 - called at once
            )
        )
        assert refusal(bad.list_studies) == "IdentityError"


def test_lists_only_grow_and_revocations_are_remembered(tmp_path: Path) -> None:
    pki = tmp_path / "authority"
    init_authority(pki, name="test", days=400, now=NOW)
    for name in ("owner-1", "owner-2"):
        site = tmp_path / name
        enrol(site, name=name, curator="localhost:1")
        request = (site / "request.pem").read_bytes()
        output = site / "certificate.pem"
        sign_request(pki, request=request, name=None, output=output, days=90, now=NOW)
    first = revoke(pki, now=NOW, party=Identity("owner-1", Role.OWNER))
    again = revoke(pki, now=NOW, party=Identity("owner-1", Role.OWNER))
    certificate = (tmp_path / "owner-2/certificate.pem").read_bytes()
    second = revoke(pki, now=NOW, certificate=certificate)
    assert (first.list_number, again) == (1, replace(first, revoked=()))
    assert (second.list_number, second.list_length) == (2, 2)
    known = list_certificates(pki).certificates
    assert {each.serial for each in known} == {*first.revoked, *second.revoked}
    assert all(each.revoked for each in known)
    document = x509.load_pem_x509_crl((pki / "crl.pem").read_bytes())
    authority = x509.load_pem_x509_certificate((pki / "ca.pem").read_bytes())
    assert document.is_signature_valid(authority.public_key())  # type: ignore[arg-type] # P-256
    foreign = new_authority().issue(Role.OWNER, "owner-1").certificate
    with pytest.raises(DppcaError, match="nothing was revoked"):
        revoke(pki, now=NOW, certificate=foreign)
    with pytest.raises(DppcaError, match="remembers no certificate"):
        revoke(pki, now=NOW, serial="ab")


def test_an_owners_new_certificate_is_accepted_while_the_old_one_still_is(
    curator: Federation, tmp_path: Path
) -> None:
    site = OwnerSite(tmp_path / "owner-4", "owner-4")
    old = curator.enrol(site.folder)
    code, renewed = site.run("renew")
    assert code == 0, renewed
    assert site.run("doctor")[0] == 0, "the old pair is in use"
    serial = x509.load_pem_x509_certificate(old.certificate).serial_number
    curator.sign(Path(renewed["request"]), tmp_path / "new.pem", renews=f"{serial:x}")
    assert site.run("renew", "--certificate", str(tmp_path / "new.pem"))[0] == 0
    assert site.run("doctor")[0] == 0
    new = credentials_of(site.folder)
    assert new.key != old.key
    both = [curator.connect(credentials) for credentials in (old, new)]
    assert [refusal(party.list_studies) for party in both] == ["", ""]

    # Then the old one is revoked, by its number, and the new one works on. The list is put in
    # place from a healthy authority's folder, whatever other tests left there.
    revoke(
        curator.pki,
        now=NOW,
        serial=f"{serial_of(old):x}",
        outputs=(curator.credentials / "crl.pem",),
    )
    wait_until(lambda: refusal(both[0].list_studies) == "IdentityError")
    assert refusal(both[1].list_studies) == ""


def test_the_curators_own_certificate_is_changed_without_a_restart(
    curator: Federation, tmp_path: Path
) -> None:
    owner = curator.enrol(tmp_path / "owner-5")
    open_before = curator.connect(owner)
    assert refusal(open_before.list_studies) == ""
    curator.issue(tmp_path / "next", days=300)
    new = (tmp_path / "next/certificate.pem").read_bytes()
    old = (curator.credentials / "certificate.pem").read_bytes()
    assert shown(curator, owner, tmp_path) == old
    for name in ("key.pem", "certificate.pem"):
        shutil.copy(tmp_path / "next" / name, curator.credentials)
    wait_until(lambda: shown(curator, owner, tmp_path) == new)
    assert refusal(open_before.list_studies) == ""
    assert refusal(curator.connect(owner).list_studies) == ""
    assert curator.process.poll() is None

    # A certificate without its key is not taken over.
    seen = len(curator.events())
    (curator.credentials / "certificate.pem").write_bytes(old)
    wait_until(
        lambda: any(e["event"] == "credentials not reloaded" for e in curator.events()[seen:])
    )
    assert shown(curator, owner, tmp_path) == new
    (curator.credentials / "certificate.pem").write_bytes(new)


def shown(curator: Federation, owner: Credentials, tmp_path: Path) -> bytes:
    """The certificate that the daemon shows now."""
    certificate = shake_hands(curator.address, owner, tmp_path / "tls", ssl.TLSVersion.TLSv1_3)[1]
    return ssl.DER_cert_to_PEM_cert(certificate).encode()


def test_certificates_that_end_soon_are_logged_once(curator: Federation, tmp_path: Path) -> None:
    soon = curator.connect(curator.enrol(tmp_path / "owner-6", days=12, age_days=100))
    later = curator.connect(curator.enrol(tmp_path / "owner-7", days=40, age_days=100))
    short = curator.connect(curator.enrol(tmp_path / "owner-8", days=12))
    for _ in range(3):
        for party in (soon, later, short):
            party.list_studies()
    warned = [event for event in curator.events() if event["event"] == "certificate ends soon"]
    assert {(event["party"], event["days"]) for event in warned} == {
        ("curator", 19),  # in its twentieth day from the end
        ("owner:owner-6", 11),
    }
    days = [(event["party"], str(event["time"])[:10]) for event in warned]
    assert len(days) == len(set(days)), "once a day each"
    assert all(event["level"] == "warning" for event in warned)


def test_a_hangup_makes_the_daemon_read_its_certificates_and_go_on(
    curator: Federation, tmp_path: Path
) -> None:
    owner = curator.connect(curator.enrol(tmp_path / "owner-10"))
    for _ in range(2):
        seen = len(curator.events())
        curator.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: any(e["event"] == "credentials read again" for e in curator.events()[seen:])  # noqa: B023
        )
    assert refusal(owner.list_studies) == ""
    assert curator.process.poll() is None


def test_a_refused_handshake_is_logged_with_its_reason(curator: Federation, tmp_path: Path) -> None:
    stranger = new_authority("other").issue(Role.OWNER, "owner-11")
    known = curator.enrol(tmp_path / "owner-11")
    credentials = Credentials(known.ca, stranger.certificate, stranger.key)
    assert refusal(curator.connect(credentials).list_studies) == "UnreachableError"
    wait_until(
        lambda: any(
            event["event"] == "handshake refused" and "another authority" in str(event["reason"])
            for event in curator.events()
        )
    )


def test_a_hangup_while_a_daemon_starts_does_not_end_it(tmp_path: Path) -> None:
    curator = Curator(tmp_path)
    curator.start("-P", "-c", HUNG_UP, "serve")
    assert curator.process.poll() is None
    assert curator.terminate() == 0


def test_a_daemon_does_not_start_with_a_list_it_cannot_read(tmp_path: Path) -> None:
    curator = Curator(tmp_path)
    foreign = tmp_path / "foreign"
    init_authority(foreign, name="test", days=400, now=NOW)
    issue(
        foreign,
        identity=Identity("x", Role.OPERATOR),
        hosts=(),
        output=tmp_path / "x",
        days=9,
        now=NOW,
    )
    revoke(foreign, now=NOW, party=Identity("x", Role.OPERATOR))
    shutil.copy(foreign / "crl.pem", curator.credentials)
    with pytest.raises(DppcaError, match="was not signed by this"):
        curator.start()
