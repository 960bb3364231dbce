"""Many cells, a few at a time."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from dppca.common.errors import DppcaError, PeerError
from tests.fault_injection.case import Case, CaseOutcome
from tests.fault_injection.catalogue import expected
from tests.fault_injection.fixture import Fixture, make_fixture
from tests.fault_injection.runtime import ENDED, Runtime
from tests.fault_injection.spec import Fault

AT_ONCE = 2
DEADLINE_S = 15.0
"""Deadline of a study that is to run into it, at first: see `run_cell`."""
_LONGEST_DEADLINE_S = 120.0

StageMaker = Callable[[Fixture, Fault], AbstractContextManager[Runtime]]


class Suite:
    """Runs cells; may be cancelled.

    Parameters
    ----------
    hosts
        Names and addresses under which the runtime reaches the curator.
    """

    def __init__(
        self, stage: StageMaker, *, hosts: tuple[str, ...], deadline_s: float = DEADLINE_S
    ) -> None:
        self._stage = stage
        self._hosts = hosts
        self._deadline_s = deadline_s
        self._live: set[Case] = set()
        self._lock = threading.Lock()
        self._cancelled = False

    def run(
        self,
        faults: Sequence[Fault],
        *,
        at_once: int = AT_ONCE,
        done: Callable[[CaseOutcome], None] = lambda _: None,
    ) -> tuple[CaseOutcome, ...]:
        """Run cells, ``at_once`` at a time; outcomes in the order of the faults.

        A cell that could not be run at all is an outcome with a problem. Interrupted, this kills
        all parties before it passes the interruption on.
        """

        def run(fault: Fault) -> CaseOutcome:
            try:
                outcome = self.run_case(fault)
            except DppcaError as error:
                outcome = _not_run(fault, error)
            done(outcome)
            return outcome

        pool = ThreadPoolExecutor(at_once)
        try:
            return tuple(pool.map(run, faults))
        except BaseException:
            self._cancel()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def run_case(self, fault: Fault) -> CaseOutcome:
        """Run one cell.

        Where an owner to which nothing was done came after the deadline, the machine is too slow
        for it and the cell has shown nothing: it is run again with a deadline of twice the length.
        """
        deadline_s = self._deadline_s
        while True:
            outcome = self._run_once(fault, deadline_s)
            deadline_s *= 2
            if not outcome.too_slow or deadline_s > _LONGEST_DEADLINE_S:
                return outcome

    def _run_once(self, fault: Fault, deadline_s: float) -> CaseOutcome:
        with tempfile.TemporaryDirectory(prefix="dppca-faults-") as folder:
            scene = make_fixture(Path(folder), hosts=self._hosts)
            with self._stage(scene, fault) as stage:
                cell = Case(fault, scene, stage, deadline_s=deadline_s)
                with self._lock:
                    if self._cancelled:
                        raise PeerError(ENDED)
                    self._live.add(cell)
                try:
                    return cell.run()
                finally:
                    with self._lock:
                        self._live.discard(cell)

    def _cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            live = list(self._live)
        for cell in live:
            cell.cancel()


def _not_run(fault: Fault, error: DppcaError) -> CaseOutcome:
    return CaseOutcome(
        fault=fault,
        expected=expected(fault),
        end=None,
        charges={},
        commands={},
        said=(),
        problems=(f"it could not be run: {error}",),
        too_slow=False,
        seconds=0.0,
    )
