"""How much of the product one contribution needs, at each end, as it runs."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dppca.common.transport.testbed import CURATOR, OWNER, LocalFederation, Processes
from dppca.curator.certificates.local import make_authority
from tests.support import tracing
from tests.support.checkout import ROOT
from tests.support.patience import HANG_S

OWNERS = ["owner-1", "owner-2"]
STUDY = """
name: traced
owners: [owner-1, owner-2]
privacy: {mechanism: laplace, epsilon: "1"}
components: {count: 2}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: age, type: numeric, lower: 0, upper: 100}
    - {name: weight, type: numeric, lower: 30, upper: 150}
    - {name: sex, type: binary, values: [f, m]}
"""
N_ROWS = 400
FORECAST = (
    "estimates/block",
    "estimates/forecast",
    "estimates/noise",
    "estimates/questions",
    "estimates/reasons",
    "estimates/variables",
    "estimators/relations",
    "outlook",
    "spectrum/noise",
    "spectrum/noise_edge",
    "spectrum/pca",
)
BOUNDS = {"contribute": (214, 130), "curator": (189, 96)}
"""The most modules that are loaded, and that run.

A site's mapping came with six, facts of files and the header of a study with one each; versions and
clocks in the first call, and what a curator computes beside other studies, with the curator's.
People, secret numbers, matrix noise and what a choice rules out came with two to four each, what a
draft's noise will leave with one of the curator's, what several people sign with eight at a site, a
class of joint laws with four, and a study's questions with one.
"""


@dataclass(frozen=True)
class Trace:
    loaded: list[str]
    ran: list[str]
    others: list[str]

    def __str__(self) -> str:
        return f"loads {_counted(self.loaded)}, runs {_counted(self.ran)}"


def _counted(names: list[str]) -> str:
    lines = sum(len((ROOT / name).read_text().splitlines()) for name in names)
    return f"{len(names)} modules ({lines:,} lines)"


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    """One `contribute`, and the curator from its start to the components."""
    folder = tmp_path_factory.mktemp("traced")
    (folder / "study.yaml").write_text(STUDY)
    rows = (f"{20 + i % 60},{50 + i % 70},{'fm'[i % 2]}" for i in range(N_ROWS))
    (folder / "rows.csv").write_text("\n".join(["age,weight,sex", *rows]))
    files = {name: folder / f"{name}.json" for name in BOUNDS}
    with Processes() as live:
        federation = LocalFederation(live, folder, make_authority(folder / "authority"))
        federation.start()
        federation.curator.terminate()
        traced = [tracing.__file__, files["curator"], CURATOR, "serve"]
        federation.curator.start(*map(str, traced))
        for owner in OWNERS:
            federation.join(owner)
            _own_rows(federation.site(owner), folder / "rows.csv")
        federation.operate("study", "create", folder / "study.yaml", "--yes")
        federation.own("owner-1", "contribute", "traced", "--yes")
        site = ("--site", federation.site("owner-2"))
        command = (tracing.__file__, files["contribute"], OWNER, *site, "contribute", "traced")
        done = subprocess.run(
            [sys.executable, *map(str, command), "--yes", "--json"],
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )
        assert done.returncode == 0, done.stderr
        federation.own("owner-2", "components", "traced")
        assert federation.curator.terminate() == 0
    return {name: Trace(**json.loads(files[name].read_text())) for name in BOUNDS}


@pytest.mark.parametrize("name", BOUNDS)
def test_one_contribution_needs_few_modules(
    name: str, traces: dict[str, Trace], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = traces[name]
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {trace}\n")
    loaded, ran = BOUNDS[name]
    assert 0 < len(trace.ran) <= ran
    assert set(trace.ran) <= set(trace.loaded)
    assert len(trace.loaded) <= loaded


def test_a_contribution_loads_of_the_analysis_what_a_forecast_needs(
    traces: dict[str, Trace],
) -> None:
    analysis = {each for each in traces["contribute"].loaded if each.startswith("common/analysis/")}
    modules = {name for name in analysis if not name.endswith("__init__.py")}
    assert modules <= {f"common/analysis/{name}.py" for name in FORECAST}


@pytest.mark.parametrize("end", ["os._exit(0)", "pass"])
def test_a_process_that_is_forked_and_ends_later_leaves_the_record_alone(
    end: str, tmp_path: Path
) -> None:
    program = f"import os, time\nif os.fork() == 0:\n    time.sleep(1)\n    {end}\nelse:\n"
    (tmp_path / "forking.py").write_text(program + "    import colorsys\n")
    command = (sys.executable, tracing.__file__, str(tmp_path / "record.json"), "forking")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(  # returns when both have closed what they print to
        command, capture_output=True, text=True, timeout=HANG_S, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "colorsys" in json.loads((tmp_path / "record.json").read_text())["others"]


def _own_rows(site: Path, rows: Path) -> None:
    policy = {
        "populations": {"patients": {"who": "everyone", "epsilon": "3", "delta": "0"}},
        "data_sets": {"survey": {"population": "patients", "path": str(rows)}},
    }
    (site / "policy.yaml").write_text(json.dumps(policy))
