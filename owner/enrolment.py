"""A new site: its folder, its private key, and the request that an operator signs.

Later the key is changed for another one (`begin_renewal`, `finish_renewal`): the new key and its
request wait in the folder ``next`` while the old pair stays in use. When the signed certificate has
come, the new pair takes its place in three renames; a renewal that was cut off between them is
finished by the next one.

The key is made here and stays here; what travels is a signing request (PKCS #10) that carries the
owner's name as the URI ``urn:dppca:owner:NAME``, which is how a party is known in every call.
Enrolment never overwrites anything: a key that was overwritten takes the site's identity with it.
A renewal keeps the old pair in the folder ``previous``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from common.errors import SettingError
from owner.config import POLICY_FILE, SITE_FILE, Site, require_address, require_party_name

KEY, REQUEST, CERTIFICATE = "key.pem", "request.pem", "certificate.pem"

_SITE_TEMPLATE = """\
# This site, as `dppca-owner` knows it.
version: 1
name: {name}          # as studies and the certificate have it
curator: "{curator}"  # HOST:PORT
"""

_POLICY_TEMPLATE = """\
# What may be released from this site. Without an entry here there is no release.
#
# Each data set is a name with a lifetime budget that all studies share. Decimals are text. A data
# set whose delta is "0" takes no study with Gaussian noise. Paths are relative to this folder.
# That rows were added, or that one table has two names, is yours to declare: it cannot be seen.
#
# data_sets:
#   survey: {path: survey.csv, epsilon: "3.0", delta: "0"}
data_sets: {}
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that waits for an operator; the SHA-256 of its key, to be compared by telephone."""

    path: Path
    fingerprint: str


def enrol(folder: Path, *, name: str, curator: str) -> tuple[Path, ...]:
    """Make a site's files and return their paths; the key is readable by its owner only.

    Raises
    ------
    SettingError
        A name or address of the wrong form, a file that exists, or a folder that cannot be
        written; in the first two cases nothing has been made.
    """
    _require(require_party_name, name, "--name")
    _require(require_address, curator, "--curator")
    site = Site(folder, name, curator)
    key, request = _key_and_request(name)
    contents: dict[Path, bytes] = {
        site.key: key,
        site.request: request,
        folder / SITE_FILE: _SITE_TEMPLATE.format(name=name, curator=curator).encode(),
        folder / POLICY_FILE: _POLICY_TEMPLATE.encode(),
    }
    present = [path.name for path in contents if path.exists() or path.is_symlink()]
    if present:
        message = (
            f"{folder} already holds {', '.join(present)}, and nothing is overwritten: use another "
            "folder, or move the old files away if you are sure"
        )
        raise SettingError(message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            _create(path, content)
    except OSError as error:
        message = f"cannot make the site's files in {folder}: {error.strerror}"
        raise SettingError(message) from error
    return tuple(contents)


def request_of(path: Path) -> Request:
    """The request at a path; `SettingError` where it is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    from common.transport.tls import fingerprint_of

    try:
        key = x509.load_pem_x509_csr(path.read_bytes()).public_key()
    except (OSError, ValueError) as error:
        message = f"cannot read the request {path}: remove its folder and begin again"
        raise SettingError(message) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        message = f"the request {path} is not of a key that was made here"
        raise SettingError(message)
    return Request(path, fingerprint_of(key))


def begin_renewal(site: Site) -> Request:
    """Make the next key and its request, or find those that were made before.

    Raises
    ------
    SettingError
        The folder cannot be written.
    """
    folder = site.next
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not ((folder / KEY).exists() and (folder / REQUEST).exists()):
            for name in (KEY, REQUEST):  # of a renewal that was cut off before anybody saw it
                (folder / name).unlink(missing_ok=True)
            key, request = _key_and_request(site.name)
            _create(folder / KEY, key)
            _create(folder / REQUEST, request)
    except OSError as error:
        message = f"cannot make the next key in {folder}: {error.strerror}"
        raise SettingError(message) from error
    return request_of(folder / REQUEST)


def finish_renewal(site: Site, certificate: bytes | None, *, now: datetime) -> datetime:
    """Put the next key and its certificate in use; returns when that ends.

    Parameters
    ----------
    certificate
        PEM, from the operator; None where it lies in the folder ``next``, as after a renewal that
        was cut off.

    Raises
    ------
    SettingError
        No renewal has begun, or a file cannot be written.
    IdentityError
        The certificate is not for the next key, or would not be accepted. Nothing was changed.
    """
    from common.transport.tls import Credentials, Role, check_credentials

    folder = site.next
    try:
        if (folder / KEY).exists():
            offered = (folder / CERTIFICATE).read_bytes() if certificate is None else certificate
            found = Credentials(site.ca.read_bytes(), offered, (folder / KEY).read_bytes())
            check_credentials(found, role=Role.OWNER, name=site.name, now=now)
            _keep_previous(site)
            draft = folder / f"{CERTIFICATE}.part"
            draft.unlink(missing_ok=True)
            _create(draft, offered)
            draft.replace(folder / CERTIFICATE)
        elif not is_cut_off(site):
            message = "no renewal has begun: run `dppca-owner renew` without --certificate"
            raise SettingError(message)
        # From here on every step may be the first: what was renamed is not there to rename again.
        for name, target in (
            (KEY, site.key),
            (REQUEST, site.request),
            (CERTIFICATE, site.certificate),
        ):
            if (folder / name).exists():
                (folder / name).replace(target)
        folder.rmdir()
    except OSError as error:
        message = f"cannot put the next key in use: {error.strerror}: {error.filename}"
        raise SettingError(message) from error
    credentials = Credentials(
        site.ca.read_bytes(), site.certificate.read_bytes(), site.key.read_bytes()
    )
    return check_credentials(credentials, role=Role.OWNER, name=site.name, now=now)


def is_cut_off(site: Site) -> bool:
    """Whether a certificate waits in the folder ``next``: its renewal can be finished."""
    return (site.next / CERTIFICATE).exists()


def _keep_previous(site: Site) -> None:
    site.previous.mkdir(mode=0o700, exist_ok=True)
    for path in (site.key, site.certificate):
        kept = site.previous / path.name
        kept.unlink(missing_ok=True)
        if path.exists():
            _create(kept, path.read_bytes())


def _require(check: Callable[[str], str], value: str, option: str) -> None:
    try:
        check(value)
    except ValueError as error:
        message = f"{option} {value!r}: {error}"
        raise SettingError(message) from error


def _create(path: Path, content: bytes) -> None:
    """Write a file that did not exist, private where it holds a key."""
    mode = 0o600 if path.name == KEY else 0o644
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _key_and_request(name: str) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    from common.transport.tls import Identity, Role

    key = ec.generate_private_key(ec.SECP256R1())
    uri = x509.UniformResourceIdentifier(Identity(name, Role.OWNER).uri)
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        request.public_bytes(Encoding.PEM),
    )
