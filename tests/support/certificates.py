"""A temporary certificate authority: every kind of certificate that can go wrong."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from dppca.common.kernel.attestation import contributions
from dppca.common.kernel.attestation.contributions import (
    AcknowledgedContribution,
    SignedRelease,
    unchecked_receipt,
)
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.identity.tls import Credentials, Identity, Role
from dppca.common.kernel.privacy.release import MomentReceipt
from dppca.curator.certificates.pki import begin_certificate, key_pem


@dataclass(frozen=True, slots=True)
class Authority:
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        role: Role,
        name: str,
        *,
        start: datetime | None = None,
        end: datetime | None = None,
        uris: tuple[str, ...] | None = None,
        key: ec.EllipticCurvePrivateKey | None = None,
    ) -> Credentials:
        now = datetime.now(UTC)
        key = key or ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(uri)
            for uri in ((Identity(name, role).uri,) if uris is None else uris)
        ]
        if role is Role.CURATOR:
            loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            names += [x509.DNSName("localhost"), loopback]
        builder = begin_certificate(
            name,
            self.certificate.subject,
            key.public_key(),
            start or now - timedelta(days=1),
            end or now + timedelta(days=90),
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Credentials(
            ca=self.pem, certificate=certificate.public_bytes(Encoding.PEM), key=key_pem(key)
        )


def new_authority(name: str = "test authority") -> Authority:
    key, now, year = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(days=400)
    certificate = (
        begin_certificate(name, None, key.public_key(), now - year, now + year)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Authority(key, certificate)


def sign_release(owner: str, receipt: MomentReceipt, credentials: Credentials) -> SignedRelease:
    signer, content = make_signer(credentials), receipt.canonical_bytes()
    return SignedRelease(owner, receipt, contributions.sign_release(owner, content, signer))


def write_credentials(folder: Path, credentials: Credentials) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    files = CredentialFolder(folder)
    files.ca.write_bytes(credentials.ca)
    files.certificate.write_bytes(credentials.certificate)
    files.key.write_bytes(credentials.key)
    return folder


def taken_of(header: Any, *, owner: str) -> AcknowledgedContribution:
    return AcknowledgedContribution.of(
        SignedRelease(owner, unchecked_receipt(header.envelope), header.envelope)
    )
