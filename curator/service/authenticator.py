"""Authentication of every call, and the daemon's own credentials.

A certificate is checked in every call, not only when a connection begins, because connections live
long. It must name one party, be in date, and not be revoked.

The credentials folder is polled, so a change in it needs no restart: a new certificate and key are
presented to later connections, and a new revocation list applies from the next message. Changed
files are read once they have been stable for a tick, because three files are not replaced at one
moment; `reload` reads them at once. An unusable file is logged, and the previous state stays in
force; in particular, a revocation list that is missing, damaged, or older than the one in force
revokes nothing less.

Certificates that expire soon or have expired (the daemon's own, its authority's and its callers')
are logged at the start and once a day. So is an authority's secret key among the credentials.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from cryptography import x509

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import CA, CERTIFICATE, KEY, REVOKED, CredentialFolder
from dppca.common.kernel.errors import IdentityError
from dppca.common.kernel.identity.revoked import RevocationList, read_list
from dppca.common.kernel.identity.tls import (
    Credentials,
    Identity,
    Role,
    Term,
    check_credentials,
    ended_text,
    load_credentials,
    parse_certificate,
    parse_identity,
    peer_certificate,
    renewal,
)
from dppca.common.shell.stray_keys import find_authority_keys
from dppca.curator.observability.log import log_event

_FILES = (CA, CERTIFICATE, KEY, REVOKED)
AUTHORITY = "authority"
_CLOCK = "the curator's"
_FileStates = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A caller's accepted certificate: its party, serial number, and expiry."""

    identity: Identity
    serial: int
    expires: datetime


class Authenticator:
    """Holds the daemon's credentials and decides who may call.

    ``folder`` has certificate.pem, key.pem, ca.pem and, if a certificate is revoked, crl.pem;
    ``clock`` returns the current time, aware. Raise `IdentityError` if the credentials are not a
    curator's, or out of date, or if crl.pem is not a list of their authority.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._clock = clock
        self._warned: dict[tuple[int, bool], date] = {}
        self._stray_keys_sought: date | None = None
        self._loaded = self._last_seen = self._file_states()
        self.credentials, self.expires = self._read_credentials()
        self.revoked = self._read_list(self.credentials) or RevocationList()
        self._warn_own_expiry()

    def admit(self, auth_context: Mapping[str, Iterable[bytes]]) -> PeerCertificate:
        """Return a peer's certificate; raise `IdentityError` if it is missing, bad or revoked."""
        x509_certificate = peer_certificate(auth_context)
        peer = PeerCertificate(
            parse_identity(x509_certificate),
            x509_certificate.serial_number,
            x509_certificate.not_valid_after_utc,
        )
        self.require_valid(peer)
        party = f"{peer.identity.role.value}:{peer.identity.name}"
        self._warn_expiry(party, x509_certificate)
        return peer

    def require_valid(self, peer: PeerCertificate) -> None:
        """Raise `IdentityError` if a certificate has expired or was revoked in the meantime."""
        party = f"{peer.identity.role.value} {peer.identity.name}"
        if peer.serial in self.revoked.dates:
            raise IdentityError(f"certificate {peer.serial:x} of {party} is revoked")
        if self._clock() >= peer.expires:
            raise IdentityError(ended_text(peer.identity, peer.expires, clock=_CLOCK))

    def refresh(self) -> None:
        """Poll the folder; load changes that have been stable for a tick. Call it at every tick."""
        states = self._file_states()
        if states != self._last_seen:
            self._last_seen = states
        elif states != self._loaded:
            self.reload()
        self._warn_own_expiry()

    def reload(self) -> None:
        """Read the folder now, changed or not; not at the same time as `refresh`."""
        self._loaded = self._last_seen = self._file_states()
        before = self.credentials
        try:
            credentials, expires = self._read_credentials()
        except IdentityError as error:
            log_event("credentials not reloaded", level=logging.ERROR, reason=str(error))
        else:
            self.credentials, self.expires = credentials, expires
            if credentials != before:
                log_event("credentials reloaded", expires=f"{expires:%Y-%m-%d}")
        try:
            revoked = self._read_list(self.credentials)
        except IdentityError as error:
            log_event("revocation list not reloaded", level=logging.ERROR, reason=str(error))
            return
        same = self.credentials.ca == before.ca
        if same and (revoked or RevocationList()).number < self.revoked.number:
            reason = "gone" if revoked is None else f"number {revoked.number}"
            log_event(
                "revocation list not reloaded",
                level=logging.ERROR,
                reason=f"{REVOKED} is {reason}; number {self.revoked.number} stays in force",
            )
        elif revoked is not None and revoked != self.revoked:
            self.revoked = revoked
            log_event("revocation list loaded", number=revoked.number, revoked=len(revoked.serials))

    def _read_credentials(self) -> tuple[Credentials, datetime]:
        credentials = load_credentials(CredentialFolder(self._folder))
        expires = check_credentials(credentials, role=Role.CURATOR, name=None, now=self._clock())
        return credentials, expires

    def _read_list(self, credentials: Credentials) -> RevocationList | None:
        try:
            content = (self._folder / REVOKED).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise IdentityError(
                f"cannot read {self._folder / REVOKED}: {error.strerror}"
            ) from error
        return read_list(content, ca=credentials.ca)

    def _file_states(self) -> _FileStates:
        states: list[tuple[int, int, int] | None] = []
        for name in _FILES:
            try:
                state = (self._folder / name).stat()
            except OSError:
                states.append(None)
            else:
                states.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return tuple(states)

    def _warn_stray_keys(self) -> None:
        today = self._clock().date()
        if self._stray_keys_sought == today:
            return
        self._stray_keys_sought = today
        for path in find_authority_keys(self._folder, self.credentials.ca):
            log_event(
                "an authority's secret key is here",
                level=logging.WARNING,
                file=str(path),
                reason="it can sign for every party: move it to a machine that is switched off",
            )

    def _warn_own_expiry(self) -> None:
        self._warn_stray_keys()
        for what, pem in (
            ("curator", self.credentials.certificate),
            (AUTHORITY, self.credentials.ca),
        ):
            self._warn_expiry(what, parse_certificate(pem))

    @property
    def expiries(self) -> Mapping[str, datetime]:
        """Ends of the daemon's certificate and of its authority's, by the names in the metrics."""
        authority = parse_certificate(self.credentials.ca).not_valid_after_utc
        return {"curator": self.expires, AUTHORITY: authority}

    @property
    def ended(self) -> str:
        """Say which certificate of the daemon's has ended, if nobody can connect; else empty."""
        now = self._clock()
        certificate = parse_certificate(self.credentials.certificate)
        for holder, ends in (
            (None, self.expiries[AUTHORITY]),
            (parse_identity(certificate), self.expires),
        ):
            if now >= ends:
                return ended_text(holder, ends, clock=_CLOCK)
        return ""

    def _warn_expiry(self, party: str, certificate: x509.Certificate) -> None:
        now, serial = self._clock(), certificate.serial_number
        term = Term.from_certificate(certificate)
        ended = now >= term.ends
        if now < term.warn_from or self._warned.get((serial, ended)) == now.date():
            return
        self._warned[serial, ended] = now.date()
        more = {
            "party": party,
            "serial": f"{serial:x}",
            "expires": f"{term.ends:%Y-%m-%d %H:%M} UTC",
            "next": renewal(_holder(party, certificate)),
        }
        if ended:
            days = (now - term.ends).days
            log_event("certificate has ended", level=logging.ERROR, days_ago=days, **more)
        else:
            days = (term.ends - now).days
            log_event("certificate ends soon", level=logging.WARNING, days=days, **more)


def _holder(party: str, certificate: x509.Certificate) -> Identity | None:
    return None if party == AUTHORITY else parse_identity(certificate)
