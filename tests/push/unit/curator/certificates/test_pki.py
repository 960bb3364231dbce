import base64
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import IdentityError, SettingError
from dppca.common.kernel.identity.tls import (
    Identity,
    Role,
    check_credentials,
    compute_fingerprint,
    load_credentials,
)
from dppca.curator.certificates.pki import init_authority, issue, show_request, sign_request
from dppca.curator.certificates.revocation import list_certificates, revoke
from dppca.curator.commands.certificates import pki

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    folder = tmp_path / "authority"
    init_authority(folder, name="study group", days=3650, now=NOW)
    return folder


def issued(authority: Path, role: Role, output: Path, hosts: tuple[str, ...] = ()) -> Path:
    issue(authority, identity=Identity("hub", role), hosts=hosts, output=output, days=365, now=NOW)
    return output


def request_for(
    name: str,
    *,
    uri: str | None = "",
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None,
    encoding: Encoding = Encoding.PEM,
) -> bytes:
    """A request with a URI of its name, with another one, or with none."""
    made = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    )
    if uri is not None:
        names = [x509.UniformResourceIdentifier(uri or f"urn:dppca:owner:{name}")]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = made.sign(key or ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return signed.public_bytes(encoding)


def read_certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())


def sign(authority: Path, request: bytes, output: Path, name: str | None = None) -> None:
    sign_request(authority, request=request, name=name, output=output, days=30, now=NOW)


@pytest.mark.parametrize("role", [Role.CURATOR, Role.OPERATOR])
def test_what_is_issued_is_accepted_for_its_role_only(
    authority: Path, tmp_path: Path, role: Role
) -> None:
    hosts = ("localhost", "127.0.0.1", "::1") if role is Role.CURATOR else ()
    folder = issued(authority, role, tmp_path / "out", hosts)
    for key in (authority / "ca-key.pem", folder / "key.pem"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    credentials = load_credentials(CredentialFolder(folder))
    expires = check_credentials(credentials, role=role, name="hub", now=NOW)
    assert expires == NOW + timedelta(days=365)
    with pytest.raises(IdentityError):
        check_credentials(credentials, role=Role.OWNER, name="hub", now=NOW)
    (folder / "certificate.pem").write_bytes((folder / "key.pem").read_bytes())
    with pytest.raises(IdentityError, match=r"certificate\.pem is damaged.*pki issue"):
        load_credentials(CredentialFolder(folder))


def test_nothing_is_overwritten(authority: Path, tmp_path: Path) -> None:
    folder = issued(authority, Role.OPERATOR, tmp_path / "out")
    files = [path for path in (*folder.rglob("*"), *authority.rglob("*")) if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    with pytest.raises(SettingError, match="not overwritten"):
        issued(authority, Role.OPERATOR, folder)
    with pytest.raises(SettingError, match="not overwritten"):
        init_authority(authority, name="again", days=1, now=NOW)
    with pytest.raises(SettingError, match="not overwritten"):
        sign(authority, request_for("owner-1"), folder / "certificate.pem")
    assert {path: path.read_bytes() for path in before} == before
    assert files == [path for path in (*folder.rglob("*"), *authority.rglob("*")) if path.is_file()]


def test_an_independent_verifier_accepts_the_chain(authority: Path, tmp_path: Path) -> None:
    root = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    curator = read_certificate(
        issued(authority, Role.CURATOR, tmp_path / "hub", ("hub.example.org",))
    )
    verifier = PolicyBuilder().store(Store([root])).time(NOW)
    verifier.build_server_verifier(x509.DNSName("hub.example.org")).verify(curator, [])
    with pytest.raises(x509.verification.VerificationError):
        verifier.build_server_verifier(x509.DNSName("other.example.org")).verify(curator, [])
    sign(authority, request_for("owner-1"), tmp_path / "certificate.pem")
    owner = read_certificate(tmp_path)
    verifier.build_client_verifier().verify(owner, [])
    verifier.build_client_verifier().verify(curator, [])
    with pytest.raises(x509.verification.VerificationError):
        verifier.build_server_verifier(x509.DNSName("owner-1")).verify(owner, [])


def test_extensions_are_what_rfc_5280_asks_for(authority: Path, tmp_path: Path) -> None:
    root = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    assert root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    sign(authority, request_for("owner-1"), tmp_path / "certificate.pem")
    owner = read_certificate(tmp_path)
    found = owner.extensions
    assert not found.get_extension_for_class(x509.BasicConstraints).value.ca
    assert list(found.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert not found.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    issuer = found.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert issuer == root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert owner.serial_number.bit_length() > 100


def test_signing_takes_key_and_name_and_nothing_else_from_a_request(
    authority: Path, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    made = sign_request(
        authority,
        request=request_for("owner-1", key=key),
        name="owner-1",
        output=tmp_path / "certificate.pem",
        days=30,
        now=NOW,
    )
    certificate = read_certificate(tmp_path)
    assert certificate.public_key() == key.public_key()
    assert made.fingerprint == compute_fingerprint(key.public_key())
    assert (made.name, made.role) == ("owner-1", Role.OWNER)


def test_a_request_may_name_its_owner_in_the_subject_only(authority: Path, tmp_path: Path) -> None:
    request = request_for("owner-1", uri=None)
    sign(authority, request, tmp_path / "certificate.pem", "owner-1")
    assert (tmp_path / "certificate.pem").exists()


def _damaged() -> bytes:
    der = bytearray(request_for("owner-1", encoding=Encoding.DER))
    der[-1] ^= 1
    what = b"CERTIFICATE REQUEST-----\n"
    return b"-----BEGIN " + what + base64.encodebytes(bytes(der)) + b"-----END " + what


@pytest.mark.parametrize(
    ("request_pem", "name"),
    [
        (b"", None),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", None),
        (_damaged(), None),
        (request_for("owner-1", key=rsa.generate_private_key(65537, 2048)), None),
        (request_for("owner-1"), "owner-2"),
        (request_for("owner-1", uri="urn:dppca:operator:owner-1"), None),
        (request_for("owner-1", uri="urn:dppca:owner:owner-2"), None),
        (request_for("Not A Name"), None),
    ],
    ids=["empty", "garbage", "signature", "rsa", "name", "role", "two-names", "bad-name"],
)
def test_a_request_that_asks_for_too_much_is_refused(
    authority: Path, tmp_path: Path, request_pem: bytes, name: str | None
) -> None:
    with pytest.raises(IdentityError):
        sign(authority, request_pem, tmp_path / "certificate.pem", name)
    assert not (tmp_path / "certificate.pem").exists()


NO_HOSTS = ("hub.example:7443", "https://hub.example", "//hub.example", "hub.example,localhost", "")
NO_HOSTS += (" hub.example", "hub.example ", "hub.example\n", "hub example", "hub.example/", "a;b")
NO_HOSTS += (
    "10.0.0.300",
    "10.0.0.0/8",
    "10.0.0",
    "127.1",
    "010.0.0.1",
    "12345",
    "0x7f000001",
    "hub.1",
)
NO_HOSTS += (
    "*",
    "*.",
    "**.example",
    "hub.*.example",
    "h*.example",
    "hub.*",
    "*example",
    "*.10.0.0.3",
)
NO_HOSTS += (
    "-hub.example",
    "hub-.example",
    "hub..example",
    ".example",
    "hub.example..",
    ".",
    "@hub",
)
NO_HOSTS += (
    "[::1]",
    "::1%eth0",
    "fe80::1%eth0",
    "[::1]:7443",
    "::g",
    "0.0.0.0",  # noqa: S104 - refused
    "::",
    "user@hub",
    "hub\x00",
)
NO_HOSTS += (
    "a" * 64 + ".example",
    ".".join(["a" * 63] * 4),
    "hub.\uff45xample",
    "\u0661.\u0661.\u0661.\u0661",
)
HOSTS = (
    "hub",
    "hub.example",
    "HUB.Example",
    "hub_1.example",
    "*.example",
    "*.a.example",
    "hub.example.",
)
HOSTS += (
    "xn--bcher-kva.example",
    "1.example",
    "a-b.c",
    "10.0.0.3",
    "::1",
    "2001:db8::A",
    "::ffff:1.2.3.4",
)


@pytest.mark.parametrize("host", NO_HOSTS)
def test_a_host_that_no_client_can_ask_for_gets_no_certificate(
    authority: Path, tmp_path: Path, host: str
) -> None:
    with pytest.raises(SettingError, match="--host"):
        issued(authority, Role.CURATOR, tmp_path / "out", ("hub.example", host))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("mark", ["site.yaml", "key.pem", "ledger.mark", "curator.sqlite"])
def test_no_authority_is_made_in_the_folder_of_another_party(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).write_text("theirs")
    with pytest.raises(SettingError, match=f"folder of another party \\({mark}\\)"):
        pki.main(["init", "--directory", str(tmp_path)], standalone_mode=False)
    assert [each.name for each in tmp_path.iterdir()] == [mark]


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("fe80::1%eth0", "a zone is of one machine alone"),
        ("::", "is where a server listens"),
        ("0.0.0.0", "is where a server listens"),  # noqa: S104 - refused
    ],
)
def test_an_address_that_no_client_dials_is_refused_for_its_own_reason(
    authority: Path, tmp_path: Path, host: str, why: str
) -> None:
    with pytest.raises(SettingError, match=why):
        issued(authority, Role.CURATOR, tmp_path / "out", (host,))


def test_what_a_client_can_ask_for_is_in_the_certificate(authority: Path, tmp_path: Path) -> None:
    folder = issued(authority, Role.CURATOR, tmp_path / "out", HOSTS)
    made = x509.load_pem_x509_certificate((folder / "certificate.pem").read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(names.get_values_for_type(x509.DNSName)) == HOSTS[:-4]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [
        str(ip_address(each)) for each in HOSTS[-4:]
    ]


@pytest.mark.parametrize(
    ("role", "hosts"),
    [
        (Role.CURATOR, ()),
        (Role.OPERATOR, ("localhost",)),
        (Role.CURATOR, ("bücher.example",)),
        (Role.OWNER, ()),  # whose key is made at its site
    ],
)
def test_hosts_are_for_curators_and_in_ascii_and_an_authority_must_be_there(
    authority: Path, tmp_path: Path, role: Role, hosts: tuple[str, ...]
) -> None:
    with pytest.raises(SettingError):
        issued(authority, role, tmp_path / "out", hosts)
    with pytest.raises(SettingError, match="pki init"):
        issued(tmp_path, Role.OPERATOR, tmp_path / "out")


@pytest.mark.parametrize(
    "curve", [ec.SECP256K1(), ec.BrainpoolP256R1(), ec.SECP224R1()], ids=lambda curve: curve.name
)
def test_a_key_on_another_curve_is_not_certified(
    authority: Path, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    content = request_for("hospital-a", key=ec.generate_private_key(curve))
    with pytest.raises(IdentityError, match="P-256, P-384 and P-521"):
        sign_request(
            authority, request=content, name=None, output=tmp_path / "out.pem", days=30, now=NOW
        )
    assert not (tmp_path / "out.pem").exists()
    assert not (authority / "issued").exists()


def _serials(authority: Path) -> list[str]:
    return [each.serial for each in list_certificates(authority).certificates]


@pytest.mark.parametrize("name", [None, "hospital-a"])
@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1()], ids=lambda curve: curve.name)
def test_a_second_key_for_a_name_that_is_valid_is_refused(
    authority: Path, tmp_path: Path, name: str | None, curve: ec.EllipticCurve
) -> None:
    sign(authority, request_for("hospital-a"), tmp_path / "first.pem")
    (first,) = _serials(authority)
    second = request_for("hospital-a", key=ec.generate_private_key(curve))
    with pytest.raises(IdentityError, match=f"already.*another key, {first}.*--renews {first}"):
        sign(authority, second, tmp_path / "second.pem", name)
    assert not (tmp_path / "second.pem").exists()
    assert _serials(authority) == [first], "nothing was signed"


def test_a_key_is_replaced_where_the_operator_names_its_certificate(
    authority: Path, tmp_path: Path
) -> None:
    def renewed(serial: str, output: str) -> None:
        request = request_for("hospital-a")
        path = tmp_path / output
        sign_request(
            authority, request=request, name=None, output=path, days=30, now=NOW, renews=serial
        )

    key = ec.generate_private_key(ec.SECP256R1())
    sign(authority, request_for("hospital-a", key=key), tmp_path / "first.pem")
    sign(authority, request_for("hospital-b"), tmp_path / "other.pem")
    first, other = _serials(authority)
    for wrong in ("ab", other):
        with pytest.raises(SettingError, match="has no certificate with this serial"):
            renewed(wrong, "second.pem")
    renewed(first.upper(), "second.pem")
    assert len(_serials(authority)) == 3
    with pytest.raises(IdentityError, match="already"):
        sign(authority, request_for("hospital-a", key=key), tmp_path / "third.pem")


@pytest.mark.parametrize("how", ["ended", "revoked"])
def test_a_certificate_that_has_ended_or_was_revoked_may_be_named_but_stands_for_no_other(
    authority: Path, tmp_path: Path, how: str
) -> None:
    """The site's message and the pages name `--renews` whether the old one is valid or not."""

    def renewed(output: str) -> None:
        sign_request(
            authority,
            request=request_for("hospital-a"),
            name=None,
            output=tmp_path / output,
            days=30,
            now=NOW + timedelta(days=20),
            renews=first,
        )

    sign_request(
        authority,
        request=request_for("hospital-a"),
        name=None,
        output=tmp_path / "first.pem",
        days=10 if how == "ended" else 30,
        now=NOW,
    )
    (first,) = _serials(authority)
    if how == "revoked":
        revoke(authority, now=NOW, serial=first)
    renewed("second.pem")
    with pytest.raises(IdentityError, match="already has a valid certificate with another key"):
        renewed("third.pem")


def test_the_same_key_is_certified_again_without_a_word(authority: Path, tmp_path: Path) -> None:
    request = request_for("hospital-a")
    sign(authority, request, tmp_path / "first.pem")
    sign(authority, request, tmp_path / "second.pem")
    assert len(_serials(authority)) == 2


@pytest.mark.parametrize("how", ["revoked", "ended"])
def test_a_name_whose_certificate_is_no_longer_valid_may_have_a_new_key(
    authority: Path, tmp_path: Path, how: str
) -> None:
    sign(authority, request_for("hospital-a"), tmp_path / "first.pem")
    now = NOW if how == "revoked" else NOW + timedelta(days=31)
    if how == "revoked":
        revoke(authority, now=NOW, serial=_serials(authority)[0])
    request, path = request_for("hospital-a"), tmp_path / "second.pem"
    sign_request(authority, request=request, name=None, output=path, days=30, now=now)
    assert path.exists()


def test_a_request_is_shown_before_anything_is_signed(authority: Path, tmp_path: Path) -> None:
    request = request_for("hospital-a")
    shown = show_request(request)
    assert not (authority / "issued").exists()
    made = sign_request(
        authority, request=request, name=None, output=tmp_path / "c.pem", days=30, now=NOW
    )
    assert (shown.name, shown.fingerprint) == (made.name, made.fingerprint)
    with pytest.raises(IdentityError, match="not a signing request"):
        show_request(b"nonsense")
    with pytest.raises(IdentityError, match="P-256"):
        show_request(request_for("a", key=ec.generate_private_key(ec.BrainpoolP256R1())))
