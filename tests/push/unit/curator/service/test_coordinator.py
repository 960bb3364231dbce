from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from dppca.common.attestation.signatures import make_signer
from dppca.common.errors import StoreError
from dppca.common.transport.tls import Role
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.store import SqliteStore
from dppca.curator.study.study_record import StudyRecord
from tests.support.certificates import new_authority
from tests.support.patience import WAIT_S
from tests.support.studies import make_study


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
