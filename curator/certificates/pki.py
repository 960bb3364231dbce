"""Certificate authority for a study's parties, in a folder.

A party's certificate carries its role and name as the URI ``urn:dppca:ROLE:NAME``
(`dppca.common.kernel.identity.tls`); other parts of a certificate give no rights. Keys are
generated where they are used: those of the authority, curator and operators here, an owner's at its
site, which sends a signing request only. The authority takes the public key and the name from a
request and always sets the role ``owner``, so a request cannot ask for more.

A name has one key at a time: a second one is certified only in place of a named certificate.

All keys made here are on curve P-256, which every TLS 1.3 library supports. Serial numbers are
random (20 octets, RFC 5280, 4.1.2.2). The folder ``issued`` stores every certificate before it is
handed out, so that it can be revoked later (`dppca.curator.certificates.revocation`).

Reference: RFC 5280 (certificates), RFC 2986 (requests).
"""

import ipaddress
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dppca.common.kernel.documents.names import is_party_name
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.files import CA, CERTIFICATE, KEY, create_file, require_no_file
from dppca.common.kernel.errors import IdentityError, SettingError
from dppca.common.kernel.identity.tls import (
    Identity,
    Role,
    compute_fingerprint,
    parse_identity,
    x509_faults,
)
from dppca.common.shell.stray_keys import AUTHORITY_KEY
from dppca.curator.certificates.issued import ISSUED, lock_folder, read_issued, valid_certificates

CA_KEY = AUTHORITY_KEY
_ALTERNATIVES = x509.SubjectAlternativeName
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_CLOCK_SKEW = timedelta(minutes=5)  # by which another machine's clock may be late
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"
_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*\.?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")  # a name that ends so is an address to resolvers
_LONGEST_NAME = 253  # of a host in DNS


@dataclass(frozen=True, slots=True)
class MadeCertificate:
    """A certificate that was issued."""

    name: Annotated[str, "name of the party"]
    role: Annotated[str, "`authority`, `curator`, `operator` or `owner`"]
    path: Annotated[Path, "folder or file that was written"]
    expires: Annotated[datetime, "when the certificate expires"]
    fingerprint: Annotated[DigestText, "SHA-256 of the public key"]
    serial: Annotated[DigestText, "serial number of the certificate"]


@dataclass(frozen=True, slots=True)
class ShownRequest:
    """A signing request that nobody has signed yet."""

    name: Annotated[str, "name of the owner that asks"]
    fingerprint: Annotated[DigestText, "SHA-256 of the public key, to compare by telephone"]


def init_authority(folder: Path, *, name: str, days: int, now: datetime) -> MadeCertificate:
    """Create a key (mode 0600) and ``ca.pem``, for all parties; or raise `SettingError`."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        begin_certificate(name, None, key.public_key(), *_term(days, now))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_new(folder / CA_KEY, key_pem(key), mode=0o600)
    _write_new(folder / CA, certificate.public_bytes(Encoding.PEM), mode=0o644)
    return _made(certificate, key.public_key(), folder / CA, name, "authority")


def issue(
    folder: Path,
    *,
    identity: Identity,
    hosts: Sequence[str],
    output: Path,
    days: int,
    now: datetime,
) -> MadeCertificate:
    """Create a key, a certificate and ``ca.pem`` for the curator, an operator or an auditor.

    ``folder`` is the authority's; ``output`` receives ``certificate.pem``, ``key.pem`` (mode 0600)
    and ``ca.pem``. ``hosts`` are the names and addresses that owners dial: at least one for a
    curator, none for others. Raise `SettingError` for an owner (its key must not be made
    here), a bad name or host, or files that exist.
    """
    if identity.role is Role.OWNER:
        raise SettingError(
            "an owner's key is made at its site: run `dppca-owner init`, then `pki sign`"
        )
    if (identity.role is Role.CURATOR) != bool(hosts):
        raise SettingError(
            "a curator's certificate needs --host for every name that owners dial; "
            + (f"an {identity.role.value}'s takes none" if hosts else "give at least one")
        )
    for name in (CA, KEY, CERTIFICATE):
        require_no_file(output / name)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certify(folder, key.public_key(), identity, hosts, days, now)
    # ca.pem first, then the key, then its certificate: a reader that finds the certificate finds
    # all three.
    _write_new(output / CA, (folder / CA).read_bytes(), mode=0o644)
    _write_new(output / KEY, key_pem(key), mode=0o600)
    _write_new(output / CERTIFICATE, certificate.public_bytes(Encoding.PEM), mode=0o644)
    return _made(certificate, key.public_key(), output / CERTIFICATE, identity.name, identity.role)


def show_request(request: bytes) -> ShownRequest:
    """Return what a signing request (PEM) asks for; raise `IdentityError` as `sign_request`."""
    identity, key = _open_request(request)
    return ShownRequest(identity.name, compute_fingerprint(key))


def sign_request(
    folder: Path,
    *,
    request: bytes,
    name: str | None,
    output: Path,
    days: int,
    now: datetime,
    renews: str | None = None,
) -> MadeCertificate:
    """Certify an owner from its signing request.

    ``request`` is PEM, written by ``dppca-owner init``; ``name`` is the owner that the operator
    expects, None for any owner; ``renews`` is the serial number, in hexadecimal, of the owner's
    certificate that this one is to replace: without it a second key beside a valid one is refused.
    Raise `IdentityError` for a file that is no request, a bad signature, another name or role than
    expected, a weak key, or a second key, and `SettingError` if the output exists already, or the
    owner has no such certificate.
    """
    identity, key = _open_request(request)
    if name is not None and identity.name != name:
        raise IdentityError(f"the request is for owner {identity.name}, not for {name}")
    require_no_file(output)
    authority, _ = load_authority(folder)
    with lock_folder(folder):  # of two operators at once, one sees what the other signed
        valid = valid_certificates(folder, authority, identity, now=now)
        signed = {_serial(each) for each in read_issued(folder) if parse_identity(each) == identity}
        _require_one_key(valid, signed, identity, key, renews)
        certificate = _certify(folder, key, identity, (), days, now)
    _write_new(output, certificate.public_bytes(Encoding.PEM), mode=0o644)
    return _made(certificate, key, output, identity.name, identity.role)


def _open_request(request: bytes) -> tuple[Identity, ec.EllipticCurvePublicKey]:
    """Return the owner and the key in a request that its own key signed."""
    try:
        document = x509.load_pem_x509_csr(request)
        key = document.public_key()
        valid = document.is_signature_valid
        _ = document.extensions  # parsed lazily; damaged ones are found here
    except x509_faults() as error:
        raise IdentityError(
            "the file is not a signing request: it is request.pem in the site's folder"
        ) from error
    if not valid:
        raise IdentityError(
            "the request was not signed by its own key: ask the site to send it again"
        )
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, _CURVES):
        raise IdentityError("the request's key is not on one of the curves P-256, P-384 and P-521")
    return _read_request(document), key


def _serial(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"


def _require_one_key(
    valid: Sequence[x509.Certificate],
    signed: Collection[str],
    identity: Identity,
    key: ec.EllipticCurvePublicKey,
    renews: str | None,
) -> None:
    """Raise unless all valid certificates have this key, or the one that it renews is named.

    ``signed`` are the serial numbers of all that the owner ever had: one that has ended, or was
    revoked after a theft, may be named, too, but takes no other's place.
    """
    serials = {_serial(each): each for each in valid}
    if renews is not None:
        if renews.lower() not in signed:
            raise SettingError(
                f"--renews {renews}: owner {identity.name} has no certificate with this serial "
                "number: see `dppca-curator pki list`"
            )
        if renews.lower() in serials:
            return
    others = [serial for serial, each in serials.items() if each.public_key() != key]
    if others:
        raise IdentityError(
            f"owner {identity.name} already has a valid certificate with another key, "
            f"{', '.join(others)}: who has the new key could act as {identity.name}. Compare the "
            "fingerprint with the site by telephone (`dppca-curator pki show`). If the site "
            f"changes its key, give --renews {others[-1]}"
        )


def _made(
    certificate: x509.Certificate, key: ec.EllipticCurvePublicKey, path: Path, name: str, role: str
) -> MadeCertificate:
    return MadeCertificate(
        name,
        role,
        path,
        certificate.not_valid_after_utc,
        compute_fingerprint(key),
        f"{certificate.serial_number:x}",
    )


def load_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Return an authority's certificate and key; raise `SettingError` if the folder holds none."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / CA).read_bytes())
        key = load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise SettingError(
            f"{folder} holds no authority: name its folder. Only for a new authority: "
            f"`dppca-curator pki init --directory {shlex.quote(str(folder))}`"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SettingError(f"{folder / CA_KEY} is not an elliptic curve key: make a new authority")
    return certificate, key


def _read_request(document: x509.CertificateSigningRequest) -> Identity:
    names = [
        attribute.value
        for attribute in document.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ]
    if len(names) != 1 or not isinstance(names[0], str) or not is_party_name(names[0]):
        raise IdentityError("the request does not name one owner: make it with `dppca-owner init`")
    identity = Identity(names[0], Role.OWNER)
    if any(isinstance(extension.value, _ALTERNATIVES) for extension in document.extensions):
        subject = parse_identity(document)
        if subject != identity:
            raise IdentityError(
                f"the request is for {subject.role.value} {subject.name} and for {identity.name}"
            )
    return identity


def _certify(
    folder: Path,
    key: ec.EllipticCurvePublicKey,
    identity: Identity,
    hosts: Sequence[str],
    days: int,
    now: datetime,
) -> x509.Certificate:
    if not is_party_name(identity.name):
        raise SettingError(f"{identity.name!r} is not a name: 1 to 64 characters, a-z 0-9 . _ -")
    authority, authority_key = load_authority(folder)
    usage = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if identity.role is Role.CURATOR:
        # The curator is a client, too: its health check dials the daemon with the daemon's own
        # certificate. The role permits no other call.
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    names = [x509.UniformResourceIdentifier(identity.uri), *(_host(host) for host in hosts)]
    certificate = (
        begin_certificate(identity.name, authority.subject, key, *_term(days, now))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )
    # Stored before it is handed out: only a stored certificate can be revoked by name.
    remembered = f"{identity.role.value}-{identity.name}-{certificate.serial_number:x}.pem"
    _write_new(folder / ISSUED / remembered, certificate.public_bytes(Encoding.PEM), mode=0o644)
    return certificate


def begin_certificate(
    subject: str,
    issuer: x509.Name | None,
    key: ec.EllipticCurvePublicKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    """Builder with a name, key and term; the certificate is self-signed if ``issuer`` is None."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer or name)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _term(days: int, now: datetime) -> tuple[datetime, datetime]:
    return now - _CLOCK_SKEW, now + timedelta(days=days)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    """What a certificate says of a host; `SettingError` for one that no client can ask for.

    gRPC compares the dialled host with names as they stand, and a ``*.`` in front with one label.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # then it is a name
        address = None
    if address is not None:
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            raise SettingError(f"--host {host}: a zone is of one machine alone; leave it out")
        if address.is_unspecified:
            raise SettingError(f"--host {host} is where a server listens; name what owners dial")
        return x509.IPAddress(address)
    last = host.rstrip(".").rpartition(".")[2]
    if len(host) > _LONGEST_NAME or not _NAME.fullmatch(host) or _NUMBER.fullmatch(last):
        raise SettingError(
            f"--host {host!r} is neither an address nor a host name in ASCII: give the host alone, "
            "such as hub.example, *.example, 10.0.0.3 or ::1, without a scheme, port or blank, and "
            "--host once for each"
        )
    return x509.DNSName(host)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Encode a key as unencrypted PEM (PKCS 8)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _write_new(path: Path, content: bytes, *, mode: int) -> None:
    """Create a file with its mode from the start; raise `SettingError` if it exists."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_file(path, content, mode=mode)
    except FileExistsError as error:
        raise SettingError(
            f"{path} exists and is not overwritten: choose another folder"
        ) from error
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror}") from error
