"""``dppca-owner train``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dppca.common.kernel.privacy.labels import Label
from dppca.common.shell.console import Real, Whole, emit, prints, progress
from dppca.common.shell.outputs import SIGNED, output_file
from dppca.owner.commands.options import data_set_option, study_argument
from dppca.owner.models.catalogue import (
    DPPCA_SVM,
    IN_PYTHON,
    LINEAR,
    METHODS,
    RBF,
    ResolvedMethod,
    TrainOptions,
    resolve,
)

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study
    from dppca.owner.render.models import TrainedDocument
    from dppca.owner.site.config import Site


@click.command("train")
@study_argument
@click.option("--target", required=True, metavar="ATTRIBUTE", help="Attribute to predict.")
@click.option(
    "--method",
    type=click.Choice([*METHODS, *IN_PYTHON]),
    metavar=f"[{'|'.join(METHODS)}]",
    default=DPPCA_SVM,
    show_default=True,
    help="The method; the text above says which models may leave.",
)
@click.option("--epsilon", metavar="DECIMAL", help="Epsilon of a model that may leave; no default.")
@click.option(
    "--delta", metavar="DECIMAL", help="Delta of Gaussian noise; without it, Laplace noise."
)
@click.option(
    "--kernel",
    type=click.Choice([LINEAR, RBF]),
    help="Kernel of the SVM, if the method has a choice; linear by default. The time of rbf grows "
    "with the square of the number of rows.",
)
@click.option(
    "--C",
    "C",
    type=Real(),
    help="Weight of the SVM's losses; 0.1 for a model that stays, 0.01 for one whose noise grows "
    "with C.",
)
@click.option(
    "--max-rows",
    type=Whole(),
    help="For a model that stays at the site: train on this many rows, drawn at random.",
)
@data_set_option
@output_file("--output", help="The model's file; by default in the study's folder.", law=SIGNED)
@click.option(
    "--yes", is_flag=True, help="For a model that may leave: consent without being asked."
)
@prints(
    "dppca.owner.render.models:TrainedDocument", "dppca.owner.render.models:ReleasedModelDocument"
)
@click.pass_obj
def command(folder: Path, /, *, as_json: bool, **given: Any) -> None:
    """Train a classifier on this site's own rows.

    The guarantee of the method decides the label of the model; no option does.

    \b
    released: may leave; --epsilon is charged to the data set, after you
    have been asked; the same command again writes the same model and
    charges nothing.
      dp-svm        noised weights on the study's components
    \b
    site-only: for use here, with `predict`; nothing is charged, because
    nothing leaves; no part of the file may leave.
      dppca-svm     own rows in the study's components

    The papers' other methods are available in Python: `from dppca import AGSVM`, and so on.

    Run `components` before dppca-svm and dp-svm. A model that stays is trained without the rows
    whose target is not known. A model that may leave is trained on all rows: the schema's public
    rule codes a missing target, and if only one label occurs, the model always predicts that label.

    To share a classifier at no charge, publish synthetic rows and train on those.

    \b
    Example:
      dppca-owner train nltcs --target outside --kernel linear
      dppca-owner train nltcs --target outside --method dp-svm --epsilon 0.5
    """
    from dppca.owner.commands.interrupt import report_charges
    from dppca.owner.render.models import released_model_text
    from dppca.owner.site.config import load_site
    from dppca.owner.site.kept_studies import kept_study

    options = TrainOptions(**given)
    resolved = resolve(options)
    site = load_site(folder)
    study = kept_study(site, options.study_name)
    with report_charges(site, study.name):
        if resolved.label is Label.RELEASED:
            from dppca.owner.commands.consent import Terminal
            from dppca.owner.commands.release_model import release_model

            steward = Terminal(yes=options.yes, quiet=as_json)
            released = release_model(site, study, resolved, options, steward)
            emit(released, released_model_text(released), as_json=as_json)
        else:
            document, text = _train_site_only(site, study, resolved, options)
            emit(document, text, as_json=as_json)


def _train_site_only(
    site: Site, study: Study, resolved: ResolvedMethod, options: TrainOptions
) -> tuple[TrainedDocument, str]:
    """Train a model that stays, and save it; return the command's JSON document and its text."""
    import numpy as np

    from dppca.owner.ledger.file import read_history
    from dppca.owner.models.model import pack_model, write_model
    from dppca.owner.models.training import train
    from dppca.owner.records.check import FaultCounts
    from dppca.owner.records.table import open_table
    from dppca.owner.release.contribution import choose_data_set
    from dppca.owner.render.faults import with_counts_line
    from dppca.owner.render.models import TrainedDocument, training_text
    from dppca.owner.site.kept_results import kept_result
    from dppca.owner.site.kept_studies import make_folder, model_path
    from dppca.owner.site.policy import load_policy

    started = time.perf_counter()
    history = read_history(site.ledger)
    data_set = choose_data_set(study, history, load_policy(site), options.data_set_name)
    table = open_table(data_set.source, study.table)
    tally = FaultCounts(study.table)
    result, _ = kept_result(site, study)
    with progress("Reading rows", table.n_rows) as bar:
        model = train(
            result,
            study,
            table,
            target=options.target,
            kernel=resolved.kernel,
            C=resolved.C,
            max_rows=options.max_rows,
            rng=np.random.default_rng(),
            tally=tally,
            progress=bar.advance,
        )
    counts, fit = tally.report(table).under(study.faults), model.fit
    assert fit is not None  # noqa: S101 - it stays
    path = options.output or model_path(site, study.name, options.target, resolved.kernel)
    make_folder(path.parent)
    write_model(pack_model(model), path)
    document = TrainedDocument(
        study=study.name,
        target=options.target,
        method=resolved.method.name,
        kernel=resolved.kernel,
        model=path,
        label=resolved.label,
        rows=fit.n_rows,
        unlabelled=fit.n_unlabelled,
        training_accuracy=fit.training_accuracy,
        majority=fit.majority,
        n_components=model.n_components,
        converged=fit.converged,
        coded_by_rule=counts,
        seconds=round(time.perf_counter() - started, 6),
    )
    return document, with_counts_line(training_text(document), counts, study.name)
