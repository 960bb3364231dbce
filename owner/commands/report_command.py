"""``dppca-owner report``."""

import time
from pathlib import Path

import click

from dppca.common.kernel.errors import NotReadyError
from dppca.common.shell.console import FILE, emit, prints, progress
from dppca.common.shell.outputs import FileLaw, output_file
from dppca.owner.commands.options import data_set_option, study_argument


@click.command("report")
@study_argument
@click.option(
    "--synthetic",
    "synthetic_path",
    type=FILE,
    help="Decoded synthetic rows (.parquet, .arrow, .csv); by default those of `synthesize`.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="ATTRIBUTE",
    help="Attribute to predict; may be repeated. By default the first ten that have classes.",
)
@data_set_option
@output_file("--output", help="File for the page (.html).", law=FileLaw(replaceable=True))
@prints("dppca.owner.render.quality:QualityReport")
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    synthetic_path: Path | None,
    targets: tuple[str, ...],
    data_set_name: str | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    """Compare synthetic rows with this site's own, on one page that stays at this site.

    The page first answers the study's own questions. Then it shows the accuracy, on real rows, of a
    classifier that was trained on synthetic ones, says how well a classifier distinguishes the two
    tables, compares single attributes and pairs of them, and measures distances to the nearest
    record. All but the answers is computed from raw rows: the page is site-only.

    \b
    Example:
      dppca-owner report nltcs
      dppca-owner report nltcs --target outside
    """
    from functools import partial

    from dppca.common.analysis.estimates.answers import family_lines
    from dppca.common.pages.rendering import check_report
    from dppca.common.shell.study_header import StudyHeader
    from dppca.owner.commands.interrupt import report_charges
    from dppca.owner.commands.report import choose_targets, compare_with_own_rows, visible_relations
    from dppca.owner.ledger.file import read_history
    from dppca.owner.release.contribution import choose_data_set
    from dppca.owner.render.faults import with_counts_line
    from dppca.owner.render.quality import QualityReport, quality_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_studies import decoded_path, find_continued, kept_study, save
    from dppca.owner.site.policy import load_policy
    from dppca.owner.synthesis.report.page import quality_page

    started = time.perf_counter()
    site = load_site(folder)
    study = kept_study(site, study_name)
    chosen = choose_targets(study.table, targets)
    source = synthetic_path or decoded_path(site, study_name)
    if not source.is_file():
        raise NotReadyError(
            f"{source} holds no synthetic rows: run `dppca-owner synthesize {study_name}`, or name "
            "a file with --synthetic"
        )
    check_report()
    with report_charges(site, study.name):
        path = output or site.study_folder(study_name) / "report.html"
        history = read_history(site.ledger)
        data_set = choose_data_set(study, history, load_policy(site), data_set_name)
        relations, show = visible_relations(site, study), partial(progress, enabled=not as_json)
        compared, draw = compare_with_own_rows(
            site, study, source, data_set, chosen, relations=relations, progress=show
        )
        header = StudyHeader(study, first=find_continued(site, study))
        page = quality_page(compared, stated=study.stated, face=header.rows(), pictures=draw())
        save(path, page.encode())
        report = QualityReport(
            study=study.name,
            stated=study.stated,
            data_set=data_set.name,
            synthetic=str(source),
            page=str(path),
            quality=compared.quality,
            coded_by_rule=compared.faults,
            relations=relations,
            missed=list(compared.missed),
            questions=compared.documents,
            seconds=round(time.perf_counter() - started, 6),
        )
        own = family_lines(compared.answers)
        said = "\n".join((*header.lines(), *own, quality_text(report)))
        text = with_counts_line(said, compared.faults, study.name)
        text = f"{compared.nothing}\n{text}" if compared.nothing else text
        emit(report, text, as_json=as_json)
