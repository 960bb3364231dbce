"""``dppca-simulate``: a study on this machine, to plan with and to see what privacy costs.

Everything is as in the field (processes, mutual TLS, noise from the operating system) but for one
thing: somebody holds all the rows and can look at both sides. What follows from that is marked in
the report.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from common.console import emit, json_option, progress, run
from deploy.faults.command import faults

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


# As in `deploy.containers`, which is not imported for ``--help``; a test compares them.
IMAGE = "dppca:local"
SUBNET = "10.231.0.0/16"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dppca", message="dppca %(version)s")
def cli() -> None:
    """Simulate a study: several owners and a curator, as real processes on this machine.

    \b
    Example:
      dppca-simulate demo
    """


@cli.command("run")
@click.option("--study", "study_file", type=_FILE, required=True, help="Study file (YAML).")
@click.option(
    "--data", type=_FILE, required=True, help="All rows: .csv, .csv.gz or .parquet, with a header."
)
@click.option(
    "--owners", type=int, required=True, help="M; the study's owners become owner-1 ... owner-M."
)
@click.option("--target", required=True, help="Binary or categorical attribute to predict.")
@click.option("--seed", type=click.IntRange(min=0), required=True, help="Who holds which rows.")
@click.option("--output", type=_FOLDER, required=True, help="Folder for report and plots.")
@click.option(
    "--split",
    default="iid",
    show_default=True,
    help="iid, or by:COLUMN to keep rows with one value of a column at one owner.",
)
@click.option(
    "--runtime",
    type=click.Choice(["processes", "containers"]),
    default="processes",
    show_default=True,
    help="What each party is: a process of this machine, or a container with a network of its own "
    "to the curator.",
)
@click.option(
    "--image",
    envvar="DPPCA_IMAGE",
    show_envvar=True,
    default=IMAGE,
    show_default=True,
    help="Containers: their image; `make image` makes it, nothing is pulled.",
)
@click.option(
    "--subnet",
    default=SUBNET,
    show_default=True,
    help="Containers: addresses for their networks, 8 for each owner and 8 more.",
)
@json_option
def run_command(
    study_file: Path,
    data: Path,
    owners: int,
    target: str,
    seed: int,
    output: Path,
    split: str,
    runtime: str,
    image: str,
    subnet: str,
    as_json: bool,
) -> None:
    """Run a study on a data file: a fifth is held out, the rest divided among the owners.

    The seed decides who holds which row; the noise is never seeded. In containers, 2 to 20 owners
    run as hosts of their own on a Docker engine; what was made for them is removed at the end.

    \b
    Example:
      dppca-simulate run --study nltcs.yaml --data nltcs.csv --owners 3 \\
          --target outside --seed 1 --output results/nltcs
      dppca-simulate run --runtime containers --study nltcs.yaml --data nltcs.csv \\
          --owners 20 --target outside --seed 1 --output results/nltcs-20
    """
    from common.study import study_from_yaml
    from deploy.simulation.experiment import Request, with_owners

    text = _text(study_file)
    request = Request(
        command="run",
        study=with_owners(study_from_yaml(text), owners),
        data=data,
        target=target,
        seed=seed,
        split=split,
        output=output,
    )
    if runtime == "containers":
        document = _simulate_in_containers(request, image, subnet, as_json=as_json)
    else:
        document = _simulate(request, as_json=as_json)
    from deploy.simulation.report import markdown_of

    emit(document, markdown_of(document), as_json=as_json)


@cli.command()
@click.option(
    "--output",
    type=_FOLDER,
    default=Path("results/demo"),
    show_default=True,
    help="Folder for report and plots.",
)
@json_option
def demo(output: Path, as_json: bool) -> None:
    """Three owners, the RAND Health Insurance Experiment, and what comes of it in plain words.

    \b
    Example:
      dppca-simulate demo --output results/demo
    """
    import tempfile

    from deploy.simulation.data import write_table
    from deploy.simulation.demo import SEED, TARGET, demo_study, demo_table
    from deploy.simulation.experiment import Request
    from deploy.simulation.story import story_of

    with tempfile.TemporaryDirectory(prefix="dppca-demo-") as folder:
        data = write_table(demo_table(), Path(folder), stem="rand-hie", like=Path("rows.csv"))
        request = Request(
            command="demo",
            study=demo_study(),
            data=data,
            target=TARGET,
            seed=SEED,
            split="iid",
            output=output,
        )
        document = _simulate(request, as_json=as_json)
    emit(document, story_of(document), as_json=as_json)


@cli.command()
@click.option("--all", "everything", is_flag=True, help="Those of running simulations too.")
@click.option("--dry-run", is_flag=True, help="Show them and remove nothing.")
@json_option
def clean(*, everything: bool, dry_run: bool, as_json: bool) -> None:
    """Remove containers, networks and volumes that a killed simulation left on the engine.

    They are found by their labels. Those of simulations that still run, or that were started on
    another machine, stay unless --all says so.

    \b
    Example:
      dppca-simulate clean
    """
    from dataclasses import asdict

    from deploy.containers.engine import connected
    from deploy.containers.leftovers import leftovers, remove_leftovers

    client = connected()
    try:
        found = leftovers(client)
        removed = () if dry_run else remove_leftovers(client, everything=everything)
    finally:
        client.close()
    gone = {each.run for each in removed}
    runs = [{**asdict(each), "removed": each.run in gone} for each in found]
    lines = [
        f"run {each.run}: {each.containers} containers, {each.networks} networks, {each.volumes} "
        f"volumes of {each.process}, {each.state}: {'removed' if each.run in gone else 'kept'}"
        for each in found
    ]
    emit({"command": "clean", "runs": runs}, "\n".join(lines or ["nothing"]), as_json=as_json)


cli.add_command(faults)


def main() -> None:
    """Entry point."""
    run(cli)


def _simulate(request: Any, *, as_json: bool) -> dict[str, Any]:
    from deploy.simulation.experiment import simulate
    from deploy.simulation.runner import n_steps

    total = n_steps(len(request.study.owners))
    with terminable(), progress("simulating", total, enabled=not as_json) as bar:
        return simulate(request, on_step=bar.advance)


def _simulate_in_containers(
    request: Any, image: str, subnet: str, *, as_json: bool
) -> dict[str, Any]:
    from deploy.containers.federation import ContainerFederation
    from deploy.simulation.experiment import simulate

    federation = ContainerFederation(image=image, addresses=subnet, shown=not as_json)
    with terminable():
        return simulate(request, on_step=lambda: None, federation=federation)


def _text(path: Path) -> str:
    from common.errors import StudyError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"the study file {path} cannot be read as text"
        raise StudyError(message) from error


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and a closed terminal end a simulation as Ctrl-C does: nothing of it is left."""
    numbers = [signal.SIGTERM]
    # Under nohup a closed terminal is to have no effect.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    main()
