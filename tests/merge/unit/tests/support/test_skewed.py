from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support import skewed
from tests.support.patience import WAIT_S

CLOCK = """
import sys, time
from datetime import UTC, datetime
assert isinstance(datetime.fromtimestamp(0, UTC), datetime)
for _ in sys.stdin:
    other = datetime.fromtimestamp(time.time(), UTC)
    print(datetime.now(UTC).isoformat(), other.isoformat(), flush=True)
"""


def _ask(process: subprocess.Popen[str]) -> list[int]:
    """Days by which the clock of a process is wrong, by each of its two times."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("now?\n")
    process.stdin.flush()
    said = process.stdout.readline().split()
    off = [datetime.fromisoformat(told) - datetime.now(UTC) for told in said]
    return [round(each / timedelta(days=1)) for each in off]


@pytest.mark.parametrize(("when", "at_first"), [("now", -2), ("signal", 0)])
def test_a_clock_is_wrong_from_the_start_or_from_a_signal_on(
    when: str, at_first: int, tmp_path: Path
) -> None:
    (tmp_path / "tells_the_time.py").write_text(CLOCK)
    with subprocess.Popen(
        [sys.executable, str(skewed.__file__), "-172800", when, "tells_the_time"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{tmp_path}:{':'.join(filter(None, sys.path))}",
        },
    ) as process:
        assert _ask(process) == [at_first, at_first]
        if when == "signal":
            process.send_signal(signal.SIGUSR1)
            assert _ask(process) == [-2, -2]
        process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
