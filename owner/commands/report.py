"""The command `report`: compare synthetic rows with a site's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dppca.common.kernel.errors import ArtefactError, SettingError
from dppca.common.verification.components import kept_components, nothing_in
from dppca.owner.commands.synthesize import forms_at, possible_forms, provide_forms
from dppca.owner.ledger.file import read_history
from dppca.owner.release.contribution import choose_data_set
from dppca.owner.site.kept_results import kept_result
from dppca.owner.site.kept_studies import components_path, decoded_path, kept_study
from dppca.owner.site.policy import load_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dppca.common.kernel.schema import Schema
    from dppca.common.kernel.study import Study
    from dppca.owner.release.reading import ShowProgress
    from dppca.owner.site.config import Site
    from dppca.owner.site.policy import DataSet
    from dppca.owner.synthesis.report.page import Compared
    from dppca.owner.synthesis.visible_relations import VisibleRelations

READING, COMPARING = "Reading rows", "Comparing"
"""Steps of a comparison, after the synthetic rows are drawn."""
_SEED = 1  # of samples; it protects nothing


def compare_kept(site: Site, study_name: str, *, progress: ShowProgress) -> Compared:
    """Compare synthetic rows with the site's own, for a page; draw them if there are none yet."""
    study = kept_study(site, study_name)
    result, components_sha256 = kept_result(site, study)
    folder = site.study_folder(study_name)
    paths = forms_at(folder, possible_forms(study))
    provide_forms(site, study, result, components_sha256, paths, n_rows=None, show=progress)
    data_set = choose_data_set(study, read_history(site.ledger), load_policy(site), None)
    source, targets = decoded_path(site, study_name), choose_targets(study.table, ())
    relations = visible_relations(site, study)
    compared, _ = compare_with_own_rows(
        site, study, source, data_set, targets, relations=relations, progress=progress
    )
    return compared


def visible_relations(site: Site, study: Study) -> VisibleRelations | None:
    """Return the relations that the kept components show; None without components."""
    from dppca.owner.synthesis.visible_relations import judge_result

    if not components_path(site, study.name).is_file():
        return None
    return judge_result(kept_result(site, study)[0], study)


def compare_with_own_rows(
    site: Site,
    study: Study,
    source: Path,
    data_set: DataSet,
    targets: tuple[str, ...],
    *,
    relations: VisibleRelations | None,
    progress: ShowProgress,
) -> tuple[Compared, Callable[[], dict[str, bytes]]]:
    """Return a comparison, and a function that draws its pictures (SVG, by their subject)."""
    from dppca.common.analysis.estimates.face import estimates
    from dppca.common.analysis.estimates.questions import answer_study
    from dppca.common.analysis.rows.agreement import compare_with_release
    from dppca.common.kernel.attestation.results import Published
    from dppca.owner.records.table import open_table
    from dppca.owner.synthesis.report.comparison import code_table, compare, count_parts
    from dppca.owner.synthesis.report.page import Compared, biplot, marginal_panels, pair_plot

    schema, rng = study.table, np.random.default_rng(_SEED)
    table, theirs = open_table(data_set.source, schema), open_table(source, schema)
    with progress(READING, table.n_rows + theirs.n_rows, unit="rows") as bar:
        real = code_table(table, rng, progress=bar.advance)
        synthetic = code_table(theirs, rng, progress=bar.advance)
    has_result = components_path(site, study.name).is_file()
    result = kept_result(site, study)[0] if has_result else None
    kept = None if result is None else result.rounds(study)[0].result
    coded = None if kept is None else _coded(study, source)
    with progress(COMPARING, count_parts(targets), unit="parts") as bar:
        quality = compare(
            schema,
            real,
            synthetic,
            targets=targets,
            coded=coded,
            released_mean=None if kept is None else kept.mean,
            rng=rng,
            progress=bar.advance,
        )
    figures = () if kept is None else kept_components(kept, study)

    def draw() -> dict[str, bytes]:
        pictures = {"Total variation of every pair": pair_plot(quality)}
        if kept is not None and len(kept.vectors) > 1:
            pictures["Rows on the first two components"] = biplot(
                schema, kept, real, coded, [each.mixed for each in figures]
            )
        return pictures

    panels = marginal_panels(schema, real, synthetic, quality)
    summary = "" if relations is None else relations.summary
    faults = real.faults.under(study.faults)
    nothing = None if kept is None else nothing_in(kept)
    compared = Compared(
        quality,
        faults,
        panels,
        data_set.name,
        source.name,
        figures,
        summary,
        nothing or "",
        () if result is None else compare_with_release(result, study, synthetic.columns),
        () if result is None else tuple(answer_study(estimates(Published(study, result)))),
    )
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


def choose_targets(schema: Schema, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the targets that were given, each checked; by default the first that have classes."""
    from dppca.owner.models.features import find_target
    from dppca.owner.synthesis.report.comparison import list_targets

    for name in given:
        find_target(schema, name)
    if len(set(given)) != len(given):
        raise SettingError("a --target is given twice")
    return given or list_targets(schema)
