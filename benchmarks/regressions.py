"""Coverage of adjusted odds ratios and marginal effects: ``python -m benchmarks.regressions``.

Each release draws 15,000 rows with replacement from a public table, which is the population, dealt
to three owners, with the noise of the product. Asked are log odds of a few related regressors from
a released table of them, and from pairs alone. A set without an end counts as given; what is
refused does not. *Bias* is that of the median estimate, in standard errors of the rows' own fit;
*width* that of bounded intervals beside the own fit's.

Trials of a few releases are kept in a file, and not run again; ``--write`` puts what is there into
`docs/evidence/regressions.json`.
"""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.covariance_noise import LAWS
from benchmarks.experiment import (
    Found,
    KeyedTrial,
    group_runs,
    keep_cells,
    page_options,
    read_runs,
    run_trials,
)
from benchmarks.releases import label_attribute, pool, state_study
from benchmarks.studies import DATA_SETS, ROOT, PublicData, data_folder, parse_rows
from dppca.common.analysis.estimates.face import estimates
from dppca.common.kernel.attestation.results import Published
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.privacy.release import calibrate, draw
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run

EVIDENCE = ROOT / "docs/evidence/regressions.json"
ROWS, OWNERS, AT_ONCE = 15_000, 3, 20
EPSILONS = ("0.5", "3", "50")
_FROM_PAIRS = ("nltcs", "mushrooms")
ASKS = ("logit", "marginal-effects")
CELL = ("asks", "model", "table", "law", "epsilon")
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoverageModel:
    """A regression on a public table: outcome, regressors, and how numbers enter the table."""

    data: str
    outcome: str
    regressors: tuple[str, ...]
    cells: tuple[tuple[str, int], ...] = ()


MODELS = {
    "nltcs": CoverageModel("nltcs", "outside=1", ("bathing", "dressing", "inside")),
    "adult": CoverageModel(
        "adult", "income=>50K", ("sex", "age", "education_num"), (("age", 10), ("education_num", 8))
    ),
    "adult, 2 %": CoverageModel("adult", "occupation=Protective-serv", ("sex", "race", "income")),
    "mushrooms": CoverageModel("mushrooms", "class=p", ("bruises", "stalk_shape", "gill_spacing")),
}


@dataclass(frozen=True, slots=True)
class CoverageTrial(KeyedTrial):
    """Some releases of a cell; ``table`` is yes or no, ``asks`` one of `ASKS`."""

    model: str
    table: str
    law: str
    epsilon: str
    block: int
    asks: str = "logit"


def mushrooms(folder: Path) -> PublicData:
    """Eight thousand mushrooms by their letters; four of their attributes."""
    with gzip.open(folder / "mushrooms" / "agaricus-lepiota.data.gz", "rt") as file:
        fields = [line.strip().split(",") for line in file if line.strip()]
    places = {"class": 0, "bruises": 4, "gill_spacing": 7, "stalk_shape": 10}
    rows = [[each[place] for place in places.values()] for each in fields]
    labels = [sorted({row[place] for row in rows}) for place in range(len(places))]
    attributes = [label_attribute(name, own) for name, own in zip(places, labels, strict=True)]
    return PublicData("mushrooms", attributes, rows, 0.9, "class")


def read_data(model: CoverageModel) -> PublicData:
    """Return the attributes of a model alone."""
    whole = {**DATA_SETS, "mushrooms": mushrooms}[model.data](data_folder())
    names = [each["name"] for each in whole.attributes]
    wanted = [model.outcome.partition("=")[0], *model.regressors]
    places = [names.index(name) for name in wanted]
    attributes = [dict(whole.attributes[place]) for place in places]
    for name, _ in model.cells:
        attributes[wanted.index(name)] |= {"histogram": True, "integer": True}
    rows = [[row[place] for place in places] for row in whole.rows]
    if "race" in wanted:  # labels of .8 % have two events of 2 % in a sample
        place = wanted.index("race")
        attributes[place] = label_attribute("race", ["other", "White"])
        for row in rows:
            row[place] = row[place] if row[place] == "White" else "other"
    return PublicData(whole.name, attributes, rows, 0.9, wanted[0])


def study_of(data: PublicData, model: CoverageModel, trial: CoverageTrial) -> Study:
    """Return the study of a trial."""
    privacy, settings = LAWS[trial.law]
    table: dict[str, Any] = {"table": list(model.regressors)}
    if model.cells:
        table["cells"] = dict(model.cells)
    tables = {"tables": [table]} if trial.table == "yes" else {}
    schema = {"attributes": data.attributes, **settings, **tables}
    return state_study(data.name, schema, {**privacy, "epsilon": trial.epsilon}, owners=OWNERS)


def designs(study: Study, model: CoverageModel, columns: Sequence[Column]) -> tuple[Array, Array]:
    """Return regressors with ones, shape (n, k), and the outcome, (n,); first labels left out."""
    _, _, label = model.outcome.partition("=")
    names = [each.name for each in study.table.attributes]
    x = [np.ones(len(columns[0]))]
    for name in model.regressors:
        place = names.index(name)
        known = labels_of(study, place)
        if known is None:
            x.append(np.asarray(columns[place], dtype=np.float64))
        else:
            x += [np.asarray(columns[place] == code, float) for code in range(1, len(known))]
    known = labels_of(study, 0) or ()
    return np.column_stack(x), np.asarray(columns[0] == known.index(label), float)


def labels_of(study: Study, place: int) -> tuple[str, ...] | None:
    """Return the labels of an attribute; None for a number."""
    from dppca.common.kernel.schema.attributes import list_labels

    found = list_labels(study.table.attributes[place])
    return None if found is None else tuple(str(each) for each in found)


def fit_rows(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the coefficients of the rows' own fit and their standard errors."""
    scale = np.maximum(np.abs(x).max(axis=0), 1e-9)
    x, beta = x / scale, np.zeros(x.shape[1])
    for _ in range(40):
        mu = 1 / (1 + np.exp(-np.clip(x @ beta, -35, 35)))
        information = (x * (mu * (1 - mu))[:, None]).T @ x
        step = np.linalg.solve(information + 1e-9 * np.eye(len(beta)), x.T @ (y - mu))
        beta = beta + step * min(1, 3 / max(float(np.linalg.norm(step)), 1e-12))
    return beta / scale, np.sqrt(np.diag(np.linalg.inv(information))) / scale


def fit_effects(x: Array, y: Array, places: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Return the mean effects of the rows' own fit and their standard errors.

    ``places`` are the columns of each regressor: one of a number, or those of its labels.
    """
    n, (beta, _) = len(x), fit_rows(x, y)
    mu = 1 / (1 + np.exp(-x @ beta))
    slope = mu * (1 - mu)
    inverse = np.linalg.inv((x * slope[:, None]).T @ x)
    effects, errors = [], []
    for own in places:
        for column in own:
            if set(np.unique(x[:, column])) <= {0.0, 1.0}:
                one, other = x.copy(), x.copy()
                one[:, own] = other[:, own] = 0
                one[:, column] = 1
                up, down = (1 / (1 + np.exp(-each @ beta)) for each in (one, other))
                h = up - down
                each = one * (up * (1 - up))[:, None] - other * (down * (1 - down))[:, None]
            else:
                h = slope * beta[column]
                each = x * (slope * (1 - 2 * mu) * beta[column])[:, None]
                each[:, column] += slope
            gradient = each.mean(axis=0)
            effects.append(h.mean())
            errors.append(np.sqrt(gradient @ inverse @ gradient + h.var() / n))
    return np.array(effects), np.array(errors)


def columns_of(study: Study, model: CoverageModel) -> list[list[int]]:
    """Return the columns of each regressor in a design."""
    names, found, start = [each.name for each in study.table.attributes], [], 1
    for name in model.regressors:
        known = labels_of(study, names.index(name))
        size = 1 if known is None else len(known) - 1
        found.append(list(range(start, start + size)))
        start += size
    return found


def releases(
    study: Study, columns: Sequence[Column], trial: CoverageTrial, count: int
) -> Iterator[tuple[NDArray[np.int64], Published]]:
    """Yield rows and the released result of samples."""
    calibration = calibrate(study)
    for place in range(count):
        seed = trial.block * AT_ONCE + place
        rng, entropy = np.random.default_rng(seed), SeededEntropy(seed)
        rows = rng.integers(0, len(columns[0]), ROWS)
        parts = np.array_split(rows, OWNERS)
        vectors = [
            draw(
                study,
                calibration,
                accumulate_moments(study.table, [each[part] for each in columns]),
                release_id=bytes(15) + bytes([owner]),
                ledger_sequence=1,
                entropy=entropy,
            ).packed
            for owner, part in enumerate(parts)
        ]
        yield rows, Published(study, pool(study, calibration, map(len, parts), vectors))


def run_trial(trial: CoverageTrial, count: int = AT_ONCE) -> Found:
    """Return, for each release and coefficient, what it gave."""
    model = MODELS[trial.model]
    data = read_data(model)
    study = study_of(data, model, trial)
    columns = parse_rows(study.table, data.rows)
    x, y = designs(study, model, columns)
    places = columns_of(study, model)

    def fit(x: Array, y: Array) -> tuple[Array, Array]:
        return fit_rows(x, y) if trial.asks == "logit" else fit_effects(x, y, places)

    truth, _ = fit(x, y)
    reference = {
        name: str((labels_of(study, 1 + place) or ("",))[0])
        for place, name in enumerate(model.regressors)
        if len(labels_of(study, 1 + place) or ()) > 2
    }
    found: dict[str, list[list[float | None]]] = {
        name: [] for name in ("estimate", "low", "high", "own", "own_se")
    }
    start = perf_counter()
    for rows, published in releases(study, columns, trial, count):
        face = estimates(published)
        answer = (
            face.logit(model.outcome, model.regressors, reference=reference, log=True)
            if trial.asks == "logit"
            else face.marginal_effects(model.outcome, model.regressors, reference=reference)
        )
        own, own_se = fit(x[rows], y[rows])
        low, high = answer.conf_int().T
        for name, values in (
            ("estimate", answer.params),
            *(("low", low), ("high", high)),
            *(("own", own), ("own_se", own_se)),
        ):
            found[name].append([None if np.isnan(each) else float(each) for each in values])
    seconds = (perf_counter() - start) / count
    return {
        **{name: getattr(trial, name) for name in (*CELL, "block")},
        "truth": truth.tolist(),
        "events": float(y.mean()),
        "seconds": seconds,
        **found,
    }


def summarise(trials: Sequence[Mapping[str, Any]]) -> Found:
    """Return the cell of some trials of the same setting."""

    def values(name: str) -> Array:
        return np.array([row for each in trials for row in each[name]], dtype=np.float64)

    truth = np.array(trials[0]["truth"])
    low, high, own, own_se = (values(name) for name in ("low", "high", "own", "own_se"))
    given = ~np.isnan(low)
    held = (low <= truth) & (truth <= high) & given
    bounded = np.isfinite(low) & np.isfinite(high)
    width = np.where(bounded, high - low, np.nan) / (2 * 1.959964 * own_se)
    by_place = [
        held[:, j].sum() / given[:, j].sum() for j in range(len(truth)) if given[:, j].any()
    ]
    estimate = values("estimate")
    spread = own.std(axis=0)
    rows_held = np.abs(own - truth) <= 1.959964 * own_se

    def median(numbers: Array) -> list[float | None]:
        columns = [column[np.isfinite(column)] for column in numbers.T]
        return [round(float(np.median(each)), 2) if len(each) else None for each in columns]

    return {
        **{name: trials[0][name] for name in CELL},
        "events": round(trials[0]["events"], 4),
        "releases": len(low),
        "given": round(float(given.mean()), 3),
        "unbounded": round(float((given & ~bounded).sum() / max(given.sum(), 1)), 3),
        "coverage": round(float(held.sum() / max(given.sum(), 1)), 4),
        "least": round(float(min(by_place)), 3) if by_place else None,
        "own_coverage": round(float(rows_held.mean()), 4),
        "bias": median((estimate - truth) / spread),
        "own_bias": median((own - truth) / spread),
        "width": median(width),
        "seconds": round(float(np.mean([each["seconds"] for each in trials])), 3),
    }


def all_trials(blocks: int) -> list[CoverageTrial]:
    """Every setting, blocks of all settings in turn; two models also from pairs alone.

    Marginal effects are of tables, under Gaussian noise.
    """
    return [
        CoverageTrial(model, table, law, epsilon, block, asks)
        for asks in ASKS
        for block in range(blocks)
        for model in MODELS
        for table in (("yes", "no") if model in _FROM_PAIRS else ("yes",))
        for law in LAWS
        for epsilon in EPSILONS
        if (table == "yes" or (law == "gaussian" and epsilon != "50"))
        and (asks == "logit" or (table == "yes" and law == "gaussian" and epsilon != "50"))
    ]


@click.command()
@page_options("regressions")
@click.option("--releases", "count", default=400, show_default=True, type=click.IntRange(AT_ONCE))
@click.option("--asks", type=click.Choice(ASKS), multiple=True, default=ASKS)
@click.option("--model", "models", type=click.Choice(list(MODELS)), multiple=True, default=MODELS)
def cli(path: Path, *, write: bool, count: int, asks: Sequence[str], models: Sequence[str]) -> None:
    """Run what the file of trials lacks, and print a line for each cell."""
    chosen = [
        each for each in all_trials(count // AT_ONCE) if each.asks in asks and each.model in models
    ]
    run_trials(chosen, path, run=run_trial)
    cells = [summarise(each) for each in group_runs(read_runs(path).values(), CELL).values()]
    for each in cells:
        click.echo(json.dumps(each))
    if write:
        keep_cells(EVIDENCE, cells, known_by=CELL, order=lambda each: [each[n] for n in CELL])


if __name__ == "__main__":
    run(cli)
