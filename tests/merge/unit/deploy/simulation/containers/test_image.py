"""The image: its base, what a build leaves, and refusals in words; by a client that is none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError, ImageNotFound

from dppca.common.kernel.errors import PeerError, SettingError
from dppca.deploy.simulation.containers import image
from dppca.deploy.simulation.containers.image import build, choose_base, ensure_image

NAME = "made:local"


class FakeClient:
    """An engine with some images; a build that prints some lines, and can be interrupted."""

    def __init__(self, *there: str, lines: tuple[str, ...] = (), fails: str = "") -> None:
        self.there = {name: [name] for name in there}
        self.lines, self.fails = lines, fails
        self.pulled: list[str] = []
        self.removed: list[str] = []
        self.asked: dict[str, Any] = {}
        self.images = SimpleNamespace(get=self._get, pull=self._pull)
        self.api = SimpleNamespace(
            build=self._build, remove_container=self._no_container, remove_image=self._remove
        )

    def _get(self, name: str) -> SimpleNamespace:
        if name not in self.there:
            raise ImageNotFound(name)
        return SimpleNamespace(tags=self.there[name])

    def _pull(self, name: str) -> None:
        self.pulled.append(name)
        if self.fails:
            raise APIError("500", explanation=self.fails)

    def _build(self, **asked: Any) -> Iterator[dict[str, str]]:
        self.asked = asked
        for line in self.lines:
            if line == "interrupt":
                raise KeyboardInterrupt
            yield {"error": line} if line.startswith("The command") else {"stream": f"{line}\n"}

    def _no_container(self, name: str, **_: object) -> None:
        if name != "c" * 12:
            raise APIError("404")
        self.removed.append(name)

    def _remove(self, name: str) -> None:
        self.removed.append(name)


def client(*there: str, **more: Any) -> tuple[FakeClient, docker.DockerClient]:
    made = FakeClient(*there, **more)
    return made, cast(docker.DockerClient, made)


def silent(line: str) -> None:
    assert line


@pytest.mark.parametrize(
    ("there", "environment", "chosen"),
    [
        (("python:3.12-slim", "dppca-base:bookworm"), {}, "python:3.12-slim"),
        (("dppca-base:bookworm",), {}, "dppca-base:bookworm"),
        (("own:1",), {"STAND_IN_IMAGE": "own:1"}, "own:1"),
        ((), {"BASE_IMAGE": "any:1"}, "any:1"),
        ((), {}, "python:3.12-slim"),
    ],
)
def test_a_base_is_what_is_named_or_here_or_can_be_had(
    there: tuple[str, ...], environment: dict[str, str], chosen: str
) -> None:
    made, given = client(*there)
    assert choose_base(given, environment, said=silent) == chosen
    assert made.pulled == (["python:3.12-slim"] if not there and not environment else [])


def test_no_base_is_refused_with_what_to_do() -> None:
    _, given = client(fails="no route to the registry")
    with pytest.raises(
        SettingError, match=r"no route to the registry.*BASE_IMAGE.*make base-image"
    ):
        choose_base(given, {}, said=silent)


def test_an_image_that_is_here_is_not_built() -> None:
    made, given = client(NAME)
    assert not ensure_image(given, NAME, said=silent)
    assert made.asked == {}


def test_without_a_checkout_nothing_can_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(image, "CHECKOUT", tmp_path)
    _, given = client()
    with pytest.raises(SettingError, match=r"made:local is not here.*--image"):
        ensure_image(given, NAME, said=silent)


LINES = (
    "Step 1/5 : FROM base AS tools",
    f" ---> {'0' * 12}",
    "Step 2/5 : RUN this",
    " ---> Using cache",
    f" ---> {'1' * 12}",
    "Step 3/5 : RUN that",
    f" ---> Running in {'c' * 12}",
    f" ---> {'2' * 12}",
)


def leave(raised: type[BaseException], *more: str) -> FakeClient:
    made, given = client("0" * 12, "1" * 12, lines=(*LINES, *more))
    made.there["2" * 12] = []
    with pytest.raises(raised):
        build(given, "runtime", NAME, base="base", said=silent)
    return made


@pytest.mark.parametrize(
    ("raised", "last"), [(KeyboardInterrupt, "interrupt"), (PeerError, "The command failed")]
)
def test_what_an_ended_build_has_made_is_removed_and_nothing_else(
    raised: type[BaseException], last: str
) -> None:
    assert leave(raised, last).removed == ["2" * 12, "c" * 12]


def test_a_build_names_its_base_its_stage_and_the_commit() -> None:
    said: list[str] = []
    made, given = client(lines=LINES)
    build(given, "runtime", NAME, base="base:1", said=said.append)
    assert (made.asked["target"], made.asked["tag"]) == ("runtime", NAME)
    assert made.asked["buildargs"]["BASE_IMAGE"] == "base:1"
    assert len(made.asked["buildargs"]["REVISION"].removesuffix("-changed")) == 40
    assert said == [line for line in LINES if line.startswith("Step ")]


def test_pip_settings_are_in_the_context_only_while_it_builds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "Dockerfile").touch()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "authority.pem").write_text("authority")
    monkeypatch.setattr(image, "CHECKOUT", tmp_path)
    monkeypatch.setenv("PIP_CERT", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://registry.example/simple")
    seen: dict[str, str] = {}

    def looked(*_: object, **__: object) -> None:
        folder = tmp_path / "build" / "pip"
        seen.update({each.name: each.read_text() for each in folder.iterdir()})

    builder: Callable[..., None] = looked
    monkeypatch.setattr(image, "build", builder)
    _, given = client("dppca-base:bookworm")
    assert ensure_image(given, NAME, said=silent)
    index = "[global]\nindex-url = https://registry.example/simple\n"
    assert seen == {"ca.pem": "authority", "pip.conf": index}
    assert not (tmp_path / "build" / "pip").exists()
