"""Synthetic rows: a fit and rows drawn from it, beside other makers of synthetic tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable, Run, open_guests
from benchmarks.synthesis.forms import TARGETED, find_form
from benchmarks.synthesis.judging import attribute_cells
from benchmarks.synthesis.subjects import load_subject
from benchmarks.synthesis.trials import make_study, release
from dppca.common.documents.messages import Form
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.numerics.threads import one_blas_thread
from dppca.common.privacy.release import calibrate
from dppca.common.schema import Column, Numeric, Schema
from dppca.common.synthesis.rows import SyntheticRows, synthesize

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
    if plan.quick:
        return [_race(plan, *_wide(400, numerics=2, binaries=1, categoricals=(3,)), {}, "Tiny")]
    pythons = {
        name: plan.environment(name, folder, *installs)
        for name, (folder, installs) in ENVIRONMENTS.items()
    }
    adult = load_subject("adult")
    first = [column[:ROWS] for column in adult.columns]
    wide = _wide(ROWS, numerics=20, binaries=10, categoricals=(9,) * 30 + (10,) * 20)
    others = {name: python for name, python in pythons.items() if name != PGM}
    return [
        _race(plan, find_form(adult, TARGETED), first, pythons, "Adult"),
        _race(plan, *wide, others, "80 attributes"),
    ]


def _race(
    plan: BenchmarkPlan,
    document: Mapping[str, Any],
    columns: list[Column],
    pythons: Mapping[str, Path | None],
    what: str,
) -> FigureTable:
    study, n_rows = make_study(document, "gaussian", "1", owners=1), len(columns[0])
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
    write_table(path, schema, columns, *attribute_cells(schema, columns, {}, count=_BINS))
    fits: dict[str, Run] = {"DPPCA": fit}
    draws: dict[str, Run] = {"DPPCA": rows}
    given = (plan, pythons, str(path), str(n_rows), "1", "1e-9", "0")
    with open_guests(*given, threads=1, patience_s=PATIENCE_S) as (fitted, notes):
        for name, (ask, _) in fitted.items():
            if name != PGM:
                fits[name] = partial(ask, "fit")
            draws[name] = partial(ask, "rows")
        fit_seconds = {name: seconds for name, (_, seconds) in fitted.items()}
        plan.say(f"{what}: fits")
        fit_seconds |= {name: each.median_s for name, each in plan.race(fits, most=3).items()}
        plan.say(f"{what}: rows")
        drawn = {name: each.median_s for name, each in plan.race(draws, most=3).items()}
    mine = fit_seconds["DPPCA"] + drawn["DPPCA"]
    cells: list[tuple[Cell, ...]] = [
        (name, fit_seconds[name], each, n_rows / each, (fit_seconds[name] + each) / mine)
        for name, each in drawn.items()
    ]
    cells += [(note, None, None, None, None) for note in notes]
    return FigureTable(
        f"{what}, {schema.layout.n_columns} coded columns: seconds for the fit and for {n_rows:,} "
        f"rows; ours were made by the {made[0].method}.",
        ("library", "fit", "rows", "rows a second", "ratio"),
        tuple(cells),
    )


def write_table(
    path: Path,
    schema: Schema,
    columns: Sequence[Column],
    codes: Sequence[Any],
    sizes: Sequence[int],
) -> None:
    """Values, codes of them and how many there are, and which are numeric, for a guest."""
    np.savez(
        path,
        values=np.column_stack(columns),
        codes=np.column_stack(codes),
        sizes=sizes,
        numeric=[isinstance(each, Numeric) for each in schema.attributes],
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
            bounds = {"lower": -4, "upper": 4, "histogram": True}
            attributes.append({"name": name, "type": "numeric", **bounds})
            continue
        edges = np.linspace(-2, 2, size + 1)[1:-1]
        columns.append(np.digitize(score, edges).astype(np.int32))
        kind, key = ("binary", "values") if size == 2 else ("categorical", "categories")
        attributes.append({"name": name, "type": kind, key: [str(each) for each in range(size)]})
    return {"sum_weight": 0.5, "attributes": attributes}, columns
