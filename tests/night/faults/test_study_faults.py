"""Whole studies, each with one fault, on processes; every step has its cell in the reference."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from dppca.common.testbed import HOSTS
from tests.fault_injection.processes import process_runtime
from tests.fault_injection.spec import parse_fault
from tests.fault_injection.suite import Suite
from tests.support.patience import run_watched

CELLS = [
    "curator:disk-full@store:3s",
    "curator:kill@seal",
    "curator:kill@store",
    "opener-1:kill@destroy",
    "opener-2:key-lost",
    "owner-1:partition@send:3s",
    "owner-2:kill@draw",
    "owner-3:clock+2d@fetch",
]


@pytest.mark.parametrize("written", CELLS)
def test_a_study_with_a_fault_keeps_every_promise(written: str) -> None:
    outcome = Suite(process_runtime, hosts=HOSTS).run_case(parse_fault(written))
    assert outcome.problems == ()
    assert outcome.end is outcome.expected.end


def test_the_command_prints_a_table_and_leaves_with_zero_when_promises_are_kept(
    tmp_path: Path,
) -> None:
    page = tmp_path / "docs" / "faults.md"
    line = ["faults", "--fault", "curator:clock-2d", "--json", "--output", str(page)]
    done = run_watched([sys.executable, "-m", "dppca.deploy.simulation.cli", *line])
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    (cell,) = document["cells"]
    assert (cell["end"], cell["charges"]) == ("not begun", dict.fromkeys(cell["charges"], 0))
    assert "check this machine's clock" in cell["said"][0]
    text = page.read_text()
    assert "dppca-simulate faults --fault curator:clock-2d --runtime processes" in text
    assert "| `curator:clock-2d` | not begun | 0 0 0 |" in text
