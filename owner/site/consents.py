"""What a steward agreed to, kept at the site alone, to be printed.

The file ``studies/NAME/consent.json`` is written when a contribution is agreed to, before it is
charged. Only the ledger says that it was charged.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import AwareDatetime, ValidationError

from dppca.common.kernel.errors import ArtefactError
from dppca.owner.site import POLICY_FILE
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import save
from dppca.owner.site.source_documents import StrictDocument


class SiteConsent(StrictDocument):
    """``consent.json``: the facts that were shown, in words, and when they were agreed to.

    ``digest`` is the study's; ``policy`` the path of policy.yaml, and ``policy_sha256`` the digest
    of that file as it was. ``reading_sha256`` is the ledger's digest of how cells are read, empty
    if they are read as they are.
    """

    version: Literal[1] = 1
    time: AwareDatetime
    digest: str
    policy: str
    policy_sha256: str
    facts: tuple[tuple[str, str], ...]
    asserted: tuple[str, ...]
    reading_sha256: str = ""


def keep_consent(
    site: Site,
    study: str,
    digest: str,
    facts: Sequence[tuple[str, str]],
    *,
    asserted: Sequence[str],
    reading_sha256: str,
    now: datetime,
) -> None:
    """Keep what was agreed to, in place of what was agreed to before."""
    path = site.folder.resolve() / POLICY_FILE
    consent = SiteConsent(
        time=now,
        digest=digest,
        policy=str(path),
        policy_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        facts=tuple(facts),
        asserted=tuple(asserted),
        reading_sha256=reading_sha256,
    )
    content = consent.model_dump_json(exclude=set() if reading_sha256 else {"reading_sha256"})
    save(site.study_folder(study) / "consent.json", content.encode())


def kept_consent(site: Site, study: str, digest: str) -> SiteConsent | None:
    """Return what was agreed to, of the study with this digest; None if nothing is kept.

    `ArtefactError` if the file is damaged.
    """
    path = site.study_folder(study) / "consent.json"
    try:
        consent = SiteConsent.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise ArtefactError(f"{path} is damaged: move it away") from error
    return consent if consent.digest == digest else None
