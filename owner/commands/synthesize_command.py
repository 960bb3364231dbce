"""``dppca-owner synthesize``."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from dppca.common.shell.console import emit, prints
from dppca.common.shell.outputs import claiming, output_folder
from dppca.owner.commands.options import study_argument


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
@click.option(
    "--replicates",
    "count",
    type=click.IntRange(4, 1000),
    help="Tables beside the decoded rows, for standard errors by dppca.combine; 10 is usual.",
)
@click.option("--publish", is_flag=True, help="Send the rows to the curator too.")
@output_folder("--output", help="Folder for the files; by default the study's.")
@prints("dppca.owner.render.synthesis:SynthesisDocument")
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    rows: int | None,
    form_name: str,
    output: Path | None,
    *,
    count: int | None,
    publish: bool,
    as_json: bool,
) -> None:
    """Draw synthetic rows from a study's components; they are released and cost nothing further.

    Coded rows are the model's own coordinates and are best for analyses; decoded rows look like the
    data. Run `components` first. Rows that lie there, signed, are not drawn again but sent as they
    are. Published rows cannot be taken back or replaced. Rows of a study that continues another are
    made of both results, and are decoded ones. Replicates stay here, as files: they are decoded
    rows of the release with the law of its noise added once more, and cost nothing either.

    \b
    Example:
      dppca-owner synthesize nltcs --rows 10000
      dppca-owner synthesize nltcs --publish
      dppca-owner synthesize nltcs --replicates 10
    """
    from dppca.common.kernel.documents.messages import Form
    from dppca.common.kernel.errors import SettingError
    from dppca.common.kernel.privacy.labels import Label
    from dppca.owner.commands.replicates import provide_replicates
    from dppca.owner.commands.synthesize import (
        default_rows,
        forms_at,
        missed_by,
        possible_forms,
        provide_forms,
        publish_forms,
    )
    from dppca.owner.render.synthesis import TIMES, SynthesisDocument, synthesis_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_results import kept_result
    from dppca.owner.site.kept_studies import kept_study, make_folder
    from dppca.owner.synthesis.kept_rows import list_files
    from dppca.owner.synthesis.visible_relations import judge_result

    started = time.perf_counter()
    site = load_site(folder)
    study = kept_study(site, study_name)
    result, components_sha256 = kept_result(site, study)
    n_rows = rows or default_rows(site.name, result)
    forms = possible_forms(study) if form_name == "both" else [Form(form_name)]
    if count is not None and Form.DECODED not in forms:
        raise SettingError("replicates belong to decoded rows: leave out --form coded")
    target = site.study_folder(study_name) if output is None else output
    paths = forms_at(target, forms)
    held: AbstractContextManager[object] = nullcontext()
    if output is None:
        make_folder(target)
    else:
        held = claiming(output, list_files(output, paths.values(), count or 0))
    with held:
        tables = provide_forms(
            site, study, result, components_sha256, paths, n_rows=n_rows, publish=publish
        )
        replicates = (
            []
            if count is None
            else provide_replicates(
                site, study, result, components_sha256, target, count=count, n_rows=n_rows
            )
        )
        decoded = tables.get(Form.DECODED)
        missed = [] if decoded is None else missed_by(decoded, result, study)
        sizes: dict[str, int] = {}
        if publish:
            usual = default_rows(site.name, result)
            sizes = publish_forms(site, study, tables, paths, components_sha256, usual_rows=usual)
    last = tables[forms[-1]]
    drawn = last.drawn
    document = SynthesisDocument(
        study=study.name,
        digest=study.digest,
        label=Label.RELEASED,
        rows=n_rows,
        advised_rows=TIMES * result.header.n_rows,
        kept=[form.value for form, table in tables.items() if table.drawn is None],
        trace_scale=last.claims["trace_scale"],
        decoded_by=None if drawn is None or drawn.method is None else drawn.method.value,
        misfit=None if drawn is None else drawn.misfit,
        tables=None if drawn is None else drawn.tables,
        missed=missed,
        relations=judge_result(result, study),
        forms=paths,
        replicates=replicates,
        published=list(sizes),
        bytes=sum(sizes.values()),
        seconds=round(time.perf_counter() - started, 6),
    )
    emit(document, synthesis_text(document), as_json=as_json)
