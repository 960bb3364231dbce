"""``dppca-curator pki``: an authority, certificates for the curator, signatures for sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dppca.common.kernel.documents.tables import text_table
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.durable.files import CERTIFICATE, REVOKED, read_content
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import FILE, FOLDER, CommandGroup, emit, prints, terminal_width
from dppca.common.shell.outputs import (
    PARTY_MARKS,
    FileLaw,
    output_file,
    output_folder,
    require_apart,
)

if TYPE_CHECKING:
    from dppca.curator.certificates.pki import MadeCertificate

_Command = TypeVar("_Command", bound=Callable[..., object])
_DIRECTORY = click.option(
    "--directory",
    type=FOLDER,
    required=True,
    help="The authority's folder. Its ca-key.pem is secret.",
)


def _days(default: int, *, most: int) -> Callable[[_Command], _Command]:
    return click.option(
        "--days",
        default=default,
        show_default=True,
        type=click.IntRange(1, most),
        help="Days for which the certificate is valid.",
    )


def _is_list(path: Path) -> bool:
    """Return True for a revocation list, which is renewed where it lies."""
    return path.is_file() and path.read_bytes().startswith(b"-----BEGIN X509 CRL-----")


@click.group(cls=CommandGroup)
def pki() -> None:
    """Make and sign certificates. Private keys never travel.

    \b
    Example:
      dppca-curator pki init --directory authority
      dppca-curator pki issue --directory authority --role curator \\
          --name hub --host hub.example.org --output hub
      dppca-curator pki show request.pem
      dppca-curator pki sign --directory authority \\
          --request request.pem --output certificate.pem
      dppca-curator pki revoke --directory authority --name hospital-a --output hub/crl.pem
    """


@pki.command()
@_DIRECTORY
@click.option("--name", default="dppca", show_default=True, help="Common name of the authority.")
@_days(3650, most=36500)
@prints("dppca.curator.certificates.pki:MadeCertificate")
def init(directory: Path, name: str, days: int, *, as_json: bool) -> None:
    """Make an authority: ca-key.pem (stays here), ca.pem (all get it).

    \b
    Example:
      dppca-curator pki init --directory authority
    """
    from dppca.curator.certificates.pki import init_authority

    require_apart(directory, "--directory", marks=sorted({*PARTY_MARKS} - {"ca-key.pem"}))
    certificate = init_authority(directory, name=name, days=days, now=utc_now())
    _tell(certificate, f"The authority {name} is in {directory}.", as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option(
    "--role",
    type=click.Choice(["curator", "operator", "auditor"]),
    required=True,
    help="Role of the party.",
)
@click.option("--name", required=True, help="Name of the party.")
@click.option(
    "--host", "hosts", multiple=True, help="Name or address that owners dial; curators only."
)
@output_folder(
    "--output",
    required=True,
    fresh=True,
    help="New folder for certificate.pem, key.pem and ca.pem.",
)
@_days(365, most=3650)
@prints("dppca.curator.certificates.pki:MadeCertificate")
def issue(
    directory: Path,
    role: str,
    name: str,
    hosts: tuple[str, ...],
    output: Path,
    days: int,
    *,
    as_json: bool,
) -> None:
    """Make a key and a certificate: a curator's, operator's or auditor's.

    \b
    Example:
      dppca-curator pki issue --directory authority --role operator \\
          --name alice --output alice
    """
    from dppca.common.kernel.identity.tls import Identity, Role
    from dppca.curator.certificates.pki import issue as issue_certificate

    certificate = issue_certificate(
        directory,
        identity=Identity(name, Role(role)),
        hosts=hosts,
        output=output,
        days=days,
        now=utc_now(),
    )
    text = f"{output} holds certificate.pem, key.pem and ca.pem of {role} {name}."
    _tell(certificate, text, as_json=as_json)


@pki.command()
@click.argument("request", type=FILE)
@prints("dppca.curator.certificates.pki:ShownRequest")
def show(request: Path, *, as_json: bool) -> None:
    """Show a site's request: its name, and the fingerprint to compare.

    Nothing is signed, and no authority is needed. The site was shown its fingerprint by
    `dppca-owner init` or `renew`.

    \b
    Example:
      dppca-curator pki show request.pem
    """
    from dppca.curator.certificates.pki import show_request

    shown = show_request(read_content(request))
    text = (
        f"{request} asks for a certificate of owner {shown.name}. Nothing was signed.\n"
        f"Key fingerprint (SHA-256): {shown.fingerprint}\n"
        "Compare it with the site's, such as by telephone, before you sign."
    )
    emit(shown, text, as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option("--request", type=FILE, required=True, help="The site's request.pem.")
@output_file(
    "--output",
    required=True,
    help="The new certificate.",
    law=FileLaw(allowed=(CERTIFICATE,)),
)
@_days(365, most=3650)
@click.option("--name", default=None, help="The owner you expect; any other is refused.")
@click.option(
    "--renews",
    metavar="SERIAL",
    default=None,
    help="The owner's valid certificate whose key this one replaces. Without it a second key for "
    "the same name is refused.",
)
@prints("dppca.curator.certificates.pki:MadeCertificate")
def sign(
    directory: Path,
    request: Path,
    output: Path,
    days: int,
    name: str | None,
    renews: str | None,
    *,
    as_json: bool,
) -> None:
    """Sign an owner's request. First compare the fingerprint that `pki show` prints with the site.

    Compare it by telephone: the request may have come by mail, and who has its key acts as the
    owner.

    \b
    Example:
      dppca-curator pki show request.pem
      dppca-curator pki sign --directory authority --name hospital-a \\
          --request request.pem --output certificate.pem
    """
    from dppca.curator.certificates.pki import sign_request

    certificate = sign_request(
        directory,
        request=read_content(request),
        name=name,
        output=output,
        days=days,
        now=utc_now(),
        renews=renews,
    )
    text = (
        f"{output} certifies owner {certificate.name}.\n"
        f"Key fingerprint (SHA-256): {certificate.fingerprint}\n"
        f"Send it to the site together with ca.pem."
    )
    _tell(certificate, text, as_json=as_json)


@pki.command("list")
@_DIRECTORY
@prints("dppca.curator.certificates.revocation:Certificates")
def list_issued(directory: Path, *, as_json: bool) -> None:
    """Show every signed certificate, and which are revoked.

    \b
    Example:
      dppca-curator pki list --directory authority
    """
    from dppca.curator.certificates.revocation import list_certificates

    now = utc_now()
    issued = list_certificates(directory)
    rows = [
        (
            each.name,
            each.role,
            f"{each.expires:%Y-%m-%d}",
            "revoked" if each.revoked else "ended" if each.expires <= now else "valid",
            each.serial,
        )
        for each in issued.certificates
    ]
    names = ("name", "role", "until", "state", "serial")
    lines = text_table(names, rows, width=terminal_width())
    emit(issued, "\n".join(lines) if rows else "Nothing has been signed.", as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option("--name", default=None, help="Revoke all certificates of this party.")
@click.option(
    "--role",
    type=click.Choice(["owner", "operator", "curator", "auditor"]),
    default="owner",
    show_default=True,
    help="With --name: role of the party.",
)
@click.option(
    "--serial", default=None, help="Revoke the certificate with this serial number; see `pki list`."
)
@click.option("--certificate", type=FILE, help="Revoke the certificate in this file.")
@output_file(
    "--output",
    "outputs",
    multiple=True,
    help="Also write the list here, such as crl.pem in the daemon's credentials folder.",
    law=FileLaw(own=_is_list, allowed=(REVOKED,)),
)
@prints("dppca.curator.certificates.revocation:Revocation")
def revoke(
    directory: Path,
    name: str | None,
    role: str,
    serial: str | None,
    certificate: Path | None,
    outputs: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Revoke certificates: write crl.pem, which a running daemon reads.

    The daemon reads crl.pem in its --credentials folder. Calls of a revoked party are refused from
    then on, on open connections too. What is revoked stays revoked.

    \b
    Example:
      dppca-curator pki revoke --directory authority --name hospital-a --output hub/crl.pem
    """
    from dppca.common.kernel.identity.tls import Identity, Role
    from dppca.curator.certificates.revocation import revoke as revoke_certificates

    if sum(given is not None for given in (name, serial, certificate)) != 1:
        raise SettingError("give one of --name, --serial and --certificate")
    revocation = revoke_certificates(
        directory,
        now=utc_now(),
        party=None if name is None else Identity(name, Role(role)),
        serial=serial,
        certificate=None if certificate is None else read_content(certificate),
        outputs=outputs,
    )
    new = ", ".join(revocation.revoked)
    text = (
        f"{f'Revoked {new}.' if new else 'Nothing is new: it was revoked before.'}\n"
        f"The list (number {revocation.list_number}, {revocation.list_length} in all) is in "
        f"{', '.join(map(str, revocation.paths))}.\n"
        f"The daemon reads {REVOKED} in its credentials folder, within seconds."
    )
    emit(revocation, text, as_json=as_json)


def _tell(certificate: MadeCertificate, text: str, *, as_json: bool) -> None:
    emit(certificate, f"{text}\nValid until {certificate.expires:%Y-%m-%d}.", as_json=as_json)
