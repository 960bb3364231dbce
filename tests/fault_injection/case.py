"""One cell of the table: a study, a fault at its step, and what came of both.

::

    curator starts ▸ operator creates the study ▸ every steward contributes and waits for the result
                          │
    injector: the party is held at the step ▸ its files are copied ▸ the fault is done ▸ it goes on
                          │                                          … and is healed, where it is
    all but the party have an answer ▸ a lasting fault ends ▸ operator closes ▸ files are checked
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dppca.common.errors import DppcaError
from dppca.common.messages import StudyState
from tests.fault_injection.catalogue import End, Expected, expected
from tests.fault_injection.check import Evidence, find_end, problems
from tests.fault_injection.driver import OwnerDriver
from tests.fault_injection.evidence import HubEvidence, SiteEvidence, read_hub, read_site
from tests.fault_injection.fixture import OPENERS, OWNERS, STUDY_NAME, Fixture, begin
from tests.fault_injection.runtime import KILLED, ClockSkew, CompletedCommand, Runtime
from tests.fault_injection.spec import OWNERS as ALL_OWNERS
from tests.fault_injection.spec import Fault, FaultKind

LONG_DEADLINE_S = 300.0
"""Deadline of a study that should not run into it."""

_HELD_TIMEOUT_S = 240.0
_SETTLE_TIMEOUT_S = 120.0
_STUCK_AFTER_S = 5.0
_PAUSE_S = 0.5
_DEFECTS = {1, 2, 70}


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What a cell came to.

    Attributes
    ----------
    end
        None where the study has none.
    charges, commands
        By owner; how often it was charged, and how many commands its steward needed.
    said
        What parties were told while something was wrong, each once: ``PARTY: message``.
    problems
        Promises that were not kept; empty where all were.
    too_slow
        Whether an owner to which nothing was done came after the deadline: the machine is slow,
        and the cell says nothing.
    """

    fault: Fault
    expected: Expected
    end: End | None
    charges: Mapping[str, int]
    commands: Mapping[str, int]
    said: tuple[str, ...]
    problems: tuple[str, ...]
    too_slow: bool
    seconds: float


class Case:
    """One run of one fault; use it once.

    Parameters
    ----------
    deadline_s
        Deadline of the study, where the fault should make it run into that.
    """

    def __init__(self, fault: Fault, scene: Fixture, stage: Runtime, *, deadline_s: float) -> None:
        self._fault = fault
        self._expected = expected(fault)
        self._stage = stage
        self._scene = scene
        self._deadline_s = deadline_s if self._expected.short_deadline else LONG_DEADLINE_S
        self._deadline = 0.0
        self._over = threading.Event()
        self._said: dict[str, None] = {}
        self._problems: list[str] = []
        self._commands = dict.fromkeys(OWNERS, 0)
        self._before: SiteEvidence | None = None
        self._hub_before: HubEvidence | None = None

    def run(self) -> CaseOutcome:
        """Run the study with the fault, and look at what is left."""
        started = time.monotonic()
        begun = self._begin()
        state = self._study() if begun else ""
        self._end_curator()
        study = self._scene.study
        sites, hub = {owner: self._site(owner, "after") for owner in OWNERS}, self._hub("after")
        stored = {o: site.stored.payload for o, site in sites.items() if site.stored is not None}
        for opener, site in sites.items():
            totals = () if site.sums is None else site.sums.totals
            stored |= {f"{opener}.{stream}": total for stream, total in totals}
        evidence = Evidence(
            begun=begun,
            sites=sites,
            hub=hub,
            state_at_deadline=state,
            before=self._before,
            hub_before=self._hub_before,
            said=tuple(self._said),
            again=self._stage.pool(stored) if hub.result else b"",
        )
        found = problems(study, self._fault, self._expected, evidence)
        return CaseOutcome(
            fault=self._fault,
            expected=self._expected,
            end=find_end(study, evidence),
            charges={owner: site.charges for owner, site in sites.items()},
            commands=self._commands,
            said=tuple(self._said),
            problems=(*self._problems, *found),
            too_slow=self._is_too_slow(evidence),
            seconds=time.monotonic() - started,
        )

    def cancel(self) -> None:
        """Give up: kill every party, so that `run` fails soon; from another thread."""
        self._over.set()
        self._stage.end()

    def _is_too_slow(self, evidence: Evidence) -> bool:
        if self._fault.is_of_opener:
            return self._expected.short_deadline and len(evidence.hub.payloads) < len(OWNERS)
        unharmed = {*OWNERS} - {self._fault.party}
        if self._expected.end is End.QUORUM:
            return not evidence.hub.payloads.keys() >= unharmed
        uncharged = [owner for owner in unharmed if not evidence.sites[owner].charges]
        return self._expected.end is End.STUCK and bool(uncharged)

    # The study

    def _begin(self) -> bool:
        """Start the curator and create the study; False where that is refused."""
        fault = self._fault
        mine = fault.is_of_curator
        refused = self._stage.start_curator(
            self._scene,
            hold=fault.step if mine else None,
            skew=ClockSkew(fault.offset_s, from_start=fault.step is None)
            if mine and fault.kind is FaultKind.CLOCK
            else None,
        )
        if refused is None:
            self._scene = begin(
                self._scene, deadline_s=self._deadline_s, identities=self._identities()
            )
            self._deadline = time.monotonic() + self._deadline_s
            refused = self._stage.operate("create", str(self._scene.study_file))
        if refused.code:
            self._report("operator", refused)
        return refused.code == 0

    def _identities(self) -> dict[str, Mapping[str, Any]]:
        """What every site says of itself for a study with ``trust: aggregate``."""
        if not self._fault.is_masked:
            return {}
        return {
            owner: self._stage.run(
                owner, "identity", STUDY_NAME, *(["--opener"] if owner in OPENERS else [])
            ).document
            for owner in OWNERS
        }

    def _study(self) -> str:
        """Everybody's part; the study's state when all unharmed parties had their answer."""
        fault = self._fault
        if fault.step is None and fault.kind is FaultKind.DISK_FULL:
            self._stage.fill(fault.party)
        with ThreadPoolExecutor(len(OWNERS) + 1) as pool:
            try:
                injector = pool.submit(self._inject)
                at_work = {
                    owner: pool.submit(self._work, owner)
                    for owner in OWNERS
                    if not self._is_absent(owner)
                }
                _join(future for owner, future in at_work.items() if owner != fault.host)
                state = self._state_after_deadline()
                if fault.kind is FaultKind.LATE:
                    late = self._ask_again if fault.is_of_opener else self._work
                    at_work[fault.party] = pool.submit(late, fault.host)
                if fault.duration_s is None:
                    self._heal()
                _join(at_work.values())
                settled = self._await(_is_settled)
                self._over.set()
                if settled == "decomposed":
                    if self._expected.end is End.STUCK:  # they were told to ask again later
                        _join([pool.submit(self._ask_again, owner) for owner in OWNERS])
                    self._close()
                injector.result()
            finally:
                self._over.set()
        return state

    def _work(self, owner: str) -> None:
        steward = self._driver(owner)
        left_s = max(0.0, self._deadline - time.monotonic())
        stuck = self._expected.end is End.STUCK
        wait_s = left_s + (_STUCK_AFTER_S if stuck else _SETTLE_TIMEOUT_S)
        steward.contribute()
        kind = self._fault.kind if self._fault.is_of_opener and steward.fault else None
        if kind is FaultKind.KEY_LOST:
            self._stage.lose_key(owner)
        if kind not in (FaultKind.NEVER, FaultKind.LATE):
            steward.ask(wait_s=wait_s)
        self._commands[owner] += steward.commands

    def _ask_again(self, owner: str) -> None:
        steward = self._driver(owner)
        steward.ask(wait_s=_SETTLE_TIMEOUT_S)
        self._commands[owner] += steward.commands

    def _driver(self, owner: str) -> OwnerDriver:
        return OwnerDriver(
            owner=owner,
            stage=self._stage,
            fault=self._fault if self._fault.host == owner else None,
            digest=self._scene.study.digest if self._fault.is_masked else "",
            opens=self._fault.is_masked and owner in OPENERS,
            until=self._deadline + _SETTLE_TIMEOUT_S,
            tell=self._report,
        )

    def _is_absent(self, owner: str) -> bool:
        """Whether an owner does not begin with the others."""
        return self._fault.kind in (FaultKind.NEVER, FaultKind.LATE) and self._fault.party in (
            owner,
            ALL_OWNERS,
        )

    def _state_after_deadline(self) -> str:
        """State of the study when it should have ended by its deadline, if it was short."""
        if not self._expected.short_deadline:
            return ""
        self._over.wait(max(0.0, self._deadline + _PAUSE_S - time.monotonic()))
        if self._expected.end is End.STUCK:
            return self._state()
        return self._await(_is_settled)

    # The fault

    def _inject(self) -> None:
        fault, stage = self._fault, self._stage
        if fault.step is not None:
            if not self._comes_to_its_step():
                return
            if fault.is_of_curator:
                self._hub_before = self._hub("before")
            else:
                self._before = self._site(fault.host, "before")
            match fault.kind:
                case FaultKind.KILL:
                    stage.kill(fault.host)
                    if fault.is_of_curator:
                        stage.start_curator(self._scene)
                    return
                case FaultKind.PARTITION:
                    stage.cut(fault.host)
                case FaultKind.SLOW:
                    stage.slow(fault.host)
                case FaultKind.DISK_FULL:
                    stage.fill(fault.host)
            stage.resume(fault.host, skew=fault.kind is FaultKind.CLOCK)
        if fault.duration_s is not None:
            self._over.wait(fault.duration_s)
            self._heal()

    def _comes_to_its_step(self) -> bool:
        fault, deadline = self._fault, time.monotonic() + _HELD_TIMEOUT_S
        while not self._stage.is_held(fault.host):
            if time.monotonic() > deadline or (self._over.is_set() and fault.step != "close"):
                self._problems.append(f"{fault.party} never came to {fault.step}")
                return False
            time.sleep(_PAUSE_S / 10)
        return True

    def _heal(self) -> None:
        fault, stage = self._fault, self._stage
        match fault.kind:
            case FaultKind.PARTITION:
                stage.heal(fault.host)
            case FaultKind.SLOW:
                stage.hurry(fault.host)
            case FaultKind.DISK_FULL:
                stage.free(fault.host)

    # The operator

    def _close(self) -> None:
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while (ended := self._stage.operate("close", STUDY_NAME)).code:
            self._report("operator", ended)
            if time.monotonic() > deadline:
                return  # `problems` will say so
            time.sleep(_PAUSE_S)

    def _await(self, met: Callable[[str], bool]) -> str:
        """The study's state once a condition is met, or when that has taken too long."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while not met(state := self._state()) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
        return state

    def _state(self) -> str:
        shown = self._stage.operate("show", STUDY_NAME)
        if shown.code:
            self._report("operator", shown)
            return ""
        return str(shown.document["state"])

    def _end_curator(self) -> None:
        try:
            ended = self._stage.stop_curator()
        except DppcaError as error:
            self._problems.append(f"the curator did not stop: {error}")
            return
        if "Traceback" in self._stage.log():
            self._problems.append("the curator's log holds a traceback")
        if ended.code not in (0, *KILLED) and self._expected.end is not End.NOT_BEGUN:
            self._problems.append(f"the curator ended with {ended.code}: {ended.message}")

    def _report(self, party: str, ended: CompletedCommand) -> None:
        message = ended.message.replace(f"{self._scene.folder}/", "")
        self._said[f"{party}: {message}"] = None
        crashed = ended.code < 0 and ended.code not in KILLED
        if crashed or ended.code in _DEFECTS or "Traceback" in ended.said:
            self._problems.append(f"{party}'s command ended with {ended.code}: {ended.message}")

    def _site(self, owner: str, when: str) -> SiteEvidence:
        folder = self._scene.folder / "evidence" / f"{owner}-{when}"
        folder.mkdir(parents=True)
        self._stage.copy_site(owner, folder)
        return read_site(folder, self._scene.study)

    def _hub(self, when: str) -> HubEvidence:
        folder = self._scene.folder / "evidence" / f"curator-{when}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._stage.copy_state(folder)
        return read_hub(folder, self._scene.study)


def _is_settled(state: str) -> bool:
    return state not in (StudyState.OPEN, StudyState.SEALED)


def _join(futures: Iterable[Future[None]]) -> None:
    for future in futures:
        future.result()
