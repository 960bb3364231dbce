"""Certificate authority for a temporary federation in this process."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.identity.tls import Identity, Role
from dppca.curator.certificates import pki


@dataclass(frozen=True, slots=True)
class LocalAuthority:
    """`dppca.common.transport.testbed.Authority` in a folder; create it with `make_authority`."""

    folder: Path
    days: int
    now: datetime

    def issue(self, role: Role, name: str, *, hosts: Sequence[str], output: Path) -> None:
        """Issue credentials to a party."""
        pki.issue(
            self.folder,
            identity=Identity(name, role),
            hosts=hosts,
            output=output,
            days=self.days,
            now=self.now,
        )

    def sign(self, name: str, site: Path) -> None:
        """Sign the request of an owner's site."""
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
    """Create an authority whose certificates are valid for ``days`` days."""
    authority = LocalAuthority(folder, days, utc_now())
    pki.init_authority(folder, name="testbed", days=days, now=authority.now)
    return authority
