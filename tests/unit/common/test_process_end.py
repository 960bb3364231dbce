"""A command's process ends with the command's exit code, whatever its libraries' threads do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.patience import WAIT_S

# A library that aborts while Python unwinds, as a thread of C++ does that nobody has joined.
_ABORTS_AT_EXIT = "import atexit, os, sys; atexit.register(os.abort); "
_MAIN = "sys.argv = {line!r}; from dppca.{side}.cli import main; main()"


def _end(side: str, *line: str, closed: bool = False) -> subprocess.CompletedProcess[bytes]:
    program = _ABORTS_AT_EXIT + _MAIN.format(line=[f"dppca-{side}", *line], side=side)
    redirect = ["sh", "-c", 'exec "$@" >/dev/full', "sh"] if closed else []
    return subprocess.run(
        [*redirect, sys.executable, "-c", program], capture_output=True, timeout=WAIT_S, check=False
    )


@pytest.mark.parametrize("side", ["owner", "curator"])
def test_what_was_printed_arrives_and_the_exit_code_stays(side: str) -> None:
    done = _end(side, "--version")
    assert (done.returncode, b"version" in done.stdout) == (0, True)


def test_an_error_keeps_its_exit_code_and_its_document() -> None:
    done = _end("owner", "--site", "/nowhere", "budget", "--json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["class"]) == (error["exit_code"], "SettingError")
    assert b"error: " in done.stderr


def test_an_answer_that_cannot_be_printed_is_no_success() -> None:
    done = _end("owner", "--version", closed=True)
    assert done.returncode == 70
    assert b"No space left on device" in done.stderr
