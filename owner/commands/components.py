"""``dppca-owner components``."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import click

from common.console import emit, json_option, progress
from common.errors import ArtefactError
from common.privacy.labels import Label
from common.results import Result, result_from_bytes
from common.study import Study
from owner.client import CuratorClient, StudyProgress
from owner.commands.options import file_path, study_argument
from owner.config import Site, load_site
from owner.ledger.chain import History
from owner.ledger.database import read_history
from owner.render import components_text
from owner.session import agreed_study, connect
from owner.studies import components_path, save


@click.command("components")
@study_argument
@click.option(
    "--wait", type=click.FloatRange(min=0), default=0.0, metavar="SECONDS", help="At most so long."
)
@click.option("--output", type=file_path, help="A second copy of the result file.")
@json_option
@click.pass_obj
def command(
    folder: Path, study_name: str, wait: float, output: Path | None, *, as_json: bool
) -> None:
    """Fetch the joint components of a study; they are released and may go anywhere.

    Leaves with 50 while the study still waits for owners.

    \b
    Example:
      dppca-owner components nltcs --wait 600
    """
    started = time.perf_counter()
    site = load_site(folder)
    with connect(site) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        with progress(f"Waiting for study {study.name}") as bar:
            found = client.wait(study, wait_s=wait, polled=bar.advance)
        content = _content(site, client, study, found)
    result = result_from_bytes(content, study)
    require_own_release(site.name, study, result, read_history(site.ledger))
    path = components_path(site, study.name)
    for place in [path] if output is None else [path, output]:
        save(place, content)
    document = {
        "command": "components",
        "study": study.name,
        "digest": study.digest,
        "state": found.state.value,
        "label": Label.RELEASED.value,
        "count": result.header.count,
        "rows": result.header.n_rows,
        "eigenvalues": result.eigenvalues.tolist(),
        "noise_edge": result.header.noise_edge,
        "epsilon": result.header.epsilon,
        "delta": result.header.delta,
        "assumptions": list(result.header.assumptions),
        "contributed": [share.owner for share in result.header.shares],
        "missing": list(result.header.missing),
        "path": str(output or path),
        "bytes": len(content),
        "seconds": round(time.perf_counter() - started, 6),
    }
    emit(document, components_text(document), as_json=as_json)


def require_own_release(owner: str, study: Study, result: Result, history: History) -> None:
    """Refuse a result that claims another contribution of this owner than its ledger holds."""
    committed = history.commitment_for(study.digest)
    share = next((share for share in result.header.shares if share.owner == owner), None)
    if share is None:
        return
    if committed is None or (committed.payload_sha256, committed.n_rows) != (
        share.payload_sha256,
        share.n_rows,
    ):
        message = (
            f"the result of study {study.name} names a contribution of {owner} that this site's "
            "ledger does not hold: tell the operator, and change the certificate if somebody else "
            "used it"
        )
        raise ArtefactError(message)


def _content(site: Site, client: CuratorClient, study: Study, found: StudyProgress) -> bytes:
    """The result file: from here where it is the one announced, else from the curator."""
    path = components_path(site, study.name)
    if path.exists():
        kept = path.read_bytes()
        if hashlib.sha256(kept).digest() == found.sha256:
            return kept
    with progress("Downloading", found.total_bytes) as bar:
        return client.download(study.digest, found, received=bar.advance)
