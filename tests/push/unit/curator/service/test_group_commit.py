"""Contributions that wait are stored together, and decided upon one by one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.errors import ConflictError, DppcaError, StoreError, UnknownStudyError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.service.group_commit import GroupCommit, PendingContribution
from dppca.curator.store import Spool, SqliteStore
from dppca.curator.study import admission, lifecycle
from dppca.curator.study.admission import UploadDecision
from dppca.curator.study.study_record import Header, StudyRecord
from tests.support.census import header_of, make_release
from tests.support.certificates import new_authority
from tests.support.patience import WAIT_S
from tests.support.studies import make_study

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OWNERS = [f"owner-{number}" for number in range(6)]
STUDY = make_study(owners=OWNERS)


class Watched(SqliteStore):
    """A store that remembers what it saved, and fails or waits when a test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.saved: list[tuple[str, ...]] = []
        self.tried: list[tuple[str, ...]] = []
        self.fails: Callable[[StudyRecord], bool] = lambda _: False
        self.before: Callable[[], None] = lambda: None

    def save(self, record: StudyRecord, *uploads: Spool) -> None:
        known = self._records[record.digest].contributed
        new = tuple(owner for owner in record.contributed if owner not in known)
        self.tried.append(new)
        self.before()
        if self.fails(record):
            raise StoreError("the disk is full")
        super().save(record, *uploads)
        self.saved.append(new)


@dataclass
class Table:
    """A store, a group commit, and what waits in it."""

    store: Watched
    stack: ExitStack
    group_commit: GroupCommit = field(init=False)

    def __post_init__(self) -> None:
        self.group_commit = GroupCommit(self.store, lambda: NOW)

    def upload(self, study: Study, seed: int) -> Spool:
        spool = self.stack.enter_context(self.store.blobs.spool())
        spool.write(make_release(study, seed=seed).payload())
        return spool

    def add(self, owner: str, seed: int, study: Study = STUDY) -> PendingContribution:
        header = header_of(make_release(study, seed=seed), owner)
        return self.group_commit.add(header, self.upload(study, seed), calibrate(study))

    def outcome(self, pending: PendingContribution) -> UploadDecision | DppcaError:
        try:
            return self.group_commit.commit(pending)[1]
        except DppcaError as error:
            return error


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    with ExitStack() as stack:
        store = Watched(tmp_path)
        stack.callback(store.close)
        store.create(lifecycle.create(None, STUDY, now=NOW))
        yield Table(store, stack)


def test_all_that_wait_are_stored_in_one_transaction(table: Table) -> None:
    waiting = [table.add(owner, seed) for seed, owner in enumerate(reversed(OWNERS))]
    assert [table.outcome(each) for each in waiting] == [UploadDecision.ACCEPT] * len(OWNERS)
    assert table.store.saved == [tuple(OWNERS)]
    record = table.store.study(bytes.fromhex(STUDY.digest))
    assert record is not None
    assert record.contributed == tuple(OWNERS), "by name, whatever came first"
    assert record.complete
    for each in waiting:
        kept = record.find_contribution(each.header.owner)
        assert kept is not None
        assert table.store.blobs.read(kept.sha256) == table.store.blobs.read(each.header.sha256)


def test_what_one_is_refused_for_touches_no_other(table: Table) -> None:
    first, again = table.add("owner-1", 1), table.add("owner-1", 1)
    other = table.add("owner-1", 2)
    stranger, last = table.add("nobody", 3), table.add("owner-2", 4)
    assert table.outcome(first) is UploadDecision.ACCEPT
    assert table.outcome(again) is UploadDecision.ALREADY_STORED
    assert isinstance(table.outcome(other), ConflictError)
    assert isinstance(table.outcome(stranger), UnknownStudyError)
    assert table.outcome(last) is UploadDecision.ACCEPT
    assert table.store.saved == [("owner-1", "owner-2")]


def test_nobody_is_answered_before_what_holds_them_is_durable(table: Table) -> None:
    waiting = [table.add("owner-1", 1), table.add("owner-1", 1), table.add("nobody", 2)]
    seen: list[object] = []
    table.store.before = lambda: seen.extend(each.outcome for each in waiting)
    table.group_commit.commit(waiting[0])
    assert seen == [None, None, None]
    assert all(each.outcome is not None for each in waiting)


def test_one_that_cannot_be_stored_fails_alone(table: Table) -> None:
    waiting = [table.add(owner, seed) for seed, owner in enumerate(OWNERS)]
    table.store.fails = lambda record: "owner-3" in record.contributed
    found = {each.header.owner: table.outcome(each) for each in waiting}
    assert isinstance(found.pop("owner-3"), StoreError)
    assert set(found.values()) == {UploadDecision.ACCEPT}
    assert table.store.tried[0] == tuple(OWNERS)
    assert table.store.saved == [(owner,) for owner in OWNERS if owner != "owner-3"]


def test_a_defect_that_one_meets_is_told_to_it_alone(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contribute(record: StudyRecord, header: Header, *rest: Any, **named: Any) -> Any:
        if header.owner == "owner-3":
            raise ZeroDivisionError
        return accept(record, header, *rest, **named)

    accept = admission.contribute
    monkeypatch.setattr(admission, "contribute", contribute)
    waiting = [table.add(owner, seed) for seed, owner in enumerate(OWNERS)]
    for each in waiting:
        if each.header.owner == "owner-3":
            with pytest.raises(ZeroDivisionError):
                table.outcome(each)
        else:
            assert table.outcome(each) is UploadDecision.ACCEPT


def test_studies_do_not_wait_for_one_another(table: Table) -> None:
    other = make_study(name="other", owners=OWNERS)
    table.store.create(lifecycle.create(None, other, now=NOW))
    one, two = table.add("owner-1", 1), table.add("owner-1", 1, other)
    three = table.add("owner-2", 2)
    gone = table.add("owner-1", 1, make_study(name="gone", owners=OWNERS))
    assert table.outcome(one) is UploadDecision.ACCEPT
    assert table.store.saved == [("owner-1", "owner-2")]
    assert table.outcome(two) is UploadDecision.ACCEPT
    assert table.outcome(three) is UploadDecision.ACCEPT
    assert isinstance(table.outcome(gone), UnknownStudyError)
    assert table.store.saved == [("owner-1", "owner-2"), ("owner-1",)]


def test_what_arrives_while_the_disk_hangs_is_stored_together(tmp_path: Path) -> None:
    async def steps() -> None:
        store = Watched(tmp_path)
        store.create(lifecycle.create(None, STUDY, now=NOW))
        signer = make_signer(new_authority().issue(Role.CURATOR, "hub"))
        studies = StudyCoordinator(store, lambda: signer, clock=lambda: NOW)
        entered, passes = threading.Event(), threading.Event()

        def hang() -> None:
            entered.set()
            assert passes.wait(WAIT_S)

        store.before = hang
        with ExitStack() as stack:
            table = Table(store, stack)
            sent = []
            for seed, owner in enumerate(OWNERS):
                header = header_of(make_release(STUDY, seed=seed), owner)
                step = studies.contribute(header, table.upload(STUDY, seed))
                sent.append(asyncio.ensure_future(step))
                if seed == 0:
                    await asyncio.to_thread(entered.wait, WAIT_S)
            await asyncio.sleep(0)  # each has begun and waits for the writing thread
            sent[1].cancel()  # its owner is gone; a step that has begun is finished
            passes.set()
            found = await asyncio.gather(*sent, return_exceptions=True)
        studies.close()
        assert store.saved == [(OWNERS[0],), tuple(OWNERS[1:])]
        assert isinstance(found[1], asyncio.CancelledError)
        assert all(each[1] is UploadDecision.ACCEPT for each in found if isinstance(each, tuple))

    asyncio.run(steps())


def test_a_full_disk_is_told_to_each_and_passes(table: Table) -> None:
    waiting = [table.add(owner, seed) for seed, owner in enumerate(OWNERS[:3])]
    table.store.fails = lambda _: True
    assert [type(table.outcome(each)) for each in waiting] == [StoreError] * 3
    assert table.store.saved == []
    record = table.store.study(bytes.fromhex(STUDY.digest))
    assert record is not None
    assert record.contributions == ()
    table.store.fails = lambda _: False
    again = [table.add(owner, seed) for seed, owner in enumerate(OWNERS[:3])]
    assert [table.outcome(each) for each in again] == [UploadDecision.ACCEPT] * 3
