"""The parties of a cell as containers of the image, each owner on a network of its own.

::

    owner-1 ── network owner-1 ──┐
    owner-2 ── network owner-2 ──┼── curator, where the operator works too
    owner-3 ── network owner-3 ──┘

Every container idles; commands, the daemon among them, run in it by the engine, so that they may be
held, and killed with their whole container. A cut is the engine pulling the container off its
network. A party whose disk is to be full has its volume on a file system of `SMALL_DISK`, which
another container holds open and fills. An owner whose link is to be slow dials a relay in its own
container
(`deploy.faults.relay`). Keys and rows are made on this machine and given to the containers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from common.checkpoints import VARIABLE
from common.errors import EngineError, PeerError, UnreachableError
from deploy.containers.addresses import DEFAULT_RANGE, Block
from deploy.containers.cluster import DEFAULT_IMAGE as DEFAULT_IMAGE
from deploy.containers.engine import Engine
from deploy.containers.wanted import Container, Done, Link, Mount
from deploy.faults.processes import LEDGER_FILES, ended
from deploy.faults.scene import OWNERS, Scene
from deploy.faults.spec import CURATOR, Fault, Kind
from deploy.faults.stage import ENDED, Ended, Skew

HOSTS = ("curator", "localhost")
SMALL_DISK = "4m"
START_TIMEOUT_S = 180.0
HOLD_TIMEOUT_S = 300.0
_IDLE = ("sleep", "infinity")
_USER = 10001
_TUNNEL = "127.0.0.1:7443"
_LISTENS = "until grep -q ':1D13 .* 0A ' /proc/net/tcp; do sleep 0.1; done"  # port 7443, LISTEN
_STOPPED = (
    'stopped() { for p in /proc/[0-9]*; do grep -q "^State:.T" $p/status 2>/dev/null '
    "&& echo ${p#/proc/}; done; true; }; "
)


class ContainerStage:
    """`deploy.faults.stage.Stage` on containers; make it with `container_stage`."""

    def __init__(self, engine: Engine, scene: Scene, fault: Fault, image: str) -> None:
        self._engine = engine
        self._scene = scene
        self._fault = fault
        self._image = image
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="hosts")
        self._blocks: dict[str, Block] = {}
        self._up = {party: threading.Event() for party in (CURATOR, *OWNERS)}
        self._stops: dict[str, Future[Done]] = {}
        self._daemon: Future[Done] | None = None
        self._log: list[str] = []
        self._ended = False

    def make(self) -> None:
        """Make and start every container, and give it its files."""
        engine = self._engine
        engine.require_image(self._image)
        for owner in OWNERS:
            self._blocks[owner] = engine.make_network(owner, addresses=DEFAULT_RANGE)
        for volume in ("credentials", "operator", "state", *(f"site-{o}" for o in OWNERS)):
            engine.make_volume(volume, **self._disk(volume))
        made = [self._container(party) for party in self._up]
        if self._fault.kind is Kind.DISK_FULL:
            keeper = Mount(self._volume(self._fault.party), "/mnt")
            name = self._keeper(self._fault.party)
            made.insert(0, Container(name, self._image, _IDLE, mounts=(keeper,)))
        for container in made:
            engine.make_container(container)
            engine.start(container.name)
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
            engine.write_file(owner, "/site/rows.csv", self._scene.rows(owner).read_bytes())
            if slow:
                relay = f"--listen {_TUNNEL} --to curator:7443"
                self._start(owner, "relay", f"exec python -m deploy.faults.relay {relay}")
                if self._engine.exec(owner, "sh", "-c", _LISTENS, timeout_s=60).exit_code:
                    message = f"the relay of {owner} did not listen after 60 s"
                    raise UnreachableError(message)
        for up in self._up.values():
            up.set()

    def start_curator(
        self, scene: Scene, *, hold: str | None = None, skew: Skew | None = None
    ) -> Ended | None:
        """See `Stage`."""
        self._scene = scene
        self._up[CURATOR].wait(START_TIMEOUT_S)
        serve = "serve --state /state --listen 0.0.0.0:7443 --credentials /credentials"
        command = f"{serve} --port-file /tmp/port --log-format json --json"
        program = " ".join(_program("curator.cli", skew))
        self._daemon = self._start(CURATOR, "daemon", f"exec {program} {command}", hold=hold)
        self._watch(CURATOR, hold)
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._shell(CURATOR, "test -s /tmp/port").exit_code:
            if self._daemon.done():
                return self._daemon_ended()
            if time.monotonic() > deadline:
                message = f"the curator was not ready after {START_TIMEOUT_S:.0f} s"
                raise UnreachableError(message)
            time.sleep(0.2)
        return None

    def stop_curator(self) -> Ended:
        """See `Stage`."""
        if self._daemon is None:
            raise AssertionError  # a cell starts it first
        if not self._daemon.done():
            self._shell(CURATOR, "kill -TERM $(cat /tmp/daemon.pid)")
        return self._daemon_ended()

    def operate(self, *arguments: str) -> Ended:
        """See `Stage`."""
        if arguments[0] == "create":
            content = self._scene.study_file.read_bytes()
            self._engine.write_file(CURATOR, "/operator/study.json", content)
            arguments = ("create", "/operator/study.json")
        connection = ("--curator", "localhost:7443", "--credentials", "/operator")
        return self._run(
            CURATOR, "python", "-P", "-m", "curator.cli", "study", *arguments, *connection
        )

    def run(
        self, owner: str, *arguments: str, hold: str | None = None, skew: Skew | None = None
    ) -> Ended:
        """See `Stage`."""
        if hold is not None:
            self._up[owner].wait(START_TIMEOUT_S)
            self._watch(owner, hold)
        program = _program("owner.cli", skew)
        return self._run(owner, *program, "--site", "/site", *arguments, hold=hold)

    def is_held(self, party: str) -> bool:
        """See `Stage`."""
        self._require_open()
        found = self._stops.get(party)
        return found is not None and found.done() and found.result().exit_code == 0

    def resume(self, party: str, *, skew: bool = False) -> None:
        """See `Stage`."""
        first = "kill -USR1 $p; " if skew else ""
        self._shell(party, f"{_STOPPED} for p in $(stopped); do {first}kill -CONT $p; done")

    def kill(self, party: str) -> None:
        """See `Stage`; the whole host goes, and is up again when this returns."""
        self._up[party].clear()
        self._engine.kill(party)
        self._engine.wait(party, timeout_s=START_TIMEOUT_S)
        if party == CURATOR and self._daemon is not None:
            self._daemon_ended()
        self._engine.start(party)
        self._up[party].set()

    def cut(self, party: str) -> None:
        """See `Stage`."""
        for owner in self._networks(party):
            self._engine.detach(party, owner)

    def heal(self, party: str) -> None:
        """See `Stage`."""
        for owner in self._networks(party):
            self._engine.attach(party, self._link(party, owner))

    def slow(self, party: str) -> None:
        """See `Stage`."""
        for owner in self._networks(party):
            self._shell(owner, "kill -USR1 $(cat /tmp/relay.pid)")

    def hurry(self, party: str) -> None:
        """See `Stage`."""
        for owner in self._networks(party):
            self._shell(owner, "kill -USR2 $(cat /tmp/relay.pid)")

    def fill(self, party: str) -> None:
        """See `Stage`."""
        self._shell(self._keeper(party), "cat /dev/zero > /mnt/filler")

    def free(self, party: str) -> None:
        """See `Stage`."""
        self._shell(self._keeper(party), "rm -f /mnt/filler")

    def copy_site(self, owner: str, to: Path) -> None:
        """See `Stage`."""
        here = self._shell(owner, f"cd /site; ls -d {' '.join(LEDGER_FILES)} 2>/dev/null; true")
        for name in here.stdout.decode().split():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            (to / name).write_bytes(self._engine.read_file(owner, f"/site/{name}"))

    def copy_state(self, to: Path) -> None:
        """See `Stage`."""
        self._engine.copy_folder(CURATOR, "/state", to)

    def pool(self, payloads: Mapping[str, bytes]) -> bytes:
        """See `Stage`."""
        self._shell(CURATOR, "mkdir -p /operator/payloads")
        for owner, payload in payloads.items():
            self._engine.write_file(CURATOR, f"/operator/payloads/{owner}", payload)
        module = ("deploy.faults.pooling", "/state", "/operator/payloads")
        return self._engine.exec(
            CURATOR, "python", "-P", "-m", *module, environment=_environment(None)
        ).stdout

    def log(self) -> str:
        """See `Stage`."""
        return "".join(self._log)

    def end(self) -> None:
        """See `Stage`."""
        self._ended = True
        for up in self._up.values():
            up.set()
        for party in (*self._up, *(self._keeper(party) for party in self._up)):
            try:
                self._engine.kill(party)
            except EngineError:
                continue  # not made, or ended already; removal looks for itself
        self._pool.shutdown(wait=True)

    # Inside

    def _run(self, party: str, *command: str, hold: str | None = None) -> Ended:
        self._require_open()
        self._up[party].wait(START_TIMEOUT_S)
        done = self._engine.exec(party, *command, "--json", environment=_environment(hold))
        return ended(done.exit_code, done.stdout, done.stderr)

    def _start(
        self, party: str, what: str, command: str, *, hold: str | None = None
    ) -> Future[Done]:
        """A command that goes on; /tmp/WHAT.pid has its process."""
        line = f"echo $$ > /tmp/{what}.pid; {command}"
        return self._pool.submit(
            lambda: self._engine.exec(party, "sh", "-c", line, environment=_environment(hold))
        )

    def _shell(self, party: str, line: str) -> Done:
        self._require_open()
        return self._engine.exec(party, "sh", "-c", line)

    def _watch(self, party: str, hold: str | None) -> None:
        """Begin to look out for a process of a party that is stopped."""
        if hold is None:
            self._stops.pop(party, None)
            return
        line = f'{_STOPPED} while [ -z "$(stopped)" ]; do sleep 0.1; done'
        self._stops[party] = self._pool.submit(
            lambda: self._engine.exec(party, "sh", "-c", line, timeout_s=HOLD_TIMEOUT_S)
        )

    def _daemon_ended(self) -> Ended:
        if self._daemon is None:
            raise AssertionError  # a cell starts it first
        done = self._daemon.result(START_TIMEOUT_S)
        said = done.stderr.decode(errors="replace")
        self._log.append(said)
        return Ended(done.exit_code, {}, said)

    def _require_open(self) -> None:
        if self._ended:
            raise PeerError(ENDED)

    def _give(self, party: str, folder: str, source: Path) -> None:
        for path in sorted(source.iterdir()):
            self._engine.write_file(party, f"{folder}/{path.name}", path.read_bytes())

    def _networks(self, party: str) -> tuple[str, ...]:
        return OWNERS if party == CURATOR else (party,)

    def _has_tunnel(self, owner: str) -> bool:
        return self._fault.kind is Kind.SLOW and self._fault.party in (owner, CURATOR)

    def _keeper(self, party: str) -> str:
        return f"{party}-disk"

    def _volume(self, party: str) -> str:
        return "state" if party == CURATOR else f"site-{party}"

    def _disk(self, volume: str) -> dict[str, str]:
        small = self._fault.kind is Kind.DISK_FULL and volume == self._volume(self._fault.party)
        if not small:
            return {}
        owner = f"uid={_USER},gid={_USER},mode=0700"
        return {"type": "tmpfs", "device": "tmpfs", "o": f"size={SMALL_DISK},{owner}"}

    def _link(self, party: str, network: str) -> Link:
        block = self._blocks[network]
        if party == CURATOR:
            return Link(network, block.curator, (CURATOR,))
        return Link(network, block.other)

    def _container(self, party: str) -> Container:
        mounts = (
            (Mount("credentials", "/credentials"), Mount("operator", "/operator"))
            if party == CURATOR
            else ()
        )
        own = Mount(self._volume(party), "/state" if party == CURATOR else "/site")
        links = tuple(self._link(party, network) for network in self._networks(party))
        return Container(party, self._image, _IDLE, mounts=(*mounts, own), links=links)


def container_stage(
    image: str = DEFAULT_IMAGE,
) -> Callable[[Scene, Fault], AbstractContextManager[ContainerStage]]:
    """Parties as containers of an image, all of them removed when the block is left."""

    @contextmanager
    def stage(scene: Scene, fault: Fault) -> Iterator[ContainerStage]:
        engine = Engine.connect()
        try:
            made = ContainerStage(engine, scene, fault, image)
            try:
                made.make()
                yield made
            finally:
                made.end()
        finally:
            engine.remove()

    return stage


def _program(module: str, skew: Skew | None) -> list[str]:
    program = ["python", "-P", "-m"]
    if skew is not None:
        when = "now" if skew.from_start else "signal"
        program += ["deploy.faults.skewed", str(skew.offset_s), when]
    return [*program, module]


def _environment(hold: str | None) -> dict[str, str]:
    asked = {} if hold is None else {VARIABLE: f"hold@{hold}"}
    return {**asked, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
