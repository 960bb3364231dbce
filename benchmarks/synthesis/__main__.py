"""``python -m benchmarks.synthesis NAME``: what synthetic rows are worth on public data."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.experiment import page_options, run_trials
from benchmarks.synthesis.page import keep, page, summarize
from benchmarks.synthesis.subjects import SUBJECTS
from benchmarks.synthesis.trials import DRAWS, SPLITS, list_trials, run_trial
from dppca.common.errors import SettingError
from dppca.common.shell.console import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(SUBJECTS)), metavar="NAME ...")
@click.option("--splits", type=click.IntRange(min=1), default=SPLITS, show_default=True)
@click.option(
    "--draws", type=click.IntRange(min=1), default=DRAWS, show_default=True, help="Of each noise."
)
@page_options("synthesis")
def cli(names: tuple[str, ...], *, splits: int, draws: int, path: Path, write: bool) -> None:
    """Judge synthetic rows of each data set NAME, or of all: nltcs, demo, fair, adult, diamonds.

    \b
    Examples:
      python -m benchmarks.synthesis nltcs
      python -m benchmarks.synthesis --write
    """
    if write and (splits, draws) != (SPLITS, DRAWS):
        raise SettingError("the page is of all splits and draws: leave out --splits and --draws")
    cells = []
    for name in names or SUBJECTS:
        trials = list(list_trials(name, splits=splits, draws=draws))
        cells += summarize(run_trials(trials, path, run=run_trial))
        if write:
            keep(cells)
    click.echo(page(cells))


if __name__ == "__main__":
    run(cli)
