"""Simulations in containers: they end with a report, or with a reason, and leave nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import csv

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.deploy.simulation.demo import STUDY_FILE, TARGET, demo_table
from dppca.deploy.simulation.experiment import with_owners
from tests.support.containers import IMAGE, docker, require_compose, require_images
from tests.support.patience import HANG_S, wait_until

OWNERS = ("owner-1", "owner-2")
N_ROWS = 2500
KINDS = ("container", "network", "volume")


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    require_images()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of the demo's rows."""
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    csv.write_csv(demo_table().slice(0, N_ROWS), path)
    return path


@contextmanager
def simulation(rows: Path, output: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A simulation under way, which is killed where a test leaves it running."""
    command = [
        sys.executable,
        "-m",
        "dppca.deploy.simulation.cli",
        "run",
        "--runtime",
        "containers",
    ]
    command += ["--study", str(STUDY_FILE), "--data", str(rows), "--owners", str(len(OWNERS))]
    command += ["--target", TARGET, "--seed", "1", "--output", str(output)]
    with subprocess.Popen(
        [*command, "--image", IMAGE, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(output.parent)},
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def made_by(project: str) -> dict[str, list[str]]:
    """What a run has on the engine, by kind."""
    return {kind: listed(kind, project) for kind in KINDS}


def listed(kind: str, project: str) -> list[str]:
    everything = ("--all",) if kind == "container" else ()
    wanted = f"label=com.docker.compose.project={project}"
    return docker(kind, "ls", *everything, "--quiet", "--filter", wanted).stdout.split()


def project_under_way(place: Path) -> str:
    """The name of the run whose folder lies here; none yet where empty."""
    return next((path.parent.name for path in place.glob("*/compose")), "")


def project_named(stderr: str) -> str:
    """The name that the run's first line says."""
    (name,) = re.findall(r"--project-name (\S+) down", stderr)
    return str(name)


NOTHING: dict[str, list[str]] = {kind: [] for kind in KINDS}


def await_of(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Until it is so, while the process lives."""

    def met() -> object:
        ended, answer = process.poll() is not None, condition()
        assert answer or not ended, process.communicate()
        return answer

    wait_until(met, hang_s=HANG_S)


def test_a_study_runs_to_its_end_is_seen_at_its_work_and_leaves_nothing(
    rows: Path, tmp_path: Path
) -> None:
    study = with_owners(study_from_yaml(STUDY_FILE.read_text()), len(OWNERS))
    output = tmp_path / "results"
    with simulation(rows, output) as process:
        stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, stderr
    assert "# Simulation of rand-hie" in stdout
    report = json.loads((output / "report.json").read_text())
    assert report["digest"] == study.digest
    assert report["rows"] == {"training": 0.8 * N_ROWS, "held_out": 0.2 * N_ROWS}
    for owner in report["owners"]:
        assert owner["charged"]["epsilon"] == "1"
        assert list(owner["seconds"]) == ["contribute", "components", "synthesize", "train"]
        assert owner["bytes"]["contribute"] == 8 * study.table.layout.n_entries
    result = result_from_bytes(Path(report["files"]["components"]).read_bytes(), study)
    assert tuple(share.owner for share in result.header.shares) == OWNERS
    paths = [Path(path) for path in {**report["files"], **report["plots"]}.values()]
    assert all(path.stat().st_size > 0 for path in paths)
    seen = {tuple(line.split()[2:]) for line in stderr.splitlines()}
    steps = ("contribute", "components", "synthesize", "train", "done")
    assert seen >= {(owner, step) for owner in OWNERS for step in steps}
    assert seen >= {("owner-1-key", "init"), ("certificates", "certificates"), ("operator", "done")}
    assert made_by(project_named(stderr)) == NOTHING


def test_an_owner_that_fails_is_named_and_nothing_is_left(rows: Path, tmp_path: Path) -> None:
    tight = tmp_path / "tight.yaml"
    tight.write_text(f"max_rows: 100\n{STUDY_FILE.read_text()}")
    with simulation(rows, tmp_path / "results", "--study", str(tight)) as process:
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 37
    last = stderr.splitlines()[-1]
    assert last.startswith("error: owner-")
    assert "max_rows is 100" in last
    assert made_by(project_named(stderr)) == NOTHING


@pytest.mark.parametrize(
    ("number", "step"),
    [(signal.SIGINT, "the first volume is made"), (signal.SIGTERM, "owners work")],
    ids=["sigint-at-first", "sigterm-at-work"],
)
def test_an_interrupted_simulation_leaves_nothing(
    number: signal.Signals, step: str, rows: Path, tmp_path: Path
) -> None:
    with simulation(rows, tmp_path / "results") as process:
        await_of(process, lambda: project_under_way(tmp_path))
        project = project_under_way(tmp_path)
        if step == "owners work":
            await_of(process, lambda: has_key(project))
        else:
            await_of(process, lambda: listed("volume", project))
        process.send_signal(number)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    assert stderr.endswith("error: interrupted: no simulation charges anybody\n")
    assert made_by(project) == NOTHING
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def has_key(project: str) -> bool:
    """Whether owner-1 has made its key."""
    service = ("--filter", "label=com.docker.compose.service=owner-1")
    wanted = ("--filter", f"label=com.docker.compose.project={project}", *service)
    running = docker("container", "ls", "--quiet", *wanted).stdout.strip()
    done = running and docker("exec", running, "ls", "/site/key.pem", check=False)
    return bool(done) and not done.returncode


def test_what_a_killed_simulation_left_goes_by_the_command_that_it_named(
    rows: Path, tmp_path: Path
) -> None:
    with simulation(rows, tmp_path / "results") as process:
        await_of(process, lambda: has_key(project_under_way(tmp_path)))
        process.kill()
        _, stderr = process.communicate(timeout=HANG_S)
    project = project_named(stderr)
    assert all(made_by(project).values())
    (folder,) = re.findall(r" in (/\S+) removes what it made", stderr)
    down = ("--project-name", project, "down", "--volumes")
    subprocess.run([*require_compose(), *down], cwd=folder, check=True, timeout=HANG_S)
    assert made_by(project) == NOTHING
