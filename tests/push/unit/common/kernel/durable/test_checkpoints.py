"""A checkpoint ends or holds a process, once, and does nothing else."""

import os
import signal
import subprocess
import sys

import pytest

from dppca.common.kernel.durable.checkpoints import VARIABLE
from tests.support.patience import WAIT_S

PROGRAM = """
from dppca.common.kernel.durable.checkpoints import checkpoint
for step in ("reserve", "draw", "draw", "commit"):
    checkpoint(step)
    print(step, flush=True)
"""


def _run(asked: str | None) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if asked is not None:
        environment[VARIABLE] = asked
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.mark.parametrize(
    "asked", [None, "", "kill", "kill@", "kill@send", "slow@draw", "kill@draw:20s", "@draw"]
)
def test_anything_but_the_two_faults_at_a_step_that_is_passed_has_no_effect(
    asked: str | None,
) -> None:
    process = _run(asked)
    said, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, said.split()) == (0, ["reserve", "draw", "draw", "commit"])


def test_a_process_is_killed_at_its_step() -> None:
    process = _run("kill@draw")
    said, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, said.split()) == (-9, ["reserve"])


@pytest.mark.parametrize("steps", [["draw"], ["draw", "commit"]])
def test_a_process_is_held_at_each_of_its_steps_once_and_then_goes_on(steps: list[str]) -> None:
    process = _run(f"hold@{','.join(steps)}")
    for _ in steps:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
    said, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, said.split()) == (0, ["reserve", "draw", "draw", "commit"])
