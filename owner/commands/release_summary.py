"""What ``dppca-owner report --release`` does: a quality summary that may leave is made."""

from __future__ import annotations

import hashlib
import shlex
import time
from pathlib import Path

from dppca.common.amounts import decimal_text
from dppca.common.attestation.summaries import sealed_summary
from dppca.common.errors import SchemaMismatchError
from dppca.common.privacy.labels import Label, require_released
from dppca.common.study import Study
from dppca.owner.commands.release_file import make_file
from dppca.owner.ledger.reading import read_history
from dppca.owner.records import Table, open_table
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.release.summary import (
    SummaryRelease,
    SummaryRequest,
    read_summary,
    request_summary,
)
from dppca.owner.render.releases import LeavingFile
from dppca.owner.render.summary import ReleasedSummaryDocument
from dppca.owner.site.config import Site
from dppca.owner.site.kept_studies import decoded_path, save
from dppca.owner.site.policy import load_policy
from dppca.owner.synthesis.tables import read_metadata


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
) -> ReleasedSummaryDocument:
    """Make a summary that may leave, or find it; the command's JSON document.

    Parameters
    ----------
    source
        Synthetic rows whose own label is `released` and which are of this study's schema.
    """
    started = time.perf_counter()
    metadata = read_metadata(source)
    require_released(Label(str(metadata.get("label"))), f"the file {source.name}")
    if metadata.get("schema_digest") != study.table.digest:
        raise SchemaMismatchError(f"{source.name} is of another schema than study {study.name}")
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, load_policy(site), data_set_name)
    request = request_summary(
        study,
        data_set=data_set.name,
        synthetic_sha256=hashlib.sha256(source.read_bytes()).hexdigest(),
        targets=targets,
        epsilon=epsilon,
        delta=delta,
    )

    def plan(_: Table) -> tuple[SummaryRelease, LeavingFile]:
        synthetic = open_table(source, study.table)
        return SummaryRelease(request, synthetic), _describe(request, synthetic.n_rows)

    made = make_file(
        site,
        study,
        data_set,
        request.digest,
        plan,
        command=_command(request, source, site),
        path=output or site.study_folder(study.name) / "quality-summary.json",
        yes=yes,
        quiet=quiet,
    )
    save(made.path, sealed_summary(made.stored.payload, made.signer))
    summary = read_summary(made.stored.payload)
    return {
        "command": "report",
        **made.document(),
        "summary": str(made.path),
        "marginals": summary["marginals"],
        "accuracies": summary["accuracies"],
        "seconds": round(time.perf_counter() - started, 6),
    }


def _describe(request: SummaryRequest, n_synthetic: int) -> LeavingFile:
    n_targets = len(request.targets)
    return LeavingFile(
        title="A quality summary",
        noun="summary",
        leaves=f"noised counts of rows in the cells of {len(request.study.table.attributes)} "
        f"attributes, and of right predictions of {n_targets} target"
        f"{'' if n_targets == 1 else 's'}",
        beside="on top of all else",
        work="count",
        max_rows_per_person=request.study.max_rows_per_person,
        n_more=n_synthetic,
    )


def _command(request: SummaryRequest, source: Path, site: Site) -> str:
    """The arguments of ``dppca-owner`` that ask for the same again; they name no file of a site."""
    line = ["report", request.study.name, "--release", "--epsilon", decimal_text(request.epsilon)]
    if request.delta is not None:
        line += ["--delta", decimal_text(request.delta)]
    for target in request.targets:
        line += ["--target", target]
    line += ["--data-set", request.data_set]
    usual = decoded_path(site, request.study.name).resolve()
    return shlex.join(line) + ("" if source.resolve() == usual else " --synthetic FILE")
