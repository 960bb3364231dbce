"""``python -m benchmarks.performance NAME``: timings beside a reference."""

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from benchmarks.performance.machine import load, machine_facts, today
from benchmarks.performance.page import keep, table_text
from benchmarks.performance.registry import BENCHMARKS, BenchmarkPlan, find_benchmark
from dppca.common.kernel.errors import SettingError
from dppca.common.shell.console import run


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="NAME ...")
@click.option("--quick", is_flag=True, help="Tiny sizes: shows that it works, not how fast.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=5, show_default=True, help="Timed rounds."
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the figures here, as one JSON document.",
)
@click.option(
    "--write",
    is_flag=True,
    help="Put the figures into docs/evidence/performance.json and its page.",
)
def cli(
    names: tuple[str, ...], *, quick: bool, repeat: int, json_file: Path | None, write: bool
) -> None:
    """Time each benchmark NAME, or all of them, beside a reference in the same run.

    Rounds alternate between the contestants; medians and ratios of medians are printed.

    \b
    Examples:
      python -m benchmarks.performance noise
      python -m benchmarks.performance noise --repeat 9 --json noise.json
      python -m benchmarks.performance --write
    """
    if quick and write:
        raise SettingError(
            "--quick measures nothing that is worth keeping: leave out --quick or --write"
        )
    for name in names:
        find_benchmark(name)
    sections: dict[str, Any] = {}
    for name in names or BENCHMARKS:
        sections[name] = _measured(name, quick=quick, repeat=repeat)
        if json_file is not None:
            text = json.dumps(sections, indent=1, ensure_ascii=False, allow_nan=False)
            json_file.write_text(text + "\n")
        if write:
            keep({name: sections[name]})


def _measured(name: str, *, quick: bool, repeat: int) -> dict[str, Any]:
    benchmark = find_benchmark(name)
    facts, before = machine_facts(), load()
    click.echo(f"{benchmark.TITLE} ({repeat} rounds, load {before})", err=True)
    with tempfile.TemporaryDirectory(prefix="dppca-bench-") as scratch:
        plan = BenchmarkPlan(quick=quick, rounds=repeat, scratch=Path(scratch), say=_say)
        tables = benchmark.measure(plan)
    documents = [asdict(table) for table in tables]
    for each in documents:
        click.echo(table_text(**each))
    return {
        "title": benchmark.TITLE,
        "about": benchmark.ABOUT.strip(),
        "command": f"python -m benchmarks.performance {name}",
        "date": today(),
        "rounds": repeat,
        "machine": facts,
        "load": [before, load()],
        "tables": documents,
    }


def _say(text: str) -> None:
    click.echo(f"  {text}", err=True)


if __name__ == "__main__":
    run(cli)
