"""A certificate authority for a federation that is thrown away, in this process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dppca.common.shell.clock import utc_now
from dppca.common.shell.files import CredentialFolder
from dppca.common.transport.tls import Identity, Role
from dppca.curator.certificates import pki


@dataclass(frozen=True, slots=True)
class LocalAuthority:
    """A `dppca.common.transport.testbed.Authority` in a folder; make it with `make_authority`."""

    folder: Path
    days: int
    now: datetime

    def issue(self, role: Role, name: str, *, hosts: Sequence[str], output: Path) -> None:
        """See `dppca.common.transport.testbed.Authority`."""
        pki.issue(
            self.folder,
            identity=Identity(name, role),
            hosts=hosts,
            output=output,
            days=self.days,
            now=self.now,
        )

    def sign(self, name: str, site: Path) -> None:
        """See `dppca.common.transport.testbed.Authority`."""
        files = CredentialFolder(site)
        pki.sign_request(
            self.folder,
            request=files.request.read_bytes(),
            name=name,
            output=files.certificate,
            days=self.days,
            now=self.now,
        )
        shutil.copy(CredentialFolder(self.folder).ca, site)


def make_authority(folder: Path, *, days: int = 1) -> LocalAuthority:
    """Make an authority whose certificates are good for some days."""
    authority = LocalAuthority(folder, days, utc_now())
    pki.init_authority(folder, name="testbed", days=days, now=authority.now)
    return authority
