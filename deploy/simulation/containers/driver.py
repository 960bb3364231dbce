"""Driver that runs a study in containers, each party a host: see `dppca.deploy.simulation.runner`.

The folder has the form of ``dppca-simulate compose``, ``docker compose up`` runs it, and the
results are read like those for ``dppca-simulate report``. So the report equals one from processes,
except that an owner's seconds of ``components`` include its wait for the other owners. As with
processes, one thing has no counterpart in the field: a container without a network tries each
owner's `site-only` classifier on held-out rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dppca.common.errors import SettingError
from dppca.common.study import Study
from dppca.deploy.simulation.aggregation import Aggregation, Refinement
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.containers.answer import read_run
from dppca.deploy.simulation.containers.folder import write_folder
from dppca.deploy.simulation.containers.topology import Topology
from dppca.deploy.simulation.containers.up import print_line, run_folder
from dppca.deploy.simulation.runner import FederationRun


@dataclass(frozen=True, slots=True)
class ContainerFederation:
    """A `dppca.deploy.simulation.runner.FederationDriver` that uses containers.

    ``image`` must be on the engine already; ``shown`` prints each step on standard error.
    """

    image: str = DEFAULT_IMAGE
    shown: bool = True

    def __call__(
        self,
        study: Study,
        *,
        aggregation: Aggregation | None,
        refinement: Refinement | None,
        rows: Mapping[str, Path],
        held_out: Path,
        target: str | None,
        n_rows: Mapping[str, int] | None,
        folder: Path,
        output: Path,
        on_step: Callable[[], None],
    ) -> FederationRun:
        """Run a study like `run_federation`; raise `SettingError` for a bad number of owners."""
        if refinement is not None:
            raise SettingError("a second study runs as processes: leave out --runtime containers")
        topology = Topology(study, target, image=self.image, aggregation=aggregation, n_rows=n_rows)
        place = folder / "compose"
        write_folder(place, topology, rows, held_out=None if target is None else held_out)
        run_folder(
            place,
            folder.name,
            image=self.image,
            on_step=on_step,
            say=print_line if self.shown else lambda _: None,
        )
        run = read_run(place, target=target)
        return replace(
            run,
            components=_move(run.components, output),
            coded=_move(run.coded, output),
            decoded=_move(run.decoded, output),
        )


def _move(path: Path, output: Path) -> Path:
    """Move a file into a folder, perhaps on another disk; replace a file of that name."""
    return Path(shutil.move(path, output / path.name))
