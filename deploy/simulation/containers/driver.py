"""Driver that runs a study in containers, each party a host: see `dppca.deploy.simulation.runner`.

The folder has the form of ``dppca-simulate compose``, ``docker compose up`` runs it, and the
results are read like those for ``dppca-simulate report``. So the report equals one from processes,
except that an owner's seconds of ``components`` include its wait for the other owners. As with
processes, one thing has no counterpart in the field: a container without a network tries each
owner's `site-only` classifier on held-out rows.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from dppca.common.kernel.errors import SettingError
from dppca.deploy.simulation.containers.answer import read_run
from dppca.deploy.simulation.containers.folder import write_folder
from dppca.deploy.simulation.containers.topology import Topology
from dppca.deploy.simulation.containers.up import print_line, run_folder
from dppca.deploy.simulation.runner import FederationRun, FederationTask


def run_in_containers(task: FederationTask, *, image: str, shown: bool) -> FederationRun:
    """Run a task like `run_federation`; raise `SettingError` for a bad number of owners.

    ``image`` must be on the engine already; ``shown`` prints each step on standard error.
    """
    if task.refinement is not None:
        raise SettingError("a second study runs as processes: leave out --runtime containers")
    topology = Topology(
        task.study, task.target, image=image, aggregation=task.aggregation, n_rows=task.n_rows
    )
    place, held_out = task.folder / "compose", None if task.target is None else task.held_out
    write_folder(place, topology, task.rows, held_out=held_out)
    say = print_line if shown else lambda _: None
    run_folder(place, task.folder.name, image=image, on_step=task.on_step, say=say)
    run = read_run(place, target=task.target)
    return replace(
        run,
        components=_move(run.components, task.output),
        coded=_move(run.coded, task.output),
        decoded=_move(run.decoded, task.output),
    )


def _move(path: Path, output: Path) -> Path:
    """Move a file into a folder, perhaps on another disk; replace a file of that name."""
    return Path(shutil.move(path, output / path.name))
