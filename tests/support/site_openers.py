"""Openers of a site: a real ledger and key files, and deaths between any two steps."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar
from unittest import mock

from dppca.common.kernel.aggregation.sum_messages import Opening, SealedSet, Vote
from dppca.common.kernel.errors import DppcaError
from dppca.owner.ledger.database import Ledger, open_ledger
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.openers import OpenerRecord
from dppca.owner.release.opening import Opener, cast_vote, make_answer, open_once
from dppca.owner.site.config import Site
from dppca.owner.site.opener_keys import create_opener_key, list_opener_keys, sweep_opener_keys
from tests.support.aggregation import Federation
from tests.support.ledgers import NOW, ledger_files
from tests.support.studies import make_study

Step = Literal["check", "store", "vote", "open", "destroy"]
STEPS: tuple[Step, ...] = ("check", "store", "vote", "open", "destroy")
STUDY = make_study("small")
_T = TypeVar("_T")


class _Killed(BaseException):
    """Ends a command like `kill -9` would; the tests of faults use real kills."""


@dataclass
class SiteOpener:
    """An honest opener whose every act is a separate command, which may die at a step."""

    who: Federation
    name: str
    folder: Path
    plan: Iterator[Step | None]
    opened: SealedSet | None = None
    site: Site = field(init=False)

    def __post_init__(self) -> None:
        secret = self.who.secrets[self.name]
        self.folder.mkdir()
        self.site = Site(self.folder, self.name, "127.0.0.1:1")
        path, lock = ledger_files(self.folder)
        with open_ledger(path, lock=lock) as ledger:
            ledger.offer(STUDY.name, secret.key_id, now=NOW)
        create_opener_key(self.site.openers, secret)

    @property
    def record(self) -> OpenerRecord:
        return read_history(self.site.ledger).openers[self.who.secrets[self.name].key_id]

    @property
    def bound(self) -> str | None:
        found = self.record.bound
        return None if found is None else found.set_digest

    @property
    def key_destroyed(self) -> bool:
        """Return True if the next command finds, and leaves, no key."""
        sweep_opener_keys(self.site.openers, self.site.ledger)
        return not list_opener_keys(self.site.openers)

    def vote(self, shown: SealedSet) -> Vote:
        return self._command(
            lambda opener, ledger: cast_vote(opener, ledger, shown, clock=lambda: NOW)
        )

    def open(self, shown: SealedSet, votes: list[Vote]) -> None:
        def act(opener: Opener, ledger: Ledger) -> None:
            open_once(opener, ledger, shown, votes, clock=lambda: NOW)

        try:
            self._command(act)
            assert not list_opener_keys(self.site.openers), "destroyed before anything is sent"
        finally:
            opening = self.record.opening
            if opening is not None and opening.set_digest == shown.digest and not self.opened:
                self.opened = shown

    def answer(self, wanted: tuple[int, ...]) -> Opening:
        return self._command(lambda opener, ledger: make_answer(opener, ledger, wanted))

    def _command(self, act: Callable[[Opener, Ledger], _T]) -> _T:
        sweep_opener_keys(self.site.openers, self.site.ledger)
        key_id = self.who.secrets[self.name].key_id
        opener = Opener(self.site, STUDY, self.who.terms, self.who.keys[self.name], key_id)
        try:
            with (
                _dying(next(self.plan)),
                open_ledger(self.site.ledger, lock=self.site.lock) as ledger,
            ):
                return act(opener, ledger)
        except _Killed:
            raise DppcaError("killed") from None


@contextmanager
def _dying(step: Step | None) -> Iterator[None]:
    def checkpoint(passed: str) -> None:
        if passed == step:
            raise _Killed

    with ExitStack() as patched:
        for module in ("release.opening", "ledger.database"):
            patched.enter_context(mock.patch(f"dppca.owner.{module}.checkpoint", checkpoint))
        yield
