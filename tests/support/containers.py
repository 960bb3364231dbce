"""The compose demo on real containers, and searches in its remains."""

import gzip
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.support.checkout import ROOT
from tests.support.patience import HANG_S, WAIT_S
from tests.support.requirements import miss

IMAGE = os.environ.get("DPPCA_IMAGE", "dppca:local")
DEMO_IMAGE = os.environ.get("DPPCA_DEMO_IMAGE", "dppca-demo:local")
_BLOCK = 32 << 20


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, check=check, timeout=WAIT_S
    )


def require_images() -> None:
    """End the test if no engine answers or the images are not built."""
    if not shutil.which("docker") or docker("info", check=False).returncode:
        miss("a Docker engine that answers", "apt-get install docker.io")
    if docker("image", "inspect", IMAGE, DEMO_IMAGE, check=False).returncode:
        miss(f"the images {IMAGE} and {DEMO_IMAGE}", "make image")


def require_compose() -> list[str]:
    """Return the command of Compose on this machine, v2 or 1.29; end the test if there is none."""
    if shutil.which("docker") and not docker("compose", "version", check=False).returncode:
        return ["docker", "compose"]
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

    def container(self, service: str) -> dict[str, Any]:
        name = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        found: dict[str, Any] = json.loads(docker("inspect", name).stdout)[0]
        return found

    def read(self, service: str, path: str) -> str:
        """Read a file in a service's view, volumes included."""
        name = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        done = subprocess.run(
            ["docker", "cp", f"{name}:{path}", "-"], capture_output=True, check=True, timeout=WAIT_S
        )
        archive = subprocess.run(
            ["tar", "-xO"], input=done.stdout, capture_output=True, check=True, timeout=WAIT_S
        )
        return archive.stdout.decode()


def found_in_image(image: str, needles: Iterable[str]) -> set[str]:
    """Texts of ``needles`` that occur anywhere in an image: configuration, history, layers."""
    sought = {needle: needle.encode() for needle in needles}
    seen: set[str] = set()
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                if stream is None:
                    continue
                for block in _blocks(stream):
                    seen |= {needle for needle, raw in sought.items() if raw in block}
    assert process.returncode == 0
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
