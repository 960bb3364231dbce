"""The image of curator and owners, built through the ``docker`` package in a checkout.

`ensure_image` makes it where it is missing; ``make image`` (`deploy/compose.sh`) makes it with the
demo's, and names its stages, so that the next build finds them. What a build makes besides has no
name here and is removed, whether it ends, fails or is interrupted.

What this machine's pip needs to reach its registry comes into ``build/pip``, for the stage that
builds and no other.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dppca.common.kernel.errors import PeerError, SettingError

if TYPE_CHECKING:
    from docker import DockerClient

USUAL: Final = "python:3.12-slim"
STAND_IN: Final = "dppca-base:bookworm"
CHECKOUT: Final = Path(__file__).resolve().parents[3]
"""Where the source lies, unless this module is installed from a wheel."""
_DOCKERFILE: Final = "deploy/Dockerfile"
_LAST_LINES: Final = 20  # of a build that fails
_MADE = re.compile(r"^ ---> (?:Running in )?([0-9a-f]{12})$")
Said = Callable[[str], None]


def ensure_image(client: "DockerClient", name: str, *, said: Said) -> bool:
    """Build the image if it is missing; return True if it was built.

    Raise `SettingError` where there is no checkout, or no base, and `PeerError` if the build fails.
    """
    if _is_there(client, name):
        return False
    if not (CHECKOUT / _DOCKERFILE).is_file() or not (CHECKOUT / "pyproject.toml").is_file():
        raise SettingError(
            f"the image {name} is not here, and only a checkout of DPPCA's source code can make "
            "it: run `make image` there, or name another with --image"
        )
    base = choose_base(client, os.environ, said=said)
    said(f"building {name} from {base}; the first time takes some minutes")
    with _reaching_the_registry():
        build(client, "runtime", name, base=base, said=said)
    return True


def choose_base(client: "DockerClient", environment: Mapping[str, str], *, said: Said) -> str:
    """Return the image to build from; raise `SettingError` if there is none and none can be had."""
    from docker.errors import APIError

    if named := environment.get("BASE_IMAGE"):
        return named
    stand_in = environment.get("STAND_IN_IMAGE", STAND_IN)
    for name in (USUAL, stand_in):
        if _is_there(client, name):
            return name
    said(f"fetching {USUAL}")
    try:
        client.images.pull(USUAL)
    except APIError as error:
        raise SettingError(
            f"there is no image to build from: {USUAL} cannot be pulled ({error.explanation}). "
            f"Name one with Python 3.11 or newer and venv in BASE_IMAGE, or run `make base-image` "
            f"as root, which makes {stand_in} by debootstrap"
        ) from error
    return USUAL


def build(client: "DockerClient", stage: str, name: str, *, base: str, said: Said) -> None:
    """Build one stage of the Dockerfile under a name, and remove what has none afterwards."""
    environment = os.environ
    revision = subprocess.run(
        ["/bin/sh", "deploy/revision.sh"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    arguments = {"BASE_IMAGE": base, "REVISION": revision.stdout.strip() or "unknown"}
    made: list[str] = []
    pieces = client.api.build(
        path=str(CHECKOUT),
        dockerfile=_DOCKERFILE,
        target=stage,
        tag=name,
        buildargs=arguments,
        network_mode=environment.get("BUILD_NETWORK", "host"),
        rm=True,
        forcerm=True,
        decode=True,
    )
    try:
        _follow(pieces, made, said=said)
    finally:
        pieces.close()
        _forget(client, made)


def _follow(pieces: Iterable[Mapping[str, Any]], made: list[str], *, said: Said) -> None:
    """Read a build's lines to their end, and note what it makes; raise `PeerError` if it fails."""
    lines, fresh = list[str](), False
    for piece in pieces:
        for line in str(piece.get("stream", "")).splitlines():
            lines = [*lines[-_LAST_LINES:], line]
            if line.startswith("Step "):
                said(line)
                fresh = " : FROM " not in line  # what follows that is somebody else's
            elif line == " ---> Using cache":
                fresh = False
            elif fresh and (found := _MADE.match(line)) is not None:
                made.append(found[1])
        if "error" in piece:
            words = "\n".join([*lines, str(piece["error"])])
            raise PeerError(f"the image could not be built: {words}")


def _forget(client: "DockerClient", made: Iterable[str]) -> None:
    """Remove what a build made and gave no name: containers, and images without a child."""
    from docker.errors import APIError

    for each in reversed(list(made)):
        with suppress(APIError):  # no container, or removed by the engine already
            client.api.remove_container(each, force=True)
            continue
        with suppress(APIError):  # gone, or it has a name, or one with a name is built on it
            if not client.images.get(each).tags:
                client.api.remove_image(each)


def _is_there(client: "DockerClient", name: str) -> bool:
    from docker.errors import ImageNotFound

    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


@contextmanager
def _reaching_the_registry() -> Iterator[None]:
    folder = CHECKOUT / "build" / "pip"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        if authority := os.environ.get("PIP_CERT") or _configured("global.cert"):
            shutil.copyfile(authority, folder / "ca.pem")
        if index := os.environ.get("PIP_INDEX_URL") or _configured("global.index-url"):
            (folder / "pip.conf").write_text(f"[global]\nindex-url = {index}\n")
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _configured(name: str) -> str:
    """Return a setting of this machine's pip; empty if it has none."""
    asked = [sys.executable, str(CHECKOUT / "tools" / "install.py"), "pip", "config", "get", name]
    said = subprocess.run(asked, capture_output=True, text=True, check=False)
    return said.stdout.strip() if said.returncode == 0 else ""
