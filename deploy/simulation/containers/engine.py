"""The Docker engine of this machine, by the ``docker`` package: what a run asks of it.

Everything that a run makes has the label `LABEL` with the run's name, which is also the beginning
of its own name: two runs share nothing, and `DockerEngine.remove` finds all of one run, whatever
was made last.

Networks get addresses of their own out of 198.19.0.0/16, a range that no other network should use
(RFC 2544): the engine's own pools hold some thirty networks.
"""

import re
import secrets
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final, Protocol

from dppca.common.kernel.errors import SettingError, UnreachableError
from dppca.common.shell.packages import require_package
from dppca.deploy.simulation.containers.services import Service

if TYPE_CHECKING:
    from docker import DockerClient

LABEL: Final = "dppca.run"
_SERVICE: Final = "dppca.service"
_SUBNETS: Final = tuple(ip_network("198.19.0.0/16").subnets(new_prefix=28))
_TRIES: Final = 200  # of subnets: each other run takes at most 51 of 4,096
_AT_ONCE: Final = 8  # removals: the engine works on a few at a time
_CALL_S: Final = 120  # for one answer of a busy engine; for hangs alone
_GONE_S: Final = 60  # for all that a run made to be gone
_ENDED = re.compile(r"Exited \((\d+)\)")


@dataclass(frozen=True, slots=True)
class ContainerState:
    """Whether a container runs, is healthy, and its exit code; None while it has not ended."""

    running: bool
    healthy: bool = False
    sick: bool = False
    code: int | None = None


class ContainerEngine(Protocol):
    """What a run needs of an engine; names are those of the plan."""

    def make_network(self, name: str) -> None:
        """Make a network without a way out."""

    def make_volume(self, name: str) -> None:
        """Make an empty volume."""

    def create(self, service: Service) -> None:
        """Make a container, which does not run yet."""

    def start(self, name: str) -> Iterable[str]:
        """Start a container, also one that has ended; return the lines that it prints from now."""

    def states(self) -> dict[str, ContainerState]:
        """Return the state of every container that was started."""

    def remove(self) -> None:
        """Remove everything that was made."""


@contextmanager
def open_client() -> Iterator["DockerClient"]:
    """Connect to the engine; raise `SettingError` if the package is missing or none answers."""
    docker: Any = require_package("docker", purpose="dppca-simulate containers")
    from requests.exceptions import RequestException

    try:
        client = docker.from_env(timeout=_CALL_S, max_pool_size=256)
        client.ping()
    except docker.errors.DockerException as error:
        raise SettingError(
            "no Docker engine answers: start it, or let this user use it (`docker info` says why)"
        ) from error
    try:
        yield client
    except (docker.errors.DockerException, RequestException) as error:
        raise UnreachableError(f"the Docker engine: {error}") from error
    finally:
        client.close()


class DockerEngine:
    """One run's containers, networks and volumes."""

    def __init__(self, client: "DockerClient", run: str) -> None:
        self._api: Any = client.api
        self._run = run
        self._mine = {"label": f"{LABEL}={run}"}

    def make_network(self, name: str) -> None:
        """Make a network without a way out, in addresses that no other has."""
        from docker.errors import APIError
        from docker.types import IPAMConfig, IPAMPool

        for tries_left in reversed(range(_TRIES)):
            subnet = str(secrets.choice(_SUBNETS))
            try:
                self._api.create_network(
                    self._named(name),
                    driver="bridge",
                    internal=True,
                    labels={LABEL: self._run},
                    ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=subnet)]),
                )
            except APIError as error:
                if "overlap" not in str(error).lower() or not tries_left:
                    raise
            else:
                return

    def make_volume(self, name: str) -> None:
        """Make an empty volume."""
        self._api.create_volume(self._named(name), labels={LABEL: self._run})

    def create(self, service: Service) -> None:
        """Make a container, which does not run yet."""
        from docker.types import LogConfig

        api, limits = self._api, service.limits
        first, *others = [self._named(each) for each in service.networks] or ["none"]
        alias = api.create_endpoint_config(aliases=[service.name])
        host = api.create_host_config(
            network_mode=first,
            binds=[self._bind(each) for each in service.mounts],
            pid_mode=f"container:{self._named(service.beside)}" if service.beside else None,
            nano_cpus=int(limits["cpus"] * 1_000_000_000),
            log_config=LogConfig(
                type=limits["logging"]["driver"], config=limits["logging"]["options"]
            ),
            **{key: limits[key] for key in limits if key not in ("cpus", "logging")},
        )
        api.create_container(
            service.image,
            name=self._named(service.name),
            hostname=service.name[:63],
            command=[*service.command] or None,
            entrypoint=[*service.entrypoint] or None,
            environment=dict(service.environment),
            user=service.user or None,
            labels={LABEL: self._run, _SERVICE: service.name},
            healthcheck=_health(service),
            host_config=host,
            networking_config=None
            if first == "none"
            else api.create_networking_config({first: alias}),
        )
        for other in others:
            api.connect_container_to_network(
                self._named(service.name), other, aliases=[service.name]
            )

    def start(self, name: str) -> Iterable[str]:
        """Start a container; return the lines that it prints from now, until it ends."""
        pieces = self._api.attach(self._named(name), stdout=True, stderr=True, stream=True)
        self._api.start(self._named(name))
        return _lines(pieces)

    def states(self) -> dict[str, ContainerState]:
        """Return the state of every container that was started."""
        return {
            each["Labels"][_SERVICE]: _state(each)
            for each in self._api.containers(all=True, filters=self._mine)
            if each["State"] != "created"
        }

    def remove(self) -> None:
        """Remove everything that was made; raise `UnreachableError` if something stays."""
        from docker.errors import APIError

        api, deadline, left = self._api, time.monotonic() + _GONE_S, [""]
        while left and time.monotonic() < deadline:
            containers = api.containers(all=True, filters=self._mine)
            networks = api.networks(filters=self._mine)
            volumes = api.volumes(filters=self._mine)["Volumes"] or []
            steps: tuple[list[tuple[Any, str, dict[str, bool]]], ...] = (
                [(api.remove_container, each["Id"], {"force": True}) for each in containers],
                [(api.remove_network, each["Id"], {}) for each in networks],
                [(api.remove_volume, each["Name"], {"force": True}) for each in volumes],
            )
            left = [str(name) for step in steps for _, name, _ in step]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for step in steps:  # containers first: they hold the others

                    def forget(each: tuple[Any, str, dict[str, bool]]) -> None:
                        with suppress(APIError):  # gone, or still held: asked again
                            each[0](each[1], **each[2])

                    list(pool.map(forget, step))
        if left:
            raise UnreachableError(
                f"the Docker engine did not remove {', '.join(left)}: "
                f"`docker ps --all --filter label={LABEL}={self._run}` lists them"
            )

    def _named(self, name: str) -> str:
        return f"{self._run}-{name}"

    def _bind(self, mount: str) -> str:
        return mount if mount.startswith("/") else self._named(mount)


def _health(service: Service) -> dict[str, Any]:
    if service.health is None:
        return {"test": ["NONE"]}
    times = ("interval", "timeout", "start_period")
    return {
        key: value * 1_000_000_000 if key in times else value
        for key, value in service.health.items()
    }


def _state(found: dict[str, Any]) -> ContainerState:
    ended = _ENDED.match(found["Status"])
    if found["State"] == "running" or ended is None:
        status = str(found["Status"])
        return ContainerState(True, healthy="(healthy)" in status, sick="(unhealthy)" in status)
    return ContainerState(False, code=int(ended[1]))


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    begun = b""
    for piece in pieces:
        *whole, begun = (begun + piece).split(b"\n")
        yield from (line.decode(errors="replace") for line in whole)
    if begun:
        yield begun.decode(errors="replace")
