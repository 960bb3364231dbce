"""``dppca-owner renew``."""

import shlex
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import click

from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import read_content
from dppca.common.shell.console import FILE, emit, prints


@dataclass(frozen=True, slots=True, kw_only=True)
class NextKeyDocument:
    """New key that is not in use yet."""

    site: Annotated[Path, "the site's folder"]
    request: Annotated[Path, "file to send to the operator"]
    fingerprint: Annotated[DigestText, "SHA-256 of the public key, to compare by telephone"]
    next: Annotated[list[str], "what to do now, in words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyDocument:
    """New key that is in use."""

    site: Annotated[Path, "the site's folder"]
    expires: Annotated[datetime, "when the new certificate expires"]
    previous: Annotated[Path, "folder of the old key and certificate"]
    next: Annotated[list[str], "what to do now, in words"]


@click.command("renew")
@click.option(
    "--certificate",
    type=FILE,
    help="The certificate that the operator sent: use it with the new key.",
)
@prints(NextKeyDocument, NewKeyDocument)
@click.pass_obj
def command(folder: Path, certificate: Path | None, *, as_json: bool) -> None:
    """Change the site's key: make a new one and its request, later put it in use.

    The old key and certificate stay in use until the new certificate is there, and are kept in
    the folder `previous` afterwards. The ledger is not touched. Run it before the certificate ends,
    when the key may have become known to others, or when key.pem is lost.

    \b
    Example:
      dppca-owner --site hospital renew
      dppca-owner --site hospital renew --certificate certificate.pem
    """
    from dppca.owner.site.config import load_site
    from dppca.owner.site.enrolment import begin_renewal, finish_renewal, is_cut_off

    site = load_site(folder)
    if certificate is None and not is_cut_off(site):
        request = begin_renewal(site)
        steps = [
            f"send {request.path} to the operator (dppca-curator pki sign --renews NUMBER, which "
            "`pki list` shows); compare the fingerprint by telephone",
            f"run: dppca-owner --site {shlex.quote(str(folder))} renew --certificate "
            "certificate.pem",
        ]
        document = NextKeyDocument(
            site=folder, request=request.path, fingerprint=request.fingerprint, next=steps
        )
        lines = [
            f"The next key of {site.name} is made; the old one "
            f"{'stays in use' if site.key.exists() else 'is lost'}.",
            f"Key fingerprint (SHA-256): {request.fingerprint}",
            "Now:",
            *(f"  {number}. {step}" for number, step in enumerate(steps, start=1)),
        ]
        emit(document, "\n".join(lines), as_json=as_json)
        return
    expires = finish_renewal(
        site, None if certificate is None else read_content(certificate), now=utc_now()
    )
    steps = [
        f"run: dppca-owner --site {shlex.quote(str(folder))} doctor",
        f"when doctor finds nothing wrong, remove {site.previous} and ask the operator to revoke "
        "the old certificate (dppca-curator pki revoke --serial)",
    ]
    lines = [
        f"The new key of {site.name} is in use; its certificate is valid until {expires:%Y-%m-%d}.",
        "Now:",
        *(f"  {number}. {step}" for number, step in enumerate(steps, start=1)),
    ]
    renewed = NewKeyDocument(site=folder, expires=expires, previous=site.previous, next=steps)
    emit(renewed, "\n".join(lines), as_json=as_json)
