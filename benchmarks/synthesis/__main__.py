"""``python -m benchmarks.synthesis NAME``: what synthetic rows are worth on public data."""

from pathlib import Path

import click

from benchmarks.experiment import page_options, run_trials
from benchmarks.synthesis.page import full_tables, keep, summarize
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import DRAWS, SPLITS, list_trials, run_trial
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(SUBJECTS)), metavar="NAME ...")
@click.option("--splits", type=click.IntRange(min=1), default=SPLITS, show_default=True)
@click.option(
    "--draws", type=click.IntRange(min=1), default=DRAWS, show_default=True, help="Of each noise."
)
@click.option("--only", default="", help="Only trials whose key has this in it, such as 'trees'.")
@page_options("synthesis")
def cli(
    names: tuple[str, ...], *, splits: int, draws: int, only: str, path: Path, write: bool
) -> None:
    """Judge synthetic rows of each data set NAME: nltcs, demo, fair, rule, adult, diamonds, or all.

    \b
    Examples:
      python -m benchmarks.synthesis nltcs
      python -m benchmarks.synthesis adult --only once --splits 1 --draws 1
      python -m benchmarks.synthesis --write
    """
    if write and (splits, draws) != (SPLITS, DRAWS):
        raise SettingError("the page is of all splits and draws: leave out --splits and --draws")
    cells = []
    for name in names or SUBJECTS:
        found = list_trials(name, splits=splits, draws=draws)
        trials = [trial for trial in found if only in trial.key]
        cells += summarize(run_trials(trials, path, run=run_trial))
        if write:
            keep(cells)
    click.echo(full_tables(cells))


if __name__ == "__main__":
    run(cli)
