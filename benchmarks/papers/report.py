"""Everything one command makes: runs in a CSV file, a Markdown table, and plots."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.papers.plots import plot_runs
from benchmarks.papers.runner import run_cells
from benchmarks.papers.tables import make_markdown
from benchmarks.papers.trials import Experiment, Scope
from dppca.common.plotting import check_plotting


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
    csv = output / f"{stem}.csv"
    runs = run_cells(experiment, cells, csv, jobs=jobs)
    text = make_markdown(about, runs, command=command)
    table = output / f"{stem}.md"
    table.write_text(text)
    plots = plot_runs(experiment, runs, output / stem)
    return Report(len(runs), csv, table, plots, text)


def _about_tables(experiment: Experiment, scope: Scope) -> tuple[str, ...]:
    if scope.source is None:
        return experiment.table_notes
    if scope.source.path is None:
        return ()
    return (
        "Bounds and categories were read from the file. Every guarantee above holds only if they "
        "are public.",
    )
