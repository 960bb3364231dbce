"""``dppca-owner synthesize``.

The generator is seeded with public values: the result file, this owner's name, the number of rows.
So the command makes the same rows each time, publishing may be repeated after an interruption, and
owners do not draw each other's rows. The rows may be predictable: they are post-processing of
released data (docs/decisions/0032-synthetic-rows-repeat.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import click

from dppca.common.attestation.results import Result
from dppca.common.attestation.signatures import Signer, make_signer
from dppca.common.documents.messages import Form
from dppca.common.shell.console import emit, prints, progress
from dppca.common.study import Study
from dppca.common.synthesis.rows import SyntheticRows, make_generator, synthesize
from dppca.owner.client.session import connect, load_site_credentials
from dppca.owner.commands.options import folder_path, study_argument
from dppca.owner.render.outcomes import SynthesisDocument, synthesis_text
from dppca.owner.site.config import Site, load_site
from dppca.owner.site.kept_studies import kept_result, kept_study, make_folder
from dppca.owner.synthesis.tables import publishable, write_released
from dppca.owner.synthesis.visible_relations import judge_result

_FIT_ROWS = 1 << 16
"""Number of rows that the fit of a field counts for in the progress."""


@click.command("synthesize")
@study_argument
@click.option(
    "--rows", type=click.IntRange(1), help="How many; by default as many as this owner contributed."
)
@click.option(
    "--form",
    "form_name",
    type=click.Choice(["coded", "decoded", "both"]),
    default="both",
    show_default=True,
    help="The model's coordinates, rows like the data, or both.",
)
@click.option("--publish", is_flag=True, help="Send the rows to the curator too.")
@click.option("--output", type=folder_path, help="Folder for the files; by default the study's.")
@prints(SynthesisDocument)
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    rows: int | None,
    form_name: str,
    output: Path | None,
    *,
    publish: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows from a study's components; they are released and cost nothing further.

    Coded rows are the model's own coordinates and are best for analyses; decoded rows look like the
    data. Run `components` first. Published rows cannot be taken back or replaced. Rows of a study
    that continues another are made of both results, and are decoded ones.

    \b
    Example:
      dppca-owner synthesize nltcs --rows 10000
      dppca-owner synthesize nltcs --publish
    """
    started = time.perf_counter()
    site = load_site(folder)
    study = kept_study(site, study_name)
    result, components_sha256 = kept_result(site, study)
    signer = make_signer(load_site_credentials(site))
    n_rows = rows or default_rows(site.name, result)
    forms = possible_forms(study) if form_name == "both" else [Form(form_name)]
    target = site.study_folder(study_name) if output is None else output
    make_folder(target)
    paths = forms_at(target, forms)
    rows_by_form = draw_forms(site, study, result, components_sha256, signer, paths, n_rows=n_rows)
    sizes = _publish(site, study, paths, n_rows, components_sha256) if publish else {}
    last = rows_by_form[forms[-1]]
    document = SynthesisDocument(
        study=study.name,
        digest=study.digest,
        label=last.label,
        rows=n_rows,
        trace_scale=last.trace_scale,
        decoded_by=None if last.method is None else last.method.value,
        misfit=last.misfit,
        tables=last.tables,
        relations=judge_result(result, study),
        forms=paths,
        published=list(sizes),
        bytes=sum(sizes.values()),
        seconds=round(time.perf_counter() - started, 6),
    )
    emit(document, synthesis_text(document), as_json=as_json)


def draw_forms(
    site: Site,
    study: Study,
    result: Result,
    components_sha256: bytes,
    signer: Signer,
    paths: Mapping[Form, Path],
    *,
    n_rows: int,
    quiet: bool = False,
) -> dict[Form, SyntheticRows]:
    """Draw synthetic rows of each form and write them, signed, to its path."""
    total = n_rows * len(paths) + (_FIT_ROWS if Form.DECODED in paths else 0)
    rows_by_form: dict[Form, SyntheticRows] = {}
    with progress("Drawing synthetic rows", total, enabled=not quiet) as bar:
        for form, path in paths.items():

            def fitted(share: float, before: int = n_rows * len(rows_by_form)) -> None:
                bar.reach(before + round(_FIT_ROWS * share))

            drawn = rows_by_form[form] = synthesize(
                result,
                study,
                form,
                n_rows=n_rows,
                rng=make_generator(site.name, components_sha256, n_rows),
                progress=fitted,
            )
            write_released(
                path,
                drawn.batches(),
                signer,
                fields=drawn.fields,
                claims=drawn.claims,
                progress=bar.advance,
            )
    return rows_by_form


def possible_forms(study: Study) -> list[Form]:
    """Return the forms of a study's rows: decoded ones alone if it continues another."""
    return list(Form) if study.continues is None else [Form.DECODED]


def default_rows(owner: str, result: Result) -> int:
    """Return the number of rows that this owner contributed, or an equal share if it was none."""
    shares = result.header.shares
    own = next((share.n_rows for share in shares if share.owner == owner), None)
    return own or max(1, result.header.n_rows // len(shares))


def forms_at(folder: Path, forms: Iterable[Form]) -> dict[Form, Path]:
    """Return the paths in a folder for synthetic rows of each form."""
    return {form: folder / f"synthetic-{form.value}.parquet" for form in forms}


def _publish(
    site: Site, study: Study, paths: dict[Form, Path], n_rows: int, components_sha256: bytes
) -> dict[str, int]:
    """Upload each form and return its size in bytes."""
    sizes: dict[str, int] = {}
    with connect(site) as client, progress("Publishing", len(paths)) as bar:
        for form, path in paths.items():
            with publishable(path) as stream:
                client.publish(
                    study.digest,
                    form,
                    stream,
                    n_rows=n_rows,
                    components_sha256=components_sha256,
                )
                sizes[form.value] = stream.tell()
            bar.advance()
    return sizes
