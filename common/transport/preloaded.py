"""Commands as processes that are forked from one which has loaded what commands import.

Imports are most of what a short command costs: half a second of processor, of which none is left
when twenty commands share them. Each command is a process and a session of its own all the same,
with the arguments, the environment and the end of one that is started; it shares with the others
no more than the code that was loaded before any of them began. `multiprocessing` keeps the server.
A party's keys and rows are never in it: it runs no command itself.

Only where a system can fork without harm (Linux), and not with ``PYTHONPATH``, whose owner wants
what lies there at the start of every process; otherwise commands are started one by one.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path

AVAILABLE = sys.platform == "linux"


class ForkedCommand:
    """A running command, with the methods of `subprocess.Popen` that `testbed.Processes` calls.

    Its output is appended to two files, which may be one.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], *, output: Path, errors: Path
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        self._process = context.Process(
            target=_become, args=(module, list(arguments), str(output), str(errors))
        )
        self._process.start()

    @property
    def pid(self) -> int:
        """The system's number of the process."""
        return self._process.pid or 0

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the command runs."""
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal; the process has not been waited for."""
        os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise `subprocess.TimeoutExpired` if it takes longer, in seconds."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("forked command", timeout or 0.0)
        return self._process.exitcode


def load(modules: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Start the process that commands are forked from, unless it runs; False if none can be.

    Its socket needs a short path, which a folder for temporary files may not have. It imports
    ``modules`` with ``environment``, which libraries read when they are loaded; so this process's
    own is changed for a moment: call it before there are threads.
    """
    if not AVAILABLE or environment.get("PYTHONPATH"):
        return False
    forkserver.set_forkserver_preload(list(modules))
    kept = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(environment)
        forkserver.ensure_running()
    except OSError:
        return False
    finally:
        os.environ.clear()
        os.environ.update(kept)
    return True


def unload() -> None:
    """End that process and wait for it, so that its time counts as this process's children's."""
    # multiprocessing has no public name for it, and would leave the process to the system.
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # noqa: SLF001


def _become(module: str, arguments: list[str], output: str, errors: str) -> None:
    """Be the command from here on; its `main` ends the process."""
    os.setsid()
    gc.freeze()  # what was loaded before is no garbage, and stays shared
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for path, number in ((output, 1), (errors, 2)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    command = import_module(module)
    sys.argv = [str(command.__file__), *arguments]
    command.main()
