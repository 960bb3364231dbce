"""``dppca-curator pki``: an authority, certificates for the curator, signatures for the sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, TypeVar

import click

from dppca.common.documents.tables import text_table
from dppca.common.documents.values import DigestText, Document, PathText, TimeText
from dppca.common.errors import SettingError
from dppca.common.shell.clock import utc_now
from dppca.common.shell.console import CommandGroup, emit, prints, terminal_width

if TYPE_CHECKING:
    from dppca.curator.certificates.pki import IssuedFiles

_Command = TypeVar("_Command", bound=Callable[..., object])
_DIRECTORY = click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
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


class CertificateDocument(Document):
    """A certificate that was made."""

    name: Annotated[str, "name of the party"]
    role: Annotated[str, "`authority`, `curator`, `operator` or `owner`"]
    path: Annotated[PathText, "folder or file that was written"]
    expires: Annotated[TimeText, "when the certificate expires"]
    fingerprint: Annotated[DigestText, "SHA-256 of the public key"]
    serial: Annotated[DigestText, "serial number of the certificate"]


class ListedCertificate(TypedDict):
    """A certificate that the authority has signed."""

    role: Annotated[str, "`curator`, `operator` or `owner`"]
    name: Annotated[str, "name of the party"]
    serial: Annotated[DigestText, "serial number of the certificate"]
    expires: Annotated[TimeText, "when the certificate expires"]
    revoked: Annotated[bool, "whether it is revoked"]


class CertificatesDocument(Document):
    """All certificates that an authority has signed."""

    certificates: Annotated[list[ListedCertificate], "in the order in which they were signed"]


class RevocationDocument(Document):
    """Certificates that were revoked."""

    revoked: Annotated[list[str], "serial numbers that were not revoked before"]
    list_number: Annotated[int, "number of the revocation list"]
    list_length: Annotated[int, "certificates on the list"]
    paths: Annotated[list[str], "files that hold the list"]


@click.group(cls=CommandGroup)
def pki() -> None:
    """Make and sign certificates. Private keys never travel.

    \b
    Example:
      dppca-curator pki init --directory authority
      dppca-curator pki issue --directory authority --role curator \\
          --name hub --host hub.example.org --output hub
      dppca-curator pki sign --directory authority \\
          --request request.pem --output certificate.pem
      dppca-curator pki revoke --directory authority --name hospital-a --output hub/crl.pem
    """


@pki.command()
@_DIRECTORY
@click.option("--name", default="dppca", show_default=True, help="Common name of the authority.")
@_days(3650, most=36500)
@prints(CertificateDocument)
def init(directory: Path, name: str, days: int, *, as_json: bool) -> None:
    """Make an authority: ca-key.pem, which stays here, and ca.pem, which all parties get.

    \b
    Example:
      dppca-curator pki init --directory authority
    """
    from dppca.curator.certificates.pki import init_authority

    made = init_authority(directory, name=name, days=days, now=utc_now())
    _tell(made, "pki init", f"The authority {name} is in {directory}.", as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option(
    "--role", type=click.Choice(["curator", "operator"]), required=True, help="Role of the party."
)
@click.option("--name", required=True, help="Name of the party.")
@click.option(
    "--host", "hosts", multiple=True, help="Name or address that owners dial; curators only."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="New folder for certificate.pem, key.pem and ca.pem.",
)
@_days(365, most=3650)
@prints(CertificateDocument)
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
    """Make a key and a certificate for a curator or an operator.

    \b
    Example:
      dppca-curator pki issue --directory authority --role operator \\
          --name alice --output alice
    """
    from dppca.common.transport.tls import Identity, Role
    from dppca.curator.certificates.pki import issue as issue_certificate

    made = issue_certificate(
        directory,
        identity=Identity(name, Role(role)),
        hosts=hosts,
        output=output,
        days=days,
        now=utc_now(),
    )
    text = f"{output} holds certificate.pem, key.pem and ca.pem of {role} {name}."
    _tell(made, "pki issue", text, as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option(
    "--request",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The site's request.pem.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The new certificate.",
)
@_days(365, most=3650)
@click.option("--name", default=None, help="The owner you expect; any other is refused.")
@prints(CertificateDocument)
def sign(
    directory: Path, request: Path, output: Path, days: int, name: str | None, *, as_json: bool
) -> None:
    """Sign an owner's request. First compare the fingerprint with the site, such as by telephone.

    \b
    Example:
      dppca-curator pki sign --directory authority --name hospital-a \\
          --request request.pem --output certificate.pem
    """
    from dppca.curator.certificates.pki import sign_request

    made = sign_request(
        directory,
        request=_content(request),
        name=name,
        output=output,
        days=days,
        now=utc_now(),
    )
    text = (
        f"{output} certifies owner {made.identity.name}.\n"
        f"Key fingerprint (SHA-256): {made.fingerprint}\n"
        f"Send it to the site together with ca.pem."
    )
    _tell(made, "pki sign", text, as_json=as_json)


@pki.command("list")
@_DIRECTORY
@prints(CertificatesDocument)
def list_issued(directory: Path, *, as_json: bool) -> None:
    """Show every certificate that the authority has signed, and which are revoked.

    \b
    Example:
      dppca-curator pki list --directory authority
    """
    from dppca.curator.certificates.revocation import list_certificates

    now = utc_now()
    issued = list_certificates(directory)
    document: CertificatesDocument = {
        "command": "pki list",
        "certificates": [
            {
                "role": each.identity.role.value,
                "name": each.identity.name,
                "serial": each.serial,
                "expires": each.expires.isoformat(),
                "revoked": each.revoked,
            }
            for each in issued
        ],
    }
    rows = [
        (
            each.identity.name,
            each.identity.role.value,
            f"{each.expires:%Y-%m-%d}",
            _standing(revoked=each.revoked, ended=each.expires <= now),
            each.serial,
        )
        for each in issued
    ]
    names = ("name", "role", "until", "state", "serial")
    lines = text_table(names, rows, width=terminal_width())
    emit(document, "\n".join(lines) if rows else "Nothing has been signed.", as_json=as_json)


@pki.command()
@_DIRECTORY
@click.option("--name", default=None, help="Revoke all certificates of this party.")
@click.option(
    "--role",
    type=click.Choice(["owner", "operator", "curator"]),
    default="owner",
    show_default=True,
    help="With --name: role of the party.",
)
@click.option(
    "--serial", default=None, help="Revoke the certificate with this serial number; see `pki list`."
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Revoke the certificate in this file.",
)
@click.option(
    "--output",
    "outputs",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Also write the list here, such as crl.pem in the daemon's credentials folder.",
)
@prints(RevocationDocument)
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
    """Revoke certificates: write crl.pem, which a running daemon reads without a restart.

    The daemon reads crl.pem in its --credentials folder. Calls of a revoked party are refused from
    then on, on open connections too. What is revoked stays revoked.

    \b
    Example:
      dppca-curator pki revoke --directory authority --name hospital-a --output hub/crl.pem
    """
    from dppca.common.shell.files import REVOKED
    from dppca.common.transport.tls import Identity, Role
    from dppca.curator.certificates.revocation import revoke as revoke_certificates

    if sum(given is not None for given in (name, serial, certificate)) != 1:
        raise SettingError("give one of --name, --serial and --certificate")
    after, new = revoke_certificates(
        directory,
        now=utc_now(),
        party=None if name is None else Identity(name, Role(role)),
        serial=serial,
        certificate=None if certificate is None else _content(certificate),
        outputs=outputs,
    )
    paths = [str(directory / REVOKED), *map(str, outputs)]
    document: RevocationDocument = {
        "command": "pki revoke",
        "revoked": list(new),
        "list_number": after.number,
        "list_length": len(after.serials),
        "paths": paths,
    }
    done = f"Revoked {', '.join(new)}." if new else "Nothing is new: it was revoked before."
    text = (
        f"{done}\nThe list (number {after.number}, {len(after.serials)} in all) is in "
        f"{', '.join(paths)}.\n"
        f"The daemon reads {REVOKED} in its credentials folder, within seconds."
    )
    emit(document, text, as_json=as_json)


def _standing(*, revoked: bool, ended: bool) -> str:
    return "revoked" if revoked else "ended" if ended else "valid"


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from error


def _tell(made: IssuedFiles, command: str, text: str, *, as_json: bool) -> None:
    document: CertificateDocument = {
        "command": command,
        "name": made.identity.name,
        "role": made.identity.role.value if command != "pki init" else "authority",
        "path": str(made.path),
        "expires": made.expires.isoformat(),
        "fingerprint": made.fingerprint,
        "serial": made.serial,
    }
    emit(document, f"{text}\nValid until {made.expires:%Y-%m-%d}.", as_json=as_json)
