"""``dppca-owner identity``."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.console import emit, prints, say
from dppca.owner.commands.options import study_argument

if TYPE_CHECKING:
    from dppca.owner.site.config import Site

RENEWING = (
    "A renewal of this site's key has begun: finish it first (`dppca-owner renew`), or the study "
    "will have a key that is no longer in use"
)


@dataclass(frozen=True, slots=True)
class OpenerIdentity:
    """Opener key for one study."""

    key_id: Annotated[DigestText, "SHA-256 of the public key, as the ledger has it"]
    key: Annotated[str, "the public key, in base64"]
    signature: Annotated[str, "this site's signature of it (DER), in base64"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityDocument:
    """Entries of a study file about this site."""

    study: Annotated[str, "name of the study"]
    owner: Annotated[str, "name of this site"]
    key: Annotated[str, "public key of this site (SubjectPublicKeyInfo), in base64"]
    opener: Annotated[OpenerIdentity | None, "with `--opener`: a key to open this study; else null"]


@click.command("identity")
@study_argument
@click.option("--opener", is_flag=True, help="Also offer to be an opener: make a key for that.")
@prints(IdentityDocument)
@click.pass_obj
def command(folder: Path, study_name: str, *, opener: bool, as_json: bool) -> None:
    """Print this site's public key, for the study file of a study with trust: aggregate.

    Send the lines to the operator. They are public. Compare the digest of the finished study with
    another owner's steward.

    With --opener it makes a key for this study, keeps it in the folder `openers`, and enters it in
    the ledger, at no charge. If you run it again, it prints the same key until that
    key is used. An opener
    must come back once, after the deadline: `dppca-owner open STUDY`. Leave the folder `openers`
    out of backups. The command needs no curator and no certificate yet.

    \b
    Example:
      dppca-owner identity nltcs
      dppca-owner identity nltcs --opener
    """
    from dppca.owner.site.config import load_site

    site = load_site(folder)
    identity = make_identity(site, study_name, opener=opener)
    if site.next.exists():
        say(RENEWING, err=True)
    emit(identity, identity_lines(identity), as_json=as_json)


def make_identity(site: Site, study_name: str, *, opener: bool) -> IdentityDocument:
    """Carry out `identity`, on a terminal or on a page.

    ``opener`` offers an opener key, too: the one that was offered before and not used, or a new
    one. Raise `SettingError` for an invalid name.
    """
    from dppca.common.kernel.aggregation.terms import key_bytes
    from dppca.owner.site.agreement import own_key

    site.study_folder(study_name)  # refuses an invalid name
    return IdentityDocument(
        study=study_name,
        owner=site.name,
        key=_text(key_bytes(own_key(site).public_key())),
        opener=_offer(site, study_name) if opener else None,
    )


def _offer(site: Site, study: str) -> OpenerIdentity:
    from dppca.common.kernel.durable.clock import utc_now
    from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
    from dppca.owner.ledger.database import open_ledger
    from dppca.owner.release.opening import offer_key

    with open_ledger(site.ledger, lock=site.lock) as ledger:
        key_id, offered = offer_key(
            site, ledger, study, entropy=OperatingSystemEntropy(), clock=utc_now
        )
    return OpenerIdentity(key_id, _text(offered.public), _text(offered.signature))


def identity_lines(identity: IdentityDocument) -> str:
    """Return lines for the study file, which may be copied as they are."""
    owner, opener = identity.owner, identity.opener
    lines = [f"# {owner}, for study {identity.study}", "identities:", f"  {owner}: {identity.key}"]
    if opener is not None:
        lines += ["openers:", f"  {owner}:"]
        lines += [f"    key: {opener.key}", f"    signature: {opener.signature}"]
    return "\n".join(lines)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
