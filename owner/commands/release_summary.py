"""What ``dppca-owner report --release`` does: a summary is charged, drawn and stored, once.

As in `owner.commands.release_model`: review, consent, rows read, and only then the release path of
`owner.releasing`. A summary that is stored already is written again as it is.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from common.console import progress
from common.errors import SchemaMismatchError
from common.privacy.entropy import OperatingSystemEntropy
from common.privacy.labels import Label, require_released
from common.proof.signatures import signer_of
from common.proof.summaries import sealed_summary
from common.study import Study, decimal_text
from owner.commands.consent import ask
from owner.config import Site, load_policy
from owner.contribution import Step, next_step, standing_of
from owner.ledger.chain import History, admit
from owner.ledger.database import StoredRelease, open_ledger, read_history
from owner.quality import code_table
from owner.quality_release import (
    SummaryRequest,
    draw_summary,
    exact_counts,
    request_summary,
    summary_from_bytes,
    wanted_for_summary,
)
from owner.records import open_table
from owner.releasing import store_release
from owner.render_quality import summary_review_text
from owner.session import credentials_of, now
from owner.studies import make_folder, save
from owner.tables import read_metadata

_SEED = 1  # of the sample that a machine is trained on; nothing is protected by it


def release_summary(
    site: Site,
    study: Study,
    source: Path,
    *,
    data_set_name: str | None,
    targets: tuple[str, ...],
    epsilon: str | None,
    delta: str | None,
    output: Path | None,
    yes: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Make a summary that may leave, or find it; the command's JSON document.

    Parameters
    ----------
    source
        Synthetic rows whose own label is `released` and which are of this study's schema.
    """
    metadata = read_metadata(source)
    require_released(Label(str(metadata.get("label"))), f"the file {source.name}")
    if metadata.get("schema_digest") != study.table.digest:
        message = f"{source.name} is of another schema than study {study.name}"
        raise SchemaMismatchError(message)
    data_set = load_policy(site).data_set(data_set_name)
    request = request_summary(
        study,
        data_set=data_set.name,
        synthetic_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        targets=targets,
        epsilon=epsilon,
        delta=delta,
    )
    path = output or site.study_folder(study.name) / "quality-summary.json"
    # Both before the charge: where they fail, nothing was spent.
    signer = signer_of(credentials_of(site))
    make_folder(path.parent)
    history = read_history(site.ledger)
    already_stored = next_step(history, request.digest) is Step.SEND
    if already_stored:
        with open_ledger(site.ledger, lock=site.lock) as ledger:
            stored = ledger.stored(request.digest)
    else:
        stored = _release(site, request, source, history, yes=yes, quiet=quiet)
    save(path, sealed_summary(stored.payload, signer))
    return _document(stored, path, already_stored=already_stored)


def _release(
    site: Site, request: SummaryRequest, source: Path, history: History, *, yes: bool, quiet: bool
) -> StoredRelease:
    schema = request.study.table
    data_set = load_policy(site).data_set(request.data_set)
    table, theirs = open_table(data_set.path, schema), open_table(source, schema)
    wanted = wanted_for_summary(request, budget=data_set.budget)
    admit(history, wanted)
    text = summary_review_text(
        request, table.n_rows, standing_of(history, wanted), next_step(history, request.digest)
    )
    if not yes:
        ask(text, "Make this summary?", look="look at `dppca-owner budget`")
    elif not quiet:
        click.echo(text, err=True)
    with progress("Reading rows", table.n_rows + theirs.n_rows, enabled=not quiet) as bar:
        synthetic = code_table(theirs, np.random.default_rng(_SEED), progress=bar.advance)
        exact = exact_counts(request, table, synthetic, progress=bar.advance)
    entropy = OperatingSystemEntropy()
    with open_ledger(site.ledger, lock=site.lock) as ledger:
        return store_release(
            ledger,
            wanted,
            lambda reservation: draw_summary(
                request,
                exact,
                reservation,
                n_rows=table.n_rows,
                synthetic=synthetic,
                entropy=entropy,
            ),
            entropy=entropy,
            clock=now,
        )


def _document(stored: StoredRelease, path: Path, *, already_stored: bool) -> dict[str, Any]:
    """All of it follows from what is stored, so it is the same each time."""
    wanted, summary = stored.reservation.wanted, summary_from_bytes(stored.payload)
    return {
        "command": "report",
        "study": wanted.study,
        "data_set": wanted.data_set,
        "label": Label(summary["label"]).value,
        "summary": str(path),
        "rows": stored.commitment.n_rows,
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "marginals": summary["marginals"],
        "accuracies": summary["accuracies"],
        "release_id": stored.reservation.release_id.hex(),
        "bytes": len(stored.payload),
        "receipt": json.loads(stored.receipt),
        "already_stored": already_stored,
    }
