"""A run: containers started in their order, followed, started again, and removed.

A container that a signal has ended, or that did not reach another one, is started again: it finds
what is in its volumes, and an owner's ledger charges nothing twice. Any other failure ends the run
with the container's own words. Whatever ends a run, everything that it made is removed; an
interrupt waits for the engine's present answer, so that nothing is made after the removal.
"""

import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from dppca.common.kernel.errors import BusyError, PeerError, UnreachableError
from dppca.common.transport.testbed import failure
from dppca.deploy.simulation.containers.engine import ContainerEngine, ContainerState
from dppca.deploy.simulation.containers.services import HEALTHY, ContainerPlan, Service

MOST_STARTS: Final = 6  # of a container: as ``on-failure:5`` in the compose file
_LOOK_S = 0.4  # between two looks at all containers
_LAST_LINES = 40  # of a container, for the message where it fails
_SIGNALLED = 128  # exit codes above are of signals
_PASSING = frozenset({BusyError.exit_code, UnreachableError.exit_code})
Told = Callable[[str, str], None]


def run_plan(
    plan: ContainerPlan, engine: ContainerEngine, *, told: Told, stopping: threading.Event
) -> None:
    """Run all containers of a plan to their ends, and remove everything.

    ``told`` gets each line with its container's name, from several threads. Raise
    `KeyboardInterrupt` soon after ``stopping`` is set, the `DppcaError` class that a container's
    command failed with, and `PeerError` if one cannot be kept alive.
    """
    try:
        for name in plan.networks:
            _go_on(stopping)
            engine.make_network(name)
        for name in plan.volumes:
            _go_on(stopping)
            engine.make_volume(name)
        _Run(plan, engine, told, stopping).finish()
    finally:
        engine.remove()


def _go_on(stopping: threading.Event) -> None:
    if stopping.is_set():
        raise KeyboardInterrupt


class _Run:
    """Starts and looks, until every container has ended well."""

    def __init__(
        self, plan: ContainerPlan, engine: ContainerEngine, told: Told, stopping: threading.Event
    ) -> None:
        self._services = plan.services
        self._engine = engine
        self._told = told
        self._stopping = stopping
        self._starts = dict.fromkeys((each.name for each in plan.services), 0)
        self._last: dict[str, deque[str]] = {}
        self._readers: dict[str, threading.Thread] = {}
        self._held = {each.beside: each.name for each in plan.services if each.beside}
        """A daemon, and the step that ends it."""

    def finish(self) -> None:
        """Return when all have ended well."""
        while True:
            states = self._engine.states()
            if all(self._is_done(each.name, states) for each in self._services):
                break
            for each in self._services:
                _go_on(self._stopping)
                self._advance(each, states)
            self._stopping.wait(_LOOK_S)
        for reader in self._readers.values():
            reader.join()

    def _advance(self, service: Service, states: Mapping[str, ContainerState]) -> None:
        state, name = states.get(service.name), service.name
        if state is not None and state.sick:
            raise PeerError(f"{name} runs and does not answer: {self._words(name)}")
        if state is not None and (state.running or self._is_done(name, states)):
            return
        ending = states.get(self._held.get(name, ""))
        if state is not None and state.code == 0 and ending is not None and ending.running:
            return
        if state is not None and state.code not in (None, 0):
            self._require_passing(name, state.code or 0)
        if not self._is_ready(service, states):
            return
        if self._starts[name] == 0:
            self._engine.create(service)
        if name in self._readers:
            self._readers[name].join()
        self._starts[name] += 1
        if self._starts[name] > 1:
            self._told(name, f"started again ({self._starts[name] - 1})")
        self._last[name] = deque(maxlen=_LAST_LINES)
        lines = self._engine.start(name)
        self._readers[name] = threading.Thread(
            target=self._read, args=(name, lines), daemon=True, name=f"lines of {name}"
        )
        self._readers[name].start()

    def _read(self, name: str, lines: Iterator[str]) -> None:
        for line in lines:
            self._last[name].append(line)
            self._told(name, line)

    def _is_ready(self, service: Service, states: Mapping[str, ContainerState]) -> bool:
        needs = {**service.needs, **({service.beside: HEALTHY} if service.beside else {})}
        return all(
            name in states and states[name].healthy
            if how == HEALTHY
            else self._is_done(name, states)
            for name, how in needs.items()
        )

    def _is_done(self, name: str, states: Mapping[str, ContainerState]) -> bool:
        """Whether a container has ended well; a daemon only once its work is done."""
        if name not in states or states[name].code != 0:
            return False
        return name not in self._held or self._is_done(self._held[name], states)

    def _require_passing(self, name: str, code: int) -> None:
        """Raise the error of a container that is not to be started again."""
        self._readers[name].join()
        if code <= _SIGNALLED and code not in _PASSING:
            raise failure(name, code, b"", self._words(name).encode())
        if self._starts[name] >= MOST_STARTS:
            raise PeerError(
                f"{name} ended with exit code {code} after {MOST_STARTS} starts: "
                f"{self._words(name)}"
            )

    def _words(self, name: str) -> str:
        return "\n".join(self._last.get(name, ()))


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into an event, while the block runs.

    Outside the main thread, which alone gets signals, nothing sets it.
    """
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    numbers = [signal.SIGINT, signal.SIGTERM]
    closed = getattr(signal, "SIGHUP", None)  # not on Windows; under nohup it stays ignored
    if closed is not None and signal.getsignal(closed) is signal.SIG_DFL:
        numbers.append(closed)
    before = {each: signal.signal(each, lambda *_: stopping.set()) for each in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
