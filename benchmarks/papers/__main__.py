"""``python -m benchmarks.papers NAME``: a published experiment, its table and its plots.

Without a name: every experiment as the committed evidence has it, and the page.
"""

import os
import shlex
from pathlib import Path

import click

from benchmarks.papers.data import find_source
from benchmarks.papers.evidence import FILE, PAGE, write_page
from benchmarks.papers.experiments import (
    EXPERIMENTS,
    ExperimentDocument,
    find_experiment,
    make_report,
)
from benchmarks.papers.trials import Scope
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import emit, prints, run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False)
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
@click.option("--without", multiple=True, help="Method to leave out. May be given several times.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="one per core",
    help="Processes.",
)
@click.option("--keep", is_flag=True, help="Run it as docs/evidence has it; write file and page.")
@prints(ExperimentDocument)
def cli(
    name: str | None,
    data: str | None,
    label: str | None,
    output: Path,
    quick: bool,
    runs: int | None,
    rows: int | None,
    without: tuple[str, ...],
    jobs: int,
    keep: bool,
    as_json: bool,
) -> None:
    """Run the published experiment NAME.

    NAME is one of gu-fig2 to gu-fig4, huang-fig1 to huang-fig4, huang-table2, huang-table3,
    sun-table4, zhang-fig1 to zhang-fig6. Without it all of them are run with --keep.

    Every finished run is kept in a CSV file and not computed again: an interrupted experiment goes
    on where it was. The named data sets lie in the folder that DPPCA_DATA names.

    \b
    Examples:
      python -m benchmarks.papers gu-fig3 --quick
      python -m benchmarks.papers gu-fig3 --data nltcs --runs 20
      python -m benchmarks.papers huang-fig2 --data rows.csv --label outcome
      python -m benchmarks.papers gu-fig4 --keep
    """
    keep = keep or name is None
    if keep and (quick or without or any(each is not None for each in (data, label, runs, rows))):
        raise SettingError("the evidence has a scope of its own: leave out --data to --rows")
    names = list(EXPERIMENTS) if name is None else [name]
    if data is None and label:
        raise SettingError("--label is a column of a file: give it with --data")
    source = None if data is None else find_source(data, label)
    given = Scope(source=source, quick=quick, runs=runs, rows=rows, without=without)
    for each in names:
        experiment = find_experiment(each)
        scope = experiment.kept if keep else given
        command = shlex.join(["python", "-m", "benchmarks.papers", each, *scope.options])
        document, text = make_report(
            experiment, scope, output, jobs=jobs, command=command, kept=keep
        )
    if keep:
        write_page()
    if name is None:
        document["experiment"] = "all"
        document["csv"], document["table"], text = str(FILE), str(PAGE), f"{PAGE} and {FILE}\n"
    emit(document, text, as_json=as_json)


if __name__ == "__main__":
    run(cli)
