"""``dppca-owner components``."""

import time
from contextlib import nullcontext
from pathlib import Path

import click

from dppca.common.shell.console import emit, prints
from dppca.common.shell.outputs import SIGNED, claiming, output_file, output_folder
from dppca.owner.commands.options import study_argument


@click.command("components")
@study_argument
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Longest time to wait, also for a curator that is away.",
)
@output_file("--output", help="Also write a copy of the result file here.", law=SIGNED)
@output_folder("--plots", help="Folder for pictures: loadings, and a biplot of synthetic rows.")
@click.option("--details", is_flag=True, help="Also print components that noise alone can make.")
@prints("dppca.owner.render.components:ComponentsDocument")
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    wait: float,
    output: Path | None,
    plots: Path | None,
    *,
    details: bool,
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
    from dppca.common.shell.plotting import check_plotting
    from dppca.common.shell.study_header import StudyHeader
    from dppca.common.verification.components import kept_components
    from dppca.owner.commands.components import PICTURES, draw, fetch
    from dppca.owner.render.components import ComponentsDocument, components_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_studies import save

    started = time.perf_counter()
    if plots is not None:
        check_plotting()
    site = load_site(folder)
    with nullcontext() if plots is None else claiming(plots, PICTURES, option="--plots"):
        fetched = fetch(site, study_name, wait_s=wait)
        study, result, path = fetched.study, fetched.result, fetched.path
        if output is not None:
            save(output, fetched.signed)
        pictures = {} if plots is None else draw(plots, site, fetched)
    header = result.header
    document = ComponentsDocument(
        study=study.name,
        stated=study.stated,
        digest=study.digest,
        state=fetched.state,
        count=header.count,
        rows=header.n_rows,
        counts=study.unit.counts,
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
    emit(document, components_text(document, StudyHeader(study), details=details), as_json=as_json)
