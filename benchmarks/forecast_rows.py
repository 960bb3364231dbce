"""How far forecasts of two-way tables are off: ``python -m benchmarks.forecast_rows``.

What `dppca.common.analysis.table_forecast` says of a study's synthetic rows, beside what rows have
that the product makes of a release of real ones. Three owners each add Gaussian noise of δ = 1e-9;
as many rows are drawn as there are. A numeric is judged in 20 equal cells.

The constants of the forecast were chosen on `CHOSEN_ON`. How forms of the other tables are ordered
was known when its formulas last changed.

mushrooms, splice, musk
    Public tables in the folder of data: 23 labels; 20 letters about the middle and the class; ten
    distances (between 5 angstrom on either side of a surface) and the class.
cells, digits
    Ten sizes and shapes of 569 nuclei of breast cells; twelve points of 1,797 images of digits, in
    17 steps of grey. scikit-learn ships both.
voters
    Answers of 944 people to the American election study of 1996, as statsmodels ships them.
sensors, loans
    Made here from a seed: 9,000 readings whose relations bend; 15,000 loans.
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import combinations
from math import hypot
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import (
    Found,
    KeyedTrial,
    group_runs,
    keep_cells,
    markdown_table,
    mean_and_error,
    page_options,
    run_trials,
)
from benchmarks.papers.data import read_musk
from benchmarks.papers.rows import read_libsvm
from benchmarks.performance.machine import made_here
from benchmarks.releases import (
    label_attribute,
    numeric_attributes,
    plain_attributes,
    pool,
    state_privacy,
    state_study,
)
from benchmarks.studies import ROOT, data_folder
from benchmarks.synthesis.forms import SHAPES
from benchmarks.synthesis.judging import attribute_cells
from benchmarks.synthesis.subjects import SUBJECTS as JUDGED
from benchmarks.synthesis.trials import DELTA, OWNERS, row_columns
from dppca.common.analysis.comparison import total_variation
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.analysis.spectrum.noise_edge import entry_noise
from dppca.common.analysis.table_forecast import TableForecast, forecast_tables
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import DataError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column, Schema
from dppca.common.kernel.study import Study
from dppca.common.shell.console import run

EPSILONS = ("0.2", "1", "3", "8")
DRAWS = 2
CELL = ("table", "form", "epsilon")
JSON_FILE = ROOT / "docs/evidence/forecast-rows.json"
PLAIN, HISTOGRAMS, TARGETED, TREES = "plain", "histograms", "histograms, target", "random trees"
BINS = {f"{count} bins": count for count in (8, 20, 40)}


Numbers = Mapping[str, tuple[float, float, NDArray[Any], Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class JudgedTable:
    """A table, its plain schema, and what is known of its numerics before a row is read."""

    attributes: Sequence[Mapping[str, Any]]
    columns: Sequence[Column]
    target: str
    shapes: Mapping[str, Mapping[str, Any]]

    @property
    def forms(self) -> tuple[str, ...]:
        """Forms of a study that are tried."""
        numeric = any(each["type"] == "numeric" for each in self.attributes)
        return (PLAIN, HISTOGRAMS, TARGETED, TREES, *(BINS if numeric else ()))

    def document(self, form: str) -> dict[str, Any]:
        """The schema of a form."""
        attributes = [{**each, **self.shapes.get(each["name"], {})} for each in self.attributes]
        document: dict[str, Any] = {"attributes": attributes}
        if form != PLAIN:
            document["sum_weight"] = 0.5
        for each in attributes:
            if each["type"] != "numeric":
                continue
            if form in BINS:
                each.update({"products": "bins", "bins": BINS[form]})
            elif form != PLAIN:
                each["histogram"] = True
            else:
                for name in ("spikes", "bins"):
                    each.pop(name, None)
        if form == TARGETED:
            document["targets"] = [self.target]
        if form == TREES:
            trees = {"count": 20, "leaves": 128, "seed": 0, "target": self.target}
            document["random_trees"] = trees
        return document


@lru_cache(16)
def load_table(name: str) -> JudgedTable:
    """The table called ``name``, one of `TABLES`."""
    return TABLES[name]()


def _judged(name: str) -> JudgedTable:
    subject = JUDGED[name]()
    return JudgedTable(
        plain_attributes(subject.schema),
        subject.columns,
        subject.targets[0].attribute,
        SHAPES.get(name, {}),
    )


def _mushrooms() -> JudgedTable:
    folder = data_folder() / "mushrooms"
    names = gzip.decompress((folder / "agaricus-lepiota.names.gz").read_bytes()).decode("latin-1")
    about = names[names.index("7. Attribute Information") : names.index("8. Missing")]
    parts = re.split(r"\n\s+\d+\. ", about)[1:]
    letters = [("class", ["e", "p"])] + [
        (re.sub(r"\W+", "_", part[: part.index(":")]).strip("_"), re.findall(r"=(\S?)", part))
        for part in parts
    ]
    text = gzip.decompress((folder / "agaricus-lepiota.data.gz").read_bytes()).decode()
    rows = [line.split(",") for line in text.split()]
    attributes = [label_attribute(name, labels) for name, labels in letters]
    columns = [
        np.array([labels.index(row[place]) for row in rows], np.int32)
        for place, (_, labels) in enumerate(letters)
    ]
    return JudgedTable(attributes, columns, "class", {})


def _splice() -> JudgedTable:
    rows, signs = read_libsvm(data_folder() / "splice/splice.gz", columns=60)
    attributes = [label_attribute(f"at_{place}", list("AGCT")) for place in range(20, 40)]
    columns = [np.asarray(rows[:, place] - 1, np.int32) for place in range(20, 40)]
    return JudgedTable(
        [*attributes, label_attribute("site", ["no", "yes"])],
        [*columns, (signs < 0).astype(np.int32)],
        *("site", {}),
    )


def _musk() -> JudgedTable:
    numbers, signs = read_musk(data_folder())
    attributes = [*numeric_attributes(10, -500, 500), label_attribute("musk", ["no", "yes"])]
    columns = [*numbers[:, :10].T.copy(), (signs > 0).astype(np.int32)]
    return JudgedTable(attributes, columns, "musk", {})


def _cells() -> JudgedTable:
    from sklearn.datasets import load_breast_cancer

    values, kinds = load_breast_cancer(return_X_y=True)
    tops = (30, 40, 200, 3000, 0.2, 0.5, 0.5, 0.25, 0.4, 0.1)
    attributes = [
        {"name": f"size_{place}", "type": "numeric", "lower": 0, "upper": top}
        for place, top in enumerate(tops)
    ]
    columns = [*values[:, :10].T.copy(), kinds.astype(np.int32)]
    return JudgedTable(
        [*attributes, label_attribute("benign", ["no", "yes"])], columns, "benign", {}
    )


def _sensors() -> JudgedTable:
    rng, n = np.random.default_rng(3), 9_000
    angle, load = rng.uniform(0, 360, n), 100 * rng.beta(2, 2, n)
    vibration = 5 + 3 * np.cos(np.radians(angle)) * load / 100 + rng.normal(0, 0.4, n)
    heat = 20 + 60 * (load / 100 - 0.3) ** 2 + rng.normal(0, 3, n)
    current = 2 + 0.12 * load + rng.normal(0, 0.8, n)
    speed = np.where(rng.random(n) < 0.4, rng.normal(900, 60, n), rng.normal(1500, 90, n))
    state = (load > 70).astype(np.int32) + 2 * (speed > 1200)
    fault = rng.random(n) < 0.03 + 0.5 * ((vibration > 6.5) & (heat > 30))
    numbers: Numbers = {
        "angle": (0, 360, angle, {}),
        "load": (0, 100, load, {}),
        "vibration": (0, 12, vibration, {}),
        "heat": (0, 80, heat, {}),
        "current": (0, 25, current, {}),
        "speed": (0, 2500, speed, {}),
    }
    return _made(numbers, {"state": (4, state), "fault": (2, fault)}, "fault")


def _digits() -> JudgedTable:
    from sklearn.datasets import load_digits

    values, digits = load_digits(return_X_y=True)
    places = [18, 19, 20, 21, 26, 28, 34, 36, 42, 43, 44, 45]
    bounds = {"type": "numeric", "lower": 0, "upper": 16}
    attributes = [{"name": f"at_{place}", **bounds} for place in places]
    columns = [*values[:, places].T.copy(), digits.astype(np.int32)]
    shapes = {f"at_{place}": {"integer": True} for place in places}
    return JudgedTable(
        [*attributes, label_attribute("digit", list("0123456789"))], columns, "digit", shapes
    )


def _voters() -> JudgedTable:
    spec = find_spec("statsmodels")
    if spec is None or not spec.submodule_search_locations:
        raise DataError("the election study ships inside statsmodels: pip install statsmodels")
    path = Path(next(iter(spec.submodule_search_locations))) / "datasets/anes96/anes96.csv"
    names, *rows = (line.split("\t") for line in path.read_text().replace("'", "").splitlines())
    values = dict(zip(names, np.array(rows, float).T, strict=True))
    bounds = {"TVnews": (0, 7), "age": (17, 100), "educ": (1, 7), "income": (1, 24)}
    numbers: Numbers = {
        name: (*each, values[name], {"integer": True}) for name, each in bounds.items()
    }
    labels = {name: (7, values[name] - 1) for name in ("selfLR", "ClinLR", "DoleLR")}
    return _made(
        numbers, {**labels, "PID": (7, values["PID"]), "vote": (2, values["vote"])}, "vote"
    )


def _loans() -> JudgedTable:
    rng, n = np.random.default_rng(4), 15_000
    grade = np.digitize(rng.beta(2, 3, n), (0.15, 0.3, 0.45, 0.6, 0.75))
    income = np.minimum(np.exp(10.3 - 0.12 * grade + rng.normal(0, 0.5, n)), 300_000)
    amount = np.clip(np.rint(income * rng.beta(2, 5, n) / 500) * 500, 500, 50_000)
    rate = np.clip(5 + 2.6 * grade + rng.normal(0, 1.1, n), 3, 30)
    years = np.where(rng.random(n) < 0.25, 10, rng.integers(0, 10, n)).astype(float)
    debt = 45 * rng.beta(2 + 0.3 * grade, 4, n)
    late = np.minimum(rng.poisson(0.15 + 0.15 * grade), 12).astype(float)
    purpose = rng.choice(7, n, p=[0.5, 0.2, 0.1, 0.08, 0.06, 0.04, 0.02])
    home = np.digitize(np.log(income) + rng.normal(0, 0.6, n), (9.8, 10.6))
    term = (rng.random(n) < 0.15 + 0.5 * (amount > 15_000)).astype(np.int32)
    unpaid = rng.random(n) < 0.04 + 0.03 * grade + 0.1 * (debt > 30)
    numbers: Numbers = {
        "income": (0, 300_000, income, {"score": "log"}),
        "amount": (0, 50_000, amount, {}),
        "rate": (0, 30, rate, {}),
        "years": (0, 10, years, {"integer": True}),
        "debt": (0, 60, debt, {}),
        "late": (0, 12, late, {"integer": True}),
    }
    labels = {
        "grade": (6, grade),
        "purpose": (7, purpose),
        "home": (3, home),
        "term": (2, term),
        "unpaid": (2, unpaid),
    }
    return _made(numbers, labels, "unpaid")


def _made(
    numbers: Numbers,
    labels: Mapping[str, tuple[int, NDArray[Any]]],
    target: str,
) -> JudgedTable:
    attributes = [
        {"name": name, "type": "numeric", "lower": lower, "upper": upper}
        for name, (lower, upper, _, _) in numbers.items()
    ]
    attributes += [
        label_attribute(name, list("abcdefg"[:count])) for name, (count, _) in labels.items()
    ]
    columns: list[Column] = [
        np.clip(values.astype(float), lower, upper) for lower, upper, values, _ in numbers.values()
    ]
    columns += [codes.astype(np.int32) for _, codes in labels.values()]
    return JudgedTable(attributes, columns, target, {n: each[3] for n, each in numbers.items()})


CHOSEN_ON = ("nltcs", "rule", "adult", "cells", "musk", "sensors", "splice", "mushrooms")
TABLES: Mapping[str, Callable[[], JudgedTable]] = {
    **{name: partial(_judged, name) for name in CHOSEN_ON[:3]},
    "cells": _cells,
    "musk": _musk,
    "sensors": _sensors,
    "splice": _splice,
    "mushrooms": _mushrooms,
    "voters": _voters,
    "digits": _digits,
    "loans": _loans,
}


@dataclass(frozen=True, slots=True)
class RowsTrial(KeyedTrial):
    """One release of a table in one form, and rows of it."""

    table: str
    form: str
    epsilon: str
    draw: int


def list_trials(names: Sequence[str], draws: int) -> Iterator[RowsTrial]:
    """Every trial: one draw of all, then the next; forms that take long last."""
    for draw in range(draws):
        forms = [(name, form) for name in names for form in load_table(name).forms]
        for name, form in sorted(forms, key=lambda each: each[1] in (TREES, "40 bins")):
            for epsilon in EPSILONS:
                yield RowsTrial(name, form, epsilon, draw)


@lru_cache(256)
def make_study(name: str, form: str, epsilon: str) -> Study:
    """The study of a cell."""
    privacy = state_privacy(epsilon, DELTA)
    return state_study("rows", load_table(name).document(form), privacy, owners=OWNERS)


@lru_cache(64)
def _moments(name: str, form: str) -> tuple[Moments, ...]:
    table, schema = load_table(name), make_study(name, form, EPSILONS[0]).table
    parts = np.array_split(np.random.default_rng(0).permutation(len(table.columns[0])), OWNERS)
    return tuple(accumulate_moments(schema, [c[part] for c in table.columns]) for part in parts)


def run_trial(trial: RowsTrial) -> Found:
    """Release, draw rows, compare all pairs."""
    rng = np.random.default_rng([trial.draw, 1])
    study, moments = make_study(trial.table, trial.form, trial.epsilon), _moments(*_form(trial))
    calibration = calibrate(study)
    law, counts = calibration.law, [each.n_rows for each in moments]
    vectors = [
        each.packed
        + np.rint(law.width * law.of_entries.standard(len(each.packed), rng)).astype(np.int64)
        for each in moments
    ]
    result = pool(study, calibration, counts, vectors)
    made = synthesize(result, study, Form.DECODED, n_rows=sum(counts), rng=rng)
    pairs = compare(load_table(trial.table), row_columns(made, study.table))
    noise = entry_noise(study.table.layout, deviation=law.deviation, owner_rows=counts)
    return asdict(trial) | {"pairs": pairs, "noise": noise, "n_rows": sum(counts)}


def _form(trial: RowsTrial) -> tuple[str, str]:
    return trial.table, trial.form


def compare(table: JudgedTable, columns: Sequence[Column]) -> float:
    """Mean total variation of the two-way tables of rows, from those of the table."""
    schema = Schema.from_document({"attributes": table.attributes})
    real, sizes = attribute_cells(schema, table.columns, {})
    made, _ = attribute_cells(schema, columns, {})
    offs = []
    for a, b in combinations(range(len(sizes)), 2):
        here, there = (
            np.bincount(each[a] * sizes[b] + each[b], minlength=sizes[a] * sizes[b])
            for each in (real, made)
        )
        offs.append(total_variation(here, there))
    return fmean(offs)


def judge(runs: Sequence[Mapping[str, Any]]) -> Found:
    """A cell, from all its runs: measured mean and standard error, and the forecast."""
    known = {name: runs[0][name] for name in CELL}
    forecast = forecast_tables(
        make_study(*known.values()).table, runs[0]["noise"], runs[0]["n_rows"]
    )
    assert forecast is not None
    measured = mean_and_error([run["pairs"] for run in runs])
    return {
        **known,
        "runs": len(runs),
        "measured": measured,
        **{name: round(figure, 4) for name, figure in asdict(forecast).items()},
        "inside": forecast.low <= measured[0] <= forecast.high,
    }


def count_orders(cells: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Pairs of forms of one table and epsilon: whether the forecasts are in their order.

    ``tied`` differ in what was measured by less than the standard error of the difference, which of
    a cell of one run is taken to be 1 %; ``far`` are those that `TableForecast.is_above` orders.
    """
    found: Counter[str] = Counter()
    for group in group_runs(cells, ("table", "epsilon")).values():
        for pair in combinations(group, 2):
            lower, upper = sorted(pair, key=lambda each: each["measured"][0])
            errors = [
                each["measured"][1] if each["runs"] > 1 else 0.01 * each["measured"][0]
                for each in pair
            ]
            if upper["measured"][0] - lower["measured"][0] < hypot(*errors):
                found["tied"] += 1
                continue
            a, b = (TableForecast(x["likely"], x["low"], x["high"]) for x in (lower, upper))
            right = "right" if b.likely > a.likely else "wrong"
            found[right] += 1
            found[f"far, {right}"] += a.is_above(b) or b.is_above(a)
    return found


def page_tables() -> dict[str, str]:
    """The tables of the page, from the committed file."""
    cells = json.loads(JSON_FILE.read_text())["cells"]
    groups = {key[0]: each for key, each in group_runs(cells, ("table",)).items()}
    new = [each for each in cells if each["table"] not in CHOSEN_ON]
    chosen = [each for each in cells if each["table"] in CHOSEN_ON]
    rows = [_line(name, each) for name, each in groups.items() if name not in CHOSEN_ON]
    rows += [_line("all new", new), _line("the others", chosen)]
    header = ["table", "cells", "inside", "measured / likely", "forms in order", "that are ordered"]
    return {"rows": markdown_table(header, rows)}


def _line(name: str, cells: Sequence[Mapping[str, Any]]) -> list[str]:
    ratios = sorted(each["measured"][0] / each["likely"] for each in cells)
    orders = count_orders(cells)
    asked, far = (orders[f"{kind}right"] + orders[f"{kind}wrong"] for kind in ("", "far, "))
    return [
        name,
        str(len(cells)),
        str(sum(each["inside"] for each in cells)),
        f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
        f"{orders['right']} of {asked}",
        f"{orders['far, right']} of {far}",
    ]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(TABLES)))
@click.option("--draws", type=click.IntRange(min=1), default=DRAWS, show_default=True)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
@page_options("forecast-rows")
def cli(names: tuple[str, ...], *, draws: int, jobs: int, path: Path, write: bool) -> None:
    """Forecast and measured error of the two-way tables of synthetic rows."""
    trials = list(list_trials(names or [*TABLES], draws))
    runs = run_trials(trials, path, run=run_trial, jobs=jobs)
    cells = [judge(each) for each in group_runs(runs, CELL).values()]
    for each in cells:
        click.echo(" ".join(str(figure) for figure in each.values()))
    if write:
        keep_cells(
            JSON_FILE,
            [{**cell, **made_here()} for cell in cells],
            known_by=CELL,
            order=lambda cell: [*TABLES].index(cell["table"]),
        )


if __name__ == "__main__":
    run(cli)
