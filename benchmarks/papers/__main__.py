"""``python -m benchmarks.papers NAME``: a published experiment, its table and its plots."""

import os
import shlex
from pathlib import Path

import click

from benchmarks.papers.data import find_source
from benchmarks.papers.experiments import ExperimentDocument, find_experiment, make_report
from benchmarks.papers.trials import Scope
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import emit, prints, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option(
    "--data",
    help="Run on this CSV file, or table of the data folder; gu-* on nltcs or adult alone.",
)
@click.option("--label", help="Column of the file to predict; the last one if not given.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/papers"),
    show_default=True,
    help="Folder for CSV, table and plots.",
)
@click.option("--quick", is_flag=True, help="Fewer rows, runs and points: two minutes.")
@click.option("--runs", type=click.IntRange(min=1), help="Seeds per cell, else the paper's.")
@click.option("--rows", type=click.IntRange(min=1), help="Most training rows, else the paper's.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="one per core",
    help="Processes.",
)
@click.option("--keep", is_flag=True, help="Write every line into docs/evidence, too.")
@prints(ExperimentDocument)
def cli(
    name: str,
    data: str | None,
    label: str | None,
    output: Path,
    quick: bool,
    runs: int | None,
    rows: int | None,
    jobs: int,
    keep: bool,
    as_json: bool,
) -> None:
    """Run the published experiment NAME.

    NAME is one of gu-fig2 to gu-fig4, huang-fig1 to huang-fig4, sun-table4, zhang-fig1 to
    zhang-fig6.

    Every finished run is kept in a CSV file and not computed again: an interrupted experiment goes
    on where it was. The named data sets lie in the folder that DPPCA_DATA names.

    \b
    Examples:
      python -m benchmarks.papers gu-fig3 --quick
      python -m benchmarks.papers gu-fig3 --data nltcs --runs 20
      python -m benchmarks.papers huang-fig2 --data rows.csv --label outcome
    """
    experiment = find_experiment(name)
    if data is None and label:
        raise SettingError("--label is a column of a file: give it with --data")
    source = None if data is None else find_source(data, label)
    if keep and (quick or (source is not None and source.path is not None)):
        raise SettingError("--keep is for tables of the data folder, and not for --quick")
    scope = Scope(source=source, quick=quick, runs=runs, rows=rows)
    given = {"--data": data, "--label": label, "--runs": runs, "--rows": rows}
    asked = [part for pair in given.items() if pair[1] is not None for part in map(str, pair)]
    asked += ["--quick"] if quick else []
    command = shlex.join(["python", "-m", "benchmarks.papers", name, *asked])
    document, text = make_report(experiment, scope, output, jobs=jobs, command=command, kept=keep)
    emit(document, text, as_json=as_json)


if __name__ == "__main__":
    run(cli)
