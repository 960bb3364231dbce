"""A site's connection to its curator, and the study document that both have agreed on."""

from pathlib import Path

from dppca.common.documents.messages import StudyState
from dppca.common.errors import IdentityError, SettingError, UnreachableError
from dppca.common.shell.checkpoints import checkpoint
from dppca.common.shell.clock import utc_now
from dppca.common.study import Study, require_continues, study_from_yaml
from dppca.common.transport.proxies import HttpProxy
from dppca.common.transport.tls import Credentials, Role, check_credentials, load_credentials
from dppca.owner.client.calls import CuratorClient
from dppca.owner.ledger import database
from dppca.owner.ledger.mark import CuratorView
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import find_continued, keep_study, require_same


def connect(site: Site) -> CuratorClient:
    """Return a client with the site's credentials, which are checked before use.

    Raise `IdentityError` if they are missing or will not be accepted; the message says why and what
    to do (a failed TLS handshake would not).
    """
    credentials = load_site_credentials(site)
    check_credentials(credentials, role=Role.OWNER, name=site.name, now=utc_now())
    return open_client(site, credentials)


def open_client(site: Site, credentials: Credentials) -> CuratorClient:
    """Return a client with checked credentials; raise `SettingError` as `read_proxy` does."""
    return CuratorClient(
        site.curator, credentials, server_name=site.server_name, proxy=read_proxy(site)
    )


def read_proxy(site: Site) -> HttpProxy | None:
    """The proxy through which the site calls, with its login; None if it calls directly.

    Raise `SettingError` if the login is not at the place that ``site.yaml`` names, is readable by
    others, or is malformed.
    """
    if site.proxy is None or site.proxy_login is None:
        return None if site.proxy is None else HttpProxy(site.proxy)
    login = site.proxy_login.read("the login for the proxy")
    if ":" not in login or not login.isprintable():
        raise SettingError(
            "the login for the proxy must be NAME:PASSWORD, in one line: correct what proxy_login "
            "in site.yaml names"
        )
    return HttpProxy(site.proxy, login)


def compare_ledger(site: Site, client: CuratorClient) -> CuratorView:
    """Compare the ledger with the curator's record of this site, before it is charged.

    The curator is asked first, and the ledger is read under the lock afterwards: another command
    may send a release in between. If the ledger is not the newest, the site is locked; the
    `ChainError` says what to do.
    """
    view = client.held()
    database.compare_ledger(site.ledger, view, lock=site.lock)
    return view


def require_newest_ledger(site: Site) -> None:
    """Compare the ledger with the curator, unless it is unchanged since this site left it.

    This precedes charges that need no curator. Raise `ChainError` if the site is locked; raise
    `UnreachableError` or `IdentityError` if the ledger was restored, moved, or never compared, and
    the curator cannot be asked.
    """
    if database.require_newest(site.ledger):
        return
    try:
        with connect(site) as client:
            compare_ledger(site, client)
    except (UnreachableError, IdentityError) as error:
        raise type(error)(
            "run the same command again while the curator can be reached; this is needed once. A "
            "ledger that is new, restored or moved may be an old copy: the curator is asked before "
            f"anything is charged to it. Nothing was drawn or charged ({error})"
        ) from error


def load_site_credentials(site: Site) -> Credentials:
    """Load the site's PEM files; `IdentityError` names the missing one."""
    return load_credentials(site)


def agreed_study(
    site: Site, client: CuratorClient, name: str, *, study_file: Path | None
) -> tuple[Study, StudyState]:
    """A study's document at the curator, which is then kept, and its state.

    Raise `SchemaMismatchError` if the steward's copy (``study_file``), or the document that the
    curator showed earlier, is another one; `StudyError` if it continues a study that is kept here
    and asks for other people, attributes or rows; other errors are those of `CuratorQueries.study`.
    """
    site.study_folder(name)  # refuses an invalid name before it is sent
    ours = None if study_file is None else study_from_yaml(study_file)
    checkpoint("fetch")
    study, state = client.study(name)
    if ours is not None:
        require_same(ours, study, what=str(study_file))
    first = find_continued(site, study)
    if first is not None:
        require_continues(first, study, result_sha256=None)
    keep_study(site, study)
    return study, state
