"""The parties of a cell as containers: curator and owners of the compose file, idling.

The compose file is the one that runs studies (`dppca.deploy.simulation.containers.topology`), with
its image, networks and confinement. The services of the curator, where the operator works too, and
of the owners are kept, and their commands are replaced by one that does nothing; commands, the
daemon among them, run in them by the engine, so that they may be held, and killed with their whole
container. A cut is the engine pulling the container off its networks. A party whose disk is to be
full has its volume on a file system of `SMALL_DISK`, which another container holds open and fills.
An owner whose link is to be slow dials a relay in its own container (`relay.py`). The image holds
nothing of this harness: what runs inside, keys and rows are made on this machine and given to the
containers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from dppca.common.checkpoints import VARIABLE
from dppca.common.errors import EngineError, PeerError, UnreachableError
from dppca.deploy.simulation.containers import DEFAULT_IMAGE
from dppca.deploy.simulation.containers.project import USER, CommandResult, Project, project
from dppca.deploy.simulation.containers.topology import Topology, compose_text
from tests.fault_injection.fixture import OWNERS, STUDY_NAME, Fixture
from tests.fault_injection.processes import LEDGER_FILES, SCRIPTS, ended
from tests.fault_injection.runtime import ENDED, ClockSkew, CompletedCommand
from tests.fault_injection.spec import CURATOR, Fault, FaultKind

HOSTS = ("curator", "localhost")
SMALL_DISK = "4m"
_SMALL_DISK = {
    "type": "tmpfs",
    "device": "tmpfs",
    "o": f"size={SMALL_DISK},uid={USER},gid={USER},mode=0700",
}
START_TIMEOUT_S = 180.0
HOLD_TIMEOUT_S = 300.0
_IDLE = ["sleep", "infinity"]
_SCRIPTS = "/harness"
_TUNNEL = "127.0.0.1:7443"
_LISTENS = "until grep -q ':1D13 .* 0A ' /proc/net/tcp; do sleep 0.1; done"  # port 7443, LISTEN
_STOPPED = (
    'stopped() { for p in /proc/[0-9]*; do grep -q "^State:.T" $p/status 2>/dev/null '
    "&& echo ${p#/proc/}; done; true; }; "
)


class ContainerRuntime:
    """`tests.fault_injection.runtime.Runtime` on containers; make it with `container_runtime`."""

    def __init__(self, hosts: Project, scene: Fixture, fault: Fault, image: str) -> None:
        self._hosts = hosts
        self._scene = scene
        self._fault = fault
        self._image = image
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="hosts")
        self._up = {party: threading.Event() for party in (CURATOR, *OWNERS)}
        self._stops: dict[str, Future[CommandResult]] = {}
        self._daemon: Future[CommandResult] | None = None
        self._log: list[str] = []
        self._ended = False

    def make(self) -> None:
        """Make and start every container, and give it its files."""
        hosts = self._hosts
        hosts.require_image(self._image)
        topology = Topology(self._scene.study, None, image=self._image)
        hosts.up(
            lambda placement: self._idling(compose_text(topology, placement)),
            n_networks=len(topology.networks),
        )
        for script in SCRIPTS:
            hosts.write_file(CURATOR, f"{_SCRIPTS}/{script.name}", script.read_bytes())
        self._give(CURATOR, "/credentials", self._scene.curator)
        self._give(CURATOR, "/operator", self._scene.operator)
        for owner in OWNERS:
            slow = self._has_tunnel(owner)
            self._scene.write_site(
                owner,
                curator=_TUNNEL if slow else "curator:7443",
                server_name="curator",
                rows="rows.csv",
            )
            self._give(owner, "/site", self._scene.site(owner))
            hosts.write_file(owner, "/site/rows.csv", self._scene.rows(owner).read_bytes())
            if slow:
                relay = f"--listen {_TUNNEL} --to curator:7443"
                self._start(owner, "relay", f"exec python -P {_SCRIPTS}/relay.py {relay}")
                if self._hosts.exec(owner, "sh", "-c", _LISTENS, timeout_s=60).exit_code:
                    raise UnreachableError(f"the relay of {owner} did not listen after 60 s")
        for up in self._up.values():
            up.set()

    def start_curator(
        self, scene: Fixture, *, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand | None:
        self._scene = scene
        self._up[CURATOR].wait(START_TIMEOUT_S)
        serve = "serve --state /state --listen 0.0.0.0:7443 --credentials /credentials"
        command = f"{serve} --port-file /tmp/port --log-format json --json"
        program = " ".join(_program("dppca.curator.cli", skew))
        self._daemon = self._start(CURATOR, "daemon", f"exec {program} {command}", hold=hold)
        self._watch(CURATOR, hold)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._shell(CURATOR, "test -s /tmp/port").exit_code:
            if self._daemon.done():
                return self._daemon_ended()
            if time.monotonic() > deadline:
                raise UnreachableError(f"the curator was not ready after {START_TIMEOUT_S:.0f} s")
            time.sleep(0.2)
        return None

    def stop_curator(self) -> CompletedCommand:
        if self._daemon is None:
            raise AssertionError  # a cell starts it first
        if not self._daemon.done():
            self._shell(CURATOR, "kill -TERM $(cat /tmp/daemon.pid)")
        return self._daemon_ended()

    def operate(self, *arguments: str) -> CompletedCommand:
        if arguments[0] == "create":
            content = self._scene.study_file.read_bytes()
            self._hosts.write_file(CURATOR, "/operator/study.json", content)
            arguments = ("create", "/operator/study.json")
        connection = ("--curator", "localhost:7443", "--credentials", "/operator")
        return self._run(
            CURATOR, "python", "-P", "-m", "dppca.curator.cli", "study", *arguments, *connection
        )

    def run(
        self, owner: str, *arguments: str, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand:
        if hold is not None:
            self._up[owner].wait(START_TIMEOUT_S)
            self._watch(owner, hold)
        program = _program("dppca.owner.cli", skew)
        return self._run(owner, *program, "--site", "/site", *arguments, hold=hold)

    def is_held(self, party: str) -> bool:
        self._require_open()
        found = self._stops.get(party)
        return found is not None and found.done() and found.result().exit_code == 0

    def resume(self, party: str, *, skew: bool = False) -> None:
        first = "kill -USR1 $p; " if skew else ""
        self._shell(party, f"{_STOPPED} for p in $(stopped); do {first}kill -CONT $p; done")

    def kill(self, party: str) -> None:
        """The whole host goes, and is up again when this returns."""
        self._up[party].clear()
        self._hosts.kill(party)
        self._hosts.wait(party, timeout_s=START_TIMEOUT_S)
        if party == CURATOR and self._daemon is not None:
            self._daemon_ended()
        self._hosts.start(party)
        self._up[party].set()

    def cut(self, party: str) -> None:
        self._hosts.disconnect(party)

    def heal(self, party: str) -> None:
        self._hosts.connect(party)

    def slow(self, party: str) -> None:
        for owner in OWNERS if party == CURATOR else (party,):
            self._shell(owner, "kill -USR1 $(cat /tmp/relay.pid)")

    def hurry(self, party: str) -> None:
        for owner in OWNERS if party == CURATOR else (party,):
            self._shell(owner, "kill -USR2 $(cat /tmp/relay.pid)")

    def fill(self, party: str) -> None:
        self._shell(self._keeper(party), "cat /dev/zero > /mnt/filler")

    def free(self, party: str) -> None:
        self._shell(self._keeper(party), "rm -f /mnt/filler")

    def lose_key(self, owner: str) -> None:
        self._shell(owner, "rm -f /site/openers/*.key")

    def copy_site(self, owner: str, to: Path) -> None:
        here = self._shell(owner, f"cd /site; ls -d {' '.join(LEDGER_FILES)} 2>/dev/null; true")
        for name in here.stdout.decode().split():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes(self._hosts.read_file(owner, f"/site/{name}"))

    def copy_state(self, to: Path) -> None:
        self._hosts.copy_folder(CURATOR, "/state", to)

    def pool(self, payloads: Mapping[str, bytes]) -> bytes:
        self._shell(CURATOR, "mkdir -p /operator/payloads")
        for owner, payload in payloads.items():
            self._hosts.write_file(CURATOR, f"/operator/payloads/{owner}", payload)
        script = (f"{_SCRIPTS}/pooling.py", STUDY_NAME, "/state", "/operator/payloads")
        return self._hosts.exec(
            CURATOR, "python", "-P", *script, environment=_environment(None)
        ).stdout

    def log(self) -> str:
        return "".join(self._log)

    def end(self) -> None:
        self._ended = True
        for up in self._up.values():
            up.set()
        for party in (*self._up, *(self._keeper(party) for party in self._up)):
            try:
                self._hosts.kill(party)
            except EngineError:
                continue  # not made, or ended already; removal looks for itself
        self._pool.shutdown(wait=True)

    # Inside

    def _run(self, party: str, *command: str, hold: str | None = None) -> CompletedCommand:
        self._require_open()
        self._up[party].wait(START_TIMEOUT_S)
        done = self._hosts.exec(party, *command, "--json", environment=_environment(hold))
        return ended(done.exit_code, done.stdout, done.stderr)

    def _start(
        self, party: str, what: str, command: str, *, hold: str | None = None
    ) -> Future[CommandResult]:
        """A command that goes on; /tmp/WHAT.pid has its process."""
        line = f"echo $$ > /tmp/{what}.pid; {command}"
        return self._pool.submit(
            lambda: self._hosts.exec(party, "sh", "-c", line, environment=_environment(hold))
        )

    def _shell(self, party: str, line: str) -> CommandResult:
        self._require_open()
        return self._hosts.exec(party, "sh", "-c", line)

    def _watch(self, party: str, hold: str | None) -> None:
        """Begin to look out for a process of a party that is stopped."""
        if hold is None:
            self._stops.pop(party, None)
            return
        line = f'{_STOPPED} while [ -z "$(stopped)" ]; do sleep 0.1; done'
        self._stops[party] = self._pool.submit(
            lambda: self._hosts.exec(party, "sh", "-c", line, timeout_s=HOLD_TIMEOUT_S)
        )

    def _daemon_ended(self) -> CompletedCommand:
        if self._daemon is None:
            raise AssertionError  # a cell starts it first
        done = self._daemon.result(START_TIMEOUT_S)
        said = done.stderr.decode(errors="replace")
        self._log.append(said)
        return CompletedCommand(done.exit_code, {}, said)

    def _require_open(self) -> None:
        if self._ended:
            raise PeerError(ENDED)

    def _give(self, party: str, folder: str, source: Path) -> None:
        for path in sorted(source.iterdir()):
            self._hosts.write_file(party, f"{folder}/{path.name}", path.read_bytes())

    def _has_tunnel(self, owner: str) -> bool:
        return self._fault.kind is FaultKind.SLOW and self._fault.host in (owner, CURATOR)

    def _keeper(self, party: str) -> str:
        return f"{party}-disk"

    def _idling(self, text: str) -> str:
        """The compose file with the parties of a cell alone, which do nothing by themselves."""
        document: dict[str, Any] = yaml.safe_load(text)
        services, volumes = document["services"], document["volumes"]
        idle = {"entrypoint": _IDLE, "command": [], "healthcheck": {"disable": True}}
        kept = {party: {**services[party], **idle} for party in self._up}
        for party, service in kept.items():
            service.pop("depends_on")
            service["volumes"] = [*_mounts(party), f"harness:{_SCRIPTS}"]
        if self._fault.kind is FaultKind.DISK_FULL:
            host = self._fault.host
            own = _mounts(host)[0].split(":")[0]
            keeper = {**kept[host], "volumes": [f"{own}:/mnt"], "network_mode": "none"}
            keeper.pop("networks")
            kept = {self._keeper(host): keeper, **kept}
            volumes[own] = {**volumes[own], "driver_opts": _SMALL_DISK}
        volumes["harness"] = volumes["operator"]
        return yaml.safe_dump({**document, "services": kept})


def container_runtime(
    image: str = DEFAULT_IMAGE,
) -> Callable[[Fixture, Fault], AbstractContextManager[ContainerRuntime]]:
    """Parties as containers of an image, all of them removed when the block is left."""

    @contextmanager
    def stage(scene: Fixture, fault: Fault) -> Iterator[ContainerRuntime]:
        with project() as hosts:
            made = ContainerRuntime(hosts, scene, fault, image)
            try:
                made.make()
                yield made
            finally:
                made.end()

    return stage


def _mounts(party: str) -> list[str]:
    """A party's volumes, that with its state first."""
    if party == CURATOR:
        return ["curator-state:/state", "curator-credentials:/credentials", "operator:/operator"]
    return [f"site-{OWNERS.index(party) + 1}:/site"]


def _program(module: str, skew: ClockSkew | None) -> list[str]:
    if skew is None:
        return ["python", "-P", "-m", module]
    when = "now" if skew.from_start else "signal"
    return ["python", "-P", f"{_SCRIPTS}/skewed.py", str(skew.offset_s), when, module]


def _environment(hold: str | None) -> dict[str, str]:
    asked = {} if hold is None else {VARIABLE: f"hold@{hold}"}
    return {**asked, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
