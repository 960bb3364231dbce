"""A study with every party a host of its own: `dppca.deploy.simulation.runner` with containers.

The folder is as ``dppca-simulate compose`` writes it, ``docker compose up`` runs it, and what it
left is read as ``dppca-simulate report`` reads it. So the report is as that of processes, but for
the seconds of an owner's ``components``, which hold its wait for the other owners. As with
processes, one thing has no counterpart in the field: each owner's `site-only` classifier is tried
on rows that were held out, by a container without a network.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dppca.common.study import Study
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.containers.answer import read_run
from dppca.deploy.simulation.containers.folder import write_folder
from dppca.deploy.simulation.containers.topology import Topology
from dppca.deploy.simulation.containers.up import print_line, run_folder
from dppca.deploy.simulation.runner import FederationRun


@dataclass(frozen=True, slots=True)
class ContainerFederation:
    """A way to run a study (`dppca.deploy.simulation.runner.FederationDriver`), in containers.

    Attributes
    ----------
    image
        On the engine already.
    shown
        Whether each step is a line on standard error.
    """

    image: str = DEFAULT_IMAGE
    shown: bool = True

    def __call__(
        self,
        study: Study,
        *,
        aggregation: Aggregation | None,
        rows: Mapping[str, Path],
        held_out: Path,
        target: str | None,
        folder: Path,
        output: Path,
        on_step: Callable[[], None],
    ) -> FederationRun:
        """Run a study from keys to synthetic rows; arguments as of `run_federation`.

        Raises
        ------
        SettingError
            Too few or too many owners.
        DppcaError
            As of `run_folder`.
        """
        topology = Topology(study, target, image=self.image, aggregation=aggregation)
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
    """Move a file into a folder, perhaps of another disk; what was there is replaced."""
    return Path(shutil.move(path, output / path.name))
