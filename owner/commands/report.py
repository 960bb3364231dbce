"""``dppca-owner report``."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from dppca.common.attestation.signatures import make_signer
from dppca.common.errors import ArtefactError, NotReadyError, SettingError
from dppca.common.privacy.labels import Label, require_released
from dppca.common.shell.console import emit, prints, progress
from dppca.common.verification.components import kept_components
from dppca.owner.client.session import load_site_credentials
from dppca.owner.commands.interrupt import report_charges_on_interrupt
from dppca.owner.commands.options import data_set_option, file_path, study_argument
from dppca.owner.commands.synthesize import default_rows, draw_forms, forms_at, possible_forms
from dppca.owner.ledger.reading import read_history
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.site.config import load_site
from dppca.owner.site.kept_studies import (
    components_path,
    decoded_path,
    kept_result,
    kept_study,
    save,
)
from dppca.owner.site.policy import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dppca.common.schema import Schema
    from dppca.common.study import Study
    from dppca.owner.commands.consent import ShowProgress
    from dppca.owner.site.config import Site
    from dppca.owner.site.policy import DataSet
    from dppca.owner.synthesis.report.page import Compared
    from dppca.owner.synthesis.visible_relations import VisibleRelations

_SEED = 1  # of samples; it protects nothing


@click.command("report")
@study_argument
@click.option(
    "--synthetic",
    "synthetic_path",
    type=file_path,
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
@click.option("--output", type=file_path, help="File for the page (.html).")
@click.option("--publish", is_flag=True, help="Refused: a report is computed from raw rows.")
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
    publish: bool,
    as_json: bool,
) -> None:
    """Compare synthetic rows with this site's own, on one page that stays at this site.

    Compares single attributes and pairs of them, tests how well a classifier tells the two tables
    apart and how well one that is trained on synthetic rows does on real rows, and measures
    distances to the nearest record. All of it is computed from raw rows, so the page is site-only
    and says so.

    \b
    Example:
      dppca-owner report nltcs
      dppca-owner report nltcs --target outside
    """
    started = time.perf_counter()
    if publish:
        require_released(Label.SITE_ONLY, "a report")
    site = load_site(folder)
    study = kept_study(site, study_name)
    chosen = _targets(study.table, targets)
    source = synthetic_path or decoded_path(site, study_name)
    if not source.is_file():
        raise NotReadyError(
            f"there are no synthetic rows at {source}: run `dppca-owner synthesize {study_name}`, "
            "or name a file with --synthetic"
        )
    from dppca.common.pages.rendering import check_report
    from dppca.common.pages.study_header import study_header
    from dppca.owner.render.faults import with_counts
    from dppca.owner.render.quality import QualityReport, quality_text
    from dppca.owner.synthesis.report.page import quality_page

    check_report()
    with report_charges_on_interrupt(site, study.name):
        path = output or site.study_folder(study_name) / "report.html"
        history = read_history(site.ledger)
        data_set = choose_data_set(study, history, load_policy(site), data_set_name)
        relations, show = _relations(site, study), partial(progress, enabled=not as_json)
        compared, draw = _compare(
            site, study, source, data_set, chosen, relations=relations, progress=show
        )
        page = quality_page(compared, face=study_header(study), pictures=draw())
        save(path, page.encode())
        report = QualityReport(
            study=study.name,
            data_set=data_set.name,
            synthetic=str(source),
            page=str(path),
            quality=compared.quality,
            coded_by_rule=compared.faults,
            relations=relations,
            seconds=round(time.perf_counter() - started, 6),
        )
        text = with_counts(quality_text(report), compared.faults)
        emit(report, text, as_json=as_json)


def compare_kept(site: Site, study_name: str, *, progress: ShowProgress) -> Compared:
    """Draw the synthetic rows that `synthesize` draws for a study, and compare them, for a page."""
    study = kept_study(site, study_name)
    result, components_sha256 = kept_result(site, study)
    folder = site.study_folder(study_name)
    draw_forms(
        site,
        study,
        result,
        components_sha256,
        make_signer(load_site_credentials(site)),
        forms_at(folder, possible_forms(study)),
        n_rows=default_rows(site.name, result),
        quiet=True,
    )
    data_set = choose_data_set(study, read_history(site.ledger), load_policy(site), None)
    source, targets = decoded_path(site, study_name), _targets(study.table, ())
    relations = _relations(site, study)
    compared, _ = _compare(
        site, study, source, data_set, targets, relations=relations, progress=progress
    )
    return compared


def _relations(site: Site, study: Study) -> VisibleRelations | None:
    """Return the relations that the kept components show; None without components."""
    from dppca.owner.synthesis.visible_relations import judge_result

    if not components_path(site, study.name).is_file():
        return None
    return judge_result(kept_result(site, study)[0], study)


def _compare(
    site: Site,
    study: Study,
    source: Path,
    data_set: DataSet,
    targets: tuple[str, ...],
    *,
    relations: VisibleRelations | None,
    progress: ShowProgress,
) -> tuple[Compared, Callable[[], dict[str, bytes]]]:
    """Return a comparison, and a function that draws its pictures (PNG, by their subject)."""
    from dppca.owner.records import open_table
    from dppca.owner.synthesis.report.comparison import code_table, compare
    from dppca.owner.synthesis.report.page import Compared, biplot, marginal_panels, pair_plot

    schema, rng = study.table, np.random.default_rng(_SEED)
    table, theirs = open_table(data_set.source, schema), open_table(source, schema)
    with progress("Reading rows", table.n_rows + theirs.n_rows, unit="rows") as bar:
        real = code_table(table, rng, progress=bar.advance)
        synthetic = code_table(theirs, rng, progress=bar.advance)
    kept = None
    if components_path(site, study.name).is_file():
        kept = kept_result(site, study)[0].rounds(study)[0].result
    coded = None if kept is None else _coded(study, source)
    with progress("Comparing", 0, unit=""):
        quality = compare(
            schema,
            real,
            synthetic,
            targets=targets,
            coded=coded,
            released_mean=None if kept is None else kept.mean,
            rng=rng,
        )
    figures = () if kept is None else kept_components(kept, study)

    def draw() -> dict[str, bytes]:
        pictures = {"Total variation of every pair": pair_plot(quality)}
        if kept is not None and len(kept.vectors) > 1:
            pictures["Rows on the first two components"] = biplot(schema, kept, real, coded)
        return pictures

    panels = marginal_panels(schema, real, synthetic, quality)
    summary = "" if relations is None else relations.summary
    faults = real.faults.under(study.faults)
    compared = Compared(quality, faults, panels, data_set.name, source.name, figures, summary)
    return compared, draw


def _coded(study: Study, source: Path) -> NDArray[np.float64] | None:
    """Return the same rows in coded coordinates, if `synthesize` wrote them beside; else None."""
    import pyarrow.parquet

    from dppca.owner.synthesis.report.comparison import SAMPLE_ROWS

    path = source.with_name("synthetic-coded.parquet")
    if source.name != "synthetic-decoded.parquet" or not path.is_file():
        return None
    table = pyarrow.parquet.read_table(path)
    names = list(study.table.column_names)
    if table.column_names != names:
        raise ArtefactError(f"{path} is not of study {study.name}: run `synthesize` again")
    rows = np.stack([table[name].to_numpy() for name in names], axis=1)
    return rows[:SAMPLE_ROWS]


def _targets(schema: Schema, given: tuple[str, ...]) -> tuple[str, ...]:
    from dppca.owner.models.features import find_target
    from dppca.owner.synthesis.report.comparison import list_targets

    for name in given:
        find_target(schema, name)
    if len(set(given)) != len(given):
        raise SettingError("a --target is given twice")
    return given or list_targets(schema)
