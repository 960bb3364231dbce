"""Who comes in: the certificate of every call, and the daemon's own credentials.

A certificate is looked at in every call, not only when a connection begins: connections live long.
It must name one party, be in date, and not be revoked.

The credentials folder is looked at all the time, so nothing in it needs a restart: a new
certificate and key are shown to whoever connects next, a new revocation list counts for the next
message. Files that change are read once they have rested for a tick: three files are not replaced
at one moment. What cannot be used is logged, and what was there before stays in force; in
particular a revocation list that is gone, damaged, or older than the one in force revokes nothing
less.

Certificates that end soon, the daemon's own, its authority's and its callers', are logged at the
start and once a day.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from cryptography import x509

from common.errors import IdentityError
from common.transport.tls import (
    EXPIRY_WARNING,
    Credentials,
    Identity,
    Role,
    certificate_of,
    check_credentials,
    identity_in,
    load_credentials,
)
from curator.log import note
from curator.pki import CA_CERTIFICATE, CERTIFICATE, KEY
from curator.revocation import REVOKED, RevocationList, read_list

_FILES = (CA_CERTIFICATE, CERTIFICATE, KEY, REVOKED)
_Signature = tuple[tuple[int, int, int] | None, ...]


def utc_now() -> datetime:
    """The clock, aware."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pass:
    """A certificate that was let in: who it names, its serial number, when it ends."""

    identity: Identity
    serial: int
    expires: datetime


class Gate:
    """The daemon's credentials and who may call.

    Parameters
    ----------
    folder
        With certificate.pem, key.pem, ca.pem and, where something is revoked, crl.pem.
    clock
        The present, aware.

    Raises
    ------
    IdentityError
        The credentials are not a curator's, or out of date; or crl.pem is not a list of their
        authority.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._clock = clock
        self._warned: dict[int, date] = {}
        self._in_force = self._resting = self._signature()
        self.credentials, self.expires = self._read_credentials()
        self.revoked = self._read_list(self.credentials) or RevocationList()
        self._warn_of_own()

    def admit(self, auth_context: Mapping[str, Iterable[bytes]]) -> Pass:
        """The party at the other end of a call.

        Raises
        ------
        IdentityError
            It has no certificate, or one that names nobody, has ended, or is revoked.
        """
        certificate = certificate_of(auth_context)
        shown = Pass(
            identity_in(certificate), certificate.serial_number, certificate.not_valid_after_utc
        )
        self.require_good(shown)
        self._warn(
            f"{shown.identity.role.value}:{shown.identity.name}", shown.serial, shown.expires
        )
        return shown

    def require_good(self, shown: Pass) -> None:
        """Raise `IdentityError` where a certificate has ended, or was revoked meanwhile."""
        party = f"{shown.identity.role.value} {shown.identity.name}"
        if shown.serial in self.revoked.serials:
            message = f"certificate {shown.serial:x} of {party} is revoked"
            raise IdentityError(message)
        if self._clock() >= shown.expires:
            message = f"certificate {shown.serial:x} of {party} ended {shown.expires:%Y-%m-%d}"
            raise IdentityError(message)

    def refresh(self) -> None:
        """Look at the folder; take over what has changed and rested. Call it at every tick."""
        found = self._signature()
        if found != self._resting:
            self._resting = found
        elif found != self._in_force:
            self._in_force = found
            self._reload()
        self._warn_of_own()

    def _reload(self) -> None:
        before = self.credentials
        try:
            credentials, expires = self._read_credentials()
        except IdentityError as error:
            note("credentials not reloaded", level=logging.ERROR, reason=str(error))
        else:
            self.credentials, self.expires = credentials, expires
            if credentials != before:
                note("credentials reloaded", expires=f"{expires:%Y-%m-%d}")
        try:
            revoked = self._read_list(self.credentials)
        except IdentityError as error:
            note("revocation list not reloaded", level=logging.ERROR, reason=str(error))
            return
        same = self.credentials.ca == before.ca
        if same and (revoked or RevocationList()).number < self.revoked.number:
            reason = "gone" if revoked is None else f"number {revoked.number}"
            note(
                "revocation list not reloaded",
                level=logging.ERROR,
                reason=f"{REVOKED} is {reason}; number {self.revoked.number} stays in force",
            )
        elif revoked is not None and revoked != self.revoked:
            self.revoked = revoked
            note("revocation list loaded", number=revoked.number, revoked=len(revoked.serials))

    def _read_credentials(self) -> tuple[Credentials, datetime]:
        credentials = load_credentials(
            ca=self._folder / CA_CERTIFICATE,
            certificate=self._folder / CERTIFICATE,
            key=self._folder / KEY,
        )
        expires = check_credentials(credentials, role=Role.CURATOR, name=None, now=self._clock())
        return credentials, expires

    def _read_list(self, credentials: Credentials) -> RevocationList | None:
        try:
            content = (self._folder / REVOKED).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            message = f"cannot read {self._folder / REVOKED}: {error.strerror}"
            raise IdentityError(message) from error
        return read_list(content, ca=credentials.ca)

    def _signature(self) -> _Signature:
        found: list[tuple[int, int, int] | None] = []
        for name in _FILES:
            try:
                state = (self._folder / name).stat()
            except OSError:
                found.append(None)
            else:
                found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return tuple(found)

    def _warn_of_own(self) -> None:
        for what, pem in (
            ("curator", self.credentials.certificate),
            ("authority", self.credentials.ca),
        ):
            certificate = x509.load_pem_x509_certificate(pem)
            self._warn(what, certificate.serial_number, certificate.not_valid_after_utc)

    def _warn(self, party: str, serial: int, expires: datetime) -> None:
        now = self._clock()
        if expires - now >= EXPIRY_WARNING or self._warned.get(serial) == now.date():
            return
        self._warned[serial] = now.date()
        note(
            "certificate ends soon",
            level=logging.WARNING,
            party=party,
            serial=f"{serial:x}",
            days=(expires - now).days,
            expires=f"{expires:%Y-%m-%d}",
        )
