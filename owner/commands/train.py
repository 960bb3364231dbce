"""``dppca-owner train``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from common.console import emit, json_option, progress
from common.privacy.labels import Label
from common.study import Study
from owner.commands.options import data_set_option, file_path, study_argument
from owner.config import Site, load_policy, load_site
from owner.methods import ELSEWHERE, METHODS, Asked, Choice, choose
from owner.records import Table, open_table
from owner.render_models import released_model_text, training_text
from owner.studies import kept_result, kept_study, make_folder


@click.command("train")
@study_argument
@click.option("--target", required=True, metavar="ATTRIBUTE", help="Binary or categorical.")
@click.option(
    "--method",
    type=click.Choice([*METHODS, *ELSEWHERE]),
    default="dppca-svm",
    show_default=True,
    help="See above: which may leave, and which stay.",
)
@click.option(
    "--variant",
    type=click.Choice(["sound", "published"]),
    default="sound",
    show_default=True,
    help="published: as its paper prints it, whose claim does not hold; see --public-data.",
)
@click.option("--epsilon", metavar="DECIMAL", help="Of the method's own noise; no default.")
@click.option("--delta", metavar="DECIMAL", help="For Gaussian noise; without, Laplace.")
@click.option("--label-epsilon", metavar="DECIMAL", help="dpsvd: of noised labels; no default.")
@click.option(
    "--kernel",
    type=click.Choice(["linear", "rbf"]),
    help="Of the machine, where there is a choice: linear unless said otherwise. The time of rbf "
    "grows with the square of the rows.",
)
@click.option(
    "--C",
    "cost",
    type=float,
    help="Of the SVM; 0.1 for a model that stays, 0.01 for one whose noise grows with C.",
)
@click.option(
    "--components",
    "n_components",
    type=int,
    metavar="K",
    help="Of a method with components of its own: how many, and not its contribution rate.",
)
@click.option(
    "--max-rows", type=int, help="A model that stays: train on so many rows drawn at random."
)
@data_set_option
@click.option("--output", type=file_path, help="The model's file; in the study's folder otherwise.")
@click.option("--publish", is_flag=True, help="Refused: models are not published.")
@click.option(
    "--public-data",
    is_flag=True,
    help="Every row is public already: needed for --variant published.",
)
@click.option("--yes", is_flag=True, help="A model that may leave: consent without being asked.")
@json_option
@click.pass_obj
def command(
    folder: Path,
    study_name: str,
    target: str,
    data_set_name: str | None,
    output: Path | None,
    *,
    method: str,
    variant: str,
    epsilon: str | None,
    delta: str | None,
    label_epsilon: str | None,
    kernel: str | None,
    cost: float | None,
    n_components: int | None,
    max_rows: int | None,
    publish: bool,
    public_data: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Train a classifier on this site's own rows.

    What a model is labelled follows from its method's guarantee, not from an option.

    \b
    released: may leave; --epsilon is charged to the data set, after you
    have been asked; the same command again writes the same model and
    charges nothing.
      dp-svm        noised weights on the study's components
      pca-dpsvm     own components and weights, both noised
      private-svm   noised weights on public random features
      dpsvd         with --label-epsilon: from rows and labels with noise
    \b
    site-only: for use here, with `predict`; nothing is charged, since
    nothing leaves, and no part of the file may.
      dppca-svm     own rows in the study's components
      ag-svm        own rows in own components, those with Gaussian noise
      mod-sulq-svm  the same with more noise
      dpsvd         without --label-epsilon: trained on the true labels
      svm           own rows, no privacy at all: a ceiling
    \b
    published-method: for benchmarks on public data only; asks for
    --public-data.
      dpsvmdvp      holds raw rows; no sound form is known
      any of the papers' methods with --variant published
    \b
    not offered here:
      ppca-dp-mh    the study itself: contribute, components, synthesize

    dppca-svm and dp-svm need `components` first. Rows without a known target are left out of a
    model that stays; in one that may leave all rows take part, by the schema's public rule, and a
    target of which one label occurs makes a model that always says the same.

    To share a classifier at no charge, publish synthetic rows and train on those.

    \b
    Example:
      dppca-owner train nltcs --target outside --kernel linear
      dppca-owner train nltcs --target outside --method dp-svm --epsilon 0.5
      dppca-owner train nltcs --target outside --method ag-svm --epsilon 1 --delta 1e-9
    """
    asked = Asked(
        method=method,
        variant=variant,
        epsilon=epsilon,
        delta=delta,
        label_epsilon=label_epsilon,
        kernel=kernel,
        C=cost,
        n_components=n_components,
        max_rows=max_rows,
        publish=publish,
        yes=yes,
        public_data=public_data,
    )
    choice = choose(asked)
    site = load_site(folder)
    study = kept_study(site, study_name)
    if choice.label is Label.RELEASED:
        from owner.commands.release_model import release_model

        document = release_model(
            site,
            study,
            choice,
            asked,
            data_set_name=data_set_name,
            target=target,
            output=output,
            quiet=as_json,
        )
        emit(document, released_model_text(document), as_json=as_json)
        return
    from owner.models import write_model

    started = time.perf_counter()
    data_set = load_policy(site).data_set(data_set_name)
    table = open_table(data_set.path, study.table)
    train = _train_of_study if choice.of_study else _train_estimator
    content, found = train(site, study, choice, asked, table, target)
    form = "" if choice.label is Label.SITE_ONLY else "-published"
    kind = choice.kernel if choice.of_study else choice.method.name
    path = output or site.study_folder(study_name) / f"model-{target}-{kind}{form}.skops"
    make_folder(path.parent)
    write_model(content, path)
    document = {
        "command": "train",
        "study": study.name,
        "target": target,
        "method": method,
        "variant": variant,
        "kernel": choice.kernel,
        "model": str(path),
        "label": choice.label.value,
        **found,
        "charged_epsilon": "0",
        "charged_rho": "0",
        "seconds": round(time.perf_counter() - started, 6),
    }
    emit(document, training_text(document), as_json=as_json)


def _train_of_study(
    site: Site, study: Study, choice: Choice, asked: Asked, table: Table, target: str
) -> tuple[bytes, dict[str, Any]]:
    """A machine on the study's components: its file, and what is said of it."""
    from owner.models import model_bytes
    from owner.training import train

    result, _ = kept_result(site, study)
    with progress("Reading rows", table.n_rows) as bar:
        model = train(
            result,
            study,
            table,
            target=target,
            kernel=choice.kernel,
            C=choice.C,
            max_rows=asked.max_rows,
            rng=np.random.default_rng(),
            progress=bar.advance,
        )
    return model_bytes(model), {
        "rows": model.n_rows,
        "unlabelled": model.n_unlabelled,
        "training_accuracy": model.training_accuracy,
        "n_components": model.n_components,
        "converged": model.converged,
        "guarantee": None,
    }


def _train_estimator(
    site: Site,  # noqa: ARG001 - as the other
    study: Study,
    choice: Choice,
    asked: Asked,
    table: Table,
    target: str,
) -> tuple[bytes, dict[str, Any]]:
    """An estimator that stays: its file, and what is said of it."""
    from owner.estimator_models import estimator_bytes
    from owner.estimator_training import train_estimator

    with progress("Reading rows", table.n_rows) as bar:
        model = train_estimator(
            choice,
            asked,
            study,
            table,
            target=target,
            rng=np.random.default_rng(),
            progress=bar.advance,
        )
    fit = model.fit
    assert fit is not None  # noqa: S101 - it stays
    return estimator_bytes(model), {
        "rows": fit.n_rows,
        "unlabelled": fit.n_unlabelled,
        "training_accuracy": fit.training_accuracy,
        "n_components": model.n_components,
        "converged": fit.converged,
        "guarantee": model.guarantee,
    }
