"""``python -m benchmarks.trust NAME``: the same studies with either kind of trust."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from pathlib import Path

import click

from benchmarks.experiment import run_trials
from benchmarks.synthesis.grid import EPSILONS, MECHANISMS
from benchmarks.trust.page import keep, page, summarize
from benchmarks.trust.trials import FORMS, TrustTrial, run_trial
from dppca.common.shell.console import run
from dppca.common.study import Trust

OWNERS = (3, 10, 30)
SEEDS = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(list(FORMS)), metavar="NAME ...")
@click.option(
    "--cells",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("results/trust/cells.jsonl"),
    show_default=True,
    help="File of finished trials, which are not computed again: one of this version only.",
)
@click.option("--write", is_flag=True, help="Put the figures into docs/reference/trust.*")
def cli(names: tuple[str, ...], *, path: Path, write: bool) -> None:
    """Judge studies of each data set NAME, or of all: nltcs, demo, adult.

    \b
    Examples:
      python -m benchmarks.trust nltcs
      python -m benchmarks.trust --write
    """
    cells = []
    for name in names or FORMS:
        trials = [
            TrustTrial(name, mechanism, epsilon, owners, trust.value, seed)
            for mechanism, epsilon, owners, trust, seed in product(
                MECHANISMS, EPSILONS, OWNERS, Trust, range(SEEDS)
            )
        ]
        results = run_trials(
            trials, path, run=lambda trial: asdict(trial) | asdict(run_trial(trial))
        )
        cells += summarize(results)
        if write:
            keep(cells)
    click.echo(page(cells))


if __name__ == "__main__":
    run(cli)
