"""A folder that is run, without an engine, and what it must hold for an answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docker
import pytest
import requests
from docker.errors import APIError, DockerException, NotFound

from dppca.common.kernel.errors import (
    AddressSpaceError,
    ArtefactError,
    DataError,
    DiskSpaceError,
    EngineError,
    ImageMissingError,
)
from dppca.deploy.simulation.containers import up
from dppca.deploy.simulation.containers.answer import report_folder
from tests.support.studies import make_study

POOLS = "could not find an available, non-overlapping IPv4 address pool"
REFUSALS = {
    "no space left": (
        APIError("500", explanation="mkdir /x: no space left on device"),
        DiskSpaceError,
        "docker system prune",
    ),
    "pools": (APIError("500", explanation=POOLS), AddressSpaceError, "docker network prune"),
    "refused": (APIError("500", explanation="no such device"), EngineError, "no such device"),
    "removed": (NotFound("404"), EngineError, "removed meanwhile"),
    "nobody": (DockerException("Connection refused"), EngineError, "start it"),
    "not allowed": (DockerException("Permission denied"), EngineError, "join its group"),
    "slow": (requests.ReadTimeout("read timed out"), EngineError, "read timed out"),
}


class Host:
    """A container as the SDK shows it."""

    def __init__(self, service: str, said: str, *, code: int | None = 0, at: str = "1") -> None:
        self.id = service
        self.labels = {"com.docker.compose.service": service}
        self.status = "running" if code is None else "exited"
        self.attrs = {"State": {"ExitCode": code or 0, "FinishedAt": at}}
        self._said = said

    def logs(self) -> bytes:
        return self._said.encode()


class Engine:
    """As much of the SDK as a run looks at; Compose's ``down`` ends its hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: list[Host] = []
        self.left_for_ever: list[object] = []
        self.failure: Exception | None = None
        self.containers = self.networks = self.volumes = self.images = self

    def list(self, *, name: str = "", filters: dict[str, str] | None = None, **_: object) -> Any:
        if self.failure is not None:
            raise self.failure
        if filters is None:
            return [name] if name == "made" else []
        assert filters == {"label": "com.docker.compose.project=dppca-test"}
        return self.left_for_ever if (self.folder / "down").exists() else self.hosts

    def close(self) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(tmp_path)
    monkeypatch.setattr(docker, "from_env", lambda **_: made)
    monkeypatch.setattr(up, "POLL_S", 0.01)
    return made


@pytest.fixture
def run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Run the folder with a script in the place of ``up``; what was said of it."""

    def put(script: str, image: str = "made") -> list[str]:
        ways = f'case "$3" in up) {script};; kill) touch killed;; down) touch down;; esac'
        monkeypatch.setattr(up, "compose_command", lambda: ["sh", "-c", ways, "compose"])
        said: list[str] = []
        up.run_folder(engine.folder, "dppca-test", image=image, say=said.append)
        return said

    return put


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_what_an_engine_says_has_an_error_and_advice(
    name: str, engine: Engine, run: Callable[..., list[str]]
) -> None:
    engine.failure, kind, advice = REFUSALS[name]
    with pytest.raises(kind, match=advice) as caught:
        run("exit 0")
    assert type(caught.value) is kind


def test_each_step_is_said_once_and_all_is_removed(
    engine: Engine, run: Callable[..., list[str]]
) -> None:
    engine.hosts = [Host("owner-1", "step: contribute\nnoise\nstep: done\n"), Host("curator", "")]
    said = run("sleep 0.1")
    assert "docker compose --project-name dppca-test down --volumes" in said[0]
    assert [line.split()[2:] for line in said[1:]] == [
        ["owner-1", "contribute"],
        ["owner-1", "done"],
    ]
    assert (engine.folder / "down").exists()
    assert not (engine.folder / "killed").exists()


def test_the_host_that_failed_first_is_told_and_compose_is_ended_by_its_hosts(
    engine: Engine, run: Callable[..., list[str]]
) -> None:
    engine.hosts = [
        Host("operator", "error: nothing came", code=DataError.exit_code, at="2"),
        Host("owner-1", "step: contribute\nerror: no rows\n", code=DataError.exit_code, at="1"),
        Host("curator", "", code=None),
    ]
    with pytest.raises(DataError, match=r"^owner-1: no rows$"):
        run("until [ -f killed ]; do sleep 0.01; done; touch ended")
    assert (engine.folder / "ended").exists(), "Compose ended by itself, before removal"
    assert (engine.folder / "down").exists()


@pytest.mark.parametrize(
    ("words", "kind"), [(POOLS, AddressSpaceError), ("no such thing", EngineError)]
)
def test_what_compose_says_is_told(
    words: str, kind: type[EngineError], run: Callable[..., list[str]]
) -> None:
    with pytest.raises(kind, match=words):
        run(f"echo '{words}' >&2; exit 3")


def test_what_cannot_be_removed_is_told_after_what_failed(
    engine: Engine, run: Callable[..., list[str]]
) -> None:
    engine.left_for_ever = [object()]
    with pytest.raises(EngineError, match=r"no such thing\. Then also: .*dppca-test could not be"):
        run("echo no such thing; exit 3")


def test_an_image_is_not_pulled(engine: Engine, run: Callable[..., list[str]]) -> None:
    with pytest.raises(ImageMissingError, match="make image"):
        run("touch began", image="other")
    assert not (engine.folder / "began").exists()


CHARGE = {
    "rows": 5,
    "bytes": 700,
    "epsilon": "1",
    "delta": "0",
    "charged_epsilon": "1",
    "charged_rho": "0",
}


def test_a_folder_whose_rows_are_gone_is_said(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "components.npz").touch()
    document = json.loads(make_study().canonical_bytes())
    (results / "study.json").write_text(json.dumps({"document": document}))
    for owner in make_study().owners:
        (results / owner).mkdir()
        accounts = {
            "contribute": CHARGE,
            "synthesize": {"rows": 5, "decoded_by": "field", "misfit": 0.5},
            "milliseconds": {"contribute": 1500, "synthesize": 900},
        }
        for name, document in accounts.items():
            (results / owner / f"{name}.json").write_text(json.dumps(document))
    (tmp_path / "trial.json").write_text('{"target": null, "seed": 1, "split": "iid"}')
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)
    (tmp_path / "rows" / make_study().owners[0]).mkdir(parents=True)
    with pytest.raises(ArtefactError, match="does not hold one file of rows"):
        report_folder(tmp_path)
