"""A federation on this machine, of real processes that its parties' commands start.

::

    authority ── signs ──▶ curator (serve, loopback)  ◀── operator
                    │
                    └────▶ owners, each in a folder of its own

Simulations, benchmarks, the self-test and tests run their studies on it. It depends on neither
side: curator and owners are command lines, each in its own process and session, so that Ctrl-C in a
terminal reaches only the caller, which then ends the parties in order. A command that fails ends
the call with the command's own error class and message.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from dppca.common.kernel.durable.checkpoints import VARIABLE
from dppca.common.kernel.durable.files import CredentialFolder
from dppca.common.kernel.errors import DppcaError, PeerError, UnreachableError, error_kinds
from dppca.common.kernel.identity.tls import Role
from dppca.common.transport import preloaded
from dppca.common.transport.preloaded import ForkedCommand

CURATOR, OWNER = "dppca.curator.cli", "dppca.owner.cli"
SERVE = ("-P", "-m", CURATOR, "serve")
HOSTS = ("127.0.0.1", "localhost")
# Limits against hangs only: machines may be slow or busy.
COMMAND_TIMEOUT_S = 3600.0
START_TIMEOUT_S = 300.0  # for a process to be ready on the slowest machine: for hangs alone
STOP_TIMEOUT_S = 10.0  # after SIGTERM, before SIGKILL
AT_ONCE = max(2, min(4, os.cpu_count() or 2))
_LAST_LINES = 15  # of a log in a message

Running = subprocess.Popen[bytes] | ForkedCommand
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """Document that a command printed with ``--json``, and the duration of its process."""

    document: Mapping[str, Any]
    seconds: float


class Processes(AbstractContextManager["Processes"]):
    """Set of processes that ends them when the block is left, in any way.

    With ``preload``, names of modules, `begin` forks command lines from one process that has loaded
    them (`preloaded`), where the system allows. ``python`` starts all others: that of another
    installation, say.
    """

    def __init__(self, preload: Sequence[str] = (), *, python: str = sys.executable) -> None:
        self._python = python
        self._live: set[Running] = set()
        self._forks = bool(preload) and preloaded.load(preload, environment())
        self._lock = threading.Lock()
        self._stopped = False

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._forks:
            preloaded.unload()

    def start(
        self,
        program: Sequence[object],
        *,
        within: Sequence[str] = (),
        stdout: Any = subprocess.DEVNULL,
        stderr: Any = subprocess.DEVNULL,
        fault: str | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start Python with some arguments; see `environment` for ``fault``.

        ``within`` is a command that runs another one, here Python. Raise `PeerError` after `stop`.
        """
        with self._lock:
            self.require_running()
            process = subprocess.Popen(
                [*within, self._python, *map(str, program)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                env=environment(fault),
            )
            self._live.add(process)
        return process

    def require_running(self) -> None:
        """Raise `PeerError` after `stop`."""
        if self._stopped:
            raise PeerError("the parties are being stopped")

    def call(self, who: str, module: str, *arguments: object) -> CommandAnswer:
        """Run one command to its end; ``--json`` is added.

        ``who`` names the party in messages; ``module`` is its command line, `CURATOR` or `OWNER`.
        Raise the `DppcaError` class that the command failed with, its message after the party's
        name.
        """
        started = time.monotonic()
        program = ["-P", "-m", module, *arguments, "--json"]
        with tempfile.TemporaryDirectory(prefix="dppca-command-") as folder:
            output, errors = Path(folder) / "output", Path(folder) / "errors"
            process = self.begin(program, output=output, errors=errors)
            try:
                code = process.wait(timeout=COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise UnreachableError(
                    f"{who}: {arguments[0]} took more than {COMMAND_TIMEOUT_S:.0f} s"
                ) from error
            finally:
                self.end(process)
            stdout, stderr = output.read_bytes(), errors.read_bytes()
        if code:
            raise failure(who, code, stdout, stderr)
        return CommandAnswer(json.loads(stdout), time.monotonic() - started)

    def begin(
        self, program: Sequence[object], *, output: Path, errors: Path, fault: str | None = None
    ) -> Running:
        """Begin Python with some arguments, its output appended to two files; see `environment`.

        A command line, ``-P -m MODULE ARGUMENT...``, is forked where there is something to fork.
        """
        if not self._forks or fault is not None or tuple(program[:2]) != SERVE[:2]:
            with output.open("ab") as stdout, errors.open("ab") as stderr:
                return self.start(program, stdout=stdout, stderr=stderr, fault=fault)
        with self._lock:
            self.require_running()
            module, *line = map(str, program[2:])
            process = ForkedCommand(module, line, output=output, errors=errors)
            self._live.add(process)
        return process

    def each(
        self, items: Sequence[Item], action: Callable[[Item], Made], *, at_once: int = AT_ONCE
    ) -> list[Made]:
        """Return ``action`` of every item, at most ``at_once`` at a time.

        The first failure, or an interruption, stops the others and all processes.
        """
        with ThreadPoolExecutor(at_once) as pool:
            futures = [pool.submit(action, item) for item in items]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:
                for future in futures:
                    future.cancel()
                self.stop()
                raise

    def end(self, process: Running) -> None:
        """Kill a process if it is alive, and forget it."""
        if process.poll() is None:
            process.kill()
            process.wait()
        with self._lock:
            self._live.discard(process)

    def stop(self, *, grace_s: float = STOP_TIMEOUT_S) -> None:
        """End every live process, by SIGTERM, then SIGKILL. Nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            live = list(self._live)
        for process in live:
            process.terminate()
        deadline = time.monotonic() + grace_s
        for process in live:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class LocalCurator:
    """One curator on a free port of this machine; it can be killed and started again.

    ``folder`` gets the curator's ``state``, its ``log`` and the file ``port``; ``credentials`` is
    the folder of the curator's credentials.
    """

    def __init__(self, processes: Processes, folder: Path, credentials: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.log = folder / "log"
        self.credentials = credentials
        self.address = ""
        self._processes = processes
        self._process: Running | None = None

    def start(self, *program: str, fault: str | None = None) -> Self:
        """Start ``program`` (`SERVE` by default), wait until it serves, and return itself.

        For ``fault`` see `environment`. Raise the `DppcaError` class that the curator failed with,
        its last lines as the message.
        """
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        options: list[object] = ["--state", self.state, "--listen", f"{HOSTS[0]}:0"]
        options += ["--credentials", self.credentials, "--port-file", port_file]
        self._process = self._processes.begin(
            [*(program or SERVE), *options], output=self.log, errors=self.log, fault=fault
        )
        address = await_address(port_file, self._process)
        if address is None:
            raise failure("curator", self._process.wait(), b"", self.log.read_bytes())
        self.address = address
        return self

    @property
    def process(self) -> Running:
        """Process that was started last; `PeerError` if there is none."""
        if self._process is None:
            raise PeerError("the curator was not started")
        return self._process

    def kill(self) -> None:
        """Kill the curator, like a power cut."""
        self._processes.end(self.process)

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        return self.process.wait(timeout=START_TIMEOUT_S)


class Authority(Protocol):
    """Maker of certificates for a temporary federation."""

    def issue(self, role: Role, name: str, *, hosts: Sequence[str], output: Path) -> None:
        """Write the credentials of a curator or an operator to a folder."""

    def sign(self, name: str, site: Path) -> None:
        """Certify the request in an owner's folder; add the certificate and ``ca.pem`` to it."""


class CommandAuthority:
    """Authority made by the curator's commands, for callers that may not import it."""

    def __init__(self, processes: Processes, folder: Path) -> None:
        self._processes = processes
        self._folder = folder
        self._pki("init")

    def issue(self, role: Role, name: str, *, hosts: Sequence[str], output: Path) -> None:
        """Implement `Authority.issue`."""
        options = [option for host in hosts for option in ("--host", host)]
        self._pki("issue", "--role", role.value, "--name", name, "--output", output, *options)

    def sign(self, name: str, site: Path) -> None:
        """Implement `Authority.sign`."""
        files = CredentialFolder(site)
        request = ("--request", files.request, "--output", files.certificate, "--name", name)
        self._pki("sign", *request)
        shutil.copy(CredentialFolder(self._folder).ca, site)

    def _pki(self, command: str, *arguments: object) -> None:
        self._processes.call(
            "authority", CURATOR, "pki", command, "--directory", self._folder, *arguments
        )


class LocalFederation:
    """An authority, a curator, its operator, and the sites that join.

    ``on_command`` is called after each command of the operator and the owners, and once the curator
    serves.
    """

    def __init__(
        self,
        processes: Processes,
        folder: Path,
        authority: Authority,
        *,
        on_command: Callable[[], None] = lambda: None,
    ) -> None:
        self.processes = processes
        self.curator = LocalCurator(processes, folder, folder / "curator")
        self.operator = folder / "operator"
        self._folder = folder
        self._authority = authority
        self._on_command = on_command

    @property
    def address(self) -> str:
        """Address of the curator for owners and the operator."""
        return self.curator.address

    def start(self) -> None:
        """Make the credentials of curator and operator, and start the curator."""
        curator = self.curator.credentials
        self._authority.issue(Role.CURATOR, "curator", hosts=HOSTS, output=curator)
        self._authority.issue(Role.OPERATOR, "operator", hosts=(), output=self.operator)
        self.curator.start()
        self._on_command()

    def site(self, name: str) -> Path:
        """Return an owner's folder."""
        return self._folder / "sites" / name

    def join(self, name: str) -> CommandAnswer:
        """Set up an owner's site and have its request signed; return the answer of ``init``."""
        answer = self.own(name, "init", "--name", name, "--curator", self.address)
        self._authority.sign(name, self.site(name))
        return answer

    def own(self, name: str, *arguments: object) -> CommandAnswer:
        """Run a command of an owner at its site."""
        answer = self.processes.call(name, OWNER, "--site", self.site(name), *arguments)
        self._on_command()
        return answer

    def operate(self, *arguments: object) -> CommandAnswer:
        """Run a command of the operator."""
        connection = ("--curator", self.address, "--credentials", self.operator)
        answer = self.processes.call("operator", CURATOR, *arguments, *connection)
        self._on_command()
        return answer


def await_address(port_file: Path, process: Running) -> str | None:
    """Return the address that a service wrote to a file; None if the service ended instead.

    Raise `UnreachableError` if neither happens in time.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while not port_file.exists():
        if process.poll() is not None:
            return None
        if time.monotonic() > deadline:
            raise UnreachableError(f"the service was not ready after {START_TIMEOUT_S:.0f} s")
        time.sleep(0.02)
    return port_file.read_text(encoding="utf-8").strip()


def environment(fault: str | None = None) -> dict[str, str]:
    """Return a party's environment: no setting of a real site, and one thread for arithmetic.

    ``fault`` is ``kill@STEP`` or ``hold@STEP``: the process ends or stops there (`checkpoints`).
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DPPCA_")}
    asked = {} if fault is None else {VARIABLE: fault}
    return {**kept, **asked, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def failure(who: str, code: int, stdout: bytes, stderr: bytes) -> DppcaError:
    """Return the error of a party's failed command, from its exit code and output."""
    try:
        message = str(json.loads(stdout)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        lines = stderr.decode(errors="replace").strip().splitlines()
        message = "\n".join(lines[-_LAST_LINES:]) or f"it ended with code {code} without output"
    kind = next(
        (kind for kind in error_kinds() if kind.exit_code == code != DppcaError.exit_code),
        PeerError,
    )
    return kind(f"{who}: {message}")
