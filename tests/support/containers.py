"""The compose demo on real containers, and searches in its remains."""

import gzip
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import docker
from docker import DockerClient
from docker.errors import DockerException, ImageNotFound
from docker.models.containers import Container

from tests.support.checkout import ROOT
from tests.support.patience import HANG_S, WAIT_S
from tests.support.requirements import miss

IMAGE = os.environ.get("DPPCA_IMAGE", "dppca:local")
DEMO_IMAGE = os.environ.get("DPPCA_DEMO_IMAGE", "dppca-demo:local")
_BLOCK = 32 << 20
AGE_AND_ILLNESS: dict[str, Any] = {
    "privacy": {"mechanism": "laplace", "epsilon": "2"},
    "components": {"count": 1},
    "schema": {
        "max_rows_per_person": 1,
        "attributes": [
            {"name": "age", "type": "numeric", "lower": 18, "upper": 90, "integer": True},
            {"name": "ill", "type": "binary", "values": ["no", "yes"]},
        ],
    },
}
"""A small study of two attributes, without a name and owners."""


@cache
def engine() -> DockerClient:
    """Return the Docker engine; end the test if none answers."""
    try:
        return docker.from_env(timeout=int(WAIT_S))
    except DockerException:
        return miss("a Docker engine that answers", "apt-get install docker.io")


def require_images() -> None:
    """End the test if no engine answers or the images are not built."""
    try:
        for name in (IMAGE, DEMO_IMAGE):
            engine().images.get(name)
    except ImageNotFound:
        miss(f"the images {IMAGE} and {DEMO_IMAGE}", "make image")


def run(image: str, *command: str, **options: Any) -> str:
    """Run a command in a container without a network, and return what it prints."""
    options |= {"network_mode": "none", "remove": True}
    return bytes(engine().containers.run(image, [*command], **options)).decode()


def require_compose() -> list[str]:
    """Return the command of Compose on this machine, v2 or 1.29; end the test if there is none."""
    plugin = ["docker", "compose"]
    if (
        shutil.which("docker")
        and not subprocess.run([*plugin, "version"], capture_output=True).returncode
    ):
        return plugin
    if not shutil.which("docker-compose"):
        miss("Docker Compose", "apt-get install docker-compose")
    return ["docker-compose"]


@dataclass(frozen=True, slots=True)
class Demo:
    """One run of the compose file, its containers stopped but still there."""

    project: str
    results: Path
    log: str

    def compose(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*require_compose(), "--project-name", self.project, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env={**os.environ, "DPPCA_RESULTS": str(self.results)},
            timeout=HANG_S,
        )

    def container(self, service: str) -> Container:
        name = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        return engine().containers.get(name)

    def read(self, service: str, path: str) -> str:
        """Read a file in a service's view, volumes included."""
        chunks, _ = self.container(service).get_archive(path)
        with tarfile.open(fileobj=BytesIO(b"".join(chunks))) as archive:
            (member,) = archive
            content = archive.extractfile(member)
            assert content is not None
            return content.read().decode()


def found_in_image(image: str, needles: Iterable[str]) -> set[str]:
    """Texts of ``needles`` that occur anywhere in an image: configuration, history, layers."""
    sought = {needle: needle.encode() for needle in needles}
    seen: set[str] = set()
    saved = _Chunks(engine().images.get(image).save())
    with tarfile.open(fileobj=saved, mode="r|") as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is None:
                continue
            for block in _blocks(stream):
                seen |= {needle for needle, raw in sought.items() if raw in block}
    return seen


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the content in overlapping blocks, so that no text is cut in two; gzip is unpacked."""
    first = stream.read(2)
    rest: IO[bytes] = stream
    if first == b"\x1f\x8b":
        rest = gzip.GzipFile(fileobj=_Joined(first, stream))  # type: ignore[assignment, arg-type]
        first = b""
    kept = first
    while block := rest.read(_BLOCK):
        yield kept + block
        kept = block[-4096:]
    yield kept


class _Chunks:
    """Chunks as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = bytearray()

    def read(self, size: int) -> bytes:
        while len(self._held) < size and (chunk := next(self._chunks, b"")):
            self._held += chunk
        content = bytes(self._held[:size])
        del self._held[:size]
        return content


class _Joined:
    """A stream with bytes put back before it."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first = first
        self._rest = rest

    def read(self, size: int = -1) -> bytes:
        if self._first:
            first, self._first = self._first[:size], self._first[size:]
            return first
        return self._rest.read(size)
