"""Curator, operator and three owners of one study, as processes that suffer faults.

::

    owner-1 ── relay ──┐
    owner-2 ── relay ──┼── curator ── operator
    owner-3 ── relay ──┘

A process that is held at a step (`dppca.common.kernel.durable.checkpoints`) is stopped, as
``/proc`` shows; a relay cuts and slows links; a full disk is a limit on the size of files
(``RLIMIT_FSIZE`` 0); a wrong clock is `tests.support.skewed`. The curator's clock is moved two days
past every deadline, so that no study waits for one. Linux only.

A data set's budget is exactly the study's cost: a second charge would be seen, and refused too.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study
from dppca.common.transport.testbed import CURATOR as CURATOR_COMMANDS
from dppca.common.transport.testbed import OWNER as OWNER_COMMANDS
from dppca.common.transport.testbed import Processes, Running
from tests.fault_injection.relay import Relay
from tests.support import skewed
from tests.support.certificates import write_credentials
from tests.support.curator import Curator, far_moment
from tests.support.federations import study_of_sites
from tests.support.patience import WAIT_S
from tests.support.sites import OwnerSite, make_site
from tests.support.studies import make_study

CURATOR = "curator"
OWNERS = ("owner-1", "owner-2", "owner-3")
OPENERS = OWNERS[:2]
STUDY_NAME = "faults"
KILLED = -9
DAY_S = 86_400
PAST_DEADLINE_S = 2 * DAY_S
_BUDGET = 'epsilon: "1.0", delta: "0"'
_N_ROWS = 60
_NO_ROOM = ("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh")
_UNLIMITED = resource.RLIM_INFINITY


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """A clock with an error in seconds, from the start or from `Parties.resume` on."""

    offset_s: int
    from_start: bool

    @property
    def program(self) -> tuple[str, ...]:
        """Arguments of Python before the module that has this clock."""
        when = "now" if self.from_start else "signal"
        return ("-P", str(skewed.__file__), str(self.offset_s), when)


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """Exit code of a command, its JSON document, and its other output."""

    code: int
    document: Any
    said: str

    @property
    def message(self) -> str:
        error = (self.document or {}).get("error")
        return str(error["message"]) if error else self.said[-500:]


class Parties:
    """All parties of one study, created by `parties`; several threads call its methods."""

    def __init__(self, folder: Path) -> None:
        folder.joinpath(CURATOR).mkdir()
        self.folder = folder
        self.curator = Curator(folder / CURATOR)
        self.relays = {owner: Relay(lambda: self.curator.address) for owner in OWNERS}
        self.sites: dict[str, OwnerSite] = {}
        self.ended: list[tuple[str, CompletedCommand]] = []
        """Every command that has ended, with its party."""
        self._processes = Processes()
        self._live: dict[str, subprocess.Popen[bytes]] = {}
        self._full: set[str] = set()
        self._said: dict[str, bytes] = {}
        authority = self.curator.authority
        write_credentials(folder / "operator", authority.issue(Role.OPERATOR, "alice"))
        for number, owner in enumerate(OWNERS):
            self.sites[owner] = make_site(
                folder / owner,
                name=owner,
                curator=self.relays[owner].address,
                credentials=authority.issue(Role.OWNER, owner),
                budget=_BUDGET,
                colluders=1,
                rows=_rows(seed=number),
            )

    def make_study(self, *, masked: bool, quorum: int) -> Study:
        """Write the study for the operator; its deadline is beyond any machine's patience."""
        fields: dict[str, Any] = {"name": STUDY_NAME, "quorum": quorum, "deadline": far_moment()}
        if masked:
            sites = list(self.sites.values())
            study = study_of_sites(sites, mechanism="laplace", components={"count": 2}, **fields)
        else:
            study = make_study(owners=list(OWNERS), **fields)
        self.folder.joinpath("study.json").write_bytes(study.canonical_bytes())
        return study

    def start_curator(self, *holds: str, skew: ClockSkew | None = None) -> None:
        """Start or restart the curator, to be held once at each of these steps."""
        clock = skew or ClockSkew(PAST_DEADLINE_S, from_start=False)
        fault = f"hold@{','.join(holds)}" if holds else None
        self.curator.start(*clock.program, CURATOR_COMMANDS, "serve", fault=fault)

    def operate(self, *arguments: str) -> CompletedCommand:
        connection = ("--curator", self.curator.address)
        credentials = ("--credentials", str(self.folder / "operator"))
        program = ("-P", "-m", CURATOR_COMMANDS, "study", *arguments, *connection, *credentials)
        return self._run("operator", program)

    def run(
        self, owner: str, *arguments: str, hold: str = "", skew: ClockSkew | None = None
    ) -> CompletedCommand:
        """Run ``dppca-owner …`` at a site, to its end; it may be held at a step."""
        program = skew.program if skew else ("-P", "-m")
        site = ("--site", str(self.sites[owner].folder))
        return self._run(owner, (*program, OWNER_COMMANDS, *site, *arguments), hold=hold)

    def is_held(self, party: str) -> bool:
        """Return True if a party stands at a step at which it was to be held."""
        process = self._process(party)
        if process is None or process.poll() is not None:
            return False
        with suppress(OSError):  # it has just ended
            status = Path(f"/proc/{process.pid}/stat").read_text()
            return status.rpartition(")")[2].split()[0] == "T"
        return False

    def resume(self, party: str, *, move_clock: bool = False) -> None:
        """Let a held party go on, with a wrong clock from here on if requested."""
        process = self._process(party)
        assert process is not None
        if move_clock:
            process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGCONT)

    def kill(self, party: str) -> None:
        """Kill a party like ``kill -9``; return when it is gone."""
        process = self._process(party)
        assert process is not None
        process.kill()
        process.wait(WAIT_S)

    def cut(self, party: str, *, on: bool) -> None:
        for relay in self._links(party):
            relay.is_cut = on

    def slow(self, party: str, *, on: bool) -> None:
        for relay in self._links(party):
            relay.is_slow = on

    def fill(self, party: str, *, on: bool) -> None:
        """Stop all writing of a party, or allow it again."""
        (self._full.add if on else self._full.discard)(party)
        process = self._process(party)
        if process is not None and process.poll() is None:
            limits = (0 if on else _UNLIMITED, _UNLIMITED)
            with suppress(ProcessLookupError):  # it has just ended
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)

    def lose_key(self, owner: str) -> None:
        for key in (self.sites[owner].folder / "openers").glob("*.key"):
            key.unlink()

    def copy(self, party: str, to: Path) -> Path:
        """Copy a party's files, with journals of cut transactions; it is held or has ended."""
        source = self.curator.state if party == CURATOR else self.sites[party].folder
        return Path(shutil.copytree(source, to))

    def end(self) -> None:
        """Kill every party; nothing starts afterwards."""
        self._processes.stop(grace_s=0)
        self.curator.stop()
        for relay in self.relays.values():
            relay.close()

    def _run(self, party: str, program: tuple[str, ...], *, hold: str = "") -> CompletedCommand:
        heard, said = os.pipe()  # no file: a party with a full disk could not write to it
        listener = threading.Thread(target=self._listen, args=(party, heard))
        listener.start()
        try:
            process = self._live[party] = self._processes.start(
                [*program, "--json"],
                within=_NO_ROOM if party in self._full else (),
                stdout=subprocess.PIPE,
                stderr=said,
                fault=f"hold@{hold}" if hold else None,
            )
        finally:
            os.close(said)
        try:
            stdout, _ = process.communicate(timeout=2 * WAIT_S)
        finally:
            self._processes.end(process)
            listener.join()
        document = json.loads(stdout) if stdout else None
        ended = CompletedCommand(process.returncode, document, self.said(party))
        self.ended.append((party, ended))
        return ended

    def said(self, party: str) -> str:
        """What a party's command has said to people so far; empty before its first."""
        return self._said.get(party, b"").decode(errors="replace")

    def _listen(self, party: str, heard: int) -> None:
        self._said[party] = b""
        with open(heard, "rb", buffering=0) as pipe:
            while some := pipe.read(1 << 16):
                self._said[party] += some

    def _process(self, party: str) -> Running | None:
        if party == CURATOR:
            return self.curator._process
        return self._live.get(party)

    def _links(self, party: str) -> list[Relay]:
        return [relay for owner, relay in self.relays.items() if party in (owner, CURATOR)]


@contextmanager
def parties(folder: Path) -> Iterator[Parties]:
    """Yield all parties; kill them when the block is left."""
    made = Parties(folder)
    try:
        yield made
    finally:
        made.end()


def _rows(*, seed: int) -> pa.Table:
    """Rows whose ages are unlike any other number."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.uniform(18, 89, _N_ROWS),
            "sex": rng.choice(["Female", "Male"], _N_ROWS),
            "work": rng.choice(["private", "state", "other"], _N_ROWS),
        }
    )
