"""A site: one folder with its settings, its policy, its credentials and its ledger.

``site.yaml`` says who this owner is and where the curator listens; ``policy.yaml`` is in
`dppca.owner.site.policy`. The software never writes to either file after
`dppca.owner.site.enrolment` has made them. The folder and what is in it is one user's alone: every
command shuts others out where it can (`dppca.common.shell.files`).
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from dppca.common.documents.names import is_party_name
from dppca.common.errors import SettingError
from dppca.common.shell.files import KEY, REVOKED, CredentialFolder, shut
from dppca.owner.engines.addresses import CLUSTER
from dppca.owner.records.locations import Secret
from dppca.owner.site.file_forms import SiteDocument, parse_document

SITE_FILE = "site.yaml"
POLICY_FILE = "policy.yaml"
STUDIES = "studies"


@dataclass(frozen=True, slots=True)
class Site(CredentialFolder):
    """An owner's folder.

    Attributes
    ----------
    folder
        Absolute.
    name
        The owner's name, as studies and its certificate have it.
    curator
        ``HOST:PORT``.
    server_name
        Name to expect in the curator's certificate instead of the host; None to expect the host.
    proxy
        ``HOST:PORT`` of the HTTP proxy through which the curator is called; None to call it itself.
    proxy_login
        Where the name and password for the proxy are kept.
    """

    name: str
    curator: str
    server_name: str | None = None
    proxy: str | None = None
    proxy_login: Secret | None = None

    @property
    def crl(self) -> Path | None:
        """The authority's revocation list, where the site has one."""
        path = self.folder / REVOKED
        return path if path.exists() else None

    @property
    def next(self) -> Path:
        """Folder of the key that is to follow, while its certificate is awaited."""
        return self.folder / "next"

    @property
    def previous(self) -> Path:
        """Folder of the key and certificate that were in use before the last renewal."""
        return self.folder / "previous"

    @property
    def ledger(self) -> Path:
        """What this site has spent, and the releases it was spent on."""
        return self.folder / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        """Held by the one command that may write the ledger."""
        return self.folder / "site.lock"

    @property
    def openers(self) -> Path:
        """Folder of the site's opener keys (`dppca.owner.site.opener_keys`)."""
        return self.folder / "openers"

    @property
    def peers(self) -> Path:
        """The owners' keys that the steward has verified (`dppca.owner.site.agreement`)."""
        return self.folder / "peers.yaml"

    @property
    def private(self) -> tuple[Path, ...]:
        """What other users of the machine must not read, write or lock."""
        ledger = self.ledger.name
        files = (SITE_FILE, POLICY_FILE, ledger, f"{ledger}-journal", f"{ledger}-wal")
        names = (*files, f"{ledger}-shm", "ledger.mark", KEY, self.lock.name)
        keys = (self.openers, *self.openers.glob("*.key"), self.folder / CLUSTER / KEY)
        return (self.folder, *(self.folder / name for name in names), self.peers, *keys)

    def study_folder(self, name: str) -> Path:
        """Where a study's document, components and artefacts are kept."""
        if not is_party_name(name):
            raise SettingError(f"{name!r} cannot be a study's name: use a-z 0-9 . _ - only")
        return self.folder / STUDIES / name


def load_site(folder: Path) -> Site:
    """Read ``site.yaml``; `SettingError` names every field at fault."""
    path = folder / SITE_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(
            f"no {SITE_FILE} can be read in {folder}: run `dppca-owner --site "
            f"{shlex.quote(str(folder))} init "
            "--name NAME --curator HOST:PORT`, or name another folder with --site"
        ) from error
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
