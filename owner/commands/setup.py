"""``dppca-owner init``."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click

from dppca.common.kernel.documents.values import DigestText
from dppca.common.shell.console import emit, prints
from dppca.common.shell.outputs import require_apart


@dataclass(frozen=True, slots=True, kw_only=True)
class InitDocument:
    """Folder of a new site."""

    site: Annotated[Path, "the folder"]
    name: Annotated[str, "name of this owner"]
    curator: Annotated[str, "`HOST:PORT` of the curator"]
    proxy: Annotated[str | None, "`HOST:PORT` of the proxy on the way; null without one"]
    fingerprint: Annotated[DigestText, "SHA-256 of the public key, to compare by telephone"]
    files: Annotated[tuple[Path, ...], "paths of the files that were made"]
    next: Annotated[list[str], "what to do now, in words"]


@click.command("init")
@click.option("--name", required=True, help="This owner's name in studies.")
@click.option("--curator", required=True, metavar="HOST:PORT", help="Where the curator listens.")
@click.option(
    "--proxy", metavar="HOST:PORT", help="An HTTP proxy through which the curator is called."
)
@prints(InitDocument)
@click.pass_obj
def command(site: Path, name: str, curator: str, proxy: str | None, *, as_json: bool) -> None:
    """Make a site: a private key, a signing request, settings, a policy, and an empty ledger.

    Nothing is overwritten. The key stays in the folder; the request goes to the curator's
    operator, who returns certificate.pem and ca.pem. ledger.mark and ledger.mark2 belong to this
    folder: they tell later whether the ledger is the newest. In a copy, or without them, the site
    is locked until its steward runs `ledger recover`.

    \b
    Example:
      dppca-owner --site hospital init --name hospital --curator hub.example:7443
      dppca-owner init --name hospital --curator hub.example:7443 --proxy proxy.example:3128
    """
    from dppca.owner.site.enrolment import enrol, read_request

    require_apart(site, "--site", marks=("ca-key.pem", "curator.sqlite"))
    paths = enrol(site, name=name, curator=curator, proxy=proxy)
    fingerprint = read_request(site / "request.pem").fingerprint
    steps = [
        f"send {site / 'request.pem'} to the operator (dppca-curator pki sign); compare the "
        "fingerprint by telephone",
        f"put the certificate.pem and ca.pem that come back into {site}",
        f"enter in {site / 'policy.yaml'} whose rows you have, their lifetime budgets, and where "
        "they lie",
        f"run: dppca-owner --site {shlex.quote(str(site))} doctor",
    ]
    document = InitDocument(
        site=site,
        name=name,
        curator=curator,
        proxy=proxy,
        fingerprint=fingerprint,
        files=paths,
        next=steps,
    )
    lines = [f"Made site {name} in {site}:", *(f"  {path.name}" for path in paths)]
    lines += [f"Key fingerprint (SHA-256): {fingerprint}", "Now:"]
    lines += [f"  {number}. {step}" for number, step in enumerate(steps, start=1)]
    emit(document, "\n".join(lines), as_json=as_json)
