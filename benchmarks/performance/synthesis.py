"""Synthetic rows: a fit and rows drawn from it, beside other makers of synthetic tables."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.performance.environments import make_environment, open_guest
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.studies import ROOT
from benchmarks.synthesis.forms import TARGETED, find_form
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import make_study, release
from dppca.common.messages import Form
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.numerics.threads import one_blas_thread
from dppca.common.privacy.release import calibrate
from dppca.common.schema import Column, Numeric, Schema
from dppca.owner.synthesis.rows import SyntheticRows, synthesize

TITLE = "Synthetic rows"
ABOUT = """
From a stored result to decoded rows, on one thread: the field is fitted, then rows are drawn and
made Arrow batches. Seconds are the processor's, so other work on the machine is not in them. Beside
it, each in an environment that the benchmark makes with pip and on one thread too: SDV's
GaussianCopula without privacy, fitted to 36,000 rows (SDV is installed without torch, which this
model does not use), and MST with Private-PGM's inference as dpmm ships it (private-pgm itself is on
no package index), given the same rows with numerics in 32 bins, at ε = 1, δ = 1e-9, and only at the
first size: its fit takes minutes and is timed once. The first table is Adult (104 coded columns)
with histograms; the second has 500 coded columns of 80 attributes. Where another library cannot be
installed its row says so. A ratio above 1 means that DPPCA is the faster, fit and rows together.
"""

ROWS = 36_000
PATIENCE_S = 1200.0
_BINS = 32
GUEST = Path(__file__).with_name("synthesis_guest.py")
SDV, PGM = "SDV GaussianCopula", "Private-PGM (dpmm, MST)"
_SDV_NEEDS = (
    *("copulas==0.14.1", "rdt==2.0.0", "sdmetrics==0.32.0", "pandas==2.3.3", "numpy==2.4.6"),
    *("boto3==1.44.5", "cloudpickle==3.1.2", "graphviz==0.21", "platformdirs==4.14.7"),
    *("plotly==7.1.0", "tqdm==4.70.1", "Faker==40.54.0", "PyYAML==6.0.3"),
)
ENVIRONMENTS = {
    SDV: ("sdv-2.0.0", (_SDV_NEEDS, ("--no-deps", "sdv==2.0.0"))),
    PGM: ("dpmm-0.1.9", (("dpmm==0.1.9",),)),
}


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """One table per schema."""
    environments = {} if plan.quick else _install(plan)
    n_rows = 400 if plan.quick else ROWS
    if plan.quick:
        document, columns = _wide(n_rows, numerics=2, binaries=1, categoricals=(3,))
        return [_race(plan, document, columns, n_rows, environments, "Tiny")]
    adult = load_subject("adult")
    form = find_form(adult, TARGETED)
    first = [column[:n_rows] for column in adult.columns]
    wide = _wide(n_rows, numerics=20, binaries=10, categoricals=(9,) * 30 + (10,) * 20)
    others = {name: python for name, python in environments.items() if name != PGM}
    return [
        _race(plan, form.document, first, n_rows, environments, "Adult"),
        _race(plan, *wide, n_rows, others, "80 attributes"),
    ]


def _race(
    plan: BenchmarkPlan,
    document: Mapping[str, Any],
    columns: list[Column],
    n_rows: int,
    environments: Mapping[str, Path | None],
    what: str,
) -> FigureTable:
    study = make_study(document, "gaussian", "1", owners=1)
    schema, calibration = study.table, calibrate(study)
    with one_blas_thread():
        moments = accumulate_moments(schema, columns)
        result = release(study, calibration, [moments], rng=np.random.default_rng(0))
    made: list[SyntheticRows] = []

    def fit() -> float:
        begin, rng = process_time(), np.random.default_rng(1)
        made[:] = [synthesize(result, study, Form.DECODED, n_rows=n_rows, rng=rng)]
        return process_time() - begin

    def rows() -> float:
        begin = process_time()
        for _ in made[0].batches():
            pass
        return process_time() - begin

    path = plan.scratch / f"{what}.npz"
    _save(path, schema, columns)
    fits, draws = [BenchmarkSubject("DPPCA", fit)], [BenchmarkSubject("DPPCA", rows)]
    once: dict[str, float] = {}
    notes: dict[str, str] = {}
    with ExitStack() as stack:
        for name, python in environments.items():
            if python is None:
                notes[name] = "not installed"
                continue
            plan.say(f"{name} fits {what}")
            ask = stack.enter_context(
                open_guest(python, GUEST, name, str(path), str(n_rows), threads=1)
            )
            first = ask("fit", PATIENCE_S)
            if first is None:
                notes[name] = f"not done in {PATIENCE_S:.0f} s"
                continue
            if name == PGM:
                once[name] = first
            else:
                fits.append(BenchmarkSubject(name, partial(ask, "fit", None)))
            draws.append(BenchmarkSubject(name, partial(ask, "rows", None)))
        plan.say(f"{what}: fits")
        fit_times = time_subjects(fits, rounds=min(plan.rounds, 3))
        plan.say(f"{what}: rows")
        row_times = time_subjects(draws, rounds=min(plan.rounds, 3))
    fit_seconds = {name: once.get(name) or fit_times[name].median_s for name in row_times}
    mine = fit_seconds["DPPCA"] + row_times["DPPCA"].median_s
    cells: list[tuple[Cell, ...]] = [
        (
            name,
            fit_seconds[name],
            each.median_s,
            n_rows / each.median_s,
            (fit_seconds[name] + each.median_s) / mine,
        )
        for name, each in row_times.items()
    ]
    cells += [(f"{name} ({note})", None, None, None, None) for name, note in notes.items()]
    return FigureTable(
        f"{what}, {schema.layout.n_columns} coded columns: seconds for the fit and for {n_rows:,} "
        f"rows; ours were made by the {made[0].method}.",
        ("library", "fit", "rows", "rows a second", "ratio"),
        tuple(cells),
    )


def _install(plan: BenchmarkPlan) -> dict[str, Path | None]:
    """Interpreters of environments, by contestant; None where one could not be made."""
    made = {}
    for name, (folder, installs) in ENVIRONMENTS.items():
        plan.say(f"an environment for {name}")
        python, fault = make_environment(ROOT / "build/tools" / folder, *installs)
        if python is None:
            plan.say(f"{name} cannot be installed here and is left out: {fault}")
        made[name] = python
    return made


def _save(path: Path, schema: Schema, columns: list[Column]) -> None:
    """Values, codes with numerics in equal bins, and which are numeric, for a guest."""
    numeric = [isinstance(attribute, Numeric) for attribute in schema.attributes]
    codes, sizes = [], []
    for attribute, column in zip(schema.attributes, columns, strict=True):
        if isinstance(attribute, Numeric):
            lower, upper = attribute.bounds
            places = np.floor((column - lower) / (upper - lower) * _BINS)
            codes.append(np.clip(places, 0, _BINS - 1).astype(np.int64))
            sizes.append(_BINS)
        else:
            codes.append(column.astype(np.int64))
            sizes.append(len(attribute.labels))
    np.savez(
        path,
        values=np.column_stack(columns),
        codes=np.column_stack(codes),
        sizes=sizes,
        numeric=numeric,
    )


def _wide(
    n_rows: int, *, numerics: int, binaries: int, categoricals: tuple[int, ...]
) -> tuple[dict[str, Any], list[Column]]:
    """Attributes that five hidden numbers tie together, and their schema."""
    rng = np.random.default_rng(30)
    sizes = (0,) * numerics + (2,) * binaries + categoricals
    hidden = rng.standard_normal((n_rows, 5))
    scores = hidden @ rng.standard_normal((5, len(sizes))) / 2
    scores += rng.standard_normal(scores.shape)
    attributes: list[dict[str, Any]] = []
    columns: list[Column] = []
    for index, (size, score) in enumerate(zip(sizes, scores.T, strict=True)):
        name = f"x{index}"
        if size == 0:
            columns.append(np.clip(score, -4, 4))
            attributes.append(
                {"name": name, "type": "numeric", "lower": -4, "upper": 4, "histogram": True}
            )
            continue
        edges = np.linspace(-2, 2, size + 1)[1:-1]
        columns.append(np.digitize(score, edges).astype(np.int32))
        labels = [str(each) for each in range(size)]
        key = (
            {"type": "binary", "values": labels}
            if size == 2
            else {"type": "categorical", "categories": labels}
        )
        attributes.append({"name": name, **key})
    return {"sum_weight": 0.5, "attributes": attributes}, columns
