"""A run on an engine that is none: what is started when, what again, and that all is removed."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dppca.common.kernel.errors import PeerError, TooManyRowsError, UnreachableError
from dppca.deploy.simulation.containers.drive import MOST_STARTS, run_plan
from dppca.deploy.simulation.containers.engine import ContainerState
from dppca.deploy.simulation.containers.services import ContainerPlan, Service, read_plan
from tests.support.checkout import ROOT

KILLED = 137


@dataclass
class FakeEngine:
    """Containers that end at the next look, each with its next code; a daemon when it is ended."""

    codes: dict[str, list[int]] = field(default_factory=dict)
    daemon: str = "curator"
    ended_by: str = "operator"
    made: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    now: dict[str, ContainerState] = field(default_factory=dict)
    removed: bool = False
    on_start: dict[str, threading.Event] = field(default_factory=dict)
    daemon_dies_at: str = ""
    sick: bool = False

    def make_network(self, name: str) -> None:
        self.made.append(f"network {name}")

    def make_volume(self, name: str) -> None:
        self.made.append(f"volume {name}")

    def create(self, service: Service) -> None:
        self.made.append(service.name)

    def start(self, name: str) -> Iterator[str]:
        assert name in self.made, "it was created"
        self.started.append(name)
        self.now[name] = ContainerState(
            True, healthy=name == self.daemon and not self.sick, sick=self.sick
        )
        if name == self.daemon_dies_at:
            self.daemon_dies_at = ""
            self.now[self.daemon] = ContainerState(False, code=KILLED)
        if event := self.on_start.get(name):
            event.set()
        return iter([f"step: {name}", "error: more rows than max_rows"])

    def states(self) -> dict[str, ContainerState]:
        seen = dict(self.now)
        for name, state in self.now.items():
            if state.running and name != self.daemon:
                left = self.codes.get(name, [])
                code = left.pop(0) if left else 0
                self.now[name] = ContainerState(False, code=code)
                if name == self.ended_by and code == 0:
                    self.now[self.daemon] = ContainerState(False, code=0)
        return seen

    def remove(self) -> None:
        assert not self.removed, "once"
        self.removed = True


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dppca.deploy.simulation.containers.drive._LOOK_S", 0)


@pytest.fixture(scope="module")
def plan() -> ContainerPlan:
    return read_plan((ROOT / "docker-compose.yml").read_text(), Path("/none"), variables={})


def run(
    plan: ContainerPlan, engine: FakeEngine, stopping: threading.Event | None = None
) -> list[str]:
    told: list[str] = []
    run_plan(
        plan,
        engine,
        told=lambda name, line: told.append(f"{name}: {line}"),
        stopping=stopping or threading.Event(),
    )
    return told


def test_each_container_starts_after_what_it_needs_and_once(plan: ContainerPlan) -> None:
    engine = FakeEngine()
    told = run(plan, engine)
    assert sorted(engine.started) == sorted(each.name for each in plan.services)
    place = {name: number for number, name in enumerate(engine.started)}
    for service in plan.services:
        needed = [*service.needs, *([service.beside] if service.beside else [])]
        assert all(place[each] < place[service.name] for each in needed)
    networks = [f"network {name}" for name in plan.networks]
    volumes = [f"volume {name}" for name in plan.volumes]
    assert engine.made[: len(networks) + len(volumes)] == [*networks, *volumes]
    assert {f"{each.name}: step: {each.name}" for each in plan.services} <= {*told}
    assert engine.removed


def test_an_owner_that_was_killed_and_one_that_reached_nobody_start_again(
    plan: ContainerPlan,
) -> None:
    engine = FakeEngine({"owner-2": [KILLED], "owner-3": [UnreachableError.exit_code]})
    told = run(plan, engine)
    assert [engine.started.count(f"owner-{n}") for n in (1, 2, 3)] == [1, 2, 2]
    assert "owner-2: started again (1)" in told
    assert engine.made.count("owner-2") == 1, "the same container: its volumes hold what was done"


@pytest.mark.parametrize("moment", ["owner-2", "operator"])
def test_a_killed_curator_starts_again_and_the_operator_after_it(
    plan: ContainerPlan, moment: str
) -> None:
    engine = FakeEngine({"operator": [KILLED]} if moment == "operator" else {})
    engine.daemon_dies_at = moment
    run(plan, engine)
    assert engine.started.count("curator") == 2
    last = len(engine.started) - 1 - engine.started[::-1].index("curator")
    assert engine.started.index("operator", last) > last or moment == "owner-2"
    assert engine.removed


def test_a_refusal_ends_the_run_with_its_own_words(plan: ContainerPlan) -> None:
    engine = FakeEngine({"owner-2": [TooManyRowsError.exit_code]})
    with pytest.raises(TooManyRowsError, match=r"owner-2: (?s:.*)more rows than max_rows"):
        run(plan, engine)
    assert engine.started.count("owner-2") == 1
    assert engine.removed


def test_what_is_killed_each_time_is_given_up(plan: ContainerPlan) -> None:
    engine = FakeEngine({"owner-1": [KILLED] * 99})
    with pytest.raises(PeerError, match=f"exit code {KILLED} after {MOST_STARTS} starts"):
        run(plan, engine)
    assert engine.started.count("owner-1") == MOST_STARTS
    assert engine.removed


def test_a_curator_that_runs_and_does_not_answer_ends_the_run(plan: ContainerPlan) -> None:
    engine = FakeEngine(sick=True)
    with pytest.raises(PeerError, match="runs and does not answer"):
        run(plan, engine)
    assert engine.removed


@pytest.mark.parametrize("moment", ["", "rows", "certificates", "owner-1", "operator"])
def test_an_interrupt_makes_nothing_more_and_removes_everything(
    plan: ContainerPlan, moment: str
) -> None:
    stopping = threading.Event()
    engine = FakeEngine(on_start={moment: stopping})
    if not moment:
        stopping.set()
    with pytest.raises(KeyboardInterrupt):
        run(plan, engine, stopping)
    assert engine.started[-1:] == ([moment] if moment else [])
    assert engine.made if moment else not engine.made
    assert engine.removed


def test_an_engine_that_fails_while_it_makes_something_is_cleaned_too(plan: ContainerPlan) -> None:
    class Failing(FakeEngine):
        def make_volume(self, name: str) -> None:
            raise UnreachableError("the Docker engine: no space left on device")

    engine = Failing()
    with pytest.raises(UnreachableError):
        run(plan, engine)
    assert engine.removed
