"""Ledger under ``kill -9``: at every step of a release, and at random moments.

After each kill the chain must verify, and there may be at most one charge. The same command, run
again, must end with exactly one charge and with the bytes that were stored before, if any were. If
nothing was drawn, the charge is for the rows of the first request: the command must refuse others.
"""

import random
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

from dppca.common.kernel.errors import LedgerError, SettingError
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.file import read_history
from dppca.owner.selftest.endpoint import study_for_crashes
from dppca.owner.selftest.findings import Finding
from dppca.owner.selftest.local_federation import TemporaryFederation, run_owner

STEPS = ("reserve", "draw", "store", "commit", "send")
_KILLED = -9  # exit code after SIGKILL
_DATA_SET = "crashes"
_HELD = "the chain verifies, one charge each, the stored bytes were sent"


def kill_at_steps(
    federation: TemporaryFederation, *, steps: tuple[str, ...], advance: Callable[[int], None]
) -> Finding:
    """Kill a contribution at each of the steps, and run it again."""
    faults = []
    for step in steps:
        name = f"kill-{step}"
        federation.create(study_for_crashes(name))
        before = _history(federation)
        code, _ = run_owner(federation, *_line(name), fault=f"kill@{step}")
        if code != _KILLED:
            faults.append(f"{step}: the command was not killed there (it left with {code})")
        faults += [f"{step}: {fault}" for fault in _after(federation, name, before)]
        advance(1)
    what = f"{len(steps)} deaths at {', '.join(steps)}"
    return Finding.of_faults("kill -9 at every step", faults, f"{what}: {_HELD}")


def kill_at_random(
    federation: TemporaryFederation, *, times: int, advance: Callable[[int], None]
) -> Finding:
    """Kill a contribution at random moments within its usual time, and run it again."""
    federation.create(study_for_crashes("timed"))
    started = time.monotonic()
    run_owner(federation, *_line("timed"))
    whole = time.monotonic() - started
    faults, deaths = [], 0
    chance = random.SystemRandom()
    for number in range(times):
        name = f"chance-{number}"
        federation.create(study_for_crashes(name))
        before = _history(federation)
        process = federation.start_owner(*_line(name))
        try:
            with suppress(TimeoutError):
                _wait(process, chance.uniform(0.3, 1.0) * whole)
        finally:
            process.kill()
            process.communicate()
        deaths += process.returncode == _KILLED
        faults += [f"time {number}: {fault}" for fault in _after(federation, name, before)]
        advance(1)
    what = f"{deaths} deaths in {times} attempts"
    return Finding.of_faults("kill -9 at any time", faults, f"{what}: {_HELD}")


def attack_by_other_rows(federation: TemporaryFederation) -> Finding:
    """Kill a contribution after its charge, give its data set other rows, and run it again."""
    faults = []
    for step in ("reserve", "store"):
        name = f"others-{step}"
        federation.create(study_for_crashes(name))
        if run_owner(federation, *_line(name), fault=f"kill@{step}")[0] != _KILLED:
            faults.append(f"{step}: the command was not killed there")
        died, policy = _history(federation), federation.site / "policy.yaml"
        before = policy.read_text(encoding="utf-8")
        policy.write_text(before.replace(f"{_DATA_SET}.csv", "survey.csv"), encoding="utf-8")
        code, _ = run_owner(federation, *_line(name))
        if code != SettingError.exit_code or _history(federation) != died:
            faults.append(f"{step}: other rows were drawn on (it left with {code})")
        policy.write_text(before, encoding="utf-8")
        if run_owner(federation, *_line(name))[0]:
            faults.append(f"{step}: the rows that were charged are refused")
    says = "a charge whose release was not drawn was used for no other rows"
    return Finding.of_faults("other rows after a death", faults, says)


def _after(federation: TemporaryFederation, name: str, before: History) -> list[str]:
    """Run the command again after a kill, and return all faults."""
    epsilon = study_for_crashes(name).privacy.epsilon or Decimal(0)
    digest = study_for_crashes(name).digest
    try:
        died = _history(federation)
        charged = died.total(_DATA_SET).epsilon - before.total(_DATA_SET).epsilon
        if charged not in (Decimal(0), epsilon):
            return [f"{charged} was charged for {epsilon}"]
        code, document = run_owner(federation, *_line(name))
        if code:
            return [f"the same command again left with {code}: {document}"]
        after = _history(federation)
    except LedgerError as error:
        return [str(error)]
    faults = []
    if after.total(_DATA_SET).epsilon - before.total(_DATA_SET).epsilon != epsilon:
        faults.append("there is not exactly one charge")
    stored = died.commitment_for(digest)
    if stored is not None and after.commitment_for(digest) != stored:
        faults.append("other bytes were sent than had been stored")
    return faults


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait until a process ends; `TimeoutError` when the time is up."""
    end = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= end:
            raise TimeoutError
        time.sleep(0.005)


def _line(name: str) -> tuple[str, ...]:
    return ("contribute", name, "--yes", "--data-set", _DATA_SET)


def _history(federation: TemporaryFederation) -> History:
    return read_history(federation.site / "ledger.sqlite")
