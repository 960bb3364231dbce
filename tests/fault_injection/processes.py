"""The parties of a cell as processes of this machine.

::

    owner-1 ── relay ──┐
    owner-2 ── relay ──┼── curator        operator ── curator
    owner-3 ── relay ──┘

Every owner's bytes pass a relay in this process (`relay`), which cuts and slows them.
A full disk is a limit on the size of files (``RLIMIT_FSIZE`` 0): no byte can be added to any.
A process that is held is stopped, as its state in ``/proc`` shows. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dppca.common.testbed import CURATOR as COMMANDS
from dppca.common.testbed import (
    OWNER,
    START_TIMEOUT_S,
    Processes,
    await_address,
    environment,
)
from tests.fault_injection.fixture import OWNERS, STUDY_NAME, Fixture
from tests.fault_injection.relay import Address, Proxy
from tests.fault_injection.runtime import ClockSkew, CompletedCommand
from tests.fault_injection.spec import CURATOR, Fault

COMMAND_TIMEOUT_S = 900.0
LEDGER_FILES = (
    "ledger.sqlite",
    "ledger.sqlite-journal",
    "openers/*.key",
    f"studies/{STUDY_NAME}/components.npz",
)
"""What is looked at of a site, as patterns; a journal is part of a ledger that was cut off."""

_FOLDER = Path(__file__).resolve().parent
SCRIPTS = tuple(_FOLDER / f"{name}.py" for name in ("pooling", "relay", "skewed"))
"""What runs in processes of its own, by its file: it imports nothing of the harness."""

_NO_ROOM = ("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")


class ProcessRuntime:
    """`tests.fault_injection.runtime.Runtime` on processes; make it with `process_runtime`."""

    def __init__(self, scene: Fixture, links: _Links) -> None:
        self._folder = scene.folder
        self._links = links
        self._processes = Processes()
        self._live: dict[str, subprocess.Popen[bytes]] = {}
        self._full: set[str] = set()
        self._listeners: list[threading.Thread] = []
        self._log: list[bytes] = []
        self._lock = threading.Lock()
        links.listen(self._curator_address)
        for owner in OWNERS:
            host, port = links.addresses[owner]
            scene.write_site(
                owner,
                curator=f"{host}:{port}",
                server_name="localhost",
                rows=str(scene.rows(owner)),
            )

    def start_curator(
        self, scene: Fixture, *, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand | None:
        self._port_file.unlink(missing_ok=True)
        process = self._start(
            CURATOR,
            COMMANDS,
            *("serve", "--state", str(self._state), "--listen", "127.0.0.1:0"),
            *("--credentials", str(scene.curator), "--port-file", str(self._port_file)),
            *("--log-format", "json"),
            hold=hold,
            skew=skew,
        )
        listener = threading.Thread(target=self._listen_to, args=(process,), daemon=True)
        listener.start()
        self._listeners.append(listener)
        if await_address(self._port_file, process) is not None:
            return None
        listener.join(START_TIMEOUT_S)
        return CompletedCommand(process.returncode, {}, self.log())

    def stop_curator(self) -> CompletedCommand:
        process = self._live[CURATOR]
        process.terminate()
        return CompletedCommand(process.wait(START_TIMEOUT_S), {}, self.log())

    def operate(self, *arguments: str) -> CompletedCommand:
        host, port = self._curator_address()
        connection = (
            "--curator",
            f"{host}:{port}",
            "--credentials",
            str(self._folder / "operator"),
        )
        return self._finish(self._start(None, COMMANDS, "study", *arguments, *connection))

    def run(
        self, owner: str, *arguments: str, hold: str | None = None, skew: ClockSkew | None = None
    ) -> CompletedCommand:
        site = str(self._folder / "sites" / owner)
        process = self._start(owner, OWNER, "--site", site, *arguments, hold=hold, skew=skew)
        return self._finish(process)

    def is_held(self, party: str) -> bool:
        self._processes.require_running()
        process = self._live.get(party)
        if process is None or process.poll() is not None:
            return False
        try:
            status = Path(f"/proc/{process.pid}/stat").read_text()
        except OSError:
            return False  # it has just ended
        return status.rpartition(")")[2].split()[0] == "T"

    def resume(self, party: str, *, skew: bool = False) -> None:
        process = self._live[party]
        if skew:
            process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGCONT)

    def kill(self, party: str) -> None:
        process = self._live[party]
        process.kill()
        while (
            process.poll() is None
        ):  # anybody who waits for the command may be the one who reaps it
            time.sleep(0.01)

    def cut(self, party: str) -> None:
        self._links.each(party, Proxy.cut)

    def heal(self, party: str) -> None:
        self._links.each(party, Proxy.heal)

    def slow(self, party: str) -> None:
        self._links.each(party, Proxy.slow)

    def hurry(self, party: str) -> None:
        self._links.each(party, lambda relay: relay.slow(slow=False))

    def fill(self, party: str) -> None:
        with self._lock:
            self._full.add(party)
            self._limit(party, 0)

    def free(self, party: str) -> None:
        with self._lock:
            self._full.discard(party)
            self._limit(party, resource.RLIM_INFINITY)

    def lose_key(self, owner: str) -> None:
        for key in (self._folder / "sites" / owner / "openers").glob("*.key"):
            key.unlink()

    def copy_site(self, owner: str, to: Path) -> None:
        site = self._folder / "sites" / owner
        for source in (path for pattern in LEDGER_FILES for path in site.glob(pattern)):
            copy = to / source.relative_to(site)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)

    def copy_state(self, to: Path) -> None:
        if self._state.exists():
            shutil.copytree(self._state, to)

    def pool(self, payloads: Mapping[str, bytes]) -> bytes:
        folder = self._folder / "payloads"
        folder.mkdir()
        for owner, payload in payloads.items():
            (folder / owner).write_bytes(payload)
        program = [sys.executable, "-P", str(_FOLDER / "pooling.py"), STUDY_NAME]
        return subprocess.run(
            [*program, str(self._state), str(folder)],
            stdout=subprocess.PIPE,
            check=False,
            env=environment(),
            timeout=COMMAND_TIMEOUT_S,
        ).stdout

    def log(self) -> str:
        return b"".join(self._log).decode(errors="replace")

    def end(self) -> None:
        self._processes.stop(grace_s=0)
        for listener in self._listeners:
            listener.join(START_TIMEOUT_S)

    @property
    def _state(self) -> Path:
        return self._folder / "state"

    @property
    def _port_file(self) -> Path:
        return self._folder / "port"

    def _curator_address(self) -> Address:
        host, _, port = self._port_file.read_text().strip().rpartition(":")
        return host, int(port)

    def _start(
        self,
        party: str | None,
        module: str,
        *arguments: str,
        hold: str | None = None,
        skew: ClockSkew | None = None,
    ) -> subprocess.Popen[bytes]:
        program = ["-P", "-m"]
        if skew is not None:
            when = "now" if skew.from_start else "signal"
            program = ["-P", str(_FOLDER / "skewed.py"), str(skew.offset_s), when]
        with self._lock:
            process = self._processes.start(
                [*program, module, *arguments, "--json"],
                within=_NO_ROOM if party in self._full else (),
                stdout=subprocess.DEVNULL if party == CURATOR else subprocess.PIPE,
                stderr=subprocess.PIPE,
                fault=None if hold is None else f"hold@{hold}",
            )
            if party is not None:
                self._live[party] = process
        return process

    def _finish(self, process: subprocess.Popen[bytes]) -> CompletedCommand:
        try:
            stdout, stderr = process.communicate(timeout=COMMAND_TIMEOUT_S)
        finally:
            self._processes.end(process)
        return ended(process.returncode, stdout, stderr)

    def _limit(self, party: str, size: int) -> None:
        process = self._live.get(party)
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def _listen_to(self, process: subprocess.Popen[bytes]) -> None:
        if process.stderr is None:
            raise AssertionError  # it was started with a pipe
        with process.stderr as lines:
            for line in lines:
                self._log.append(line)


class _Links:
    """One relay for each owner, in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._relays: dict[str, Proxy] = {}
        self.addresses: dict[str, Address] = {}
        self._thread.start()

    def listen(self, to: Callable[[], Address]) -> None:
        """Begin, on any free ports of this machine."""

        async def begin() -> None:
            for owner in OWNERS:
                self._relays[owner] = Proxy(to)
                self.addresses[owner] = await self._relays[owner].listen("127.0.0.1", 0)

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(START_TIMEOUT_S)

    def each(self, party: str, action: Callable[[Proxy], None]) -> None:
        """Do something to a party's links: the curator has those of all owners."""

        async def act() -> None:
            for owner, relay in self._relays.items():
                if party in (owner, CURATOR):
                    action(relay)

        asyncio.run_coroutine_threadsafe(act(), self._loop).result(START_TIMEOUT_S)

    def close(self) -> None:
        """End every connection and the thread."""

        async def close() -> None:
            for relay in self._relays.values():
                await relay.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(START_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_TIMEOUT_S)
        self._loop.close()


@contextmanager
def process_runtime(scene: Fixture, _: Fault) -> Iterator[ProcessRuntime]:
    """Parties as processes, all of them gone when the block is left; the same for every fault."""
    links = _Links()
    try:
        stage = ProcessRuntime(scene, links)
        try:
            yield stage
        finally:
            stage.end()
    finally:
        links.close()


def ended(code: int, stdout: bytes, stderr: bytes) -> CompletedCommand:
    """A command's end from what it left on its streams."""
    try:
        document = json.loads(stdout)
    except ValueError:
        document = {}
    return CompletedCommand(code, document, stderr.decode(errors="replace"))
