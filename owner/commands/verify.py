"""``dppca-owner verify``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from dppca.common.attestation.command import verification_options, verify
from dppca.common.attestation.documents import VerificationDocument
from dppca.common.console import prints
from dppca.common.files import CA, REVOKED
from dppca.owner.site.config import STUDIES
from dppca.owner.site.kept_studies import ACKNOWLEDGEMENT


@click.command("verify")
@verification_options
@prints(VerificationDocument)
@click.pass_obj
def command(
    folder: Path,
    file: Path,
    ca: Path | None,
    crl: Path | None,
    held_since: datetime | None,
    acknowledgements: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Check what a released FILE claims: components, rows, a model, a summary. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt. Leaves with 15 to 18, naming the part at fault, where something is wrong,
    and with 51 where the result leaves out what a curator acknowledged. In a site's folder, its
    ca.pem, its crl.pem where there is one, and its own acknowledgement are taken by themselves.

    \b
    Example:
      dppca-owner verify studies/nltcs/components.npz
      dppca-owner verify synthetic-decoded.parquet --ca ca.pem --crl crl.pem --json
      dppca-owner verify nltcs.npz --acknowledgement acknowledgement.json --ca ca.pem
    """

    def found(path: Path) -> Path | None:
        return path if path.exists() else None

    verify(
        file,
        ca=ca or found(folder / CA),
        # Another authority's certificate has another authority's list.
        crl=crl or (found(folder / REVOKED) if ca is None else None),
        held_since=held_since,
        acknowledgements=acknowledgements,
        own=lambda study: folder / STUDIES / study / ACKNOWLEDGEMENT,
        as_json=as_json,
    )
