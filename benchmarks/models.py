"""Models of real studies: ``python -m benchmarks.models nltcs --epsilon 1 --model-epsilon 1``.

A fifth of the rows is held out. The others are divided among owners, each with a site of its own
and the real commands: real processes, a real curator, mutual TLS, noise from the operating system.
Every owner contributes, fetches the components, and trains each method on *its own* rows;
``predict`` classifies the held-out rows. Prints one line per method: its label, what it was
charged, and its accuracy, the mean over owners and seeds and the range over them.

The first line in the table, always answering the commonest class, and ``svm``, a machine without
privacy on one owner's rows, are what the others stand between. ``svm`` and the methods that
``train`` does not offer are estimators of the package, fitted here on the owner's rows.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from inspect import signature
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import group_runs, markdown_table
from benchmarks.studies import (
    DATA_SETS,
    PublicData,
    coded_rows,
    data_folder,
    study_document,
    write_csv,
)
from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.privacy.accounting import PrivacyCost
from dppca.common.kernel.schema import Column, Schema
from dppca.common.kernel.study import study_from_mapping
from dppca.common.papers import AGSVM, DPSVD, PCADPSVM, SVM, PrivateSVM
from dppca.common.shell.console import run
from dppca.common.transport.testbed import LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from dppca.deploy.simulation.holdings import divide, read_cells, write_table
from dppca.deploy.simulation.runner import WAIT_S, policy_text
from dppca.owner.models.features import list_features
from dppca.owner.models.training import read_rows
from dppca.owner.records.table import open_table

FREE = ("svm", "dppca-svm")
SPENDING = ("dp-svm", "pca-dpsvm", "private-svm")
_NEED_DELTA = ("ag-svm", "dpsvd")
METHODS = (*FREE, *SPENDING, *_NEED_DELTA)
_ESTIMATORS: dict[str, type[Classifier]] = {
    "svm": SVM,
    "ag-svm": AGSVM,
    "dpsvd": DPSVD,
    "pca-dpsvm": PCADPSVM,
    "private-svm": PrivateSVM,
}
_C = {"pca-dpsvm": 0.01, "private-svm": 0.01}  # noise grows with C; 0.1 for the others


@dataclass(frozen=True, slots=True)
class Trained:
    """One owner's model: what it is labelled, was charged, and is worth on rows held out."""

    method: str
    label: str
    charged_epsilon: str
    charged_rho: str
    accuracy: float


@dataclass(frozen=True, slots=True)
class ClassifierTrial:
    """One benchmark; ``delta`` None for Laplace noise wherever there is a choice."""

    data: PublicData
    owners: int
    epsilon: str
    model_epsilon: str
    delta: str | None
    methods: tuple[str, ...]


def list_options(method: str, asked: ClassifierTrial) -> list[str]:
    """What ``train`` is told for a method."""
    options = ["--method", method]
    if method in FREE:
        return options
    options += ["--epsilon", asked.model_epsilon]
    if asked.delta is not None:
        options += ["--delta", asked.delta]
    return [*options, "--yes"]


def fit_estimator(
    method: str, asked: ClassifierTrial, schema: Schema, *, rows: Path, held_out: Path
) -> Trained:
    """Fit an estimator of the package; DPSVD splits its epsilon evenly over rows and labels."""
    epsilon = Decimal(asked.model_epsilon) / (2 if method == "dpsvd" else 1)
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": asked.delta,
        "label_epsilon": epsilon,
        "kernel": "linear",
        "C": _C.get(method, 0.1),
        "standardise": True,
        "row_norm": schema.largest_norm(without=asked.data.target),
        "max_rows_per_person": schema.max_rows_per_person,
        "allow_constant": True,
    }
    target, kind = asked.data.target, _ESTIMATORS[method]
    features = list_features(schema, target)

    def read(columns: list[Column]) -> NDArray[np.float64]:
        return coded_rows(schema, columns)[:, features]

    names = signature(kind).parameters
    estimator = kind(**{name: value for name, value in settings.items() if name in names})
    known, labels, _ = read_rows(open_table(rows, schema), target, read)
    estimator.fit(known, labels)
    unseen, codes, _ = read_rows(open_table(held_out, schema), target, read)
    guarantee = estimator.guarantee_
    charge = guarantee.charge or PrivacyCost(Decimal(0), Decimal(0))
    return Trained(
        method,
        guarantee.label.value,
        decimal_text(charge.epsilon),
        decimal_text(charge.rho),
        float(np.mean(estimator.predict(unseen) == codes)),
    )


def train_all(asked: ClassifierTrial, *, seed: int, folder: Path) -> list[Trained]:
    """One study with every method at every owner, in a folder that is then full of secrets."""
    document = study_document(
        asked.data, owners=asked.owners, epsilon=asked.epsilon, delta=asked.delta
    )
    study = study_from_mapping(document)
    rows = folder / "rows.csv"
    write_csv(asked.data, rows)
    table, _ = read_cells(rows, study.table)
    division = divide(table, owners=asked.owners, seed=seed, split="iid")
    held_out = write_table(table.take(division.held_out), folder, stem="held-out", like=rows)
    models: list[Trained] = []
    spent = sum(method in SPENDING for method in asked.methods) * Decimal(asked.model_epsilon)
    policy = policy_text([study], "rows.csv", colluders=None, models=spent)
    with Processes() as live:
        federation = LocalFederation(live, folder, make_authority(folder / "authority"))
        federation.start()
        study_file = folder / "study.yaml"
        study_file.write_bytes(study.canonical_bytes())
        federation.operate("study", "create", study_file, "--yes")

        def call(name: str, *arguments: str) -> Mapping[str, Any]:
            return federation.own(name, *arguments).document

        for name, part in zip(study.owners, division.owners, strict=True):
            federation.join(name)
            write_table(table.take(part), federation.site(name), stem="rows", like=rows)
            (federation.site(name) / "policy.yaml").write_text(policy)
            call(name, "contribute", study.name, "--yes")
        for name in study.owners:
            call(name, "components", study.name, "--wait", str(WAIT_S))
            for method in asked.methods:
                if method in _ESTIMATORS:
                    own = federation.site(name) / "rows.csv"
                    models.append(
                        fit_estimator(method, asked, study.table, rows=own, held_out=held_out)
                    )
                    continue
                model = federation.site(name) / f"{method}.skops"
                made = call(
                    *(name, "train", study.name, "--target", asked.data.target),
                    *list_options(method, asked),
                    *("--output", str(model)),
                )
                judged = call(
                    *(name, "predict", "--model", str(model), "--data", str(held_out)),
                    *("--output", str(federation.site(name) / "found.parquet"), "--replace"),
                )
                models.append(
                    Trained(
                        method,
                        made["label"],
                        made["charged_epsilon"],
                        made["charged_rho"],
                        judged["accuracy"],
                    )
                )
    return models


def majority(data: PublicData) -> float:
    """Share of the commonest label of the target, over all rows."""
    names = [attribute["name"] for attribute in data.attributes]
    labels = Counter(row[names.index(data.target)] for row in data.rows)
    return max(labels.values()) / len(data.rows)


def table_text(found: Iterable[Trained], commonest: float) -> str:
    """Markdown: one row per method, in the order in which they first occur."""
    rows = [("commonest class", "", "", f"{commonest:.3f}", "")]
    for (method,), runs in group_runs(map(asdict, found), ["method"]).items():
        first, accuracies = Trained(**runs[0]), [each["accuracy"] for each in runs]
        parts = {"ε": first.charged_epsilon, "ρ": first.charged_rho}
        charged = " and ".join(f"{name} {x}" for name, x in parts.items() if x != "0") or "nothing"
        spread = f"{min(accuracies):.3f} to {max(accuracies):.3f}"
        rows.append((method, first.label, charged, f"{fmean(accuracies):.3f}", spread))
    header = ("method", "label", "charged", "accuracy", "range")
    return markdown_table(header, rows, words=range(5)).rstrip("\n")


@click.command()
@click.argument("name", type=click.Choice(sorted(DATA_SETS)))
@click.argument("methods", nargs=-1, type=click.Choice(METHODS), metavar="[METHOD] ...")
@click.option("--epsilon", required=True, help="Decimal, each owner's, of the components.")
@click.option("--model-epsilon", required=True, help="Decimal, of each model.")
@click.option("--delta", help="For Gaussian noise in the study and in the models.")
@click.option("--owners", type=int, default=3, show_default=True)
@click.option("--seeds", type=int, default=3, show_default=True, help="Runs, with seeds 1, 2, ...")
def cli(
    name: str,
    *,
    methods: tuple[str, ...],
    epsilon: str,
    model_epsilon: str,
    delta: str | None,
    owners: int,
    seeds: int,
) -> None:
    """Train models on real studies of a public data set, and try them on rows held out.

    \b
    Example:
      python -m benchmarks.models nltcs svm dp-svm --epsilon 1 --model-epsilon 1 --seeds 3
    """
    methods = methods or (*FREE, *SPENDING)
    if delta is None and set(methods) & set(_NEED_DELTA):
        raise SettingError(f"{' and '.join(_NEED_DELTA)} need --delta")
    data = DATA_SETS[name](data_folder())
    asked = ClassifierTrial(data, owners, epsilon, model_epsilon, delta, methods)
    trained: list[Trained] = []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory(prefix="dppca-models-") as folder:
            trained += train_all(asked, seed=seed, folder=Path(folder))
        click.echo(f"seed {seed} of {seeds} done", err=True)
    law = "Laplace" if delta is None else f"Gaussian, delta {delta}"
    click.echo(
        f"{name}: {len(data.rows)} rows, target {data.target}, {owners} owners, {law}; components "
        f"at epsilon {epsilon}, models at {model_epsilon}; {seeds} seeds"
    )
    click.echo(table_text(trained, majority(data)))


if __name__ == "__main__":
    run(cli)
