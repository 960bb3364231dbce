"""How far forecasts are off: ``python -m benchmarks.forecast``.

The forecast of ``dppca-curator plan`` (`dppca.common.analysis.forecast`), given the true
eigenvalues of a real table and nothing else of it, against what the shipped release path does to
that table: rows divided among three owners, exact integer moments, noise from the operating system,
pooled and decomposed, over a grid of epsilons and for both mechanisms. What is compared is the
variance that the components captured of what as many best ones would: its mean over runs.

Tables: ``nltcs`` and ``adult`` (`benchmarks.studies`), the demo's rows, and ``musk`` (6,598 x 166
distances in hundredths of an angstrom) as unit-ball rows: x / (200 sqrt(166)), a public number:
rows whose distances are 2 angstrom in root mean square have norm 1, longer ones are shortened.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from math import sqrt
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import fill_tables, group_runs, keep_cells, markdown_table
from benchmarks.forecast_rows import page_tables
from benchmarks.papers.data import read_musk
from benchmarks.performance.machine import made_here
from benchmarks.releases import state_privacy, state_study
from benchmarks.studies import DATA_SETS, ROOT, data_folder, parse_rows, study_document
from benchmarks.synthesis.subjects import demo_by_row, load_subject
from dppca.common.analysis.forecast import ForecastSimulation
from dppca.common.analysis.spectrum.pca import count_components, decompose, pooled_covariance
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import Moments, unpack
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.mechanisms import Calibration, add_noise
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study, study_from_mapping
from dppca.common.shell.console import progress, run
from dppca.curator.planning.forecaster import with_privacy
from dppca.deploy.simulation.evaluate import captured_variance

JSON_FILE, PAGE = ROOT / "docs/evidence/forecast.json", ROOT / "docs/reference/forecast.md"
OWNERS = 3
DELTA = Decimal("1e-9")
GRID = tuple(Decimal(x) for x in ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"))
RANGE = (0.2, 0.95)
TOLERANCE = 0.05
SHOWN = ("0.1", "1")
_SEED = 1


Subject = tuple[Study, Sequence[Column]]
"""A study, and its rows as one array of values per attribute."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One mechanism at one epsilon; ``spread`` is one standard deviation over runs."""

    name: str
    mechanism: str
    epsilon: Decimal
    forecast: float
    measured: float
    spread: float

    @property
    def error(self) -> float:
        """Forecast minus measured."""
        return self.forecast - self.measured

    @property
    def counts(self) -> bool:
        """Whether the forecast is in the range where it is asked to hold."""
        return RANGE[0] <= self.forecast <= RANGE[1]

    def cell(self, runs: int) -> dict[str, Any]:
        """What is kept of it, to three digits."""
        figures = ("forecast", "measured", "spread", "error")
        return {
            "table": self.name,
            "mechanism": self.mechanism,
            "epsilon": str(self.epsilon),
            **{name: round(getattr(self, name), 3) for name in figures},
            "asked": self.counts,
            "runs": runs,
        }


def compare(
    name: str, subject: Subject, runs: int, advance: Callable[[], None]
) -> list[Comparison]:
    """Every mechanism and epsilon of the grid, from ``runs`` releases each."""
    study, columns = subject
    n_rows = len(columns[0])
    order = np.random.default_rng(_SEED).permutation(n_rows)
    parts = [
        accumulate_moments(study.table, [column[part] for column in columns])
        for part in np.array_split(order, OWNERS)
    ]
    truth = _covariance([part.packed for part in parts], n_rows, study)
    eigenvalues = np.maximum(np.linalg.eigvalsh(truth)[::-1], 0)
    comparisons = []
    for law in LAWS.values():
        simulation = ForecastSimulation(
            study.table.layout,
            eigenvalues,
            law=law,
            owner_rows=[part.n_rows for part in parts],
            covariance=study.covariance,
            seed=_SEED,
        )
        for epsilon in GRID:
            calibration = calibrate(with_privacy(study, law, epsilon, DELTA))
            captured = [_run(study, parts, calibration, truth) for _ in range(runs)]
            forecast = simulation.forecast(calibration.law.width, study.require_components())
            mean, spread = float(np.mean(captured)), float(np.std(captured))
            comparisons.append(Comparison(name, law.name, epsilon, forecast.captured, mean, spread))
            advance()
    return comparisons


def page(document: Mapping[str, Any]) -> str:
    """The page, with its table and its largest error made again."""
    cells = document["cells"]
    worst = _worst(cells)
    where = f"{worst['table']}, {worst['mechanism']}, ε = {worst['epsilon']}"
    said = f"{abs(worst['error']):.3f} ({where})"
    return fill_tables(PAGE, {"short": _table(cells), "worst": said, **page_tables()})


def _worst(cells: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max((each for each in cells if each["asked"]), key=lambda each: abs(each["error"]))


def _table(cells: Sequence[Mapping[str, Any]]) -> str:
    header = ["table", "noise"]
    for epsilon in SHOWN:
        header += [f"forecast, ε = {epsilon}", "measured", "spread"]
    rows = []
    for (name, mechanism), group in group_runs(cells, ("table", "mechanism")).items():
        by_epsilon = {cell["epsilon"]: cell for cell in group}
        figures = [
            f"{by_epsilon[epsilon][figure]:.3f}"
            for epsilon in SHOWN
            for figure in ("forecast", "measured", "spread")
        ]
        rows.append([name, mechanism, *figures, f"{abs(_worst(group)['error']):.3f}"])
    return markdown_table([*header, "largest error"], rows, words=(0, 1))


def _place(cell: Mapping[str, Any]) -> tuple[int, int, Decimal]:
    return (
        [*SUBJECTS].index(cell["table"]),
        [*LAWS].index(cell["mechanism"]),
        Decimal(cell["epsilon"]),
    )


def _full_table(cells: Sequence[Mapping[str, Any]]) -> str:
    names = [name for name in cells[0] if name != "runs"]
    return markdown_table(names, [[str(cell[name]) for name in names] for cell in cells])


def _run(
    study: Study, parts: list[Moments], calibration: Calibration, truth: NDArray[np.float64]
) -> float:
    entropy = OperatingSystemEntropy()
    vectors = [add_noise(part.packed, calibration, entropy=entropy) for part in parts]
    noisy = _covariance(vectors, sum(part.n_rows for part in parts), study)
    dec = decompose(noisy)
    # These studies keep a share of the variance, which needs no noise edge.
    k = count_components(dec.eigenvalues, study.require_components(), noise_edge=0.0)
    return captured_variance(truth, dec.vectors[:k])


def _covariance(vectors: list[NDArray[np.int64]], n_rows: int, study: Study) -> NDArray[np.float64]:
    pooled = np.zeros(study.table.layout.n_entries, np.uint64)
    for vector in vectors:
        pooled += vector.view(np.uint64)
    return pooled_covariance(*unpack(pooled.view(np.int64), n_rows, study.table.layout))


def _named(name: str) -> Subject:
    data = DATA_SETS[name](data_folder())
    study = study_from_mapping(study_document(data, owners=OWNERS, epsilon="1", delta=None))
    return study, parse_rows(study.table, data.rows)


def _musk() -> Subject:
    numbers, _ = read_musk(data_folder())
    n_columns = numbers.shape[1]
    scale = {"type": "numeric", "centre": 0, "scale": 200 * sqrt(n_columns)}
    attributes = [{"name": f"f{number}", **scale} for number in range(1, n_columns + 1)]
    schema = {"row_norm": {}, "attributes": attributes}
    study = state_study("musk", schema, state_privacy("1", None), owners=OWNERS)
    return study, [*numbers.T.copy()]


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "nltcs": partial(_named, "nltcs"),
    "adult": partial(_named, "adult"),
    "musk": _musk,
    "demo": lambda: (demo_by_row(), load_subject("demo").columns),
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(SUBJECTS)))
@click.option("--runs", type=click.IntRange(min=2), default=100, show_default=True)
@click.option("--write", is_flag=True, help="Write the file and the page forecast.*")
def cli(names: tuple[str, ...], *, runs: int, write: bool) -> None:
    """Forecast against measured captured variance; exit code 1 where a forecast is off.

    \b
    Example:
      python -m benchmarks.forecast nltcs
      python -m benchmarks.forecast --write
    """
    names_run = [name for name in SUBJECTS if not names or name in names]
    comparisons: list[Comparison] = []
    with progress("Forecasts", len(names_run) * len(LAWS) * len(GRID)) as bar:
        for name in names_run:
            comparisons += compare(name, SUBJECTS[name](), runs, bar.advance)
    cells = [each.cell(runs) for each in comparisons]
    click.echo(_full_table(cells))
    if write:
        fresh = [{**cell, **made_here()} for cell in cells]
        kept = keep_cells(
            JSON_FILE, fresh, known_by=("table", "mechanism", "epsilon"), order=_place
        )
        PAGE.write_text(page(kept))
    if any(each.counts and abs(each.error) > TOLERANCE for each in comparisons):
        raise SystemExit(1)


if __name__ == "__main__":
    run(cli)
