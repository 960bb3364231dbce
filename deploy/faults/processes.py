"""The parties of a cell as processes of this machine.

::

    owner-1 ── relay ──┐
    owner-2 ── relay ──┼── curator        operator ── curator
    owner-3 ── relay ──┘

Every owner's bytes pass a relay in this process (`deploy.faults.relay`), which cuts and slows them.
A full disk is a limit on the size of files (``RLIMIT_FSIZE`` 0): no byte can be added to any.
A process that is held is stopped, as its state in ``/proc`` shows. Linux only.
"""

from __future__ import annotations

import asyncio
import json
import os
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

from common.checkpoints import VARIABLE
from common.errors import PeerError, UnreachableError
from deploy.faults.relay import Address, Relay
from deploy.faults.scene import OWNERS, STUDY_NAME, Scene
from deploy.faults.spec import CURATOR, Fault
from deploy.faults.stage import ENDED, Ended, Skew

HOSTS = ("127.0.0.1", "localhost")
START_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 900.0
LEDGER_FILES = ("ledger.sqlite", "ledger.sqlite-journal", f"studies/{STUDY_NAME}/components.npz")
"""What is looked at of a site; a journal is part of a ledger that was cut off."""

_NO_ROOM = ("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")


class ProcessStage:
    """`deploy.faults.stage.Stage` on processes; make it with `process_stage`."""

    def __init__(self, scene: Scene, links: _Links) -> None:
        self._folder = scene.folder
        self._links = links
        self._live: dict[str, subprocess.Popen[bytes]] = {}
        self._full: set[str] = set()
        self._ended = False
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
        self, scene: Scene, *, hold: str | None = None, skew: Skew | None = None
    ) -> Ended | None:
        """See `Stage`."""
        self._port_file.unlink(missing_ok=True)
        process = self._start(
            CURATOR,
            "curator.cli",
            *("serve", "--state", str(self._state), "--listen", "127.0.0.1:0"),
            *("--credentials", str(scene.curator), "--port-file", str(self._port_file)),
            *("--log-format", "json"),
            hold=hold,
            skew=skew,
        )
        listener = threading.Thread(target=self._listen_to, args=(process,), daemon=True)
        listener.start()
        self._listeners.append(listener)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._port_file.exists():
            if process.poll() is not None:
                listener.join(START_TIMEOUT_S)
                return Ended(process.returncode, {}, self.log())
            if time.monotonic() > deadline:
                message = f"the curator was not ready after {START_TIMEOUT_S:.0f} s: {self.log()}"
                raise UnreachableError(message)
            time.sleep(0.02)
        return None

    def stop_curator(self) -> Ended:
        """See `Stage`."""
        process = self._live[CURATOR]
        process.terminate()
        return Ended(process.wait(START_TIMEOUT_S), {}, self.log())

    def operate(self, *arguments: str) -> Ended:
        """See `Stage`."""
        host, port = self._curator_address()
        connection = (
            "--curator",
            f"{host}:{port}",
            "--credentials",
            str(self._folder / "operator"),
        )
        return self._finish(self._start(None, "curator.cli", "study", *arguments, *connection))

    def run(
        self, owner: str, *arguments: str, hold: str | None = None, skew: Skew | None = None
    ) -> Ended:
        """See `Stage`."""
        site = str(self._folder / "sites" / owner)
        process = self._start(owner, "owner.cli", "--site", site, *arguments, hold=hold, skew=skew)
        return self._finish(process)

    def is_held(self, party: str) -> bool:
        """See `Stage`."""
        if self._ended:
            raise PeerError(ENDED)
        process = self._live.get(party)
        if process is None or process.poll() is not None:
            return False
        try:
            status = Path(f"/proc/{process.pid}/stat").read_text()
        except OSError:
            return False  # it has just ended
        return status.rpartition(")")[2].split()[0] == "T"

    def resume(self, party: str, *, skew: bool = False) -> None:
        """See `Stage`."""
        process = self._live[party]
        if skew:
            process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGCONT)

    def kill(self, party: str) -> None:
        """See `Stage`."""
        process = self._live[party]
        process.kill()
        while process.poll() is None:  # whoever waits for the command may be the one who reaps it
            time.sleep(0.01)

    def cut(self, party: str) -> None:
        """See `Stage`."""
        self._links.each(party, Relay.cut)

    def heal(self, party: str) -> None:
        """See `Stage`."""
        self._links.each(party, Relay.heal)

    def slow(self, party: str) -> None:
        """See `Stage`."""
        self._links.each(party, Relay.slow)

    def hurry(self, party: str) -> None:
        """See `Stage`."""
        self._links.each(party, lambda relay: relay.slow(slow=False))

    def fill(self, party: str) -> None:
        """See `Stage`."""
        with self._lock:
            self._full.add(party)
            self._limit(party, 0)

    def free(self, party: str) -> None:
        """See `Stage`."""
        with self._lock:
            self._full.discard(party)
            self._limit(party, resource.RLIM_INFINITY)

    def copy_site(self, owner: str, to: Path) -> None:
        """See `Stage`."""
        for name in LEDGER_FILES:
            source = self._folder / "sites" / owner / name
            if source.exists():
                (to / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, to / name)

    def copy_state(self, to: Path) -> None:
        """See `Stage`."""
        if self._state.exists():
            shutil.copytree(self._state, to)

    def pool(self, payloads: Mapping[str, bytes]) -> bytes:
        """See `Stage`."""
        folder = self._folder / "payloads"
        folder.mkdir()
        for owner, payload in payloads.items():
            (folder / owner).write_bytes(payload)
        program = [sys.executable, "-P", "-m", "deploy.faults.pooling"]
        return subprocess.run(
            [*program, str(self._state), str(folder)],
            stdout=subprocess.PIPE,
            check=False,
            env=environment(None),
            timeout=COMMAND_TIMEOUT_S,
        ).stdout

    def log(self) -> str:
        """See `Stage`."""
        return b"".join(self._log).decode(errors="replace")

    def end(self) -> None:
        """See `Stage`."""
        with self._lock:
            self._ended = True
            live = list(self._live.values())
        for process in live:
            if process.poll() is None:
                process.kill()
                process.wait()
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
        skew: Skew | None = None,
    ) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-P", "-m"]
        if skew is not None:
            when = "now" if skew.from_start else "signal"
            program += ["deploy.faults.skewed", str(skew.offset_s), when]
        with self._lock:
            if self._ended:
                raise PeerError(ENDED)
            if party in self._full:
                program = [*_NO_ROOM, *program]
            process = subprocess.Popen(
                [*program, module, *arguments, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if party == CURATOR else subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env=environment(hold),
            )
            self._live[party or f"operator-{process.pid}"] = process
        return process

    def _finish(self, process: subprocess.Popen[bytes]) -> Ended:
        try:
            stdout, stderr = process.communicate(timeout=COMMAND_TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
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
        self._relays: dict[str, Relay] = {}
        self.addresses: dict[str, Address] = {}
        self._thread.start()

    def listen(self, to: Callable[[], Address]) -> None:
        """Begin, on any free ports of this machine."""

        async def begin() -> None:
            for owner in OWNERS:
                self._relays[owner] = Relay(to)
                self.addresses[owner] = await self._relays[owner].listen("127.0.0.1", 0)

        asyncio.run_coroutine_threadsafe(begin(), self._loop).result(START_TIMEOUT_S)

    def each(self, party: str, action: Callable[[Relay], None]) -> None:
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
def process_stage(scene: Scene, _: Fault) -> Iterator[ProcessStage]:
    """Parties as processes, all of them gone when the block is left; the same for every fault."""
    links = _Links()
    try:
        stage = ProcessStage(scene, links)
        try:
            yield stage
        finally:
            stage.end()
    finally:
        links.close()


def environment(hold: str | None) -> dict[str, str]:
    """The environment of a party: none of this process's own settings for it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPPCA_")}
    asked = {} if hold is None else {VARIABLE: f"hold@{hold}"}
    return {**kept, **asked, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def ended(code: int, stdout: bytes, stderr: bytes) -> Ended:
    """A command's end from what it left on its streams."""
    try:
        document = json.loads(stdout)
    except ValueError:
        document = {}
    return Ended(code, document, stderr.decode(errors="replace"))
