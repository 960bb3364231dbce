"""Commands as processes that are forked from one which has loaded what commands import.

Imports are most of what a short command costs: half a second of processor, of which none is left
when twenty commands share them. Each command is a process and a session of its own all the same,
with the arguments, the environment and the end of one that is started; it shares with the others
no more than the code that was loaded before any of them began. `multiprocessing` keeps the process
that they are forked from. A party's keys and rows are never in it: it runs no command itself.

It is forked from this process where that is ``alone``, and shares its imports, too; otherwise it is
started afresh. Only where a system can fork without harm (Linux), and not with ``PYTHONPATH``,
whose owner wants what lies there at the start of every process; otherwise commands are started one
by one.
"""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Condition, Lock, Thread, active_count
from typing import Any

from dppca.common.kernel.errors import PeerError

AVAILABLE = sys.platform == "linux"


class ForkedCommand:
    """A running command, with the methods of `subprocess.Popen` that `testbed.Processes` calls.

    Its output is appended to two files, which may be one.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], *, output: Path, errors: Path
    ) -> None:
        assert _forker is not None  # noqa: S101 - `load` has made it
        self._forker = _forker
        self.pid = self._forker.begin((module, list(arguments), str(output), str(errors)))

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the command runs."""
        return self._forker.wait(self.pid, 0)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raise `subprocess.TimeoutExpired` if it takes longer, in seconds."""
        code = self._forker.wait(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired("forked command", timeout or 0.0)
        return code


def load(modules: Sequence[str], environment: Mapping[str, str], *, alone: bool = False) -> bool:
    """Start the process that commands are forked from, unless it runs; False if none can be.

    It has loaded ``modules`` and has ``environment``, as its commands have. ``alone``: this process
    has read nothing yet that a party may not have; it loads them, too, unless it has other threads.
    Each call needs one of `unload`.
    """
    global _forker, _users
    if not AVAILABLE or environment.get("PYTHONPATH"):
        return False
    if _forker is None:
        alone = alone and active_count() == 1  # a fork would lose the others, but not their locks
        if alone:
            _import_all(modules)
        _forker = _Forker(modules, environment, alone=alone)
    _users += 1
    return True


def unload() -> None:
    """End that process and wait for it, unless another `load` needs it."""
    global _forker, _users
    _users -= 1
    if _forker is not None and not _users:
        _forker.close()
        _forker = None


class _Forker:
    """The process that commands are forked from; several threads may call."""

    def __init__(
        self, modules: Sequence[str], environment: Mapping[str, str], *, alone: bool
    ) -> None:
        context: Any = get_context("fork" if alone else "spawn")
        self._calls, theirs = context.Pipe()
        asked = (self._calls, theirs, list(modules), dict(environment))
        self._process: BaseProcess = context.Process(target=_serve, args=asked)
        self._process.start()
        theirs.close()
        self._one_call, self._changed = Lock(), Condition()
        self._begun: list[int] = []  # the latest, when it has begun
        self._codes: dict[int, int | None] = {}
        self._gone = False
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()

    def begin(self, command: tuple[str, list[str], str, str]) -> int:
        """Fork a command and return its process's number."""
        with self._one_call, self._changed:
            self._begun.clear()
            with suppress(OSError):
                self._calls.send(command)
            self._changed.wait_for(lambda: self._begun or self._gone)
            if not self._begun:
                raise PeerError("the process that commands are forked from has ended")
            return self._begun[0]

    def wait(self, pid: int, timeout: float | None) -> int | None:
        """Return a command's exit code; None after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._codes[pid] is not None or self._gone, timeout)
            code = self._codes[pid]
            return -signal.SIGKILL if code is None and self._gone else code

    def close(self) -> None:
        """End the process, and all that was forked from it; wait for it."""
        with suppress(OSError):
            self._calls.send(None)
        self._process.join()
        self._listener.join()
        self._calls.close()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                pid, code = self._calls.recv()
                with self._changed:
                    self._codes[pid] = code
                    if code is None:
                        self._begun.append(pid)
                    self._changed.notify_all()
        with self._changed:
            self._gone = True
            self._changed.notify_all()


_forker: _Forker | None = None
_users = 0


def _serve(
    ours: Connection, calls: Connection, modules: list[str], environment: dict[str, str]
) -> None:
    """Fork a command for each call, and say when it has ended, until told or left alone."""
    ours.close()
    os.setsid()  # Ctrl-C in a terminal reaches only the caller
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    _import_all(modules)
    from threadpoolctl import threadpool_limits

    # Where the caller had loaded BLAS, the environment comes too late for it.
    threadpool_limits(int(environment.get("OPENBLAS_NUM_THREADS", os.cpu_count() or 1)))
    context, running = get_context("fork"), dict[object, BaseProcess]()
    while True:
        for ready in connection.wait([calls, *(process.sentinel for process in running.values())]):
            if ready is not calls:
                process = running.pop(ready)
                process.join()
                calls.send((process.pid, process.exitcode))
                continue
            try:
                command = calls.recv()
            except EOFError:
                command = None
            if command is None:
                for process in running.values():
                    process.kill()
                return
            begun = context.Process(target=_become, args=(calls, *command))
            begun.start()
            running[begun.sentinel] = begun
            calls.send((begun.pid, None))


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)


def _become(calls: Connection, module: str, arguments: list[str], output: str, errors: str) -> None:
    """Be the command from here on; its `main` ends the process."""
    calls.close()
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
