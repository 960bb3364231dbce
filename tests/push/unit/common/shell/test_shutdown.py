"""What has to end with a process is ended once, whichever way the process ends."""

import subprocess
import sys

import pytest

from tests.support.patience import WAIT_S


@pytest.mark.parametrize("last", ["console.run_and_end(command)", "sys.exit(0)"])
def test_what_has_to_end_with_a_process_is_ended_once(last: str) -> None:
    lines = (
        "import click, sys",
        "from dppca.common.shell import console, shutdown",
        "command = click.Command('nothing', callback=lambda: None)",
        "shutdown.on_exit(lambda: click.echo('first'))",
        "shutdown.on_exit(lambda: click.echo('last'))",
        last,
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=WAIT_S
    )
    assert (done.stdout, done.stderr) == ("last\nfirst\n", "")
