"""Revocation lists for parties: a CRL in PEM, signed by the study's authority.

The authority makes the list (`dppca.curator.certificates.revocation`); the daemon checks it at
every call, and verifiers of a file may check it too. Reference: RFC 5280, 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from dppca.common.kernel.errors import IdentityError
from dppca.common.kernel.identity.tls import x509_faults

if TYPE_CHECKING:
    from cryptography import x509


@dataclass(frozen=True, slots=True)
class RevocationList:
    """Certificates that an authority has revoked.

    ``number`` counts the versions of the list; ``dates`` has the time of each revocation by serial
    number. A key may have been lost long before.
    """

    number: int = 0
    dates: Mapping[int, datetime] = field(default_factory=dict)

    @property
    def serials(self) -> frozenset[int]:
        """Serial numbers of revoked certificates."""
        return frozenset(self.dates)


def read_list(content: bytes, *, ca: bytes) -> RevocationList:
    """Read a list in PEM, signed by the authority whose certificate in PEM is ``ca``.

    Raise `IdentityError` if it is no list or not this authority's, or if ``ca`` is no certificate.
    """
    from cryptography import x509

    try:
        authority = x509.load_pem_x509_certificate(ca)
    except x509_faults() as error:
        raise IdentityError("ca.pem is not a certificate: take it from the operator") from error
    return parse_list(content, authority)


def parse_list(content: bytes, authority: x509.Certificate) -> RevocationList:
    """Read a list in PEM, given the parsed certificate of its authority; raise as `read_list`."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = authority.public_key()
    try:
        document = x509.load_pem_x509_crl(content)
        # Parsed lazily: damaged entries raise here.
        dates = {each.serial_number: each.revocation_date_utc for each in document}
        good = isinstance(key, ec.EllipticCurvePublicKey) and document.is_signature_valid(key)
        number = document.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509_faults() as error:
        raise IdentityError(
            "crl.pem is not a revocation list: copy it again from the authority's folder"
        ) from error
    if not good or document.issuer != authority.subject:
        raise IdentityError("crl.pem was not signed by this ca.pem: take both from one authority")
    return RevocationList(number, dates)
