"""A Compose project on a Docker engine: made, started and ended as a whole, broken part by part.

Compose makes and starts what the compose file says, and nothing else does. The Docker SDK is used
to look at it, to kill it, to cut it off, and to remove it. Every call is bounded and fails with an
error of ours.

Everything that is made carries two labels: which run made it, and which process of which machine
that run is. `Project.remove` finds a run's things by label, so it needs no memory of what was made,
and `dppca.deploy.simulation.containers.orphans` does the same after a kill.

Making is one call of Compose (``up --detach``), which makes and starts one service after the
other. An interrupted caller stops waiting for it; removal kills what runs, so that the call fails,
and waits for its end. So nothing can appear after removal has looked.

The engine must speak API 1.41 (Docker 20.10) or newer.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import docker
from docker.utils import version_lt

from dppca.common.errors import (
    AddressSpaceError,
    DiskSpaceError,
    DppcaError,
    EngineError,
    ImageMissingError,
    UnreachableError,
)
from dppca.deploy.simulation.containers.failures import refusal, translated
from dppca.deploy.simulation.containers.removal import LABEL_PROCESS, LABEL_RUN, remove_run
from dppca.deploy.simulation.containers.subnets import DEFAULT_RANGE, choose_subnets
from dppca.deploy.simulation.containers.tar_archives import packed, unpacked, unpacked_into
from dppca.deploy.simulation.containers.topology import Placement

OLDEST_API = "1.41"
CALL_TIMEOUT_S = 180
UP_TIMEOUT_S = 3600.0
POLL_S = 0.5
COMMAND_TIMEOUT_S = 900.0
USER = 10001
"""User and group of the image."""

_KILLED = 137
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Host:
    """A service's container at one moment.

    Attributes
    ----------
    state
        As the engine calls it: created, running, exited.
    """

    service: str
    state: str
    is_healthy: bool


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command in a container ended: above 128, its exit code is 128 plus a signal."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Project:
    """The containers, networks and volumes of one run; make it with `project`.

    Containers are named by their services.

    Parameters
    ----------
    folder
        Where the compose file is written; paths in it are relative to this folder.
    """

    def __init__(self, client: docker.DockerClient, folder: Path) -> None:
        self.client = client
        self.run = secrets.token_hex(4)
        self._folder = folder
        self._ids: dict[str, str] = {}
        self._cut: dict[str, dict[str, Any]] = {}
        self._calls: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def name(self) -> str:
        """The engine's names of everything begin with it."""
        return f"dppca-{self.run}"

    # What there must be

    def require_image(self, image: str) -> None:
        """Raise `ImageMissingError` unless the engine has it; nothing is pulled."""
        with translated(f"looking for image {image}"):
            images = self.client.images.list(name=image)
        if not images:
            raise ImageMissingError(
                f"the image {image} is not on this engine: make it with `make image`, or name "
                "another with --image"
            )

    def require_space(self, n_bytes: int) -> None:
        """Raise `DiskSpaceError` if the engine's disk can be seen from here and has less free."""
        with translated("asking the engine for its disk"):
            root = str(self.client.info().get("DockerRootDir", ""))
        try:
            free = shutil.disk_usage(root).free
        except OSError:
            return  # an engine elsewhere: it will say so itself
        if free < n_bytes:
            raise DiskSpaceError(
                f"the engine's disk has {free >> 20:,} MiB free in {root}, and this needs "
                f"{n_bytes >> 20:,} MiB: free some, for instance with `docker system prune`"
            )

    # Making and starting

    def up(
        self,
        describe: Callable[[Placement], str],
        *,
        n_networks: int,
        addresses: str = DEFAULT_RANGE,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Have Compose make and start what a compose file says; everything is started afterwards.

        Parameters
        ----------
        describe
            The compose file, of this run's labels and subnets.
        addresses
            Range that the networks' subnets are taken from.
        look
            Called every `POLL_S`, and once more where Compose fails; what it raises ends this.

        Raises
        ------
        SettingError
            The range is none, or too small.
        AddressSpaceError, DiskSpaceError, EngineError
            What the engine lacks.
        UnreachableError
            Compose took more than `UP_TIMEOUT_S`.
        """
        labels = {LABEL_RUN: self.run, LABEL_PROCESS: f"{socket.gethostname()}:{os.getpid()}"}
        for attempt in range(_ATTEMPTS):
            subnets = self._free_subnets(addresses, n_networks)
            text = describe(Placement(labels, subnets))
            (self._folder / "docker-compose.yml").write_text(text)
            try:
                self._compose_up(look)
            except AddressSpaceError:
                # Another run took a subnet meanwhile.
                if attempt == _ATTEMPTS - 1:
                    raise
                remove_run(self.client, self.run)
            else:
                return

    def start(self, service: str) -> None:
        """Start a container, the first time or again; its volumes are as they were."""
        with translated(f"starting {service}"):
            self.client.api.start(self._id(service))

    # Looking

    def hosts(self) -> tuple[Host, ...]:
        """Every container as it is now."""
        return tuple(
            Host(_service(each), each["State"], "(healthy)" in each["Status"])
            for each in self._containers()
        )

    def exit_code(self, service: str) -> int:
        """The exit code of a container that has ended."""
        return int(self._state(service)["ExitCode"])

    def finished_at(self, service: str) -> str:
        """When a container ended, as ISO 8601."""
        return str(self._state(service)["FinishedAt"])

    def logs(self, service: str, *, timestamps: bool = False) -> str:
        """What a container's first process has written so far to both streams."""
        with translated(f"reading the log of {service}"):
            said: bytes = self.client.api.logs(self._id(service), timestamps=timestamps)
        return said.decode(errors="replace")

    def traffic(self, service: str) -> int:
        """Bytes received and sent since a container's start; zero where it does not run."""
        with translated(f"reading statistics of {service}"):
            stats = self.client.api.stats(self._id(service), stream=False, one_shot=True)
        networks = (stats.get("networks") or {}).values()
        return sum(int(each["rx_bytes"]) + int(each["tx_bytes"]) for each in networks)

    def write_file(self, service: str, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Put a file into a container's volume, running or not; the image's user owns it."""
        place = PurePosixPath(path)
        archive = packed(place.name, content, mode=mode, owner=USER)
        with translated(f"writing {path} of {service}"):
            self.client.api.put_archive(self._id(service), str(place.parent), archive)

    def read_file(self, service: str, path: str) -> bytes:
        """A file of a container, volumes included, running or not; `EngineError` if it has none."""
        with translated(f"reading {path} of {service}"):
            chunks, _ = self.client.api.get_archive(self._id(service), path)
            return unpacked(chunks, path)

    def copy_folder(self, service: str, path: str, to: Path) -> None:
        """Copy a folder of a container as a new folder here; errors as of `read_file`."""
        with translated(f"reading {path} of {service}"):
            chunks, _ = self.client.api.get_archive(self._id(service), path)
            unpacked_into(chunks, to)

    # Driving and breaking

    def exec(
        self,
        service: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> CommandResult:
        """Run a command in a running container to its end, as the image's user.

        A command that takes longer is ended, and so is one whose container is killed; both are
        told by the exit code (124 and 137), as is every other failure of the command.
        """
        api = self.client.api
        bounded = ["timeout", "--kill-after=10", str(timeout_s), *command]
        with translated(f"running {command[0]} in {service}"):
            made = api.exec_create(self._id(service), bounded, environment=dict(environment or {}))
            stdout, stderr = api.exec_start(made["Id"], demux=True)
            code = self._exec_code(made["Id"])
        return CommandResult(code, stdout or b"", stderr or b"")

    def kill(self, service: str) -> None:
        """End every process of a container with SIGKILL."""
        with translated(f"killing {service}"):
            self.client.api.kill(self._id(service))

    def wait(self, service: str, *, timeout_s: float) -> int:
        """Wait for a container's end; its exit code, or `UnreachableError` if it still runs."""
        deadline = time.monotonic() + timeout_s
        while (state := self._state(service))["Running"]:
            if time.monotonic() > deadline:
                raise UnreachableError(f"{service} still runs after {timeout_s:.0f} s")
            time.sleep(0.1)
        return int(state["ExitCode"])

    def disconnect(self, service: str) -> None:
        """Pull a container off all its networks, at once: packets under way are lost."""
        with translated(f"disconnecting {service}"):
            container = self.client.api.inspect_container(self._id(service))
            ends = self._cut[service] = container["NetworkSettings"]["Networks"]
            for network in ends:
                self.client.api.disconnect_container_from_network(
                    self._id(service), network, force=True
                )

    def connect(self, service: str) -> None:
        """Undo `disconnect`; the container has its old addresses and names again."""
        with translated(f"connecting {service}"):
            for network, end in self._cut.pop(service).items():
                self.client.api.connect_container_to_network(
                    self._id(service),
                    network,
                    ipv4_address=end["IPAddress"],
                    aliases=end["Aliases"],
                )

    # Ending

    def remove(self) -> None:
        """Remove everything this run made, running or not, and let go of the engine.

        Raises
        ------
        EngineError
            Something could not be removed.
        """
        with self._lock:
            self._closed = True
        deadline = time.monotonic() + CALL_TIMEOUT_S
        for call in self._calls:
            while call.poll() is None:
                if time.monotonic() > deadline:
                    call.kill()
                    call.wait()
                self._kill_all()
                time.sleep(POLL_S)
        try:
            remove_run(self.client, self.run)
        finally:
            self.client.close()

    def _free_subnets(self, addresses: str, count: int) -> tuple[str, ...]:
        with translated("looking at the engine's networks"):
            networks = self.client.api.networks()
        pools = [pool for each in networks for pool in each["IPAM"]["Config"] or ()]
        used = [pool["Subnet"] for pool in pools if "." in pool.get("Subnet", "")]
        return choose_subnets(addresses, count, used=used, offset=secrets.randbelow(1 << 13))

    def _compose_up(self, look: Callable[[], None]) -> None:
        command = [*compose_command(), "--project-name", self.name, "up", "--detach", "--no-build"]
        environment = {**os.environ, "COMPOSE_HTTP_TIMEOUT": str(CALL_TIMEOUT_S)}
        for name in ("DPPCA_IMAGE", "DPPCA_RESULTS", "COMPOSE_FILE"):
            environment.pop(name, None)
        log = self._folder / "compose.log"
        with self._lock, log.open("wb") as stream:
            self._require_open()
            call = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
            self._calls.append(call)
        deadline = time.monotonic() + UP_TIMEOUT_S
        while call.poll() is None:
            if time.monotonic() > deadline:
                raise UnreachableError(f"Compose took more than {UP_TIMEOUT_S:.0f} s")
            look()
            time.sleep(POLL_S)
        if call.returncode:
            look()
            said = " ".join(log.read_text(errors="replace").split())[-2000:]
            doing = "making containers"
            raise refusal(said, doing) or EngineError(f"{doing}: Compose failed: {said}")

    def _require_open(self) -> None:
        if self._closed:
            raise EngineError("making containers: the simulation is being stopped")

    def _kill_all(self) -> None:
        """Kill what runs, so that Compose, which starts one after the other, fails and ends."""
        for container in self._containers():
            if container["State"] == "running":
                with suppress(DppcaError), translated("killing a container"):
                    self.client.api.kill(container["Id"])

    def _containers(self) -> Sequence[Any]:
        with translated("looking at the containers"):
            containers: Sequence[Any] = self.client.api.containers(
                all=True, filters={"label": f"{LABEL_RUN}={self.run}"}
            )
        return containers

    def _id(self, service: str) -> str:
        if service not in self._ids:
            self._ids = {_service(each): str(each["Id"]) for each in self._containers()}
        if service not in self._ids:
            raise EngineError(f"{service}: no such container in this run")
        return self._ids[service]

    def _state(self, service: str) -> dict[str, Any]:
        with translated(f"looking at {service}"):
            state: dict[str, Any] = self.client.api.inspect_container(self._id(service))["State"]
        return state

    def _exec_code(self, exec_id: str) -> int:
        """Exit code of a command whose output has ended; the engine needs a moment to know it."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while (execution := self.client.api.exec_inspect(exec_id))["Running"]:
            if time.monotonic() > deadline:
                raise UnreachableError("a command's output has ended and the command has not")
            time.sleep(0.02)
        code = execution["ExitCode"]
        return _KILLED if code is None else int(code)


@contextmanager
def project(folder: Path | None = None) -> Iterator[Project]:
    """A project that is removed when the block ends, however it ends; nothing is made yet.

    Parameters
    ----------
    folder
        Where its compose file is written; a temporary folder where None.

    Raises
    ------
    EngineError
        No engine answers; or, at the end, something could not be removed.
    """
    with tempfile.TemporaryDirectory(prefix="dppca-compose-") as name:
        made = Project(connect(), folder or Path(name))
        failed: BaseException | None = None
        try:
            yield made
        except BaseException as error:
            failed = error
            raise
        finally:
            with _undisturbed():
                _remove(made, failed)


def connect() -> docker.DockerClient:
    """A client of the environment's engine (``DOCKER_HOST`` or the usual socket).

    Raises
    ------
    EngineError
        None answers, it may not be used, or it is too old.
    """
    with translated("reaching the Docker engine"):
        client = docker.from_env(timeout=CALL_TIMEOUT_S)
        version = str(client.api.api_version)
    if version_lt(version, OLDEST_API):
        client.close()
        raise EngineError(
            f"the Docker engine speaks API {version}: {OLDEST_API} (20.10) or newer is needed"
        )
    return client


def compose_command() -> list[str]:
    """The command of Compose on this machine: v2 if the engine has it, else 1.29.

    Raises
    ------
    EngineError
        It has none.
    """
    plugin = shutil.which("docker") and subprocess.run(
        ["docker", "compose", "version"], capture_output=True, timeout=CALL_TIMEOUT_S
    )
    if plugin and plugin.returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise EngineError(
        "Compose is missing: install the docker compose plugin, or docker-compose 1.29 or newer"
    )


def _service(container: Mapping[str, Any]) -> str:
    return str(container["Labels"]["com.docker.compose.service"])


def _remove(made: Project, failed: BaseException | None) -> None:
    try:
        made.remove()
    except DppcaError as error:
        if not isinstance(failed, DppcaError):
            raise
        raise type(failed)(f"{failed}. Then also: {error}") from error


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
