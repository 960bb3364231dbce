"""What is used of a Docker engine: few calls, each bounded, each with an error of ours.

Everything that is made carries three labels: which run made it, which process of which machine
that run is, and which party it stands for. `Engine.remove` finds a run's things by label, so it
needs no memory of what was made, and `deploy.containers.leftovers` does the same after a kill.

Calls that make something run in threads of their own: an interrupted caller stops waiting, but
the call itself comes to its end, and removal waits for it. So nothing can appear after removal
has looked.

The engine must speak API 1.41 (Docker 20.10) or newer.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import docker
from docker.types import IPAMConfig, IPAMPool, LogConfig
from docker.utils import version_lt

from common.errors import (
    AddressSpaceError,
    DiskSpaceError,
    EngineError,
    ImageMissingError,
    UnreachableError,
)
from deploy.containers.addresses import Block, blocks
from deploy.containers.archives import packed, unpacked, unpacked_into
from deploy.containers.failures import translated
from deploy.containers.removal import LABEL_PARTY, LABEL_PROCESS, LABEL_RUN, remove_run
from deploy.containers.wanted import Container, Done, Link, Traffic

OLDEST_API = "1.41"
CALL_TIMEOUT_S = 180
COMMAND_TIMEOUT_S = 900.0
USER = 10001
"""User and group of the image."""

_KILLED = 137

Made = TypeVar("Made")


class Engine:
    """An engine, on behalf of one run. Names are short; `full` gives the engine's."""

    def __init__(self, client: docker.DockerClient, *, run: str) -> None:
        self.run = run
        self._client = client
        self._making = ThreadPoolExecutor(8, thread_name_prefix="engine")
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def connect(cls) -> Engine:
        """The engine of the environment (``DOCKER_HOST`` or the usual socket), for a new run.

        Raises
        ------
        EngineError
            None answers, it may not be used, or it is too old.
        """
        return cls(connected(), run=secrets.token_hex(4))

    @property
    def client(self) -> docker.DockerClient:
        """The SDK's client, for questions that are not about this run."""
        return self._client

    def full(self, name: str) -> str:
        """The engine's name of a container, network or volume of this run."""
        return f"dppca-{self.run}-{name}"

    # What there must be

    def require_image(self, image: str) -> None:
        """Raise `ImageMissingError` unless the engine has it; nothing is pulled."""
        with translated(f"looking for image {image}"):
            found = self._client.images.list(name=image)
        if not found:
            message = (
                f"the image {image} is not on this engine: make it with `make image`, or name "
                "another with --image"
            )
            raise ImageMissingError(message)

    def require_space(self, n_bytes: int) -> None:
        """Raise `DiskSpaceError` where the engine's disk is seen from here and has less free."""
        with translated("asking the engine for its disk"):
            root = str(self._client.info().get("DockerRootDir", ""))
        try:
            free = shutil.disk_usage(root).free
        except OSError:
            return  # an engine elsewhere: it will say so itself
        if free < n_bytes:
            message = (
                f"the engine's disk has {free >> 20:,} MiB free in {root}, and this needs "
                f"{n_bytes >> 20:,} MiB: free some, for instance with `docker system prune`"
            )
            raise DiskSpaceError(message)

    # Making

    def make_network(self, name: str, *, addresses: str) -> Block:
        """Make a network without a way out; the addresses it took from the range.

        Raises
        ------
        AddressSpaceError
            Every block of the range is in use.
        """
        refused: Exception | None = None
        for block in blocks(addresses):
            try:
                self._make(f"making network {name}", self._network_maker(name, block))
            except AddressSpaceError as error:
                refused = error
            else:
                return block
        message = f"all networks of {addresses} are in use: give other addresses with --subnet"
        raise AddressSpaceError(message) from refused

    def make_volume(self, name: str, **options: str) -> None:
        """Make a volume; options are those of Docker's local driver (type, device, o)."""

        def make() -> None:
            self._client.volumes.create(
                self.full(name), driver="local", driver_opts=options, labels=self._labels(name)
            )

        self._make(f"making volume {name}", make)

    def make_container(self, wanted: Container) -> None:
        """Make a container, not started: read-only root, no capabilities, no health check.

        Of its image, volumes that are new take over whom their folders belong to.
        """

        def make() -> None:
            self._client.containers.create(**self._settings(wanted))
            for link in wanted.links[1:]:
                self.attach(wanted.name, link)

        self._make(f"making container {wanted.name}", make)

    def attach(self, name: str, link: Link) -> None:
        """Plug a container into a network, running or not."""
        with translated(f"connecting {name} to {link.network}"):
            self._client.networks.get(self.full(link.network)).connect(
                self.full(name), ipv4_address=link.address, aliases=list(link.aliases)
            )

    def detach(self, name: str, network: str) -> None:
        """Pull a container off a network, at once: packets under way are lost."""
        with translated(f"disconnecting {name} from {network}"):
            self._client.networks.get(self.full(network)).disconnect(self.full(name), force=True)

    # Running

    def start(self, name: str) -> None:
        """Start a container, the first time or again; its volumes are as they were."""

        def start() -> None:
            self._client.containers.get(self.full(name)).start()

        self._make(f"starting {name}", start)

    def stop(self, name: str, *, grace_s: int = 10) -> None:
        """SIGTERM to a container's first process, SIGKILL after the grace; waits for its end."""
        with translated(f"stopping {name}"):
            self._client.containers.get(self.full(name)).stop(timeout=grace_s)

    def kill(self, name: str, *, signal: str = "SIGKILL") -> None:
        """A signal to a container's first process; SIGKILL ends every process in it."""
        with translated(f"killing {name}"):
            self._client.containers.get(self.full(name)).kill(signal=signal)

    def running(self, name: str) -> bool:
        """Whether a container's first process lives."""
        return bool(self._state(name)["Running"])

    def wait(self, name: str, *, timeout_s: float) -> int:
        """Wait for a container's end; its exit code.

        Raises
        ------
        UnreachableError
            It still runs after so many seconds.
        """
        deadline = time.monotonic() + timeout_s
        while (state := self._state(name))["Running"]:
            if time.monotonic() > deadline:
                message = f"{name} still runs after {timeout_s:.0f} s"
                raise UnreachableError(message)
            time.sleep(0.1)
        return int(state["ExitCode"])

    def exec(
        self,
        name: str,
        *command: str,
        environment: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> Done:
        """Run a command in a running container to its end, as the image's user.

        A command that takes longer is ended, and so is one whose container is killed; both are
        told by the exit code (124 and 137), as is every other failure of the command.
        """
        started = time.monotonic()
        api = self._client.api
        bounded = ["timeout", "--kill-after=10", str(timeout_s), *command]
        with translated(f"running {command[0]} in {name}"):
            made = api.exec_create(self.full(name), bounded, environment=dict(environment or {}))
            stdout, stderr = api.exec_start(made["Id"], demux=True)
            code = self._exit_code(made["Id"])
        return Done(code, stdout or b"", stderr or b"", time.monotonic() - started)

    # Looking

    def write_file(self, name: str, path: str, content: bytes, *, mode: int = 0o600) -> None:
        """Put a file into a container's volume, running or not; the image's user owns it."""
        place = PurePosixPath(path)
        archive = packed(place.name, content, mode=mode, owner=USER)
        with translated(f"writing {path} of {name}"):
            self._client.containers.get(self.full(name)).put_archive(str(place.parent), archive)

    def read_file(self, name: str, path: str) -> bytes:
        """A file of a container, volumes included, running or not.

        Raises
        ------
        EngineError
            There is none.
        """
        with translated(f"reading {path} of {name}"):
            chunks, _ = self._client.containers.get(self.full(name)).get_archive(path)
            return unpacked(chunks, path)

    def copy_folder(self, name: str, path: str, to: Path) -> None:
        """Copy a folder of a container, volumes included, running or not, as a new folder here.

        Raises
        ------
        EngineError
            There is none.
        """
        with translated(f"reading {path} of {name}"):
            chunks, _ = self._client.containers.get(self.full(name)).get_archive(path)
            unpacked_into(chunks, to)

    def logs(self, name: str) -> str:
        """What a container's first process has said so far, both streams."""
        with translated(f"reading the log of {name}"):
            said: bytes = self._client.containers.get(self.full(name)).logs()
        return said.decode(errors="replace")

    def traffic(self, name: str) -> Traffic:
        """Bytes received and sent; zero for a container that does not run."""
        with translated(f"reading statistics of {name}"):
            found = self._client.api.stats(self.full(name), stream=False, one_shot=True)
        networks = (found.get("networks") or {}).values()
        return Traffic(
            received=sum(int(each["rx_bytes"]) for each in networks),
            sent=sum(int(each["tx_bytes"]) for each in networks),
        )

    # Ending

    def refuse_more(self) -> None:
        """From now on nothing is made or started; what is being made comes to its end."""
        with self._lock:
            self._closed = True

    def remove(self) -> None:
        """Remove everything this run made, running or not, and let go of the engine.

        Raises
        ------
        EngineError
            Something could not be removed.
        """
        self.refuse_more()
        self._making.shutdown(wait=True, cancel_futures=True)
        try:
            remove_run(self._client, self.run)
        finally:
            self._client.close()

    def _make(self, doing: str, action: Callable[[], Made]) -> Made:
        def told() -> Made:
            with translated(doing):
                return action()

        with self._lock:
            if self._closed:
                message = f"{doing}: the simulation is being stopped"
                raise EngineError(message)
            future = self._making.submit(told)
        return future.result()

    def _labels(self, name: str) -> dict[str, str]:
        process = f"{socket.gethostname()}:{os.getpid()}"
        return {LABEL_RUN: self.run, LABEL_PROCESS: process, LABEL_PARTY: name}

    def _network_maker(self, name: str, block: Block) -> Callable[[], object]:
        pool = IPAMPool(subnet=block.subnet, gateway=block.gateway)
        return lambda: self._client.networks.create(
            self.full(name),
            internal=True,
            ipam=IPAMConfig(pool_configs=[pool]),
            labels=self._labels(name),
        )

    def _settings(self, wanted: Container) -> dict[str, Any]:
        limits = wanted.limits
        return {
            "image": wanted.image,
            "command": list(wanted.command),
            "name": self.full(wanted.name),
            "hostname": wanted.name,
            "labels": self._labels(wanted.name),
            **self._first_link(wanted),
            "volumes": {
                self.full(mount.volume): {
                    "bind": mount.path,
                    "mode": "ro" if mount.read_only else "rw",
                }
                for mount in wanted.mounts
            },
            "read_only": True,
            "tmpfs": {"/tmp": f"mode=1777,size={limits.tmp_bytes}"},  # noqa: S108
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "init": True,
            "mem_limit": limits.memory_bytes,
            "nano_cpus": round(limits.cpus * 1e9),
            "pids_limit": limits.processes,
            "log_config": LogConfig(type="json-file", config={"max-size": "1m", "max-file": "3"}),
            "healthcheck": {"test": ["NONE"]},
        }

    def _first_link(self, wanted: Container) -> dict[str, Any]:
        if not wanted.links:
            return {"network_mode": "none"}
        link = wanted.links[0]
        network = self.full(link.network)
        end = self._client.api.create_endpoint_config(
            ipv4_address=link.address, aliases=list(link.aliases)
        )
        return {"network": network, "networking_config": {network: end}}

    def _state(self, name: str) -> dict[str, Any]:
        with translated(f"looking at {name}"):
            found: dict[str, Any] = self._client.api.inspect_container(self.full(name))["State"]
        return found

    def _exit_code(self, exec_id: str) -> int:
        """Of a command whose output has ended; the engine needs a moment to know it."""
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while (found := self._client.api.exec_inspect(exec_id))["Running"]:
            if time.monotonic() > deadline:
                message = "a command's output has ended and the command has not"
                raise UnreachableError(message)
            time.sleep(0.02)
        code = found["ExitCode"]
        return _KILLED if code is None else int(code)


def connected() -> docker.DockerClient:
    """A client of the environment's engine; errors as of `Engine.connect`."""
    with translated("reaching the Docker engine"):
        client = docker.from_env(timeout=CALL_TIMEOUT_S)
        version = str(client.api.api_version)
    if version_lt(version, OLDEST_API):
        client.close()
        message = f"the Docker engine speaks API {version}: {OLDEST_API} (20.10) or newer is needed"
        raise EngineError(message)
    return client
