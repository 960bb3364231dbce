"""A site's connection to its curator, and the study both sides agree on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from common.checkpoints import checkpoint
from common.conversation import StudyState
from common.study import Study
from common.transport.tls import Credentials, Role, check_credentials, load_credentials
from owner.client import CuratorClient
from owner.config import Site
from owner.studies import keep_study, require_same, study_from_file


def now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


def connect(site: Site) -> CuratorClient:
    """A client with the site's credentials, which are checked before they are used.

    Raises
    ------
    IdentityError
        They are missing or will not be accepted; the message says why and what to do. A failed
        TLS handshake would not.
    """
    credentials = credentials_of(site)
    check_credentials(credentials, role=Role.OWNER, name=site.name, now=now())
    return CuratorClient(site.curator, credentials, server_name=site.server_name)


def credentials_of(site: Site) -> Credentials:
    """The site's PEM files; `IdentityError` names the one that is missing."""
    return load_credentials(ca=site.ca, certificate=site.certificate, key=site.key)


def agreed_study(
    site: Site, client: CuratorClient, name: str, *, study_file: Path | None
) -> tuple[Study, StudyState]:
    """A study as the curator has it, and its state.

    Parameters
    ----------
    study_file
        The steward's copy, which must be the same document.

    Raises
    ------
    SchemaMismatchError
        The steward's copy, or what the curator showed earlier, is another document.
    UnknownStudyError, StudyError, UnreachableError
    """
    site.study_folder(name)  # refuses what is no name before it is sent
    ours = None if study_file is None else study_from_file(study_file)
    checkpoint("fetch")
    study, state = client.study(name)
    if ours is not None:
        require_same(ours, study, what=str(study_file))
    keep_study(site, study)
    return study, state
