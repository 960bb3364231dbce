"""``dppca-owner verify``."""

from pathlib import Path
from typing import Any

import click

from dppca.common.kernel.durable.files import CA, REVOKED
from dppca.common.shell.console import prints
from dppca.common.verification.command import verification_options, verify


@click.command("verify")
@verification_options
@prints("dppca.common.kernel.attestation.documents:Verification")
@click.pass_obj
def command(folder: Path, /, ca: Path | None, crl: Path | None, **given: Any) -> int:
    """Check what a released FILE claims: components, rows or a model. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee again from the
    study in the receipt. If something is wrong, exits with 15 to 18 and names the part at fault.
    Exits with 51 if the result leaves out a contribution that a curator acknowledged, and with 52
    if no authority's certificate was given: then the file is consistent, and anybody may have made
    it. In a site's folder, the command finds ca.pem, crl.pem (if there is one) and the site's own
    acknowledgement by itself.

    \b
    Example:
      dppca-owner verify studies/nltcs/components.npz
      dppca-owner verify synthetic-decoded.parquet --ca ca.pem --crl crl.pem --json
      dppca-owner verify nltcs.npz --acknowledgement acknowledgement.json --ca ca.pem
    """
    from dppca.owner.site import ACKNOWLEDGEMENT, SITE_FILE, STUDIES

    def found(path: Path) -> Path | None:
        # In a folder that is no site's, a ca.pem may have come with the file.
        return path if (folder / SITE_FILE).exists() and path.exists() else None

    return verify(
        ca=ca or found(folder / CA),
        # The list beside ca.pem belongs to that authority, not to the one of --ca.
        crl=crl or (found(folder / REVOKED) if ca is None else None),
        place=folder if (folder / SITE_FILE).exists() else Path(),
        own=lambda study: folder / STUDIES / study / ACKNOWLEDGEMENT,
        **given,
    )
