"""One owner goes on with another chain again and again: each time a settlement was kept for ever.

What is kept follows from the releases that are held, whatever the owner calls, and so does the work
to load it and to show it.
"""

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.kernel.attestation.signatures import make_signer
from dppca.common.kernel.documents.messages import accounts_for
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.release import calibrate
from dppca.curator.service.answers import PAGE, seen_owner
from dppca.curator.service.coordinator import StudyCoordinator
from dppca.curator.store import SqliteStore
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.settlement import CONTINUED
from dppca.curator.study.study_record import LedgerHead, OwnerHistory, Settlement
from tests.support.census import header_of, make_release
from tests.support.certificates import new_authority
from tests.support.examples import examples
from tests.support.studies import make_study

OWNER, CALLS = "owner-1", 60
NOW = datetime(2026, 5, 1, tzinfo=UTC)
CONTRIBUTED = LedgerHead(2, b"h" * 32)
Chains = Iterable[LedgerHead]


def another(place: int) -> LedgerHead:
    return LedgerHead(5 + place % 7, hashlib.sha256(b"%d" % place).digest())


def hold(store: SqliteStore, name: str) -> None:
    """Store a contribution of the owner to a new study."""
    study = make_study(name=name)
    release = make_release(study)
    header = header_of(release, OWNER)
    opened = lifecycle.create(None, study, now=NOW)
    store.create(opened)
    after, _ = contribute(opened, header, OwnerHistory(), calibration=calibrate(study), now=NOW)
    with store.blobs.spool() as spool:
        spool.write(release.payload())
        store.save(after, spool)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "state")
    hold(opened, "first")
    yield opened
    opened.close()


def call(store: SqliteStore, chains: Chains, *, operator: bool = False) -> None:
    """The owner goes on with each of the chains; an operator settles the last where said."""

    async def main() -> None:
        signer = make_signer(new_authority().issue(Role.CURATOR, "hub"))
        studies = StudyCoordinator(store, lambda: signer)
        known = accounts_for(store.history(OWNER).releases)
        for chain in chains:
            await studies.continue_ledger(OWNER, chain, known)
        if operator:
            await studies.settle_ledger(OWNER, by="operator:alice", reason="Stolen.")

    asyncio.run(main())


def rows(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "state" / "curator.sqlite")) as database:
        (count,) = database.execute("SELECT count(*) FROM settlements").fetchone()
    return int(count)


def new_heads(store: SqliteStore) -> None:
    call(store, map(another, range(CALLS)))


def two_in_turn(store: SqliteStore) -> None:
    call(store, (another(place % 2) for place in range(CALLS)))


def back_to_the_first(store: SqliteStore) -> None:
    call(store, [each for place in range(CALLS) for each in (another(place), CONTRIBUTED)])


def after_each_release(store: SqliteStore) -> None:
    for study in ("second", "third"):
        call(store, map(another, range(CALLS)), operator=True)
        hold(store, study)
    call(store, map(another, range(CALLS)), operator=True)


@pytest.mark.parametrize(
    ("attack", "kept"),
    [(new_heads, 1), (two_in_turn, 1), (back_to_the_first, 1), (after_each_release, 6)],
)
def test_what_is_kept_follows_from_the_releases_held(
    store: SqliteStore, tmp_path: Path, attack: Callable[[SqliteStore], None], kept: int
) -> None:
    attack(store)
    history = store.history(OWNER)
    assert len(history.settlements) == rows(tmp_path) == kept <= 2 * len(history.releases)
    assert history.settlements[0].seen == CONTRIBUTED, "what came with a release is never lost"
    store.close()
    with closing(SqliteStore(tmp_path / "state")) as again:
        assert again.history(OWNER) == history


def test_a_long_list_is_shown_in_pages_none_of_which_is_too_large(store: SqliteStore) -> None:
    made = [
        Settlement(place, f"operator:{place}", "\U0001f511" * 200, another(place), None, 1)
        for place in range(2 * PAGE + 1)
    ]
    history = replace(store.history(OWNER), settlements=tuple(made))
    pages = list(seen_owner(OWNER, history, store.studies()))
    assert max(page.ByteSize() for page in pages) < 2 << 20
    assert [each.settled_s for page in pages for each in page.settlements] == list(range(len(made)))
    assert [each.study for page in pages for each in page.contributions] == ["first"]
    assert (pages[0].ledger_length, pages[0].ledger_head) == (2, CONTRIBUTED.head)


STEPS = st.lists(st.sampled_from(["release", "owner", "operator"]), max_size=40)


@settings(max_examples=examples(60))
@given(STEPS)
def test_a_history_that_is_loaded_at_once_is_the_one_that_was_made_step_by_step(
    steps: list[str],
) -> None:
    releases: list[tuple[bytes, LedgerHead]] = []
    history = OwnerHistory()
    for place, step in enumerate(steps):
        chain = another(place)
        if step == "release":
            releases.append((b"%016d" % place, chain))
            history = history.contributed(*releases[-1])
        elif history.chain is not None:
            follows = chain if step == "owner" else None
            said = (f"{step}:one", CONTINUED, history.chain, follows, len(history.releases))
            history = history.settled(Settlement(place, *said))
    assert OwnerHistory.replay(releases, history.settlements) == history
    kinds = {each.kind for each in history.settlements}
    assert len(kinds) == len(history.settlements) <= 2 * len(releases)
