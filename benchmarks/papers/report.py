"""Everything one command makes: runs as lines of JSON and as CSV, a Markdown table, and plots."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.papers.plots import plot_runs
from benchmarks.papers.runner import run_cells
from benchmarks.papers.tables import make_markdown
from benchmarks.papers.trials import Experiment, Run, Scope
from dppca.common.plotting import check_plotting

COLUMNS = (
    *("cell", "seed", "data", "target", "method", "variant", "epsilon", "true_epsilon", "delta"),
    *("m", "n", "d", "k", "scored", "accuracy", "decoded_accuracy", "support_vectors"),
    *("seconds", "predict_seconds"),
)


@dataclass(frozen=True, slots=True)
class Report:
    """Where the results are, and the table itself."""

    n_runs: int
    csv: Path
    table: Path
    plots: tuple[Path, Path]
    text: str


def make_report(
    experiment: Experiment, scope: Scope, output: Path, *, jobs: int, command: str
) -> Report:
    """Run what is missing, then render all of it into ``output``.

    Results on a file are named after it; errors are those of the runner and of the data.
    """
    check_plotting()  # before hours of work, not after
    cells = experiment.grid(scope)
    about = replace(experiment, notes=(*experiment.notes, *_about_tables(experiment, scope)))
    stem = experiment.name if scope.source is None else f"{experiment.name}-{scope.source.name}"
    runs = run_cells(experiment, cells, output / f"{stem}.jsonl", jobs=jobs)
    path = output / f"{stem}.csv"
    _write_csv(runs, path)
    text = make_markdown(about, runs, command=command)
    table = output / f"{stem}.md"
    table.write_text(text)
    plots = plot_runs(experiment, runs, output / stem)
    return Report(len(runs), path, table, plots, text)


def _write_csv(runs: Sequence[Run], path: Path) -> None:
    """Every run as a row, for whoever reads them with other software."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for cell, outcome in ((run.cell, run.outcome) for run in runs):
            facts = {
                "cell": cell.name,
                "seed": cell.seed,
                "data": cell.source.name,
                "target": cell.target,
                "method": cell.method,
                "variant": cell.variant,
                "epsilon": cell.epsilon,
                "m": cell.owners,
                "scored": cell.scored,
            }
            writer.writerow({**facts, **asdict(outcome)})


def _about_tables(experiment: Experiment, scope: Scope) -> tuple[str, ...]:
    if scope.source is None:
        return experiment.table_notes
    if scope.source.path is None:
        return ()
    return (
        "Bounds and categories were read from the file. Every guarantee above holds only if they "
        "are public.",
    )
