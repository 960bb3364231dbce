"""Run of ``docker compose up`` in a folder to its end, and ``docker compose down`` after it.

Only Compose creates, starts and removes. The Docker SDK observes each host's state and the steps in
its log. All objects carry the label of their Compose project, so remains are found without a record
of what was created.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

from dppca.common.kernel.documents.names import shown
from dppca.common.kernel.errors import (
    AddressSpaceError,
    DiskSpaceError,
    DppcaError,
    EngineError,
    ImageMissingError,
    UnreachableError,
)
from dppca.common.transport.testbed import failure
from dppca.deploy.simulation.containers.topology import STEP, parse_party

CALL_TIMEOUT_S = 180
UP_TIMEOUT_S = 3600.0
POLL_S = 0.5
_PROJECT = "com.docker.compose.project"
_SERVICE = "com.docker.compose.service"
_STEP = re.compile(rf"^{STEP}(\S+)$", re.MULTILINE)
_NO_SPACE = ("no space left on device", "disk quota exceeded", "not enough space")
_NO_ADDRESSES = ("non-overlapping ipv4 address pool", "address pools have been fully subnetted")
_FAILURES = (DockerException, requests.RequestException, OSError)
_ATTEMPTS = 3


def run_folder(
    folder: Path,
    name: str,
    *,
    image: str,
    on_step: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a folder's compose file to its end, and always remove what it created.

    ``name`` is the Compose project's; ``image`` must be on the engine already, nothing is pulled;
    ``on_step`` is called at each step of a host, and ``say`` with a line about it. Raise
    `EngineError`, whose class names the engine's problem, also if an object could not be removed;
    `UnreachableError` after `UP_TIMEOUT_S`; or the class with which a host failed.
    """
    compose = [*compose_command(), "--project-name", name]
    with _connect() as client:
        _require_image(client, image)
        watch = _Watch(client, name, on_step, say)
        say(
            f"if this command is killed, `docker compose --project-name {name} down --volumes` in "
            f"{folder} removes what it made"
        )
        failed = ""
        try:
            _up(compose, folder, watch)
        except DppcaError as error:
            failed = f"{error}. Then also: "
            raise
        finally:
            with _undisturbed():
                _down(client, compose, folder, name, failed=failed)


def compose_command() -> list[str]:
    """Return the command of Compose, v2 or 1.29; raise `EngineError` if there is none."""
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


@dataclass
class _Watch:
    """Hosts of a project, each observed until it has ended."""

    client: docker.DockerClient
    name: str
    on_step: Callable[[], None]
    say: Callable[[str], None]
    _began: float = field(default_factory=time.monotonic)
    _steps: dict[str, int] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)

    def have_ended(self) -> bool:
        """Report new steps; return True if all hosts ended well, raise the first host's error."""
        with _translated("looking at the containers"):
            hosts = _containers(self.client, self.name)
            failed = []
            for host in hosts:
                if host.status not in ("running", "exited") or host.id in self._ended:
                    continue
                self._tell(host)
                if host.status == "exited":
                    self._ended.add(host.id)
                    if host.attrs["State"]["ExitCode"]:
                        failed.append((host.attrs["State"]["FinishedAt"], host))
        if failed:
            raise _host_failure(min(failed, key=lambda each: each[0])[1])
        return bool(hosts) and all(host.id in self._ended for host in hosts)

    def _tell(self, host: Any) -> None:
        service = host.labels[_SERVICE]
        steps = _STEP.findall(host.logs().decode(errors="replace"))
        for step in steps[self._steps.get(service, 0) :]:
            seconds = time.monotonic() - self._began
            self.say(f"{seconds:7.1f} s  {service:<14} {step}")
            self.on_step()
        self._steps[service] = len(steps)


def _host_failure(host: Any) -> DppcaError:
    with _translated("reading a log"):
        cause = host.logs().decode(errors="replace")
    told = re.findall(r"^error: (.*)", cause, re.MULTILINE)
    party, code = parse_party(host.labels[_SERVICE]), int(host.attrs["State"]["ExitCode"])
    return failure(party, code, b"", (told or [cause])[-1].encode())


def _up(compose: list[str], folder: Path, watch: _Watch) -> None:
    """Let Compose create and start everything; return when all hosts have ended."""
    environment = {**os.environ, "COMPOSE_HTTP_TIMEOUT": str(CALL_TIMEOUT_S)}
    for name in ("DPPCA_IMAGE", "DPPCA_RESULTS", "COMPOSE_FILE"):
        environment.pop(name, None)
    log = folder / "compose.log"
    with log.open("wb") as stream:
        call = subprocess.Popen(
            [*compose, "up", "--detach", "--no-build"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + UP_TIMEOUT_S
        while True:
            code = call.poll()
            if watch.have_ended() and code == 0:
                return
            if code:
                cause = " ".join(log.read_text(errors="replace").split())[-2000:]
                raise _refusal(cause, "Compose failed")
            if time.monotonic() > deadline:
                raise UnreachableError(f"the study took more than {UP_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S)
    finally:
        with _undisturbed():
            _await_end(call, [*compose, "kill"], folder)


def _await_end(call: subprocess.Popen[bytes], kill: list[str], folder: Path) -> None:
    """Kill the containers until a call of Compose fails by itself.

    An engine goes on creating what a killed caller has requested; no object may appear after
    removal.
    """
    deadline = time.monotonic() + CALL_TIMEOUT_S
    while call.poll() is None and time.monotonic() < deadline:
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(kill, cwd=folder, capture_output=True, timeout=CALL_TIMEOUT_S)
        time.sleep(POLL_S)
    call.kill()
    call.wait()


def _down(
    client: docker.DockerClient, compose: list[str], folder: Path, name: str, *, failed: str
) -> None:
    """Remove all objects of a project; repeat if an engine under load refuses or was not finished.

    Raise `EngineError` if an object is left.
    """
    for _ in range(_ATTEMPTS):
        done = subprocess.run(
            [*compose, "down", "--volumes", "--remove-orphans", "--timeout", "5"],
            cwd=folder,
            capture_output=True,
            timeout=CALL_TIMEOUT_S,
        )
        with _translated("looking for what is left"):
            filters: dict[str, Any] = {"label": f"{_PROJECT}={name}"}
            kinds = (client.networks, client.volumes)
            left = [
                *_containers(client, name),
                *(each for kind in kinds for each in kind.list(filters=filters)),
            ]
        if not left:
            return
    cause = " ".join(done.stderr.decode(errors="replace").split())
    raise EngineError(
        f"{failed}{len(left)} containers, networks and volumes of {name} could not be "
        f"removed ({cause}): `docker compose --project-name {name} down --volumes` tries again"
    )


def _containers(client: docker.DockerClient, name: str) -> list[Any]:
    """Return a project's containers; one that disappears meanwhile is no error."""
    found = client.containers.list(
        all=True, filters={"label": f"{_PROJECT}={name}"}, ignore_removed=True
    )
    return list(found)


@contextmanager
def _connect() -> Iterator[docker.DockerClient]:
    with _translated("reaching the Docker engine"):
        client = docker.from_env(timeout=CALL_TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()


def _require_image(client: docker.DockerClient, image: str) -> None:
    with _translated(f"looking for image {image}"):
        images = client.images.list(name=image)
    if not images:
        raise ImageMissingError(
            f"the image {image} is not on this engine: make it with `make image`, or name "
            "another with --image"
        )


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise EngineError(f"{doing}: it was removed meanwhile, by somebody else") from error
    except _FAILURES as error:
        text = error.explanation if isinstance(error, APIError) else None
        cause = " ".join(str(text or error).split())
        if isinstance(error, APIError):
            raise _refusal(cause, f"{doing}: the engine refused") from error
        advice = (
            "this user may not use it: join its group (docker), or use rootless Docker"
            if "permission denied" in cause.lower()
            else "start it, or set DOCKER_HOST to where it listens"
        )
        raise EngineError(f"{doing}: no Docker engine answers: {advice}; {cause}") from error


def _refusal(cause: str, doing: str) -> DppcaError:
    """Return the error for an engine's message, direct or through Compose; its words decide."""
    low = cause.lower()
    if any(words in low for words in _NO_SPACE):
        return DiskSpaceError(
            f"{doing}: the engine's disk is full ({cause}); free some of it, for instance with "
            "`docker system prune`, and run the command again"
        )
    if any(words in low for words in _NO_ADDRESSES):
        return AddressSpaceError(
            f"{doing}: no free addresses for networks ({cause}); remove networks that are not used "
            "(`docker network prune`), or give the engine more (default-address-pools)"
        )
    return EngineError(f"{doing}: {cause}")


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C during the removal, which is bounded."""
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


def print_line(text: str) -> None:
    """Print a line on standard error, so that standard output holds only the result."""
    sys.stderr.write(shown(text) + "\n")
    sys.stderr.flush()
