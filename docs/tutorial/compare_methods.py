"""Compare three private methods on a CSV file: run it, read it, change it.

    python docs/tutorial/compare_methods.py
    python docs/tutorial/compare_methods.py --data clinic.csv --output results/tutorial

It is one script in cells (``# %%``), as a notebook is; editors run them one by one. Without
``--data`` it makes up a clinic, so that it runs anywhere. For your own file change the schema in
the second cell. Plots need matplotlib: ``pip install matplotlib``.

All three methods make something that may leave the site, at the epsilon on the axis.
"""

# %% What we need
from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from dppca import (
    DPSVM,
    PPCADPMH,
    SVM,
    Binary,
    Categorical,
    NoiseWarning,
    Numeric,
    PrivateSVM,
    Schema,
)

Array = NDArray[np.float64]

options = argparse.ArgumentParser(description="Compare three private methods over epsilon.")
options.add_argument("--data", type=Path, help="CSV file with the columns of the schema")
options.add_argument("--rows", type=int, default=8000, help="rows to make up without --data")
options.add_argument("--runs", type=int, default=5, help="splits per point")
options.add_argument("--output", type=Path, default=Path("results/tutorial"))
given = options.parse_args()
given.output.mkdir(parents=True, exist_ok=True)
# Some epsilons below are too small on purpose: what the noise drowns there is said once.
warnings.simplefilter("once", NoiseWarning)

# %% Say what is public: the schema
# Bounds and labels come from the questionnaire, never from the rows: a bound that was looked up in
# the rows is a release that nobody has paid for. The last line says that nobody has two rows: if
# somebody may have five, write 5, and the noise grows five times.
schema = Schema(
    attributes=(
        Numeric(name="age", type="numeric", lower=18, upper=100),
        Numeric(name="pressure", type="numeric", lower=80, upper=220),
        Numeric(name="exercise", type="numeric", lower=0, upper=20),
        Binary(name="smoker", type="binary", values=("no", "yes")),
        Categorical(name="ward", type="categorical", categories=("north", "south", "west")),
        Binary(name="readmitted", type="binary", values=("no", "yes")),
    ),
    max_rows_per_person=1,
)
names = [attribute.name for attribute in schema.attributes]
target = names.index("readmitted")


# %% Load the rows
def make_up_a_clinic(path: Path, n_rows: int) -> None:
    """Write people who do not exist: older smokers with a high pressure come back."""
    rng = np.random.default_rng(7)
    age = rng.normal(58, 16, n_rows).clip(18, 100)
    smoker = rng.random(n_rows) < 0.35
    pressure = (100 + 0.5 * age + 12 * smoker + rng.normal(0, 12, n_rows)).clip(80, 220)
    exercise = rng.gamma(2.0, 2.0, n_rows).clip(0, 20)
    ward = rng.choice(["north", "south", "west"], n_rows, p=[0.5, 0.3, 0.2])
    risk = 0.06 * (age - 58) + 0.05 * (pressure - 133) + 1.2 * smoker - 0.25 * (exercise - 4)
    back = risk + rng.logistic(0, 1, n_rows) > 0.4
    yes_or_no = np.array(["no", "yes"])
    columns = [
        np.round(age),
        np.round(pressure),
        np.round(exercise, 1),
        yes_or_no[smoker.astype(int)],
        ward,
        yes_or_no[back.astype(int)],
    ]
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *zip(*columns, strict=True)])


def load(path: Path) -> Array:
    """One column per attribute: numbers, and 0, 1, ... for labels."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    columns = []
    for attribute in schema.attributes:
        fields = [row[attribute.name] for row in rows]
        if isinstance(attribute, Numeric):
            # Outside its public bounds a value counts as the bound: the federation's own rule.
            columns.append(np.clip(np.array(fields, float), attribute.lower, attribute.upper))
        else:
            columns.append(np.array([attribute.labels.index(field) for field in fields], float))
    return np.column_stack(columns)


if given.data is None:
    given.data = given.output / "clinic.csv"
    make_up_a_clinic(given.data, given.rows)
values = load(given.data)
print(f"{len(values)} rows, {len(names)} attributes, {values[:, target].mean():.0%} readmitted")


# %% Code them by the schema alone
def coded(rows: Array) -> Array:
    """Numbers and binaries in [-1/2, 1/2], one indicator per category: nothing learnt from rows."""
    parts = []
    for attribute, column in zip(schema.attributes, rows.T, strict=True):
        if isinstance(attribute, Numeric):
            assert attribute.lower is not None
            assert attribute.upper is not None
            width = attribute.upper - attribute.lower
            parts.append(((column - attribute.lower) / width - 0.5)[:, None])
        elif isinstance(attribute, Binary):
            parts.append((column - 0.5)[:, None])
        else:
            parts.append((column[:, None] == np.arange(len(attribute.labels))).astype(float))
    return np.hstack(parts)


start, stop = schema.layout.groups[target]  # the target's place among the coded columns
others = [attribute for i, attribute in enumerate(schema.attributes) if i != target]
categoricals = sum(isinstance(attribute, Categorical) for attribute in others)
row_norm = ((len(others) - categoricals) / 4 + categoricals) ** 0.5  # by coding: public


def features(rows: Array) -> Array:
    """Coded columns of everything but the target."""
    return np.delete(rows, np.s_[start:stop], axis=1)


# %% Three methods, and the ceiling
Classify = Callable[[Array], Array]


def by_synthetic_rows(training: Array, epsilon: float, seed: int) -> Classify:
    """PPCA-DP-MH: release components, draw rows, train whatever one likes on them."""
    model = PPCADPMH(epsilon=epsilon, schema=schema, contribution_rate=0.95, random_state=seed)
    model.fit(training, groups=np.arange(len(training)) % 3)  # three owners, a third of rows each
    labels = model.synthetic_[:, start] > np.quantile(
        model.synthetic_[:, start], 1 - np.clip(model.mean_[start] + 0.5, 0, 1)
    )
    if labels.all() or not labels.any():
        return lambda rows: np.full(len(rows), float(labels[0]))
    machine = LinearSVC(dual=False).fit(features(model.synthetic_), labels)
    return lambda rows: machine.predict(features(coded(rows))).astype(float)


def by_weights(training: Array, epsilon: float, seed: int) -> Classify:
    """DP-SVM: train on the rows, put noise on the weights."""
    del seed  # its noise is the operating system's, and cannot be seeded
    machine = DPSVM(
        epsilon=epsilon,
        max_rows_per_person=schema.max_rows_per_person,
        row_norm=row_norm,
        classes=[0.0, 1.0],
    )
    machine.fit(features(coded(training)), training[:, target])
    return lambda rows: machine.predict(features(coded(rows)))


def by_random_features(training: Array, epsilon: float, seed: int) -> Classify:
    """PrivateSVM: a curved boundary, with noise on the weights of random features."""
    machine = PrivateSVM(
        epsilon=epsilon,
        max_rows_per_person=schema.max_rows_per_person,
        n_pairs=30,
        gamma=0.5,
        random_state=seed,
    )
    machine.fit(features(coded(training)), training[:, target])
    return lambda rows: machine.predict(features(coded(rows)))


METHODS = {
    "PPCA-DP-MH, synthetic rows": by_synthetic_rows,
    "DP-SVM, noised weights": by_weights,
    "PrivateSVM, noised random features": by_random_features,
}
EPSILONS = (0.1, 0.3, 1.0, 3.0)

# %% Read the guarantee before the accuracy
example = DPSVM(epsilon=1, max_rows_per_person=schema.max_rows_per_person, row_norm=row_norm).fit(
    features(coded(values)), values[:, target]
)
print(example.guarantee_)

# %% Compare on the same splits
accuracy = {name: np.zeros((given.runs, len(EPSILONS))) for name in METHODS}
ceiling = np.zeros(given.runs)
for run in range(given.runs):
    order = np.random.default_rng(run).permutation(len(values))
    held_out, training = np.split(order, [len(order) // 5])
    truth = values[held_out, target]
    plain = SVM(kernel="linear").fit(features(coded(values[training])), values[training, target])
    ceiling[run] = (plain.predict(features(coded(values[held_out]))) == truth).mean()
    for name, method in METHODS.items():
        for place, epsilon in enumerate(EPSILONS):
            classify = method(values[training], epsilon, run)
            accuracy[name][run, place] = (classify(values[held_out]) == truth).mean()

print(f"{'epsilon':>36}" + "".join(f"{epsilon:>8}" for epsilon in EPSILONS))
for name, found in accuracy.items():
    print(f"{name:>36}" + "".join(f"{mean:8.3f}" for mean in found.mean(axis=0)))
print(f"{'no privacy':>36}" + f"{ceiling.mean():8.3f}" * len(EPSILONS))

# %% Plot
figure = Figure(figsize=(6.5, 4.2), layout="constrained")
FigureCanvasAgg(figure)
axes = figure.subplots()
axes.axhline(ceiling.mean(), color="#555555", linestyle="-.", label="no privacy")
styles = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", ":"))
for (name, found), (colour, marker, line) in zip(accuracy.items(), styles, strict=True):
    spread = found.std(axis=0, ddof=1) if given.runs > 1 else None
    axes.errorbar(
        EPSILONS,
        found.mean(axis=0),
        yerr=spread,
        color=colour,
        marker=marker,
        linestyle=line,
        capsize=2,
        label=name,
    )
axes.set_xscale("log")
axes.set_xlabel("epsilon")
axes.set_ylabel("accuracy on rows held out")
axes.legend(frameon=False)
figure.savefig(given.output / "accuracy.png", dpi=150)
figure.savefig(given.output / "accuracy.svg")
print(f"plots: {given.output / 'accuracy.png'}, {given.output / 'accuracy.svg'}")
