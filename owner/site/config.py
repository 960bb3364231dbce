"""A site: one folder with its settings, its policy, its credentials and its ledger.

``site.yaml`` names this owner and its curator's address; `dppca.owner.site.policy` reads
``policy.yaml``. The software never writes to either file after `dppca.owner.site.enrolment` has
made them. The folder and its content belong to one user: every command denies access to others
where it can (`dppca.common.kernel.durable.files`).
"""

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dppca.common.kernel.documents.names import is_party_name
from dppca.common.kernel.durable.files import KEY, REVOKED, CredentialFolder, require_absent, shut
from dppca.common.kernel.errors import LedgerVersionError, SettingError
from dppca.owner.engines.addresses import CLUSTER
from dppca.owner.records.locations import Secret
from dppca.owner.site import POLICY_FILE, SITE_FILE, STUDIES
from dppca.owner.site.file_forms import SiteDocument, parse_document

_VERSION = re.compile(r"^version: *(\d{1,9}) *(?:#.*)?$", re.MULTILINE)
_MOST_NAMED = 5  # sites in a message


@dataclass(frozen=True, slots=True)
class Site(CredentialFolder):
    """An owner's folder.

    Attributes
    ----------
    folder
        Absolute path.
    name
        The owner's name in studies and in its certificate.
    curator
        ``HOST:PORT``.
    server_name
        Expected name in the curator's certificate; None to expect the host.
    proxy
        ``HOST:PORT`` of the HTTP proxy to the curator; None to call the curator directly.
    proxy_login
        Reference to the name and password for the proxy.
    """

    name: str
    curator: str
    server_name: str | None = None
    proxy: str | None = None
    proxy_login: Secret | None = None

    @property
    def crl(self) -> Path | None:
        """The authority's revocation list, if the site has one."""
        path = self.folder / REVOKED
        return path if path.exists() else None

    @property
    def certificate_advice(self) -> str:
        """How the steward gets its certificate, if this one is lost."""
        return "the operator makes it from your request: dppca-curator pki sign"

    @property
    def key_advice(self) -> str:
        """How this site gets another key; its ledger, and so its charges, stay."""
        return (
            "if it is lost, `dppca-owner renew` makes another, the operator signs its request "
            "(dppca-curator pki sign --renews NUMBER), and `dppca-owner renew --certificate FILE` "
            "puts it in use"
        )

    @property
    def next(self) -> Path:
        """Folder of the next key, while its certificate is awaited."""
        return self.folder / "next"

    @property
    def previous(self) -> Path:
        """Folder of the key and certificate that were in use before the last renewal."""
        return self.folder / "previous"

    @property
    def ledger(self) -> Path:
        """Ledger of this site's charges and releases."""
        return self.folder / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        """Lock file, held by the one command that may write the ledger."""
        return self.folder / "site.lock"

    @property
    def openers(self) -> Path:
        """Folder of the site's opener keys (`dppca.owner.site.opener_keys`)."""
        return self.folder / "openers"

    @property
    def fingerprint(self) -> Path:
        """Key of the digests of rows that people sign (`dppca.owner.release.evidence`)."""
        return self.folder / "fingerprint.key"

    @property
    def looks(self) -> Path:
        """File of exports for auditors (`dppca.owner.site.looks`)."""
        return self.folder / "looks.jsonl"

    @property
    def peers(self) -> Path:
        """File of the owners' keys that the steward has verified (`dppca.owner.site.agreement`)."""
        return self.folder / "peers.yaml"

    @property
    def private(self) -> tuple[Path, ...]:
        """Files and folders that other users of the machine must not read, write or lock."""
        ledger = self.ledger.name
        files = (SITE_FILE, POLICY_FILE, ledger, f"{ledger}-journal", f"{ledger}-wal")
        names = (*files, f"{ledger}-shm", "ledger.mark", "ledger.mark2", KEY, self.lock.name)
        keys = (self.openers, *self.openers.glob("*.key"), self.folder / CLUSTER / KEY)
        return (
            self.folder,
            *(self.folder / name for name in names),
            self.peers,
            self.fingerprint,
            self.looks,
            self.folder / "roles.json",
            *keys,
        )

    def study_folder(self, name: str) -> Path:
        """Folder of a study's document, components and artefacts; `SettingError` for a bad name."""
        if not is_party_name(name):
            raise SettingError(f"{name!r} cannot be a study's name: use a-z 0-9 . _ - only")
        return self.folder / STUDIES / name


def load_site(folder: Path) -> Site:
    """Read ``site.yaml``; `SettingError` names every field at fault."""
    path = folder / SITE_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        require_absent(path, error)
        raise SettingError(_no_site(folder)) from error
    _require_version(text)
    document = parse_document(text, SiteDocument, SITE_FILE)
    site = Site(
        folder=folder.resolve(),
        name=document.name,
        curator=document.curator,
        server_name=document.server_name,
        proxy=document.proxy,
        proxy_login=document.keep_login(folder),
    )
    shut(site.private)
    if site.openers.exists():  # the cryptography of openers takes its time to import
        from dppca.owner.site.opener_keys import sweep_opener_keys

        sweep_opener_keys(site.openers, site.ledger)
    return site


def _require_version(text: str) -> None:
    """Raise `LedgerVersionError` for a file of a later version, whose other fields mean nothing."""
    found = _VERSION.search(text)
    if found is not None and int(found[1]) > 1:
        raise LedgerVersionError(
            f"{SITE_FILE} has version {found[1]}; this software reads version 1: run the "
            "dppca-owner that wrote it. Nothing was changed"
        )


def _no_site(folder: Path) -> str:
    """Ask for the site's folder, with those near by; only then say how a site is made."""
    near: list[str] = []
    with suppress(OSError):
        found = [*folder.glob(f"*/{SITE_FILE}"), *folder.parent.glob(f"*/{SITE_FILE}")]
        near = sorted({shlex.quote(str(each.parent)) for each in found})[:_MOST_NAMED]
    return (
        f"no {SITE_FILE} in {folder}: name your site's folder with --site"
        + (f", such as {', '.join(near)}" if near else "")
        + f". Only for a new site: `dppca-owner --site {shlex.quote(str(folder))} init "
        "--name NAME --curator HOST:PORT`"
    )
