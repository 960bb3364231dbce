"""Processes of a simulation: started in a bound, and all stopped whatever happens.

Every party is a process of its own, in a session of its own, so that Ctrl-C in a terminal reaches
the simulation alone, which then ends its parties in order. A party that fails ends the simulation
with the party's own error class and exit code, and with what it said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from common.errors import DppcaError, PeerError, UnreachableError

COMMAND_TIMEOUT_S = 900.0
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
AT_ONCE = max(2, min(4, os.cpu_count() or 2))
_LAST_LINES = 15

Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed with ``--json``, and how long its process took, start to end."""

    document: Mapping[str, Any]
    seconds: float


@dataclass
class Parties:
    """The live processes of one simulation; make it with `parties`."""

    _live: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def call(self, who: str, module: str, *arguments: str) -> Answer:
        """Run one command to its end; ``--json`` is added.

        Parameters
        ----------
        who
            The party, for messages.
        module
            Module of its command line, such as ``owner.cli``.

        Raises
        ------
        DppcaError
            The class the command failed with, its message after the party's name.
        """
        started = time.monotonic()
        process = self._start([module, *arguments, "--json"], stderr=subprocess.PIPE)
        try:
            stdout, stderr = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            message = f"{who}: {arguments[0]} took more than {COMMAND_TIMEOUT_S:.0f} s"
            raise UnreachableError(message) from error
        finally:
            self._end(process)
        if process.returncode:
            raise failure(who, process.returncode, stdout, stderr)
        return Answer(json.loads(stdout), time.monotonic() - started)

    def serve(
        self, who: str, module: str, *arguments: str, log: Path, port_file: Path
    ) -> subprocess.Popen[bytes]:
        """Start a service and wait until it has written its address to ``port_file``."""
        with log.open("wb") as stderr:
            process = self._start([module, *arguments], stderr=stderr)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not port_file.exists():
            if process.poll() is not None:
                raise failure(who, process.returncode, b"", log.read_bytes())
            if time.monotonic() > deadline:
                said = _last_lines(log.read_bytes())
                message = f"{who} was not ready after {START_TIMEOUT_S:.0f} s: {said}"
                raise UnreachableError(message)
            time.sleep(0.02)
        return process

    def each(self, items: Sequence[Item], action: Callable[[Item], Made]) -> list[Made]:
        """``action`` of every item; the first failure stops the others, and every process."""
        return each(items, action, stop=self.stop)

    def stop(self) -> None:
        """End every live process: asked first, then killed. Nothing starts any more."""
        with self._lock:
            self._stopped = True
            live = list(self._live)
        for process in live:
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in live:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, arguments: Sequence[str], *, stderr: Any) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                message = "the simulation is being stopped"
                raise PeerError(message)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if stderr is subprocess.PIPE else subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
                env=_environment(),
            )
            self._live.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.kill()
            process.communicate()
        with self._lock:
            self._live.discard(process)


def each(
    items: Sequence[Item], action: Callable[[Item], Made], *, stop: Callable[[], None]
) -> list[Made]:
    """``action`` of every item, `AT_ONCE` at a time.

    After the first failure, or an interruption, ``stop`` must end the actions under way.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            stop()
            raise


@contextmanager
def parties() -> Iterator[Parties]:
    """Processes that are gone when the block is left, by whatever way."""
    live = Parties()
    try:
        yield live
    finally:
        live.stop()


def failure(who: str, code: int, stdout: bytes, stderr: bytes) -> DppcaError:
    """The error that a party's command ended with, from its exit code and what it printed."""
    try:
        said = str(json.loads(stdout)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = _last_lines(stderr) or f"it ended with code {code} and said nothing"
    kind = next((kind for kind in _errors() if kind.exit_code == code), PeerError)
    return kind(f"{who}: {said}")


def _environment() -> dict[str, str]:
    # A site's own settings must not leak in, and several processes share few cores.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPPCA_")}
    return {**kept, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _errors(root: type[DppcaError] = DppcaError) -> Iterator[type[DppcaError]]:
    for kind in root.__subclasses__():
        yield kind
        yield from _errors(kind)


def _last_lines(text: bytes) -> str:
    return "\n".join(text.decode(errors="replace").strip().splitlines()[-_LAST_LINES:])
