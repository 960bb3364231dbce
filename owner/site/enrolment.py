"""A new site: its folder, key, request for an operator to sign, and ledger with its marks.

Here alone the marks of a ledger begin (`dppca.owner.ledger.mark`): a folder in which they are
missing later has lost them.

A renewal later replaces the key (`begin_renewal`, `finish_renewal`): the new key and its request
wait in the folder ``next`` while the old pair stays in use. When the signed certificate has
come, the new pair takes its place in three renames; if a renewal was interrupted between them, the
next one finishes it.

The key is made here and stays here. The operator receives a signing request (PKCS #10) that carries
the owner's name as the URI ``urn:dppca:owner:NAME``, which identifies a party in every call.
Enrolment never overwrites anything: an overwritten key would take the site's identity with it.
A renewal keeps the old pair in the folder ``previous``.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dppca.common.kernel.documents.names import require_party_name
from dppca.common.kernel.durable.files import (
    CERTIFICATE,
    KEY,
    REQUEST,
    create_file,
    shut,
    write_file,
)
from dppca.common.kernel.errors import SettingError
from dppca.owner.ledger.database import begin_ledger
from dppca.owner.ledger.mark import mark_paths
from dppca.owner.site import POLICY_FILE, SITE_FILE
from dppca.owner.site.config import Site
from dppca.owner.site.file_forms import require_address, require_proxy

_SITE_TEMPLATE = """\
# This site, as `dppca-owner` knows it.
version: 1
name: {name}          # as studies and the certificate have it
curator: "{curator}"  # HOST:PORT
"""
_PROXY_TEMPLATE = """\
proxy: "{proxy}"  # HOST:PORT of the HTTP proxy on the way; proxy_login: {{env: NAME}} if it asks
"""

_POLICY_TEMPLATE = """\
# What may be released from this site. Without an entry here nothing is released.
#
# A population is people: who they are, in one line, and the lifetime budget that all releases from
# their rows share. Decimals are text. A population whose delta is "0" takes part in no study with
# Gaussian noise. A data set is rows of one population; paths are relative to this folder. Several
# files or queries with rows of the same people are data sets of one population. That a second file
# holds rows of the same people is yours to declare: it cannot be seen. A population that was
# charged stays here; if you rename one, the new entry says was: [OLD NAME].
#
# A study with trust: aggregate needs, in the data set's braces, aggregate: {colluders: 1} with the
# number of colluding owners that such a study must protect against; trusted_openers: [NAME, ...]
# beside it asks for one of these openers.
#
# Text files have commas, decimal points and dates such as 2020-01-31. If yours differ, say how in
# the data set's braces: format: {delimiter: ";", decimal: ",", dates: DD.MM.YYYY, missing: ["-"]}
#
# For example (without the # at the beginning of the lines):
#
# populations:
#   patients: {who: Everyone treated here since 2010, epsilon: "3.0", delta: "0"}
# data_sets:
#   survey: {population: patients, path: survey.csv}
"""


@dataclass(frozen=True, slots=True)
class EnrolmentRequest:
    """A request that waits for an operator; the SHA-256 of its key, to be compared by telephone."""

    path: Path
    fingerprint: str


def enrol(folder: Path, *, name: str, curator: str, proxy: str | None = None) -> tuple[Path, ...]:
    """Make a site's folder and files, readable by their owner only, and return the files' paths.

    Raise `SettingError` if a name or address is malformed, a file exists, or a folder cannot be
    written; in the first two cases nothing has been made. Raise `LedgerError` if the ledger cannot
    be made.
    """
    _require(require_party_name, name, "--name")
    _require(require_address, curator, "--curator")
    settings = _SITE_TEMPLATE.format(name=name, curator=curator)
    if proxy is not None:
        try:
            require_proxy(proxy)
        except ValueError as error:  # it may hold a password
            raise SettingError(f"--proxy {error}") from None
        settings += _PROXY_TEMPLATE.format(proxy=proxy)
    site = Site(folder, name, curator)
    key, request = _key_and_request(name)
    contents: dict[Path, bytes] = {
        site.key: key,
        site.request: request,
        folder / SITE_FILE: settings.encode(),
        folder / POLICY_FILE: _POLICY_TEMPLATE.encode(),
    }
    kept = (site.ledger, *mark_paths(site.ledger))  # of an earlier site, whose charges it knows
    present = [p.name for p in (*contents, *kept) if p.exists() or p.is_symlink()]
    if present:
        raise SettingError(
            f"{folder} already holds {', '.join(present)}, and nothing is overwritten: use another "
            "folder, or move the old files away if you are sure"
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        shut([folder])
        for path, content in contents.items():
            create_file(path, content)
    except OSError as error:
        raise SettingError(f"cannot make the site's files in {folder}: {error.strerror}") from error
    begin_ledger(site.ledger, lock=site.lock)
    return (*contents, *kept)


def read_request(path: Path) -> EnrolmentRequest:
    """Read a request; raise `SettingError` if it is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    from dppca.common.kernel.identity.tls import compute_fingerprint

    try:
        key = x509.load_pem_x509_csr(path.read_bytes()).public_key()
    except (OSError, ValueError) as error:
        raise SettingError(
            f"cannot read the request {path}: remove its folder and begin again"
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SettingError(f"the request {path} is not of a key that was made here")
    return EnrolmentRequest(path, compute_fingerprint(key))


def begin_renewal(site: Site) -> EnrolmentRequest:
    """Make the next key and its request, or find those that were made before.

    Raise `SettingError` if the folder cannot be written.
    """
    folder = site.next
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if not ((folder / KEY).exists() and (folder / REQUEST).exists()):
            for name in (KEY, REQUEST):  # left by a renewal that stopped before it was announced
                (folder / name).unlink(missing_ok=True)
            key, request = _key_and_request(site.name)
            create_file(folder / KEY, key)
            create_file(folder / REQUEST, request)
    except OSError as error:
        raise SettingError(f"cannot make the next key in {folder}: {error.strerror}") from error
    return read_request(folder / REQUEST)


def finish_renewal(site: Site, certificate: bytes | None, *, now: datetime) -> datetime:
    """Put the next key and its certificate in use; return the certificate's end of validity.

    ``certificate`` is PEM, from the operator; None if it is in the folder ``next``, as after an
    interrupted renewal. Raise `SettingError` if no renewal has begun or a file cannot be written.
    Raise `IdentityError`, with nothing changed, if the certificate is not for the next key or would
    not be accepted.
    """
    from dppca.common.kernel.identity.tls import Credentials, Role, check_credentials

    folder = site.next
    try:
        if (folder / KEY).exists():
            offered = (folder / CERTIFICATE).read_bytes() if certificate is None else certificate
            renewed = Credentials(site.ca.read_bytes(), offered, (folder / KEY).read_bytes())
            check_credentials(renewed, role=Role.OWNER, name=site.name, now=now)
            _keep_previous(site)
            write_file(folder / CERTIFICATE, offered)
        elif not is_cut_off(site):
            raise SettingError(
                "no renewal has begun: run `dppca-owner renew` without --certificate"
            )
        # An interrupted renewal may resume at any of these steps; renamed files are skipped.
        for name, target in (
            (KEY, site.key),
            (REQUEST, site.request),
            (CERTIFICATE, site.certificate),
        ):
            if (folder / name).exists():
                (folder / name).replace(target)
        shutil.rmtree(folder)  # with the drafts of earlier, interrupted attempts
    except OSError as error:
        raise SettingError(
            f"cannot put the next key in use: {error.strerror}: {error.filename}"
        ) from error
    credentials = Credentials(
        site.ca.read_bytes(), site.certificate.read_bytes(), site.key.read_bytes()
    )
    return check_credentials(credentials, role=Role.OWNER, name=site.name, now=now)


def is_cut_off(site: Site) -> bool:
    """Return True if a certificate waits in the folder ``next``: its renewal can be finished."""
    return (site.next / CERTIFICATE).exists()


def _keep_previous(site: Site) -> None:
    site.previous.mkdir(mode=0o700, exist_ok=True)
    for path in (site.key, site.certificate):
        archived = site.previous / path.name
        if path.exists():
            write_file(archived, path.read_bytes())
        else:
            archived.unlink(missing_ok=True)


def _require(check: Callable[[str], str], value: str, option: str) -> None:
    try:
        check(value)
    except ValueError as error:
        raise SettingError(f"{option} {value!r}: {error}") from error


def _key_and_request(name: str) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    from dppca.common.kernel.identity.tls import Identity, Role

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
