"""A study with every party a host of its own: `dppca.deploy.simulation.runner` with containers.

The hosts are those of the compose file (`dppca.deploy.simulation.containers.topology`), and Compose
runs them in its order. This module only watches: it follows the steps that they write to their
logs, ends everything when one of them fails, and reads the results from the folder that
``docker compose up`` leaves them in. The report is as that of processes, but for one figure: the
seconds of an owner's ``components`` hold its wait for the other owners.

As with processes, one thing has no counterpart in the field: each owner's `site-only` classifier is
fetched from its site and tried on held-out rows, in this process.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import IO

from dppca.common.errors import EngineError, UnreachableError
from dppca.common.study import Study
from dppca.common.study_document import study_from_mapping
from dppca.common.testbed import CommandAnswer, failure
from dppca.deploy.simulation.aggregation import Aggregation
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.containers.folder import write_folder
from dppca.deploy.simulation.containers.orphans import hint
from dppca.deploy.simulation.containers.progress import ProgressTable
from dppca.deploy.simulation.containers.project import POLL_S, Host, Project, project
from dppca.deploy.simulation.containers.subnets import DEFAULT_RANGE
from dppca.deploy.simulation.containers.topology import (
    CURATOR,
    DONE,
    MODEL,
    STEP,
    Topology,
    compose_text,
    parse_party,
)
from dppca.deploy.simulation.runner import FederationRun, judge, owner_run

LEAST_SPACE = 256 << 20
"""Bytes that must be free on the engine's disk before anything is made: volumes and logs."""
STALL_S = 1800.0
"""How long nothing may happen at any host."""
_REPORTED = ("contribute", "components", "synthesize")
_STEP = re.compile(rf"^(\S+) {STEP}(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ContainerFederation:
    """A way to run a study (`dppca.deploy.simulation.runner.FederationDriver`), in containers.

    Attributes
    ----------
    image
        On the engine already.
    addresses
        Range for the private networks.
    shown
        Whether to show what the parties do, on ``stream`` (standard error where None).
    """

    image: str = DEFAULT_IMAGE
    addresses: str = DEFAULT_RANGE
    shown: bool = True
    stream: IO[str] | None = None

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
            Too few or too many owners, or no such range of addresses.
        EngineError
            The class says what the engine lacks.
        DppcaError
            The class that a party failed with. Nothing that was made is left, either way.
        """
        suffix = "".join({path.suffix for path in rows.values()})
        topology = Topology(
            study, target, rows=f"rows{suffix}", image=self.image, aggregation=aggregation
        )
        n_row_bytes = sum(path.stat().st_size for path in rows.values())
        place = folder / "compose"
        write_folder(place, topology, rows)
        services = ("certificates", CURATOR, "operator", *study.owners, "rows", "results")
        progress = ProgressTable(
            [parse_party(service) for service in services], shown=self.shown, stream=self.stream
        )
        with project(place) as hosts:
            _say_what_was_left(hosts, progress)
            hosts.require_image(self.image)
            hosts.require_space(LEAST_SPACE + 2 * n_row_bytes)
            progress.say("making containers, networks and volumes")
            watch = _Watch(hosts, progress, on_step)
            progress.open()
            try:
                hosts.up(
                    lambda placement: compose_text(topology, placement),
                    n_networks=len(topology.networks),
                    addresses=self.addresses,
                    look=watch.look,
                )
                watch.follow()
                models = {name: folder / f"model-{name}.skops" for name in study.owners}
                steps = {name: _seconds(hosts, name) for name in study.owners}
                for name, path in models.items() if target is not None else ():
                    path.write_bytes(hosts.read_file(name, MODEL))
            finally:
                progress.close()
                progress.say("removing containers, networks and volumes")
        results = place / "results"
        owners = tuple(
            owner_run(
                name,
                _answers(results / name, steps[name]),
                None
                if target is None
                else judge(models[name], held_out, folder / f"judged-{name}.csv"),
            )
            for name in study.owners
        )
        files = ("components.npz", "synthetic-coded.parquet", "synthetic-decoded.parquet")
        components, coded, decoded = ((results / name).replace(output / name) for name in files)
        shown = json.loads((results / "study.json").read_bytes())["document"]
        study = study_from_mapping(shown, stored=True)
        return FederationRun(study, owners, components=components, coded=coded, decoded=decoded)


@dataclass
class _Watch:
    """Hosts that are followed to the end of all of them."""

    hosts: Project
    progress: ProgressTable
    on_step: Callable[[], None]
    _seen: dict[str, int] = field(default_factory=dict)
    _states: dict[str, str] = field(default_factory=dict)
    _moved: float = field(default_factory=time.monotonic)

    def follow(self) -> None:
        """Return when all hosts have ended well; raises as `look`."""
        while not self._has_ended():
            time.sleep(POLL_S)

    def look(self) -> None:
        """Show what is new.

        Raises
        ------
        DppcaError
            The class that a host failed with.
        UnreachableError
            Nothing happened for `STALL_S`.
        """
        self._has_ended()

    def _has_ended(self) -> bool:
        hosts = self.hosts.hosts()
        self._tell(hosts)
        self._require_success(hosts)
        if time.monotonic() - self._moved > STALL_S:
            busy = ", ".join(host.service for host in hosts if host.state == "running")
            raise UnreachableError(f"{busy}: nothing happened for {STALL_S:.0f} s")
        return all(host.state == "exited" for host in hosts)

    def _tell(self, hosts: Sequence[Host]) -> None:
        """Show what is new of those that run, or have ended since the last look."""
        fresh = [
            host
            for host in sorted(
                hosts, key=lambda host: (not host.service.endswith("-key"), host.service)
            )
            if host.state != "created" and self._states.get(host.service) != "exited"
        ]
        if self.progress.shown:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(self._count, fresh))
        for host in fresh:
            new = self._new_steps(host)
            for step in new:
                self.progress.begin(parse_party(host.service), step)
                self.on_step()
            if new or self._states.get(host.service) != host.state:
                self._moved = time.monotonic()
            self._states[host.service] = host.state

    def _count(self, host: Host) -> None:
        try:
            n_bytes = self.hosts.traffic(host.service)
        except EngineError:
            return  # it has ended, or the engine has: the next look says so
        self.progress.count(parse_party(host.service), n_bytes)

    def _new_steps(self, host: Host) -> Sequence[str]:
        if host.service == CURATOR:
            steps = ["starting", *(["serving"] if host.is_healthy else [])]
        else:
            waits = host.service.endswith("-key")
            past = [step for _, step in _steps(self.hosts, host.service)]
            steps = ["waiting" if waits and step == DONE else step for step in past]
        new = steps[self._seen.get(host.service, 0) :]
        self._seen[host.service] = max(len(steps), self._seen.get(host.service, 0))
        return new

    def _require_success(self, hosts: Sequence[Host]) -> None:
        """Raise the error of the host that failed first, if any did."""
        failed = [
            (self.hosts.finished_at(host.service), host.service)
            for host in hosts
            if host.state == "exited" and self.hosts.exit_code(host.service)
        ]
        if not failed:
            return
        _, service = min(failed)
        party, said = parse_party(service), self.hosts.logs(service)
        told = re.findall(r"^error: (.*)", said, re.MULTILINE)
        self.progress.begin(party, "failed")
        raise failure(party, self.hosts.exit_code(service), b"", (told or [said])[-1].encode())


def _say_what_was_left(hosts: Project, progress: ProgressTable) -> None:
    left = hint(hosts.client)
    if left is not None:
        progress.say(left)


def _steps(hosts: Project, service: str) -> list[tuple[datetime, str]]:
    """When a service began each step, by the engine's clock."""
    log = hosts.logs(service, timestamps=True)
    return [(datetime.fromisoformat(at), step) for at, step in _STEP.findall(log)]


def _seconds(hosts: Project, owner: str) -> dict[str, float]:
    """How long each step of an owner took."""
    parts = [_steps(hosts, service) for service in (f"{owner}-key", owner)]
    return {
        step: (end - begin).total_seconds()
        for part in parts
        for (begin, step), (end, _) in pairwise(part)
    }


def _answers(folder: Path, seconds: Mapping[str, float]) -> dict[str, CommandAnswer]:
    """What an owner's commands reported; of the others only how long they took."""
    return {
        step: CommandAnswer(
            json.loads((folder / f"{step}.json").read_bytes()) if step in _REPORTED else {}, took
        )
        for step, took in seconds.items()
    }
