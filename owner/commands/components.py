"""The command `components`: fetch a result, verify it, keep it, and draw pictures of it."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dppca.common.kernel.attestation.envelopes import SignedFile, read_signed
from dppca.common.kernel.attestation.results import Published, Result
from dppca.common.kernel.attestation.verify import read_authority, read_revoked, verified_result
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.errors import (
    AlteredError,
    ArtefactError,
    ContradictionError,
    ReceiptError,
    SignatureError,
)
from dppca.common.kernel.study import Study
from dppca.common.shell.console import progress, tell
from dppca.common.transport.channels import Patience
from dppca.owner.client.calls import CuratorClient, StudyProgress, agreed_study, connect, countdown
from dppca.owner.ledger.file import read_history
from dppca.owner.site.config import Site
from dppca.owner.site.kept_results import require_own_release
from dppca.owner.site.kept_studies import acknowledgement_path, components_path, save


@dataclass(frozen=True, slots=True)
class Fetched:
    """Components of a study, verified and kept.

    ``signed`` is the result file and its envelope; ``disowned`` the reason why this site disowned
    the contribution under its name in the result, else None.
    """

    study: Study
    state: StudyState
    result: Result
    signed: SignedFile
    path: Path
    disowned: str | None


def fetch(site: Site, study_name: str, *, wait_s: float, quiet: bool = False) -> Fetched:
    """Fetch the components of a study, verify them, and keep them at the site.

    Raise `NotReadyError` or `StudyStateError` if the study has no components yet, or will never
    have any; `ArtefactError`, `ReceiptError`, `SignatureError` or `AlteredError` if they do not
    verify: nothing is kept; `ContradictionError` if they leave out this site's contribution: they
    are kept as evidence, under another name.
    """
    left = countdown(wait_s)
    with connect(site, Patience(left, tell)) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        with progress(f"Waiting for study {study.name}", enabled=not quiet) as bar:
            at_curator = client.wait(study, left=left, polled=bar.advance)
        signed, result = _obtain(site, client, study, at_curator, quiet=quiet)
    path = components_path(site, study.name)
    try:
        disowned = require_own_release(site.name, study, result, read_history(site.ledger))
    except ContradictionError as error:
        evidence = path.with_name("contradiction.npz")
        save(evidence, signed)
        raise ContradictionError(
            f"{error}. {_how_to_show(evidence, acknowledgement_path(site, study.name))}"
        ) from error
    save(path, signed)
    reason = None if disowned is None else disowned.reason
    return Fetched(study, at_curator.state, result, signed, path, reason)


PICTURES = ("loadings.svg", "biplot.png", "biplot.svg")
"""Files of `draw`."""


def draw(folder: Path, site: Site, fetched: Fetched) -> dict[str, str]:
    """Draw pictures of the components; the biplot shows rows that `synthesize` would draw."""
    import numpy as np

    from dppca.common.analysis.estimates.components import find_mixtures
    from dppca.common.analysis.rows.synthesis import make_generator, synthesize
    from dppca.common.shell.charts import loadings_chart, write_charts
    from dppca.common.shell.pictures import MOST_POINTS, biplot_figure
    from dppca.common.shell.plotting import write_figures

    study, result = fetched.study, fetched.result
    schema, edge = study.table, result.header.noise_edge
    mixed = find_mixtures(Published(study, result))
    chart = loadings_chart(schema, result.vectors, result.eigenvalues, edge, mixed)
    charts = {"loadings": chart}
    figures = {}
    if result.header.count > 1:
        rng = make_generator(site.name, fetched.signed.sha256, MOST_POINTS)
        drawn = synthesize(result, study, Form.CODED, n_rows=MOST_POINTS, rng=rng)
        rows = np.concatenate(
            [np.column_stack([c.to_numpy() for c in batch.columns]) for batch in drawn.batches()]
        )
        figures["biplot"] = biplot_figure(
            schema, result.vectors, result.mean, [("synthetic rows", rows)], mixed
        )
    return {**write_charts(folder, charts), **write_figures(folder, figures)}


def _how_to_show(evidence: Path, acknowledgement: Path) -> str:
    """Return the steward's next step with a result that leaves the site's contribution out."""
    if not acknowledgement.exists():
        return (
            f"The result is kept in {evidence}. The curator's acknowledgement is missing: only "
            "this site's ledger says that the contribution was sent"
        )
    return (
        f"The result is kept in {evidence}; with {acknowledgement} it shows this to anybody: "
        f"`dppca-owner verify {evidence} --acknowledgement {acknowledgement}`"
    )


def _obtain(
    site: Site, client: CuratorClient, study: Study, found: StudyProgress, *, quiet: bool
) -> tuple[SignedFile, Result]:
    """Return the verified result: the copy kept here if it is the announced one, else a new one."""
    authority = read_authority(site.ca)
    revoked = read_revoked(site.crl, ca=authority)
    with suppress(OSError, ArtefactError, ReceiptError, SignatureError, AlteredError):
        kept = read_signed(components_path(site, study.name))
        if kept.sha256 == found.sha256:
            return kept, verified_result(kept, study, ca=authority, revoked=revoked)
    with progress("Downloading", found.total_bytes, enabled=not quiet) as bar:
        signed = client.download(study, found, received=bar.advance)
    return signed, verified_result(signed, study, ca=authority, revoked=revoked)
