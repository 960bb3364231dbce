"""Simulations in containers: they end with a report, or with a reason, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyarrow import csv

from dppca.common.errors import DiskSpaceError
from dppca.common.results import result_from_bytes
from dppca.common.study import Study
from dppca.common.study_document import study_from_yaml
from dppca.deploy.simulation.containers.project import USER, Project, project
from dppca.deploy.simulation.containers.removal import LABEL_PROCESS
from dppca.deploy.simulation.containers.topology import CURATOR, Placement, Topology, compose_text
from dppca.deploy.simulation.demo import STUDY_FILE, TARGET, demo_study, demo_table
from dppca.deploy.simulation.experiment import with_owners
from tests.support.containers import IMAGE, docker, require_images
from tests.support.patience import HANG_S, WAIT_S, wait_until

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


@pytest.fixture(scope="module")
def study() -> Study:
    return with_owners(study_from_yaml(STUDY_FILE.read_text()), len(OWNERS))


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


def made_by(process: subprocess.Popen[str]) -> dict[str, list[str]]:
    """What a simulation has on the engine, by kind."""
    return {kind: listed(kind, process.pid) for kind in KINDS}


def listed(kind: str, pid: int) -> list[str]:
    everything = ("--all",) if kind == "container" else ()
    wanted = f"label={LABEL_PROCESS}={socket.gethostname()}:{pid}"
    return docker(kind, "ls", *everything, "--quiet", "--filter", wanted).stdout.split()


NOTHING: dict[str, list[str]] = {kind: [] for kind in KINDS}


def await_of(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    """Until it is so, while the process lives."""

    def met() -> object:
        ended, answer = process.poll() is not None, condition()
        assert answer or not ended, process.communicate()
        return answer

    wait_until(met, hang_s=HANG_S)


@pytest.fixture(scope="module")
def finished(
    rows: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str, dict[str, list[str]]]:
    """One run to its end: its report, what it said, what it left on the engine."""
    output = tmp_path_factory.mktemp("run") / "results"
    with simulation(rows, output) as process:
        stdout, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, stderr
    assert "# Simulation of rand-hie" in stdout
    report: dict[str, Any] = json.loads((output / "report.json").read_text())
    return report, stderr, made_by(process)


def test_the_curator_sees_one_sum_of_three_hosts(rows: Path, tmp_path: Path) -> None:
    masked = ("--owners", "3", "--trust", "aggregate", "--colluders", "1", "--openers", "2")
    with simulation(rows, tmp_path / "results", *masked) as process:
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, stderr
    report = json.loads((tmp_path / "results" / "report.json").read_text())
    first, last = report["owners"][0], report["owners"][-1]
    assert "open" in first["seconds"]
    assert "open" not in last["seconds"]
    assert [owner["charged"]["epsilon"] for owner in report["owners"]] == ["1"] * 3
    document = json.loads((tmp_path / "results" / "study.json").read_text())
    assert document["privacy"]["trust"] == "aggregate"
    assert first["bytes"]["contribute"] > 8 * with_owners(demo_study(), 3).table.layout.n_entries
    assert made_by(process) == NOTHING


def test_a_study_runs_to_its_end(
    finished: tuple[dict[str, Any], str, dict[str, list[str]]], study: Study
) -> None:
    report, _, _ = finished
    assert report["digest"] == study.digest
    assert report["rows"] == {"training": 0.8 * N_ROWS, "held_out": 0.2 * N_ROWS}
    for owner in report["owners"]:
        assert owner["charged"]["epsilon"] == "1"
        assert list(owner["seconds"]) == ["init", "contribute", "components", "synthesize", "train"]
        assert owner["bytes"]["contribute"] == 8 * study.table.layout.n_entries
    result = result_from_bytes(Path(report["files"]["components"]).read_bytes(), study)
    assert tuple(share.owner for share in result.header.shares) == OWNERS
    paths = [Path(path) for path in {**report["files"], **report["plots"]}.values()]
    assert all(path.stat().st_size > 0 for path in paths)


def test_every_party_is_seen_at_its_work(
    finished: tuple[dict[str, Any], str, dict[str, list[str]]],
) -> None:
    _, said, _ = finished
    lines = [line.split() for line in said.splitlines()]
    states = {(line[2], line[3]) for line in lines if line[-1] == "bytes"}
    steps = ("init", "waiting", "contribute", "components", "synthesize", "train", "done")
    assert states >= {(owner, step) for owner in OWNERS for step in steps}
    assert states >= {("authority", "certificates"), ("curator", "serving"), ("operator", "done")}
    sent = [line for line in lines if line[2:4] == ["owner-1", "done"]]
    assert int(sent[0][-2].replace(",", "")) > 10_000


def test_a_study_that_ended_leaves_nothing(
    finished: tuple[dict[str, Any], str, dict[str, list[str]]],
) -> None:
    assert finished[2] == NOTHING


def test_an_owner_that_fails_is_named_and_nothing_is_left(rows: Path, tmp_path: Path) -> None:
    tight = tmp_path / "tight.yaml"
    tight.write_text(f"max_rows: 100\n{STUDY_FILE.read_text()}")
    with simulation(rows, tmp_path / "results", "--study", str(tight), "--json") as process:
        stdout, stderr = process.communicate(timeout=HANG_S)
    error = json.loads(stdout)["error"]
    assert (process.returncode, error["class"]) == (37, "TooManyRowsError")
    assert error["message"].startswith("owner-")
    assert "max_rows is 100" in error["message"]
    assert stderr == f"error: {error['message']}\n"
    assert made_by(process) == NOTHING


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (signal.SIGINT, "the first volume is made"),
        (signal.SIGTERM, "owners work"),
    ],
    ids=["sigint-at-first", "sigterm-at-work"],
)
def test_an_interrupted_simulation_leaves_nothing(
    number: signal.Signals, step: str, rows: Path, tmp_path: Path
) -> None:
    with simulation(rows, tmp_path / "results") as process:
        if step == "owners work":
            await_of(process, lambda: "/site/key.pem" in at_site(process))
        else:
            await_of(process, lambda: listed("volume", process.pid))
        process.send_signal(number)
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, stderr
    assert stderr.endswith("error: interrupted: no simulation charges anybody\n")
    assert made_by(process) == NOTHING
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def at_site(process: subprocess.Popen[str]) -> str:
    """What lies in owner-1's folder, if that runs yet."""
    for name in listed("container", process.pid):
        found = docker("inspect", "--format", "{{.Name}} {{.State.Running}}", name, check=False)
        if found.stdout.strip().endswith(("owner-1_1 true", "owner-1-1 true")):
            return docker("exec", name, "sh", "-c", "ls /site/*", check=False).stdout
    return ""


def test_what_a_killed_simulation_left_is_found_and_removed(rows: Path, tmp_path: Path) -> None:
    with simulation(rows, tmp_path / "results") as process:
        await_of(process, lambda: at_site(process))
        kept = clean("--dry-run")[process.pid]
        assert (kept["state"], kept["removed"]) == ("running", False)
        process.kill()
        process.communicate(timeout=HANG_S)
    left = made_by(process)
    assert all(left.values())
    removed = clean()[process.pid]
    assert (removed["state"], removed["removed"]) == ("left", True)
    assert {kind: removed[f"{kind}s"] for kind in KINDS} == {k: len(v) for k, v in left.items()}
    assert made_by(process) == NOTHING
    assert process.pid not in clean("--dry-run")


def clean(*options: str) -> dict[int, dict[str, Any]]:
    """``dppca-simulate clean``: its runs by process."""
    command = [sys.executable, "-m", "dppca.deploy.simulation.cli", "clean", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return {int(run["process"].rpartition(":")[2]): run for run in json.loads(done.stdout)["runs"]}


def test_an_image_must_be_there(rows: Path, tmp_path: Path) -> None:
    with simulation(rows, tmp_path / "results", "--image", "dppca:nobody-made-it") as process:
        _, stderr = process.communicate(timeout=HANG_S)
    assert process.returncode == 81
    assert "dppca:nobody-made-it is not on this engine" in stderr
    assert "make image" in stderr
    assert made_by(process) == NOTHING


def test_addresses_may_run_out(rows: Path, tmp_path: Path) -> None:
    # Four networks fit into the range, three are needed, two are taken.
    high, low = divmod(os.getpid() % (1 << 11), 8)
    subnet = f"10.235.{high}.{32 * low}/27"
    taken = [f"dppca-taken-{os.getpid()}-{i}" for i in range(2)]
    try:
        for i, name in enumerate(taken):
            docker("network", "create", "--subnet", f"10.235.{high}.{32 * low + 16 * i}/29", name)
        with simulation(rows, tmp_path / "results", "--subnet", subnet) as process:
            _, stderr = process.communicate(timeout=HANG_S)
    finally:
        for name in taken:
            docker("network", "rm", name, check=False)
    assert process.returncode == 83
    assert "--subnet" in stderr
    assert made_by(process) == NOTHING


def test_a_full_disk_is_told_by_name() -> None:
    # A file system of 64 KiB in place of the engine's disk.
    small = {"type": "tmpfs", "device": "tmpfs", "o": f"size=64k,uid={USER}"}
    with project() as made:
        made.up(lambda placement: serving(placement, site=small), n_networks=3)
        made.write_file("owner-1", "/site/small", bytes(1000))
        with pytest.raises(DiskSpaceError, match="the engine's disk is full"):
            made.write_file("owner-1", "/site/large", bytes(1 << 20))


def serving(placement: Placement, *, site: dict[str, str] | None = None) -> str:
    """The compose file of two owners, in which curator and owners only answer on a port."""
    study = with_owners(demo_study(), len(OWNERS))
    text = compose_text(Topology(study, None, image=IMAGE), placement)
    document: dict[str, Any] = yaml.safe_load(text)
    services = {name: document["services"][name] for name in (CURATOR, *OWNERS)}
    for name, service in services.items():
        port = "7443" if name == CURATOR else "8000"
        service["entrypoint"] = ["python", "-m", "http.server", port, "--directory", "/data"]
        service.update(command=[], healthcheck={"disable": True})
        service.pop("depends_on")
    if site is not None:
        document["volumes"]["site-1"]["driver_opts"] = site
    return yaml.safe_dump({**document, "services": services})


@pytest.fixture(scope="module")
def hosts() -> Iterator[Project]:
    with project() as made:
        made.up(serving, n_networks=1 + len(OWNERS))
        yield made


def connects(hosts: Project, party: str, host: str, port: int) -> bool:
    """Whether one party reaches another, tried again while nobody listens yet."""
    code = (
        "import socket, time\n"
        f"end = time.monotonic() + {WAIT_S}\n"
        "while time.monotonic() < end:\n"
        "    try:\n"
        f"        socket.create_connection(({host!r}, {port}), 10).close()\n"
        "        raise SystemExit(0)\n"
        "    except ConnectionRefusedError:\n"
        "        time.sleep(0.3)\n"
        "    except OSError:\n"
        "        break\n"
        "raise SystemExit(7)\n"
    )
    done = hosts.exec(party, "python", "-c", code)
    assert done.exit_code in (0, 7), done.stderr
    return done.exit_code == 0


def addresses(hosts: Project, party: str) -> dict[str, str]:
    """A party's address on each of its networks."""
    wanted = ("--filter", f"label=com.docker.compose.project={hosts.name}")
    service = ("--filter", f"label=com.docker.compose.service={party}")
    container = docker("container", "ls", "--quiet", *wanted, *service).stdout.strip()
    found = json.loads(docker("inspect", container).stdout)[0]["NetworkSettings"]["Networks"]
    return {name.removeprefix(f"{hosts.name}_"): end["IPAddress"] for name, end in found.items()}


def test_an_owner_reaches_the_curator_and_no_other_owner_and_nothing_else(hosts: Project) -> None:
    other = addresses(hosts, "owner-2")["site-2"]
    # The curator shares a network with it, so it does listen, at this address.
    assert connects(hosts, CURATOR, other, 8000)
    assert connects(hosts, "owner-1", CURATOR, 7443)
    assert not connects(hosts, "owner-1", other, 8000)
    assert not connects(hosts, "owner-1", "owner-2", 8000)
    for network, foreign in addresses(hosts, CURATOR).items():
        assert connects(hosts, "owner-1", foreign, 7443) == (network == "site-1")
    assert not connects(hosts, "owner-1", "192.0.2.1", 443)


def test_a_host_can_be_cut_off_killed_and_brought_back(hosts: Project) -> None:
    before = addresses(hosts, CURATOR)
    hosts.disconnect(CURATOR)
    assert not connects(hosts, "owner-1", CURATOR, 7443)
    hosts.connect(CURATOR)
    assert addresses(hosts, CURATOR) == before
    assert connects(hosts, "owner-1", CURATOR, 7443)
    hosts.kill(CURATOR)
    assert hosts.wait(CURATOR, timeout_s=HANG_S) == 137
    hosts.start(CURATOR)
    assert connects(hosts, "owner-1", CURATOR, 7443)


def test_a_killed_command_and_one_that_takes_too_long_say_so(hosts: Project) -> None:
    assert hosts.exec("owner-1", "sh", "-c", "kill -9 $$").exit_code == 137
    assert hosts.exec("owner-1", "sleep", "600", timeout_s=1).exit_code == 124
