"""Certificates of one verification, and the authority that they must come from.

A signature holds no trusted time. So an expired certificate is shown, and does not make a file
invalid. A signature by the key of a *revoked* certificate is refused, because a thief of the key
can sign and write any date. The only exception rests on the holder's own word: a file that the
holder has kept unchanged since before the revocation was signed before it. Neither the list nor the
holder can exclude that the key was stolen before it was revoked.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from dppca.common.kernel.attestation.signatures import (
    VouchingAuthority,
    describe_authority,
    load_certificate,
    require_issued,
)
from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.errors import SignatureError
from dppca.common.kernel.identity.revoked import RevocationList
from dppca.common.kernel.identity.tls import Role, parse_identity


@dataclass(frozen=True, slots=True, kw_only=True)
class MetCertificate:
    """Certificate whose key signed something in the file."""

    party: Annotated[str, "role and name"]
    signed: Annotated[str, "what it signed"]
    serial: Annotated[DigestText, "serial number"]
    valid_from: Annotated[datetime, "when it begins"]
    valid_until: Annotated[datetime, "when it ends"]
    revoked: Annotated[datetime | None, "when it was revoked"]
    remarks: Annotated[tuple[str, ...], "what to know of its dates"]


class KnownParties:
    """Authority and revocation list of a verification, and the certificates that it has met so far.

    Parameters
    ----------
    ca
        PEM of the authority that certified them; None to take certificates as they are.
    revoked
        The authority's list, if there is one.
    held_since
        Time since which the holder has had the file, by the holder's own word; aware.
    """

    def __init__(
        self,
        ca: bytes | None,
        *,
        revoked: RevocationList | None = None,
        held_since: datetime | None = None,
    ) -> None:
        self._ca = ca
        self._revoked = RevocationList() if revoked is None else revoked
        self._held_since = held_since
        self._met: dict[bytes, str] = {}

    def authority(self) -> VouchingAuthority | None:
        """Return the authority, if one was given; `SignatureError` if it cannot be read."""
        return None if self._ca is None else describe_authority(self._ca)

    def require(self, certificate: bytes, *, what: str) -> None:
        """Note a certificate (PEM) whose key signed ``what``.

        Raise `SignatureError` if another authority issued it, or if it was revoked and nothing
        shows that it signed before.
        """
        if self._ca is not None:
            require_issued(certificate, self._ca, what=what)
        document = load_certificate(certificate, what=what)
        self._met.setdefault(certificate, what)
        date = self._revoked.dates.get(document.serial_number)
        if date is None or (self._held_since is not None and self._held_since < date):
            return
        raise SignatureError(
            f"the certificate of {what}, {document.serial_number:x}, was revoked on "
            f"{date:%Y-%m-%d}: a signature holds no trusted time, so anybody who took the key can "
            "have made this one. Only if you have held the file unchanged since before that day, "
            "give `verify` --held-since"
        )

    def certificates(
        self, *, now: datetime, deadline: datetime | None
    ) -> tuple[MetCertificate, ...]:
        """Return every certificate that was met, with remarks on its dates.

        ``now`` is aware; ``deadline`` is the study's. An owner's certificate that began after it
        cannot have signed a contribution in time.
        """
        certificates = []
        for pem, what in self._met.items():
            document = load_certificate(pem, what=what)
            who = parse_identity(document)
            start, end = document.not_valid_before_utc, document.not_valid_after_utc
            revoked = self._revoked.dates.get(document.serial_number)
            contributed = who.role is Role.OWNER and what == f"the receipt of {who.name}"
            remarks = _remarks(
                start, end, revoked=revoked, now=now, deadline=deadline if contributed else None
            )
            certificates.append(
                MetCertificate(
                    party=f"{who.role.value} {who.name}",
                    signed=what,
                    serial=f"{document.serial_number:x}",
                    valid_from=start,
                    valid_until=end,
                    revoked=revoked,
                    remarks=tuple(remarks),
                )
            )
        return tuple(certificates)


def _remarks(
    start: datetime,
    end: datetime,
    *,
    revoked: datetime | None,
    now: datetime,
    deadline: datetime | None,
) -> Iterable[str]:
    if now >= end:
        yield f"ended on {end:%Y-%m-%d}: what it signed before then stays valid"
    if now < start:
        yield f"is not valid before {start:%Y-%m-%d}: check this machine's clock"
    if revoked is not None:
        yield f"was revoked on {revoked:%Y-%m-%d}; you say that you have held the file since before"
    if deadline is not None and start > deadline:
        yield f"was issued on {start:%Y-%m-%d}, after the study's deadline ({deadline:%Y-%m-%d})"
