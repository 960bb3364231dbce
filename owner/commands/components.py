"""``dppca-owner components``."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from dppca.common.attestation.envelopes import SignedFile, read_signed
from dppca.common.attestation.results import Result
from dppca.common.attestation.verify import read_authority, read_revoked, verified_result
from dppca.common.documents.messages import Form, StudyState
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    ContradictionError,
    ReceiptError,
    SignatureError,
)
from dppca.common.shell.console import emit, prints, progress
from dppca.common.shell.plotting import check_plotting, write_figures
from dppca.common.study import Study
from dppca.common.verification.components import kept_components
from dppca.owner.client.calls import CuratorClient
from dppca.owner.client.questions import StudyProgress
from dppca.owner.client.session import agreed_study, connect
from dppca.owner.commands.options import file_path, folder_path, study_argument
from dppca.owner.ledger.reading import read_history
from dppca.owner.render.outcomes import ComponentsDocument, components_text
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.kept_studies import (
    acknowledgement_path,
    components_path,
    make_folder,
    require_own_release,
    save,
)


@click.command("components")
@study_argument
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Longest time to wait.",
)
@click.option("--output", type=file_path, help="Also write a copy of the result file here.")
@click.option(
    "--plots",
    type=folder_path,
    help="Folder for pictures: loadings, and a biplot of synthetic rows.",
)
@prints(ComponentsDocument)
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    wait: float,
    output: Path | None,
    plots: Path | None,
    *,
    as_json: bool,
) -> None:
    """Fetch the joint components of a study; they are released and may go anywhere.

    Checks every signature, digest and claim, as `verify` does, before anything is kept. The
    guarantee that is shown is computed again from the study. Exits with 15 to 18 or 51 if something
    is wrong. Says so if the result holds a contribution that this site's ledger has disowned.

    Exits with 50 while the study still waits for owners.

    \b
    Example:
      dppca-owner components nltcs --wait 600
      dppca-owner components nltcs --plots pictures
    """
    started = time.perf_counter()
    if plots is not None:
        check_plotting()
    site = load_site(folder)
    fetched = fetch(site, study_name, wait_s=wait)
    study, result, path = fetched.study, fetched.result, fetched.path
    if output is not None:
        save(output, fetched.signed)
    pictures = {} if plots is None else _draw(plots, site, fetched)
    header = result.header
    document = ComponentsDocument(
        study=study.name,
        digest=study.digest,
        state=fetched.state,
        count=header.count,
        rows=header.n_rows,
        eigenvalues=result.eigenvalues.tolist(),
        noise_edge=header.noise_edge,
        components=kept_components(result, study),
        epsilon=header.epsilon,
        delta=header.delta,
        assumptions=header.assumptions,
        contributed=[share.owner for share in header.shares],
        missing=header.missing,
        disowned=fetched.disowned,
        path=output or path,
        plots=pictures,
        bytes=len(fetched.signed.content),
        seconds=round(time.perf_counter() - started, 6),
    )
    emit(document, components_text(document), as_json=as_json)


@dataclass(frozen=True, slots=True)
class Fetched:
    """Components of a study, verified and kept.

    Attributes
    ----------
    signed
        The result file and its envelope.
    disowned
        Reason why this site disowned the contribution under its name in the result; else None.
    """

    study: Study
    state: StudyState
    result: Result
    signed: SignedFile
    path: Path
    disowned: str | None


def fetch(site: Site, study_name: str, *, wait_s: float, quiet: bool = False) -> Fetched:
    """Fetch the components of a study, verify them, and keep them at the site.

    Raises
    ------
    NotReadyError, StudyStateError
        The study has no components yet, or will never have any.
    ArtefactError, ReceiptError, SignatureError, AlteredError
        The components do not verify: nothing is kept.
    ContradictionError
        The components leave out this site's contribution; they are kept as evidence, under another
        name.
    """
    with connect(site) as client:
        study, _ = agreed_study(site, client, study_name, study_file=None)
        with progress(f"Waiting for study {study.name}", enabled=not quiet) as bar:
            at_curator = client.wait(study, wait_s=wait_s, polled=bar.advance)
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


def _draw(folder: Path, site: Site, fetched: Fetched) -> dict[str, str]:
    """Draw pictures of the components; the biplot shows rows that `synthesize` would draw."""
    import numpy as np

    from dppca.common.shell.pictures import MOST_POINTS, biplot_figure, loadings_figure
    from dppca.common.synthesis.rows import make_generator, synthesize

    study, result = fetched.study, fetched.result
    schema, edge = study.table, result.header.noise_edge
    figures = {"loadings": loadings_figure(schema, result.vectors, result.eigenvalues, edge)}
    if result.header.count > 1:
        rng = make_generator(site.name, fetched.signed.sha256, MOST_POINTS)
        drawn = synthesize(result, study, Form.CODED, n_rows=MOST_POINTS, rng=rng)
        rows = np.concatenate(
            [np.column_stack([c.to_numpy() for c in batch.columns]) for batch in drawn.batches()]
        )
        figures["biplot"] = biplot_figure(
            schema, result.vectors, result.mean, [("synthetic rows", rows)]
        )
    make_folder(folder)
    return write_figures(folder, figures)


def _how_to_show(evidence: Path, acknowledgement: Path) -> str:
    """Return the steward's next step with a result that leaves the site's contribution out."""
    if not acknowledgement.exists():
        return (
            f"The result is kept in {evidence}. The curator's acknowledgement is gone, so only "
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
