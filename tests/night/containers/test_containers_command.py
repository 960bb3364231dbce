"""`dppca-simulate containers` on a real engine: kills, interrupts, two runs, and what stays."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from dppca.common.kernel.errors import SettingError, TooManyRowsError
from dppca.deploy.simulation.containers.engine import LABEL
from tests.support.checkout import ROOT
from tests.support.containers import AGE_AND_ILLNESS, IMAGE, engine, require_images
from tests.support.patience import HANG_S, wait_until

STUDY = {**AGE_AND_ILLNESS, "name": "beside", "owners": ["any"]}


class Command:
    """The command as a process, whose lines for people can be waited for."""

    begun: ClassVar[list["Command"]] = []

    def __init__(self, *options: object, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dppca.deploy.simulation.cli", *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "DPPCA_IMAGE": IMAGE, **environment},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.begun.append(self)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_for(self, said: str) -> None:
        """Return once a line has been said that contains a text."""
        wait_until(
            lambda: any(said in line for line in self.lines) or self.process.poll() is not None,
            hang_s=HANG_S,
            said=lambda: f"{said}: {self.lines}",
        )
        assert any(said in line for line in self.lines), "\n".join(self.lines)

    @property
    def run(self) -> str:
        """Name of the run."""
        (said,) = (line for line in self.lines if " containers called " in line)
        return said.partition(" called ")[2].partition("-...")[0]

    def end(self) -> int:
        """Wait for the end, and return the exit code."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.read()
        code = self.process.wait(HANG_S)
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code


def left(run: str) -> list[str]:
    """What the engine still has of a run."""
    mine: dict[str, Any] = {"label": f"{LABEL}={run}"}
    found = [
        *engine().containers.list(all=True, filters=mine),
        *engine().networks.list(filters=mine),
        *engine().volumes.list(filters=mine),
    ]
    return [str(each.attrs.get("Name") or each.id) for each in found]


def images() -> set[str]:
    return {str(each.id) for each in engine().images.list(all=True)}


def nameless() -> set[str]:
    """Containers that no run and no Compose has named: those of builds."""
    found = engine().containers.list(all=True)
    return {str(each.id) for each in found if not str(each.name).startswith("dppca-")}


def require_verified(folder: Path) -> None:
    """End the test if the result, or a table of synthetic rows, does not verify."""
    results = folder / "results"
    for name in ("components.npz", "synthetic-coded.parquet", "synthetic-decoded.parquet"):
        verify = ["verify", str(results / name), "--ca", str(results / "ca.pem")]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dppca.owner.cli", *verify],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module", autouse=True)
def needed() -> None:
    require_images()


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    """End commands that a failed test leaves, as Ctrl-C does: they remove what they made."""
    yield
    while Command.begun:
        command = Command.begun.pop()
        if command.process.poll() is None:
            command.process.send_signal(signal.SIGINT)
            command.end()


@pytest.fixture
def options(tmp_path: Path) -> list[object]:
    """A study of three owners, and rows."""
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))
    rows = "".join(f"{18 + i % 70},{'yes' if i % 70 > 35 else 'no'}\n" for i in range(900))
    (tmp_path / "rows.csv").write_text("age,ill\n" + rows)
    study = ["--study", tmp_path / "study.yaml", "--data", tmp_path / "rows.csv"]
    return ["containers", *study, "--owners", 3, "--output", tmp_path / "made"]


def test_ten_owners_come_to_a_result_though_one_and_the_curator_are_killed(tmp_path: Path) -> None:
    before = images()
    command = Command("containers", "--owners", 10, "--output", tmp_path / "made")
    for moment, victim in (("owner-4: adds up", "owner-4"), ("owner-7: adds up", "curator")):
        command.wait_for(moment)
        engine().containers.get(f"{command.run}-{victim}").kill()
    assert command.end() == 0, "\n".join(command.lines)
    said = "\n".join(command.lines)
    for victim in ("owner-4", "curator"):
        assert f"{victim} | started again (1)" in said
    assert "done (10 of 10 owners)" in said
    report = json.loads((tmp_path / "made" / "results" / "report.json").read_text())
    assert [owner["name"] for owner in report["owners"]] == [f"owner-{n + 1}" for n in range(10)]
    assert all(owner["charged"]["epsilon"] == "0" for owner in report["owners"])
    assert len(report["answers"]) == 3
    require_verified(tmp_path / "made")
    assert left(command.run) == []
    assert images() == before


@pytest.mark.parametrize(
    "moment",
    [
        "containers called",
        "owner-2-key: makes its key",
        "study: creates the study",
        "owner-1: adds up its rows",
        "operator: fetches the results",
    ],
)
def test_an_interrupt_leaves_nothing(moment: str, options: list[object], tmp_path: Path) -> None:
    before = images()
    command = Command(*options)
    command.wait_for(moment)
    command.process.send_signal(signal.SIGINT)
    command.process.send_signal(signal.SIGINT)  # an impatient one
    assert command.end() == 130, "\n".join(command.lines)
    assert "interrupted: no simulation charges anybody" in command.lines[-1]
    assert left(command.run) == []
    assert images() == before
    assert not (tmp_path / "made").exists()


def test_an_interrupted_build_leaves_no_image_and_no_container(
    options: list[object], tmp_path: Path
) -> None:
    before = images()
    running = nameless()
    command = Command(*options, "--image", f"dppca-test-{os.getpid()}:local")
    command.wait_for(" wheel --quiet --no-deps")
    command.process.send_signal(signal.SIGINT)
    assert command.end() == 130, "\n".join(command.lines)
    assert images() == before
    assert nameless() == running
    assert not (tmp_path / "made").exists()


def test_two_runs_beside_each_other_share_nothing(options: list[object], tmp_path: Path) -> None:
    more = [*options[:-1], tmp_path / "second"]
    first, second = Command(*options), Command(*more)
    assert (first.end(), second.end()) == (0, 0), "\n".join(first.lines + second.lines)
    assert first.run != second.run
    for folder in (tmp_path / "made", tmp_path / "second"):
        require_verified(folder)
    assert left(first.run) == left(second.run) == []
    results = [tmp_path / name / "results" for name in ("made", "second")]
    one, other = ((each / "ca.pem").read_bytes() for each in results)
    assert one != other
    digests = [json.loads((each / "report.json").read_text())["digest"] for each in results]
    assert digests[0] == digests[1]


def test_it_is_the_study_of_the_compose_file() -> None:
    """Three owners of the demo: the digest of the study in the repository's root."""
    from dppca.deploy.simulation.demo import demo_study
    from dppca.deploy.simulation.experiment import with_owners

    assert with_owners(demo_study(), demo_study().owners).digest == demo_study().digest


def test_a_refusal_of_an_owner_ends_the_run_in_its_words(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**STUDY, "max_rows": 100}))
    (tmp_path / "rows.csv").write_text("age,ill\n" + "20,no\n" * 500)
    study = ["--study", tmp_path / "study.yaml", "--data", tmp_path / "rows.csv"]
    command = Command("containers", *study, "--owners", 2, "--output", tmp_path / "made")
    assert command.end() == TooManyRowsError.exit_code
    assert "max_rows is 100" in "\n".join(command.lines)
    assert left(command.run) == []
    assert "max_rows is 100" in (tmp_path / "made" / "logs" / "owner-1.log").read_text()


@pytest.mark.parametrize(
    ("more", "environment", "says"),
    [
        ([], {"DOCKER_HOST": "unix:///nowhere/docker.sock"}, "no Docker engine answers"),
        (["--owners", 51], {}, "containers serve 2 to 50 owners, not 51"),
        (["--owners", 1], {}, "containers serve 2 to 50 owners, not 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    more: list[object],
    environment: dict[str, str],
    says: str,
    options: list[object],
    tmp_path: Path,
) -> None:
    command = Command(*options, *more, **environment)
    assert command.end() == SettingError.exit_code
    assert says in "\n".join(command.lines)
    assert not (tmp_path / "made").exists()


def test_the_checkout_is_where_the_image_is_built() -> None:
    from dppca.deploy.simulation.containers.image import CHECKOUT

    assert CHECKOUT == ROOT
