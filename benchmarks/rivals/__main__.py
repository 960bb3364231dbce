"""``python -m benchmarks.rivals NAME``: what a user would take instead, on the same rows."""

from pathlib import Path

import click

from benchmarks.performance.machine import machine_facts, today
from benchmarks.rivals import page
from benchmarks.rivals.cells import read_cells, run_cells, summarize
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import run

SPLITS = 3


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", type=click.Choice(page.NAMES), metavar="NAME")
@click.option(
    "--splits", type=click.IntRange(min=1), default=SPLITS, show_default=True, help="Or draws."
)
@click.option(
    "--only",
    default="",
    help="Only contestants whose name has this in it; --write leaves the others as they are.",
)
@click.option("--as-is", is_flag=True, help="Run nothing: take what the file has.")
@click.option(
    "--cells",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("results/rivals"),
    show_default=True,
    help="Folder of finished cells, which are not run again: of this version only.",
)
@click.option(
    "--write", is_flag=True, help="Put the figures into docs/evidence/comparison.json and its page."
)
def cli(
    name: str,
    *,
    splits: int,
    only: str,
    as_is: bool,
    folder: Path,
    write: bool,
) -> None:
    """Set our synthetic rows, components or intervals beside those of other makers.

    NAME is a data set (nltcs, demo, adult) for synthetic rows, pca for components of one table,
    laws for these and a covariance under each law, parties for components of several parties'
    tables, estimates for intervals, or regressions for six of one study.

    \b
    Examples:
      python -m benchmarks.rivals nltcs --only DPPCA
      python -m benchmarks.rivals pca --write
    """
    if write and splits != SPLITS:
        raise SettingError("the page is of all splits: leave out --splits")
    cells, by = page.list_cells(name, splits=splits, only=only)
    path = folder / f"{name}.jsonl"
    results = read_cells(cells, path) if as_is else run_cells(cells, path)
    section = {
        "command": f"python -m benchmarks.rivals {name}",
        "machine": machine_facts(),
        "cells": [{**cell, "date": today()} for cell in summarize(results, by)],
    }
    if write:
        section = page.merge(name, section, by) if only else section
        page.keep(name, section)
    click.echo(page.section_text(name, section))


if __name__ == "__main__":
    run(cli)
