"""``dppca-owner verify``."""

from __future__ import annotations

from pathlib import Path

import click

from common.console import emit, json_option
from common.proof.verify import read_authority, verification_text, verify_file
from owner.commands.options import file_path


@click.command("verify")
@click.argument("file", type=file_path)
@click.option("--ca", type=file_path, help="The authority's certificate; the site's by default.")
@json_option
@click.pass_obj
def command(folder: Path, file: Path, ca: Path | None, *, as_json: bool) -> None:
    """Check what a released FILE claims: components, rows, a model, a summary. Works offline.

    Checks every signature and digest, and computes sensitivity, noise and guarantee anew from the
    study in the receipt. Leaves with 15 to 18, naming the part at fault, where something is wrong.

    \b
    Example:
      dppca-owner verify studies/nltcs/components.npz
      dppca-owner verify synthetic-decoded.parquet --ca ca.pem --json
    """
    site_ca = folder / "ca.pem"
    chosen = ca or (site_ca if site_ca.exists() else None)
    report = verify_file(file, ca=read_authority(chosen))
    document = {"command": "verify", "file": str(file), **report}
    emit(document, verification_text(report), as_json=as_json)
