"""A curator and its owners as hosts of their own, to drive and to break.

::

    authority   no network            signs; its key stays in its volume
    curator     hub, site of each     dppca-curator serve, on port 7443 of no machine
    operator    hub                   makes the study, fetches results
    owner-1     site of owner-1       one key, one data volume, one way: to the curator
    …

The parties are those of ``docker-compose.yml``, with its commands, its image and its confinement;
what differs is that a container stays when a command in it ends, so that it can be killed,
cut off and started again. What travels between parties beside the network, requests and
certificates, is carried here; keys never leave their volumes. No port of this machine is used.

::

    with cluster(Plan(owners=("owner-1", "owner-2"))) as hosts:
        hosts.up()                                    # keys, certificates, a healthy curator
        hosts.furnish("owner-1", rows=..., policy=...)
        hosts.call("owner-1", "dppca-owner", "contribute", "study", "--yes")
        hosts.kill("curator"); hosts.start("curator")
        hosts.disconnect("owner-2"); hosts.connect("owner-2")

Every method may be called from several threads. Every failure is a `DppcaError`. Leaving the block
removes everything that was made, whatever happened in it.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from common.errors import DppcaError, EngineError, SettingError, UnreachableError
from deploy.containers.addresses import DEFAULT_RANGE, Block, capacity
from deploy.containers.engine import COMMAND_TIMEOUT_S, Engine
from deploy.containers.wanted import Container, Done, Limits, Link, Mount, Traffic
from deploy.simulation.parties import Answer, each, failure

AUTHORITY, CURATOR, OPERATOR = "authority", "curator", "operator"
HUB = "hub"
DEFAULT_IMAGE = "dppca:local"
ADDRESS = f"{CURATOR}:7443"
MOST_OWNERS = 20
DAYS = 30
LEAST_SPACE = 256 << 20
"""Bytes that must be free on the engine's disk before anything is made: volumes and logs."""
START_TIMEOUT_S = 180.0
_IDLE = ("sleep", "infinity")
_SERVE = (
    *("dppca-curator", "serve", "--state", "/state", "--listen", "0.0.0.0:7443"),
    *("--credentials", "/credentials", "--log-format", "json"),
)
_AS_CURATOR = ("--curator", "localhost:7443", "--credentials", "/credentials")
_AS_OPERATOR = ("--curator", ADDRESS, "--credentials", "/operator")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to make.

    Attributes
    ----------
    owners
        Their names; 1 to `MOST_OWNERS`.
    image
        On the engine already; nothing is pulled.
    addresses
        Range that the private networks are taken from.
    """

    owners: tuple[str, ...]
    image: str = DEFAULT_IMAGE
    addresses: str = DEFAULT_RANGE
    limits: Limits = field(default_factory=Limits)


class Cluster:
    """The hosts of one study; make it with `cluster`."""

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = plan
        self._blocks: dict[str, Block] = {}
        self._signing = threading.Lock()

    @property
    def parties(self) -> tuple[str, ...]:
        """Every host, the hub's first."""
        return (AUTHORITY, CURATOR, OPERATOR, *self.plan.owners)

    # Bringing up

    def up(self) -> None:
        """Make hosts, keys and certificates; the curator is healthy when this returns."""
        self.make()
        self.certify_hub()
        self.start(CURATOR)
        self.wait_until_healthy()
        each(self.plan.owners, self.enrol, stop=self.stop_all)

    def make(self) -> None:
        """Make networks, volumes and containers; start all but the curator.

        Raises
        ------
        SettingError
            Too many owners, or a range of addresses that is none.
        ImageMissingError, DiskSpaceError, AddressSpaceError, EngineError
            What the engine lacks.
        """
        plan, engine = self.plan, self.engine
        _require_plan(plan)
        engine.require_image(plan.image)
        engine.require_space(LEAST_SPACE)
        for network in (HUB, *plan.owners):
            self._blocks[network] = engine.make_network(network, addresses=plan.addresses)
        containers = [self._hub_member(name) for name in (AUTHORITY, CURATOR, OPERATOR)]
        containers += [self._owner(name) for name in plan.owners]
        volumes = sorted({mount.volume for wanted in containers for mount in wanted.mounts})
        each(volumes, engine.make_volume, stop=self.stop_all)
        each(containers, engine.make_container, stop=self.stop_all)
        idle = [name for name in self.parties if name != CURATOR]
        each(idle, engine.start, stop=self.stop_all)

    def certify_hub(self) -> None:
        """Make the authority, and keys and certificates of curator and operator."""
        pki, days = ("dppca-curator", "pki"), ("--days", str(DAYS))
        here = ("--directory", "/authority")
        self.call(AUTHORITY, *pki, "init", *here, "--name", "simulation", *days)
        issue = (*pki, "issue", *here, *days, "--role")
        hosts = ("--host", CURATOR, "--host", "localhost")
        self.call(
            AUTHORITY, *issue, "curator", "--name", CURATOR, *hosts, "--output", "/credentials"
        )
        self.call(AUTHORITY, *issue, "operator", "--name", OPERATOR, "--output", "/operator")

    def enrol(self, owner: str) -> Answer:
        """Make an owner's key at its site and bring it a certificate; what ``init`` answered."""
        answer = self.call(owner, "dppca-owner", "init", "--name", owner, "--curator", ADDRESS)
        self.certify(owner)
        return answer

    def certify(self, owner: str, *, days: int = DAYS) -> None:
        """Have an owner's request signed, and put the certificate into its site."""
        request, signed = f"/exchange/{owner}-request.pem", f"/exchange/{owner}.pem"
        self.write_file(AUTHORITY, request, self.read_file(owner, "/site/request.pem"))
        sign = ("dppca-curator", "pki", "sign", "--directory", "/authority", "--name", owner)
        with self._signing:
            options = ("--request", request, "--output", signed, "--days", str(days))
            self.call(AUTHORITY, *sign, *options)
        self.write_file(owner, "/site/certificate.pem", self.read_file(AUTHORITY, signed))
        self.write_file(owner, "/site/ca.pem", self.read_file(AUTHORITY, "/authority/ca.pem"))

    def furnish(self, owner: str, *, rows: bytes, policy: str, name: str = "rows.csv") -> None:
        """Give an owner its data file, ``/data/NAME``, and its policy.

        The owner sees its data read-only, so the file goes in by a container that is never started.
        """
        door = f"{owner}-data"
        mount = Mount(f"data-{owner}", "/data")
        self.engine.make_container(Container(door, self.plan.image, _IDLE, mounts=(mount,)))
        self.write_file(door, f"/data/{name}", rows)
        self.write_file(owner, "/site/policy.yaml", policy.encode())

    def wait_until_healthy(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the curator's health check passes.

        Raises
        ------
        DppcaError
            The curator ended: of the class it ended with.
        UnreachableError
            Not healthy in time.
        """
        deadline = time.monotonic() + timeout_s
        check = ("dppca-curator", "health", *_AS_CURATOR, "--timeout", "10")
        while True:
            if not self.running(CURATOR):
                code = self.wait(CURATOR, timeout_s=1)
                raise failure(CURATOR, code, b"", self.logs(CURATOR).encode())
            try:
                done = self.exec(CURATOR, *check)
            except EngineError:
                if self.running(CURATOR):
                    raise
                continue
            if done.exit_code == 0:
                return
            if time.monotonic() > deadline:
                said = self.logs(CURATOR)[-2000:]
                message = f"{CURATOR} was not healthy after {timeout_s:.0f} s: {said}"
                raise UnreachableError(message)
            time.sleep(0.2)

    # Driving

    def call(
        self,
        party: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> Answer:
        """Run a command of ours at a party to its end; ``--json`` is added.

        Raises
        ------
        DppcaError
            The class the command failed with, its message after the party's name.
        """
        done = self.exec(party, *command, "--json", environment=environment, timeout_s=timeout_s)
        if done.exit_code:
            raise failure(party, done.exit_code, done.stdout, done.stderr)
        return Answer(json.loads(done.stdout), done.seconds)

    def operate(self, *command: str) -> Answer:
        """``dppca-curator study …`` as the operator."""
        return self.call(OPERATOR, "dppca-curator", "study", *command, *_AS_OPERATOR)

    def exec(
        self,
        party: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> Done:
        """Run any command at a party to its end; its exit code says how that was (137: killed)."""
        return self.engine.exec(party, *command, environment=environment, timeout_s=timeout_s)

    def read_file(self, party: str, path: str) -> bytes:
        """A file as a party sees it, volumes included; the party need not run."""
        return self.engine.read_file(party, path)

    def write_file(self, party: str, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Put a file into one of a party's volumes; the party need not run."""
        self.engine.write_file(party, path, content, mode=mode)

    def logs(self, party: str) -> str:
        """What a party's first process has said; the curator's log, for instance."""
        return self.engine.logs(party)

    def traffic(self, party: str) -> Traffic:
        """Bytes a party has received and sent since its start."""
        return self.engine.traffic(party)

    # Breaking

    def start(self, party: str) -> None:
        """Start a party that was made, killed or stopped; its volumes are as they were."""
        self.engine.start(party)

    def stop(self, party: str, *, grace_s: int = 10) -> None:
        """SIGTERM, then SIGKILL after the grace; returns when the party has ended."""
        self.engine.stop(party, grace_s=grace_s)

    def kill(self, party: str, *, signal: str = "SIGKILL") -> None:
        """A signal to a party's first process; SIGKILL ends every process there at once."""
        self.engine.kill(party, signal=signal)

    def wait(self, party: str, *, timeout_s: float) -> int:
        """Wait until a party's first process has ended; its exit code."""
        return self.engine.wait(party, timeout_s=timeout_s)

    def running(self, party: str) -> bool:
        """Whether a party's first process lives."""
        return self.engine.running(party)

    def disconnect(self, party: str) -> None:
        """Cut a party off: an owner from the curator, the curator from everybody."""
        for network, _ in self._ends(party):
            self.engine.detach(party, network)

    def connect(self, party: str) -> None:
        """Undo `disconnect`; the party has its old addresses again."""
        for _, link in self._ends(party):
            self.engine.attach(party, link)

    def stop_all(self) -> None:
        """Nothing starts any more, and everything that runs is killed."""
        self.engine.refuse_more()
        for party in self.parties:
            try:
                self.engine.kill(party)
            except EngineError:
                continue  # not made yet, or ended already; removal looks for itself

    def _ends(self, party: str) -> list[tuple[str, Link]]:
        """The networks of a party, and its end of each."""
        if party == CURATOR:
            return [
                (network, Link(network, block.curator, (CURATOR,)))
                for network, block in self._blocks.items()
            ]
        if party == OPERATOR:
            return [(HUB, Link(HUB, self._blocks[HUB].other))]
        if party in self.plan.owners:
            return [(party, Link(party, self._blocks[party].other))]
        return []

    def _hub_member(self, name: str) -> Container:
        credentials, operator = Mount("credentials", "/credentials"), Mount("operator", "/operator")
        mounts = {
            AUTHORITY: (
                *(Mount("authority", "/authority"), Mount("exchange", "/exchange")),
                *(credentials, operator),
            ),
            CURATOR: (replace(credentials, read_only=True), Mount("state", "/state")),
            OPERATOR: (replace(operator, read_only=True), Mount("results", "/results")),
        }
        return self._container(name, mounts[name], _SERVE if name == CURATOR else _IDLE)

    def _owner(self, name: str) -> Container:
        mounts = (Mount(f"site-{name}", "/site"), Mount(f"data-{name}", "/data", read_only=True))
        return self._container(name, mounts, _IDLE)

    def _container(self, name: str, mounts: tuple[Mount, ...], command: Sequence[str]) -> Container:
        return Container(
            name=name,
            image=self.plan.image,
            command=command,
            mounts=mounts,
            links=tuple(link for _, link in self._ends(name)),
            limits=self.plan.limits,
        )


@contextmanager
def cluster(plan: Plan) -> Iterator[Cluster]:
    """Hosts that are gone when the block is left, by whatever way; nothing is made yet.

    Raises
    ------
    EngineError
        No engine answers; or, at the end, something could not be removed.
    """
    engine = Engine.connect()
    made = Cluster(engine, plan)
    failed: BaseException | None = None
    try:
        yield made
    except BaseException as error:
        failed = error
        raise
    finally:
        with _undisturbed():
            _remove(engine, failed)


def _remove(engine: Engine, failed: BaseException | None) -> None:
    try:
        engine.remove()
    except DppcaError as error:
        if not isinstance(failed, DppcaError):
            raise
        message = f"{failed}. Then also: {error}"
        raise type(failed)(message) from error


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C does not stop the removal, which is bounded."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _require_plan(plan: Plan) -> None:
    if not 1 <= len(plan.owners) <= MOST_OWNERS:
        message = f"containers serve 1 to {MOST_OWNERS} owners, not {len(plan.owners)}"
        raise SettingError(message)
    if capacity(plan.addresses) <= len(plan.owners):
        message = (
            f"{plan.addresses} holds {capacity(plan.addresses)} networks, and "
            f"{len(plan.owners) + 1} are needed"
        )
        raise SettingError(message)
