"""A study in containers by one command: folder, image, run, report.

The folder is that of ``dppca-simulate compose``, so it says what was run, and ``docker compose up``
runs it again; ``logs`` holds each container's own lines.
"""

import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from dppca.common.kernel.documents.counts import many
from dppca.common.shell.console import telling_failures, terminable
from dppca.deploy.simulation.containers.drive import run_plan, stoppable
from dppca.deploy.simulation.containers.engine import DockerEngine
from dppca.deploy.simulation.containers.image import ensure_image
from dppca.deploy.simulation.containers.services import read_plan
from dppca.deploy.simulation.containers.topology import Topology

if TYPE_CHECKING:
    from docker import DockerClient

MOST_OWNERS: Final = 50  # 106 containers of one machine, some 150 MiB each while all run
LOGS: Final = "logs"
_DOES: Final = {
    "rows": "hands each owner its rows",
    "init": "makes its key",
    "certificates": "signs the requests",
    "create": "creates the study",
    "open": "opens the sum",
    "contribute": "adds up its rows, adds noise and sends",
    "components": "waits for the components",
    "synthesize": "publishes synthetic rows",
    "train": "trains its own model",
    "judge": "tries the models on rows that no owner has",
    "results": "fetches the results",
}
"""Words for the steps that containers print."""
_STEP: Final = "step: "
Said = Callable[[str], None]


class Follower:
    """Tells who does what, and keeps each container's lines in a file of its own."""

    def __init__(self, folder: Path, owners: tuple[str, ...], *, said: Said, every: bool) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._owners = {*owners}
        self._done = set[str]()
        self._said = said
        self._every = every
        self._lock = threading.Lock()

    def __call__(self, name: str, line: str) -> None:
        """Take a line of a container."""
        with self._lock:
            with (self._folder / f"{name}.log").open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
            step = line.removeprefix(_STEP)
            if step == line:
                if self._every or line.startswith("started again"):
                    self._said(f"{name} | {line}")
            elif step != "done":
                self._said(f"{name}: {_DOES.get(step, step)}")
            elif name in self._owners:
                self._done.add(name)
                owners = many(len(self._owners), "owners")
                self._said(f"{name}: done ({len(self._done)} of {owners})")


def run_folder(
    client: "DockerClient", folder: Path, topology: Topology, *, said: Said, every: bool
) -> None:
    """Run a folder that `folder.write_study` has written; leave its results and logs in it.

    ``said`` gets what is done; ``every`` line of the containers, too. An interrupt leaves nothing,
    the folder included, a failure the folder. Raise as `ensure_image` and `run_plan`.
    """
    run = f"dppca-{topology.study.name[:40]}-{token_hex(4)}"
    try:
        with terminable():
            built = ensure_image(client, topology.image, said=said)
        plan = read_plan(
            (folder / "docker-compose.yml").read_text(encoding="utf-8"),
            folder,
            variables={"DPPCA_IMAGE": topology.image},
        )
        follower = Follower(folder / LOGS, topology.study.owners, said=said, every=every)
        started = many(len(plan.services), "containers")
        said(f"{started} called {run}-...; their lines: {folder / LOGS}")
        with stoppable() as stopping, telling_failures(lambda: f"Lines of all: {folder / LOGS}"):
            run_plan(plan, DockerEngine(client, run), told=follower, stopping=stopping)
    except KeyboardInterrupt:
        with suppress(OSError):
            shutil.rmtree(folder)
        raise
    left = f"the image {topology.image}, which was {'made' if built else 'there before'}"
    said(f"removed all containers, networks and volumes; left: {left}")
