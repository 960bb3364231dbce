"""``python -m benchmarks.first_run``: what a first user waits for, beside an older revision."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.first_run import page
from benchmarks.first_run.sides import Side, find_revision
from benchmarks.first_run.subjects import SUBJECTS, Sizes
from benchmarks.performance.machine import load, machine_facts
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--against", required=True, metavar="REVISION", help="What git knows it as.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Each of both."
)
@click.option(
    "--only",
    "names",
    type=click.Choice(list(SUBJECTS)),
    multiple=True,
    help="Only this part; once for each.",
)
@click.option("--write", is_flag=True, help="Put the figures into docs/reference/first-run.*")
def cli(*, against: str, rounds: int, names: tuple[str, ...], write: bool) -> None:
    """Clone, install and try the commit of this checkout and an older REVISION, in turn.

    An hour with three rounds. What is not committed is not tried.

    \b
    Example:
      python -m benchmarks.first_run --against v1.0 --rounds 3 --write
      python -m benchmarks.first_run --against v1.0 --only site --only starts
    """
    if write and names:
        raise SettingError("the page is of all parts: leave out --only or --write")
    facts, before = machine_facts(), load()
    with tempfile.TemporaryDirectory(prefix="dppca-first-run-") as scratch:
        sides = {
            side: Side(find_revision(name), Path(scratch) / side)
            for side, name in (("theirs", against), ("ours", "HEAD"))
        }
        rows = measure(sides, names or tuple(SUBJECTS), rounds, Sizes())
    found = {
        **{side: each.revision for side, each in sides.items()},
        "rounds": rounds,
        "machine": facts,
        "load": [before, load()],
        "rows": rows,
    }
    if write:
        page.keep(found)
    click.echo(page.page(found))


def measure(
    sides: Mapping[str, Side], names: Sequence[str], rounds: int, sizes: Sizes
) -> dict[str, dict[str, Any]]:
    """Figures of all rounds, by row and side: ``values``, ``peaks`` and the ``error`` if any.

    What fails at one side once is not tried there again.
    """
    rows: dict[str, dict[str, Any]] = {
        name: {side: {"values": [], "peaks": [], "error": ""} for side in sides}
        for name, row in page.ROWS.items()
        if row.subject in names
    }
    for number in range(rounds):
        for name in names:
            for side, each in sides.items():
                series = {
                    key: found[side]
                    for key, found in rows.items()
                    if page.ROWS[key].subject == name
                }
                if not any(found["error"] for found in series.values()):
                    click.echo(f"round {number + 1}: {name}, {each.revision}", err=True)
                    _measure_once(name, each, sizes, series)
    return rows


def _measure_once(name: str, side: Side, sizes: Sizes, series: dict[str, dict[str, Any]]) -> None:
    missing = set(series)
    try:
        for row, measured in SUBJECTS[name](side, sizes):
            missing.discard(row)
            series[row]["values"].append(round(measured.value, 4))
            if measured.peak_mib is not None:
                series[row]["peaks"].append(round(measured.peak_mib, 1))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the table says
        for row in missing:
            series[row]["error"] = str(error) or type(error).__name__
        click.echo(f"  failed: {error}", err=True)


if __name__ == "__main__":
    run(cli)
