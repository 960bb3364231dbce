"""One study with faults: the actions on its parties, their times, and its end.

::

    curator starts ▸ operator creates the study ▸ stewards contribute, open, ask for the result
                          │
    injectors: the party is held at its step ▸ its files are copied ▸ the fault is done ▸
                          │                      the party goes on ▸ the fault is healed, or lasts
    where the deadline matters: the curator's clock passes it ▸ lasting faults end ▸ operator closes

A steward runs a failed command again, as the messages say, unless its answer is final.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import grpc

from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    BudgetExceededError,
    ChainError,
    ConflictError,
    IdentityError,
    LedgerCorruptError,
    NotReadyError,
    OpeningRefusedError,
    PeerError,
    StudyStateError,
)
from dppca.common.kernel.study import Study
from dppca.common.transport.codec import state_from_wire
from tests.fault_injection.invariants import CuratorState, SiteState, read_curator, read_site
from tests.fault_injection.parties import (
    CURATOR,
    DAY_S,
    OPENERS,
    OWNERS,
    STUDY_NAME,
    ClockSkew,
    CompletedCommand,
    Parties,
)
from tests.support.patience import WAIT_S, wait_until

FINAL = {
    kind.exit_code
    for kind in (
        BudgetExceededError,
        ChainError,
        ConflictError,
        IdentityError,
        LedgerCorruptError,
        NotReadyError,
        OpeningRefusedError,
        StudyStateError,
    )
}
"""Exit codes after which the same command will not succeed soon."""
RESULT_STEPS = ("wait", "download")
_PATIENT = "Trying again until"
_PAUSE_S = 0.3
_STUCK_AFTER_S = 3


class Kind(StrEnum):
    KILL = "kill"
    CUT = "cut"
    SLOW = "slow"
    DISK_FULL = "disk-full"
    CLOCK = "clock"
    LATE = "late"
    NEVER = "never"
    KEY_LOST = "key-lost"


class End(StrEnum):
    ALL = "with a result of all owners"
    QUORUM = "at the deadline, with a result of the others"
    ABORTED = "without a result and with a reason"
    CLOCK_ABORTED = "likewise, by the wrong clock of the curator"
    STUCK = "not by its deadline, but once the curator can write again"


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes
    ----------
    party
        ``curator``, an owner, or ``opener-1`` or ``opener-2``: the same owners when they open.
    steps
        Its steps in order; empty: from the beginning. Only a curator has more than one.
    lasts_s
        None: until the next step that has it, or until the study has ended.
    charges, has_result
        Expected number of the owner's charges, None if it depends on timing; True if the owner can
        fetch the result in the end.
    """

    party: str
    kind: Kind
    steps: tuple[str, ...] = ()
    lasts_s: float | None = None
    offset_s: int = 2 * DAY_S
    charges: int | None = 1
    has_result: bool = True

    @property
    def host(self) -> str:
        """The party whose machine has the fault."""
        return self.party.replace("opener", "owner")

    @property
    def command(self) -> str:
        """The owner's command that contains its step."""
        if self.party != self.host:
            return "open"
        return "components" if self.steps and self.steps[0] in RESULT_STEPS else "contribute"

    def __str__(self) -> str:
        days = f"{self.offset_s // DAY_S:+d}d" if self.kind is Kind.CLOCK else ""
        lasts = f":{self.lasts_s:g}s" if self.lasts_s else ""
        step = f"@{'+'.join(self.steps)}" if self.steps else ""
        return f"{self.party}:{self.kind}{days}{step}{lasts}"


@dataclass
class FaultyStudy:
    """A study and the faults in it; run it once.

    ``sites_before`` and ``curator_before`` have a party's state at its fault;
    ``is_open_after_deadline`` is True if the study had not ended once its deadline had passed.
    """

    parties: Parties
    faults: Sequence[Fault]
    end: End
    masked: bool
    quorum: int
    sites_before: dict[str, SiteState] = field(default_factory=dict)
    curator_before: list[CuratorState] = field(default_factory=list)
    is_open_after_deadline: bool = False
    _done: set[tuple[str, str]] = field(default_factory=set)
    _held: set[str] = field(default_factory=set)
    _struck: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Study:
        """Run the study to its end, stop the curator, and return the study."""
        curator = [fault for fault in self.faults if fault.party == CURATOR]
        holds = [step for fault in curator for step in fault.steps]
        kills = any(fault.kind is Kind.KILL for fault in curator)
        self.parties.start_curator(*(holds[:1] if kills else holds))
        self.study = self.parties.make_study(masked=self.masked, quorum=self.quorum)
        created = self.parties.operate("create", str(self.parties.folder / "study.json"), "--yes")
        assert created.code == 0, created.message
        with ThreadPoolExecutor(2 * len(OWNERS) + 2) as self._pool:
            try:
                self._play()
            except BaseException as error:
                told = {
                    f"{party}: {each.message}" for party, each in self.parties.ended if each.code
                }
                error.add_note("\n".join(["what parties were told:", *sorted(told)]))
                self._over.set()
                self.parties.end()
                raise
        assert self.parties.curator.terminate() == 0
        return self.study

    def _play(self) -> None:
        for fault in self.faults:
            if not fault.steps:
                self._set(fault, on=True)
        injectors = [self._pool.submit(self._inject, each) for each in self.faults if each.steps]
        present = [owner for owner in OWNERS if not self._is_absent(owner)]
        stewards = [self._pool.submit(self._contribute, owner) for owner in present]
        if self.end not in (End.ALL, End.CLOCK_ABORTED):
            self._wait(lambda: all(map(self._rests, present)), *injectors, *stewards)
            self.parties.curator.move_clock()
            if self.end is End.STUCK:
                if CURATOR in self._struck:  # else they try again until it can write
                    self._join(*stewards)
                self.is_open_after_deadline = self._state() is StudyState.OPEN
            else:
                self._settle()
            for fault in self.faults:
                if fault.lasts_s is None:
                    self._set(fault, on=False)
            for fault in self.faults:
                if fault.kind is Kind.LATE:
                    (self._contribute if fault.party in OWNERS else self._ask)(fault.host)
        self._join(*stewards, beside=injectors)
        if self._settle() is StudyState.DECOMPOSED:
            if self.end is End.STUCK:  # they were told to ask again later
                self._join(*(self._pool.submit(self._ask, owner) for owner in OWNERS))
            self._insist("operator", lambda: self.parties.operate("close", STUDY_NAME))
        self._over.set()
        self._join(*injectors)

    # The stewards

    def _contribute(self, owner: str) -> None:
        if self.end is End.CLOCK_ABORTED and owner != OWNERS[0]:
            # Contributions that wait together are stored together: all of them in time.
            wait_until(lambda: CURATOR in self._struck or self._over.is_set())
        fault = self._fault_of(owner)
        digest = ("--digest", self.study.digest) if self.masked else ()
        self._command(owner, "contribute", STUDY_NAME, "--yes", *digest)
        if fault is not None and fault.kind is Kind.KEY_LOST:
            self.parties.lose_key(owner)
        if fault is None or fault.party in OWNERS or fault.kind not in (Kind.LATE, Kind.NEVER):
            self._ask(owner)

    def _ask(self, owner: str) -> None:
        stuck = self.end is End.STUCK and not self._over.is_set()
        patience = ("--wait", f"{_STUCK_AFTER_S if stuck else WAIT_S:g}")
        if self.masked and owner in OPENERS:
            self._command(owner, "open", STUDY_NAME, *patience)
        self._command(owner, "components", STUDY_NAME, *patience)

    def _command(self, owner: str, *line: str) -> None:
        self._insist(owner, lambda: self._run(owner, line))
        self._done.add((owner, line[0]))

    def _run(self, owner: str, line: tuple[str, ...]) -> CompletedCommand:
        fault, hold, skew = self._fault_of(owner), "", None
        if fault is None:
            return self.parties.run(owner, *line)
        if fault.steps and line[0] == fault.command and owner not in self._held:
            self._held.add(owner)
            hold = fault.steps[0]
        if fault.kind is Kind.CLOCK and (owner in self._held or not fault.steps):
            skew = ClockSkew(fault.offset_s, from_start=not hold)
        return self.parties.run(owner, *line, hold=hold, skew=skew)

    def _insist(self, party: str, command: Callable[[], CompletedCommand]) -> None:
        deadline = time.monotonic() + WAIT_S
        while (ended := command()).code:
            self._told.add(party)
            if ended.code in FINAL:
                return
            assert time.monotonic() < deadline, f"{party}: {ended.message}"
            time.sleep(_PAUSE_S)

    def _fault_of(self, owner: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.host == owner), None)

    def _is_absent(self, owner: str) -> bool:
        fault = self._fault_of(owner)
        return fault is not None and fault.party in OWNERS and fault.kind in (Kind.LATE, Kind.NEVER)

    def _rests(self, owner: str) -> bool:
        """Return True if an owner does nothing more until the deadline."""
        fault = self._fault_of(owner)
        if self.end is End.STUCK:
            steps = any(each.steps for each in self.faults)
            return CURATOR in self._struck if steps else _PATIENT in self.parties.said(owner)
        if fault is not None and (fault.party in OWNERS or fault.kind is Kind.KEY_LOST):
            return owner in self._struck | self._told
        opens = self.masked and owner in OPENERS and fault is None
        return (owner, "open" if opens else "contribute") in self._done

    # The faults

    def _inject(self, fault: Fault) -> None:
        starting: Future[None] | None = None
        for place, step in enumerate(fault.steps):
            self._wait_until_held(fault, step)
            if place and fault.lasts_s is None:
                self._set(fault, on=False)
            self._look(fault)
            if fault.kind is Kind.KILL:
                self.parties.kill(fault.host)
                if fault.party == CURATOR:
                    if starting is not None:
                        with suppress(PeerError):  # it may have been killed before it served
                            starting.result()
                    following = fault.steps[place + 1 : place + 2]
                    starting = self._pool.submit(self.parties.start_curator, *following)
            else:
                self._set(fault, on=True)
                self.parties.resume(fault.host, move_clock=fault.kind is Kind.CLOCK)
            self._struck.add(fault.host)
            if fault.lasts_s is not None:
                self._over.wait(fault.lasts_s)
                self._set(fault, on=False)
        if starting is not None:
            starting.result()

    def _wait_until_held(self, fault: Fault, step: str) -> None:
        def comes() -> bool:
            assert step == "close" or not self._over.is_set(), f"{fault} never came to {step}"
            return self.parties.is_held(fault.host)

        wait_until(comes, said=lambda: f"{fault} never came to {step}")

    def _look(self, fault: Fault) -> None:
        copy = self.parties.folder / f"{fault.host}-before-{len(self.curator_before)}"
        self.parties.copy(fault.host, copy)
        if fault.party == CURATOR:
            self.curator_before.append(read_curator(copy, self.study))
        else:
            self.sites_before[fault.host] = read_site(copy, self.study)

    def _set(self, fault: Fault, *, on: bool) -> None:
        match fault.kind:
            case Kind.CUT:
                self.parties.cut(fault.host, on=on)
            case Kind.SLOW:
                self.parties.slow(fault.host, on=on)
            case Kind.DISK_FULL:
                self.parties.fill(fault.host, on=on)

    # The end

    def _state(self) -> StudyState | None:
        with suppress(grpc.RpcError):  # it is being started again
            answer = self.parties.curator.operator().result(self.study, wait_s=0)
            return state_from_wire(answer.state)
        return None

    def _settle(self) -> StudyState:
        """Wait until the study has stopped waiting, and return its state."""

        def settled() -> StudyState | None:
            state = self._state()
            return None if state in (StudyState.OPEN, StudyState.SEALED) else state

        return wait_until(settled)

    def _join(self, *futures: Future[None], beside: Sequence[Future[None]] = ()) -> None:
        self._wait(lambda: all(each.done() for each in futures), *futures, *beside)

    def _wait(self, condition: Callable[[], bool], *futures: Future[None]) -> None:
        """Wait for a condition; raise an error of a thread here."""

        def met() -> bool:
            for each in futures:
                if each.done():
                    each.result()
            return condition()

        wait_until(met, hang_s=2 * WAIT_S)
