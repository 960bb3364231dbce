"""The published experiments by name, and everything that one command makes of them.

Runs are lines of JSON by the rules of `benchmarks.experiment`; CSV, table and plots are made from
them. Runs that the present grid does not ask for stay in the file and out of all others.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from benchmarks.experiment import Found, read_runs, run_trials
from benchmarks.papers import gu, huang, sun, zhang
from benchmarks.papers.evidence import keep
from benchmarks.papers.plots import plot_lines
from benchmarks.papers.tables import group_lines, make_markdown
from benchmarks.papers.trials import Experiment, Scope, Trial, TrialOutcome
from dppca.common.kernel.documents.values import Document, PathText
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.errors import DataError, DppcaError, SettingError
from dppca.common.shell.plotting import check_plotting

EXPERIMENTS: dict[str, Experiment] = {
    each.name: each for paper in (gu, huang, sun, zhang) for each in paper.EXPERIMENTS
}
COLUMNS = (
    *("cell", "seed", "data", "target", "method", "variant", "epsilon", "true_epsilon", "delta"),
    *("m", "n", "d", "k", "scored", "accuracy", "decoded_accuracy", "support_vectors"),
    *("rate", "entry", "norm", "seconds", "predict_seconds"),
)


class ExperimentDocument(Document):
    """A published experiment, run again."""

    experiment: Annotated[str, "its name"]
    runs: Annotated[int, "finished runs"]
    csv: Annotated[PathText, "file of all runs"]
    table: Annotated[PathText, "file of the table"]
    plots: Annotated[list[str], "files of the plots"]


def find_experiment(name: str) -> Experiment:
    """The experiment called so; `SettingError` lists the names where there is none."""
    if name not in EXPERIMENTS:
        raise SettingError(f"no experiment is called {name}: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def make_report(
    experiment: Experiment,
    scope: Scope,
    output: Path,
    *,
    jobs: int,
    command: str,
    kept: bool = False,
) -> tuple[ExperimentDocument, str]:
    """Run what is missing, then render all of it into ``output``; return the table, too.

    ``kept`` writes every line into the committed evidence.
    Results on a file are named after it; errors are those of the runs and of the data.
    """
    check_plotting()  # before hours of work, not after
    cells = [cell for cell in experiment.grid(scope) if cell.method not in scope.without]
    about = replace(experiment, notes=(*experiment.notes, *_about_tables(experiment, scope)))
    stem = experiment.name if scope.source is None else f"{experiment.name}-{scope.source.name}"
    outcomes = run_cells(experiment, cells, output / f"{stem}.jsonl", jobs=jobs)
    path, table = output / f"{stem}.csv", output / f"{stem}.md"
    _write_csv(cells, outcomes, path)
    lines = group_lines(cells, outcomes)
    if kept:
        keep(about, lines, command=command, date=utc_now().date().isoformat())
    text = make_markdown(about, lines, command=command)
    table.write_text(text)
    document: ExperimentDocument = {
        "command": "papers",
        "experiment": experiment.name,
        "runs": len(cells),
        "csv": str(path),
        "table": str(table),
        "plots": [str(plot) for plot in plot_lines(experiment, lines, output / stem)],
    }
    return document, text


def run_cells(
    experiment: Experiment, cells: Sequence[Trial], path: Path, *, jobs: int
) -> list[TrialOutcome]:
    """Every cell's outcome, from the file, or computed and added to it.

    Raises
    ------
    DataError, SettingError
        The file is not of this version; a cell cannot be computed (its name is in the message).
    """
    _read_outcomes(list(read_runs(path).values()), path)  # before hours of work, too
    run = partial(_run_cell, experiment.compute)
    return _read_outcomes(run_trials(cells, path, run=run, jobs=jobs), path)


def _run_cell(compute: Callable[[Trial], TrialOutcome], cell: Trial) -> Found:
    try:
        return {"outcome": asdict(compute(cell))}
    except DppcaError as error:
        raise type(error)(f"{cell.key}: {error}") from error


def _read_outcomes(runs: Sequence[Found], path: Path) -> list[TrialOutcome]:
    try:
        return [TrialOutcome(**run["outcome"]) for run in runs]
    except (LookupError, TypeError) as error:
        raise DataError(f"{path} holds figures of another version: move it away") from error


def _write_csv(cells: Sequence[Trial], outcomes: Sequence[TrialOutcome], path: Path) -> None:
    """Every run as a row, for other software."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for cell, outcome in zip(cells, outcomes, strict=True):
            named = {"cell": cell.name, "data": cell.source.name, "m": cell.owners}
            writer.writerow({**asdict(cell), **named, **asdict(outcome)})


def _about_tables(experiment: Experiment, scope: Scope) -> tuple[str, ...]:
    if scope.source is None:
        return experiment.table_notes
    if scope.source.path is None:
        return ()
    return (
        "Bounds and categories were read from the file. Every guarantee above holds only if they "
        "are public.",
    )
