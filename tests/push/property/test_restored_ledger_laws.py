"""Law of a ledger that is put back: nothing leaves beyond the budget, and no second set is opened.

Any sequence of charges, votes, openings, deaths at every step and restores of any earlier copy,
from before the first charge on, in any way, with a curator that answers, is silent, or hides what
it holds. The steward says of the newest copy alone that it is the newest. Ledger and marks are
files.
"""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from dppca.common.kernel.aggregation.opening import Sums
from dppca.common.kernel.errors import BudgetExceededError, ChainError, OpeningRefusedError
from dppca.common.kernel.moments.moments import Moments
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.privacy.release import calibrate
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import StoredRelease, compare_ledger, open_ledger, require_newest
from dppca.owner.ledger.entries import ReleaseKind
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.mark import ContributionRecord, CuratorView
from dppca.owner.ledger.path import ContributionPlan, send_release, store_release
from tests.support.examples import examples
from tests.support.ledgers import BUDGET, NOW, ledger_files, request_of
from tests.support.studies import make_study

MEMORY = Path("/dev/shm")  # noqa: S108 - a file system on which `fsync` costs nothing
TICK_S = 0.012
"""More than the resolution of a file's change time, which no restore is faster than."""
MASKED = make_study("small", name="masked")
SETS = tuple(hashlib.sha256(name).hexdigest() for name in (b"one set", b"another"))
STEPS = ("store", "mark", "reserve", "draw", "commit", "acknowledge", "vote", "open")
WAYS = (
    "in place",
    "new files",
    "changed files",
    "whole folder",
    "another disk",
    "renamed",
    "links",
)
STEP = st.sampled_from([None] * 8 + list(STEPS))
COST = BUDGET.epsilon * Decimal("0.6")  # of which the budget has one
CURATORS = st.sampled_from(["answers", "hides", None])
KEY = "opener.key"
LEDGER, MARKS = ("ledger.sqlite",), ("ledger.mark", "ledger.mark2")
PARTS = st.sampled_from([(*LEDGER, *MARKS, KEY), LEDGER, MARKS, (*LEDGER, KEY)])


class _Killed(BaseException):
    """Ends a command where `kill -9` would."""


class _SilenceError(Exception):
    """The curator is silent."""


class RestoredLedger(RuleBasedStateMachine):
    """A site, its copies, and what has left it."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.exists() else None))
        self.folder = self.top / "site"
        self.folder.mkdir()
        self.path, self.lock = ledger_files(self.folder)
        self.copies: list[dict[str, bytes]] = []
        self.linked: list[Path] = []
        self.left: dict[bytes, Decimal] = {}  # by their bytes
        self.sets: set[str] = set()
        self.held = CuratorView()
        self.number = self.longest = 0
        self.newest = b""
        self._copy()

    @initialize()
    def begin(self) -> None:
        """A site that has contributed once, and has offered an opener key."""
        with open_ledger(self.path, lock=self.lock) as ledger:
            ledger.offer(MASKED.name, self.key_id, now=NOW)
        self.key.write_bytes(b"secret")
        self.release(ReleaseKind.CONTRIBUTION, "answers", None, again=False)

    @property
    def key(self) -> Path:
        return self.folder / KEY

    @property
    def key_id(self) -> str:
        return hashlib.sha256(b"key").hexdigest()

    @rule(
        kind=st.sampled_from(ReleaseKind),
        curator=CURATORS,
        die_at=STEP,
        again=st.sampled_from([False, False, True]),
    )
    def release(
        self, kind: ReleaseKind, curator: str | None, die_at: str | None, *, again: bool
    ) -> None:
        self.number += not again
        cost = COST if self.number > 1 else COST / 6
        study = make_study("small", name=f"{kind.value}{self.number}", epsilon=str(cost))
        request = request_of(study)
        sends = kind is ReleaseKind.CONTRIBUTION
        if not sends:
            request = replace(request, kind=kind, name="dp-svm")

        def leave(stored: StoredRelease, history: History) -> None:
            self.left[stored.payload] = cost
            if sends:
                one = ContributionRecord(study.name, study.digest, stored.reservation.release_id)
                self.held = CuratorView((*self.held.releases, one), history.length, history.head)

        with _command(die_at):
            if sends or not require_newest(self.path):
                self._compare(curator)
            moments = Moments(10, np.zeros(study.table.layout.n_entries, dtype=np.int64))
            with open_ledger(self.path, lock=self.lock) as ledger:
                stored = store_release(
                    ledger,
                    request,
                    ContributionPlan(study, calibrate(study)),
                    moments,
                    entropy=OperatingSystemEntropy(),
                    clock=lambda: NOW,
                )
                send_release(ledger, stored, leave, clock=lambda: NOW)
        self._copy()

    @rule(curator=CURATORS, chosen=st.sampled_from(SETS), die_at=STEP)
    def vote_and_open(self, curator: str | None, chosen: str, die_at: str | None) -> None:
        sums = Sums(chosen, ((0, b"a" * 64),))
        with _command(die_at) as checkpoint:
            self._compare(curator)
            with open_ledger(self.path, lock=self.lock) as ledger:
                if not self.key.exists():
                    raise OpeningRefusedError("its key is destroyed")
                ledger.vote(MASKED, self.key_id, chosen, now=NOW)
                checkpoint("vote")
                self.sets.add(chosen)
                ledger.open_set(MASKED, self.key_id, sums, n_owners=3, now=NOW)
                self.key.unlink()
                checkpoint("open")
        self._copy()

    @rule()
    def settle(self) -> None:
        """The newest ledger is put back, and the steward says so, as `ledger recover` asks."""
        self.path.write_bytes(self.newest)
        with open_ledger(self.path, lock=self.lock) as ledger:
            record = ledger.history().openers[self.key_id]
            if record.bound is None:
                self.key.unlink(missing_ok=True)
            ledger.recover([])

    def _copy(self) -> None:
        history = read_history(self.path)
        if history.length > self.longest:
            self.longest, self.newest = history.length, self.path.read_bytes()
        self.copies.append({p.name: p.read_bytes() for p in self.folder.iterdir()})
        self.linked.append(self.top / f"links-{len(self.linked)}")
        shutil.copytree(self.folder, self.linked[-1], copy_function=os.link)
        time.sleep(TICK_S)

    @rule(
        data=st.data(),
        way=st.sampled_from(WAYS),
        kind=st.sampled_from(ReleaseKind),
        curator=CURATORS,
    )
    def restore(
        self, data: st.DataObject, way: str, kind: ReleaseKind, curator: str | None
    ) -> None:
        """Put a copy back, and release."""
        at = data.draw(st.integers(0, len(self.copies) - 1))
        self.put_back(at, [name for name in data.draw(PARTS) if name in self.copies[at]], way)
        self.release(kind, curator, None, again=False)

    def put_back(self, at: int, names: Iterable[str], way: str) -> None:
        chosen = {name: self.copies[at][name] for name in names}
        if way in ("whole folder", "another disk"):  # and nothing else is in it
            place = self.top / "restored"
            place.mkdir()
            for name, content in chosen.items():
                (place / name).write_bytes(content)
            shutil.rmtree(self.folder)
            if way == "whole folder":
                place.rename(self.folder)
            else:
                shutil.copytree(place, self.folder)
                shutil.rmtree(place)
        for name, content in chosen.items():
            path = self.folder / name
            if way in ("new files", "links"):
                path.unlink(missing_ok=True)
            if way == "links" and name in MARKS:  # which a ledger of that time does not have
                path.hardlink_to(self.linked[at] / name)
                continue
            if way == "renamed":
                path.with_name("draft").write_bytes(content)
                path.with_name("draft").replace(path)
            if not (path.exists() and path.read_bytes() == content and way == "changed files"):
                path.write_bytes(content)
        time.sleep(TICK_S)

    @invariant()
    def nothing_leaves_beyond_the_budget(self) -> None:
        assert sum(self.left.values()) <= BUDGET.epsilon

    @invariant()
    def one_set_at_most_is_voted_for_or_opened(self) -> None:
        assert len(self.sets) <= 1

    def teardown(self) -> None:
        shutil.rmtree(self.top)

    def _compare(self, curator: str | None) -> None:
        if curator is None:
            raise _SilenceError
        view = CuratorView() if curator == "hides" else self.held
        compare_ledger(self.path, view, lock=self.lock)


@contextmanager
def _command(die_at: str | None) -> Iterator[Callable[[str], None]]:
    """One command: it ends well, is refused, or dies at a step."""

    def checkpoint(step: str) -> None:
        if step == die_at:
            raise _Killed

    try:
        with (
            mock.patch("dppca.owner.ledger.database.checkpoint", checkpoint),
            mock.patch("dppca.owner.ledger.path.checkpoint", checkpoint),
        ):
            yield checkpoint
    except (_Killed, _SilenceError, ChainError, BudgetExceededError, OpeningRefusedError):
        pass


RestoredLedger.TestCase.settings = settings(
    max_examples=examples(20), stateful_step_count=12, deadline=None
)
TestRestoredLedger = RestoredLedger.TestCase


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("die_at", ["mark", "acknowledge"])
def test_a_copy_from_before_a_release_is_never_charged(way: str, die_at: str) -> None:
    """Every way and part, one after the other, with a curator that is silent or hides all."""
    for parts in ((*LEDGER, *MARKS, KEY), LEDGER, (*LEDGER, KEY)):
        site = RestoredLedger()
        site.begin()
        site.release(ReleaseKind.MODEL, None, die_at, again=False)
        before = dict(site.left)
        assert (len(before) == 2) is (die_at == "acknowledge")
        site.put_back(1, parts, way)
        site.release(ReleaseKind.MODEL, None, None, again=False)
        site.release(ReleaseKind.CONTRIBUTION, "hides", None, again=False)
        for chosen in SETS:
            site.vote_and_open("hides", chosen, None)
        site.nothing_leaves_beyond_the_budget()
        site.one_set_at_most_is_voted_for_or_opened()
        if die_at == "acknowledge":  # else the charge was lost before anything was drawn
            assert site.left == before
            assert not site.sets
        site.teardown()


@pytest.mark.parametrize("way", [*WAYS, "lost"])
def test_a_copy_from_before_the_first_charge_is_never_charged(way: str) -> None:
    """Nor is a site that lost its ledger, its marks, or both; no curator remembers anything."""
    for parts in ((*LEDGER, *MARKS), LEDGER, MARKS, (MARKS[0], *LEDGER), (MARKS[1], *LEDGER)):
        site = RestoredLedger()
        site.release(ReleaseKind.MODEL, None, None, again=False)
        (before,) = site.left.values()
        if way == "lost":
            for name in parts:
                (site.folder / name).unlink()
        else:
            site.put_back(0, parts, way)
        for kind in ReleaseKind:
            site.release(kind, "hides", None, again=False)
        if parts == MARKS and way not in ("whole folder", "another disk", "lost"):
            assert sum(site.left.values()) <= BUDGET.epsilon, "the ledger itself is the newest"
        else:
            assert list(site.left.values()) == [before]
        site.teardown()
