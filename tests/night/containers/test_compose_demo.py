"""The compose demo, run once, and then searched for what must not be there."""

import json
import os
from collections.abc import Iterator

import pytest

from dppca.common.kernel.attestation.results import result_from_bytes
from dppca.deploy.simulation.demo import demo_study
from tests.support.compose_folder import OWNERS
from tests.support.containers import (
    DEMO_IMAGE,
    IMAGE,
    Demo,
    found_in_image,
    require_compose,
    require_images,
    run,
)

SERVICES = (
    "rows",
    *(f"{owner}-key" for owner in OWNERS),
    "certificates",
    "curator",
    "study",
    *OWNERS,
    "operator",
    "results",
)
KEYS = (
    *((owner, "/site/key.pem") for owner in OWNERS),
    ("curator", "/credentials/key.pem"),
    ("operator", "/operator/key.pem"),
    ("certificates", "/authority/ca-key.pem"),
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    require_images()
    require_compose()
    made = Demo(f"dppca-test-{os.getpid()}", tmp_path_factory.mktemp("results"), "")
    try:
        done = made.compose("up", "--no-build")
        log = made.compose("logs", "--no-color").stdout
        assert done.returncode == 0, done.stdout + done.stderr
        yield Demo(made.project, made.results, done.stdout + done.stderr + log)
    finally:
        made.compose("down", "--volumes", "--timeout", "5")


@pytest.fixture(scope="module")
def secrets(demo: Demo) -> frozenset[str]:
    """Every line of every private key."""
    lines = [
        line
        for service, path in KEYS
        for line in demo.read(service, path).splitlines()
        if not line.startswith("-----")
    ]
    assert len(lines) >= 2 * len(KEYS)
    return frozenset(lines)


@pytest.fixture(scope="module")
def rows(demo: Demo) -> frozenset[str]:
    """Some rows of every owner, without their first two columns and their last, the key."""
    tails = {
        ",".join(line.split(",")[2:-1])
        for owner in OWNERS
        for line in demo.read(owner, "/data/rows.csv").replace('"', "").splitlines()[1:]
    }
    chosen = sorted(tails, key=lambda tail: (len(tail), tail))[-20:]
    assert len(chosen[0]) > 24
    return frozenset(chosen)


def test_the_study_runs_to_its_end_and_leaves_results(demo: Demo) -> None:
    for service in SERVICES:
        assert demo.container(service).attrs["State"]["ExitCode"] == 0, service
    folder = demo.results / "compose"
    result = result_from_bytes((folder / "components.npz").read_bytes(), demo_study())
    assert result.header.count >= 1
    for name in ("synthetic-coded.parquet", "synthetic-decoded.parquet"):
        assert (folder / name).stat().st_size > 0
    for owner in OWNERS:
        charge = json.loads((folder / owner / "contribute.json").read_text())
        assert (charge["owner"], charge["epsilon"], charge["delta"]) == (owner, "1", "0.000001")
        assert (charge["charged_epsilon"], float(charge["charged_rho"]) > 0) == ("0", True)


def test_no_key_and_no_row_is_in_a_log_or_an_environment_variable(
    demo: Demo, secrets: frozenset[str], rows: frozenset[str]
) -> None:
    assert "The study is done" in demo.log
    shown = {service: json.dumps(demo.container(service).attrs) for service in SERVICES}
    for where, text in {"the log": demo.log, **shown}.items():
        assert not [needle for needle in secrets | rows if needle in text], where
        assert "PRIVATE KEY" not in text, where


def test_no_key_and_no_row_is_in_the_image(secrets: frozenset[str], rows: frozenset[str]) -> None:
    assert found_in_image(DEMO_IMAGE, rows) == rows, "the search is for rows as files have them"
    # Of the image's labels, and of a file in one of its layers: the search reaches both.
    controls = {"dppca-curator and dppca-owner", "urn:dppca:predicate:release:1"}
    assert found_in_image(IMAGE, secrets | rows | controls) == controls


def test_containers_are_confined(demo: Demo) -> None:
    for service in SERVICES:
        found = demo.container(service).attrs
        host = found["HostConfig"]
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service
        assert host["Memory"] > 0, service
        assert host["PidsLimit"] > 0, service
        assert found["Config"]["User"] == ("0:0" if service == "results" else "10001:10001")
        assert not host["PortBindings"], service


def test_the_image_holds_no_compiler_no_pip_and_no_source_tree() -> None:
    require_images()
    search = "command -v cc gcc g++ c++ clang make pip pip3; ls -d /source /wheels /pip /opt/tools"
    # The last of them finds nothing and fails; what the search has found is printed before.
    assert run(IMAGE, "sh", "-c", f"{search}; true", stderr=False) == ""
    assert "contribute" in run(IMAGE, "dppca-owner", "--help", read_only=True)
