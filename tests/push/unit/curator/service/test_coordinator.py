import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dppca.common.kernel.attestation.results import Result
from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import (
    DppcaError,
    GarbledSumError,
    LimitError,
    StoreError,
    TooFewRowsError,
)
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.study import Study
from dppca.curator.observability.log import LOGGER
from dppca.curator.service import computing_places, coordinator
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.aggregate import aggregate as aggregate_releases
from dppca.curator.study.study_record import StudyRecord
from tests.support.certificates import new_authority
from tests.support.interleavings import DEADLINE, MASKED_STUDY, OPENERS, SteppedCurator, plain_study
from tests.support.patience import WAIT_S
from tests.support.studies import make_study, numeric_of

FIRST, SECOND = plain_study("first"), plain_study("second")


class Barred(SqliteStore):
    """A store whose disk is full, or hangs, when a test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.full, self.checks = False, 0
        self.entered, self.passes = threading.Event(), threading.Event()
        self.passes.set()

    def create(self, record: StudyRecord) -> None:
        self._pass()
        super().create(record)

    def check(self) -> None:
        self.checks += 1
        self._pass()
        super().check()

    def _pass(self) -> None:
        self.entered.set()
        assert self.passes.wait(WAIT_S)
        if self.full:
            raise StoreError("the disk is full")


def with_studies(
    folder: Path,
    test: Callable[[Barred, StudyCoordinator], Awaitable[None]],
    *,
    stall_s: float = 600.0,
    check_s: float = 600.0,
) -> None:
    async def main() -> None:
        store = Barred(folder)
        signer = make_signer(new_authority().issue(Role.CURATOR, "hub"))
        studies = StudyCoordinator(store, lambda: signer, stall_s=stall_s, check_s=check_s)
        try:
            await test(store, studies)
        finally:
            studies.close()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.01)


def test_only_a_check_makes_a_store_writable_again(tmp_path: Path) -> None:
    async def steps(store: Barred, studies: StudyCoordinator) -> None:
        await studies.create(make_study())
        store.full = True
        with pytest.raises(StoreError):
            await studies.create(make_study(name="other"))
        assert not studies.serving
        # The same study again writes nothing, and so proves nothing.
        _, existed = await studies.create(make_study())
        assert existed
        assert not studies.serving
        running = asyncio.ensure_future(studies.run(tick_s=0.01))
        await until(lambda: store.checks >= 2)  # the first has been answered
        assert not studies.serving
        store.full = False
        await until(lambda: studies.serving)
        running.cancel()

    with_studies(tmp_path, steps)


def test_a_store_is_looked_at_without_anybody_writing(tmp_path: Path) -> None:
    async def steps(store: Barred, studies: StudyCoordinator) -> None:
        store.full = True
        assert studies.serving
        running = asyncio.ensure_future(studies.run(tick_s=0.01))
        await until(lambda: not studies.serving)
        store.full = False
        await until(lambda: studies.serving)
        running.cancel()

    with_studies(tmp_path, steps, check_s=0.0)


def test_a_disk_that_hangs_is_not_writable_while_it_does(tmp_path: Path) -> None:
    async def steps(store: Barred, studies: StudyCoordinator) -> None:
        store.passes.clear()
        waiting = asyncio.ensure_future(studies.create(make_study()))
        await asyncio.to_thread(store.entered.wait)
        await until(lambda: not studies.serving)
        assert not studies.writable
        store.passes.set()
        await waiting
        assert studies.serving

    with_studies(tmp_path, steps, stall_s=0.0)


@contextmanager
def stepped(folder: Path, *complete: Study) -> Iterator[SteppedCurator]:
    """A curator to whose studies all owners have contributed; it looks at the last one first."""
    begun = {study: study.owners for study in complete}
    with closing(SteppedCurator(folder, begun)) as curator:
        yield curator


def fail_for(study: Study, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the decomposition of one study fail, until `MonkeyPatch.undo`."""

    def aggregate(of: Study, *arguments: Any) -> Result:
        if of == study:
            raise error
        return aggregate_releases(of, *arguments)

    monkeypatch.setattr(coordinator, "aggregate", aggregate)


def test_a_defect_stops_the_work_on_one_study_until_the_daemon_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fail_for(SECOND, ZeroDivisionError("a defect"), monkeypatch)
    monkeypatch.setattr(LOGGER, "propagate", True)
    with stepped(tmp_path, FIRST, SECOND) as curator:
        curator.loop.work_off()
        assert curator.record(FIRST).state is StudyState.DECOMPOSED
        assert curator.record(SECOND).state is StudyState.OPEN
        assert curator.coordinator.n_stopped == 1
        assert not curator.daemon.done()
        line = next(each for each in caplog.records if each.message == "study stopped")
        assert line.exc_info is not None
        assert vars(line)["fields"]["study"] == "second"
        monkeypatch.undo()
        curator.tick(DEADLINE)
        assert curator.loop.jobs == [], "it is not tried again"
        curator.restart()
        curator.loop.work_off()
        assert curator.record(SECOND).state is StudyState.DECOMPOSED
        assert curator.coordinator.n_stopped == 0


def test_an_operator_may_abort_a_study_that_a_defect_has_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for(FIRST, ZeroDivisionError("a defect"), monkeypatch)
    with stepped(tmp_path, FIRST) as curator:
        curator.loop.work_off()
        curator.abort(FIRST)
        curator.loop.work_off()
        assert curator.record(FIRST).state is StudyState.ABORTED
        assert curator.coordinator.n_stopped == 0


def test_a_study_that_is_aborted_while_it_is_decomposed_gets_no_result(tmp_path: Path) -> None:
    with stepped(tmp_path, FIRST) as curator:
        [computing] = curator.loop.jobs
        curator.abort(FIRST)
        curator.loop.work_off(but=computing)
        assert curator.record(FIRST).state is StudyState.ABORTED
        curator.loop.work_off()
        ended = curator.record(FIRST)
        assert (ended.state, ended.result) == (StudyState.ABORTED, None)


def test_a_small_study_is_computed_beside_a_large_one_and_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The large one begins first and ends last; a kill meanwhile leaves what was there before."""
    wide = [numeric_of(f"x{number}", 0, 1) for number in range(9)]
    named = {"owners": list(FIRST.owners), "deadline": DEADLINE.isoformat()}
    large, huge = (make_study(wide, name=name, quorum=2, **named) for name in ("large", "huge"))
    small = FIRST.table.layout.n_columns
    assert large.table.layout.n_columns > small
    results = []
    for bound in (small, 10_000):
        monkeypatch.setattr(computing_places, "SMALL_COLUMNS", bound)
        monkeypatch.setattr(computing_places, "count_cores", lambda: 2)
        with stepped(tmp_path / str(bound), FIRST, large, huge) as curator:
            begun = list(curator.loop.jobs)
            assert curator.coordinator.n_computing == ((2, 1) if bound == small else (1, 2))
            curator.restart()
            states = {curator.record(each).state for each in (FIRST, large, huge)}
            assert states == {StudyState.OPEN}
            [slow, *_] = curator.loop.jobs
            if bound == small:
                assert len(begun) == 2
                curator.loop.work_off(but=slow)
                assert curator.record(FIRST).state is StudyState.DECOMPOSED
                assert curator.record(large).state is curator.record(huge).state is StudyState.OPEN
            curator.loop.work_off()
            assert curator.coordinator.n_computing == (0, 0)
            found = [curator.record(each).result for each in (FIRST, large, huge)]
            results.append([each.sha256 for each in found if each is not None])
    assert results[0] == results[1]
    assert len(results[0]) == 3


@pytest.mark.parametrize("error", [StoreError("the disk is full"), LimitError("too large")])
def test_what_fails_is_tried_again_later(
    error: DppcaError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_for(SECOND, error, monkeypatch)
    with stepped(tmp_path, FIRST, SECOND) as curator:
        curator.loop.work_off()
        assert curator.record(FIRST).state is StudyState.DECOMPOSED
        monkeypatch.undo()
        failed = curator.loop.now
        curator.tick(failed + timedelta(seconds=coordinator.RETRY_AFTER_S - 1))
        assert curator.loop.jobs == []
        curator.tick(failed + timedelta(seconds=coordinator.RETRY_AFTER_S))
        curator.loop.work_off()
        assert curator.record(SECOND).state is StudyState.DECOMPOSED


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (GarbledSumError, lifecycle.GARBLED_REASON),
        (TooFewRowsError, lifecycle.TOO_FEW_ROWS_REASON),
    ],
)
def test_sums_that_make_no_result_end_a_study_unless_an_operator_has(
    error: type[DppcaError], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_result(*_: object) -> NoReturn:
        raise error("there is none")

    monkeypatch.setattr(coordinator, "aggregate_masked", no_result)
    for aborted, reason in ((False, why), (True, "no longer wanted")):
        with stepped(tmp_path / str(aborted), MASKED_STUDY) as curator:
            curator.loop.work_off()
            curator.vote(*OPENERS[:3])
            curator.loop.work_off()
            curator.open(OPENERS[0])
            curator.loop.work_off()
            curator.open(OPENERS[-1])
            curator.loop.finish(curator.loop.jobs[0])
            if aborted:
                curator.abort(MASKED_STUDY)
            curator.loop.work_off()
            assert curator.record(MASKED_STUDY).reason == reason
            assert not curator.daemon.done()
