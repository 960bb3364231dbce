"""The one order in which a release is made, for every kind of it.

::

    asked ──▶ stored? ──────────────────────────────────────────────────▶ deliver
      │                                                                      ▲
      └──▶ open ──▶ possible? ──▶ begin ──▶ read ──▶ consent ──▶ prepare ──▶ possible?
                                  (a live source is read again)              │
                                                                             ▼
                                                   plan ──▶ reserve, draw, commit

Each value is frozen, and made of the one before: asked, opened, reading, stored, document. A kind
of release says what each step does (`AskedRelease`, `OpenedRelease`), and never in which order:

* What can fail comes before the charge, and what is refused costs nothing.
* Rows are counted in the pass that reads them (`read_once`), and what a steward agreed to is what
  is prepared. Rows that others may write to are read again after a question, so that a release is
  of one moment, and no transaction waits for a person.
* Reading, asking and preparing take long: the second look comes after all three.
* The steps from the charge on are `dppca.owner.ledger.path`'s.

The run keeps nothing between two processes. After a crash the ledger alone says what the same
request does next (`decide_step`).
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.durable.checkpoints import checkpoint
from dppca.common.kernel.durable.clock import utc_now
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.study import Study
from dppca.owner.ledger.chain import History
from dppca.owner.ledger.database import Ledger, StoredRelease, open_ledger
from dppca.owner.ledger.entries import ReleaseRequest
from dppca.owner.ledger.file import read_history
from dppca.owner.ledger.path import ReleasePlan, store_release
from dppca.owner.records.faults import CheckReport, require_rows_of_people
from dppca.owner.records.table import Table
from dppca.owner.release.dialogue import Dialogue, Outline, ReleaseOffer
from dppca.owner.release.evidence import gather_evidence
from dppca.owner.release.next_step import NextStep, decide_step
from dppca.owner.release.reading import Reader, Reading, read_once
from dppca.owner.site.config import Site
from dppca.owner.site.policy import DataSet

RowsT = TypeVar("RowsT")
OfferT = TypeVar("OfferT", bound=ReleaseOffer)
PreparedT = TypeVar("PreparedT")
DocumentT = TypeVar("DocumentT")
MadeT = TypeVar("MadeT", covariant=True)


class OpenedRelease(Protocol[RowsT, OfferT, PreparedT]):
    """A release whose data set is open, and of which no row was read."""

    @property
    def study(self) -> Study:
        """The study that it is for."""

    @property
    def data_set(self) -> DataSet:
        """The data set of the policy."""

    @property
    def table(self) -> Table:
        """The data set's rows, seen through the study's schema."""

    @property
    def request(self) -> ReleaseRequest:
        """The charge."""

    @property
    def outline(self) -> Outline:
        """What a steward may know before a row is read."""

    def require_possible(self, reading: Reading[RowsT] | None) -> None:
        """Refuse what cannot succeed; None before a row is read, else once all is prepared."""

    def reader(self) -> AbstractContextManager[Reader[RowsT]]:
        """Open what reads the rows."""

    def offer(self, reading: Reading[RowsT]) -> OfferT:
        """Return what the steward is asked."""

    def keep_consent(self, offer: OfferT) -> None:
        """Keep what the steward agreed to."""

    def prepare(self, reading: Reading[RowsT]) -> PreparedT:
        """Return exact values of the rows, private until noise is added; all that can fail."""

    def plan(self, reading: Reading[RowsT]) -> ReleasePlan[PreparedT]:
        """Return what draws the noise; what may still be refused is refused here."""


class AskedRelease(Protocol[RowsT, OfferT, PreparedT, MadeT]):
    """A request for a release, of which the ledger says what is next."""

    @property
    def digest(self) -> str:
        """The request's digest in the ledger (`ReleaseRequest.request_digest`)."""

    def open(self, history: History) -> OpenedRelease[RowsT, OfferT, PreparedT]:
        """Open the data set, unless the ledger, the policy or the study forbids it."""

    def deliver(
        self,
        ledger: Ledger,
        stored: StoredRelease,
        counted: CheckReport | None,
        *,
        seconds: Mapping[str, float],
    ) -> MadeT:
        """Send stored bytes, or write their file; return the command's document.

        ``counted`` are the values coded by rule, None if the bytes were stored before; ``seconds``
        were spent on the steps ``read`` and ``draw``.
        """


class ReleaseRun:
    """One release of a site, by one dialogue."""

    def __init__(self, site: Site, dialogue: Dialogue) -> None:
        self._site, self._dialogue = site, dialogue
        self._seconds = {"read": 0.0, "draw": 0.0}

    def carry_out(
        self,
        asked: AskedRelease[RowsT, OfferT, PreparedT, DocumentT],
        *,
        history: History | None = None,
    ) -> DocumentT:
        """Make a release, or deliver the one that is stored.

        ``history`` is the ledger's, if ``asked`` was made of it.

        Raise what the steps of its kind raise, `ConsentError` if the steward does not agree,
        `PrivacyError` if one person has more rows than the study allows, and errors of
        `dppca.owner.ledger.path.store_release`.
        """
        history = read_history(self._site.ledger) if history is None else history
        if decide_step(history, asked.digest) is NextStep.SEND:
            # No budget, policy or consent: these bytes were agreed to and charged before.
            with open_ledger(self._site.ledger, lock=self._site.lock) as ledger:
                stored = ledger.stored(asked.digest)
                return asked.deliver(ledger, stored, None, seconds=self._seconds)
        opened = asked.open(history)
        opened.require_possible(None)
        self._dialogue.begin(opened.outline)
        checkpoint("read")
        reading = self._read_and_ask(opened)
        prepared = opened.prepare(reading)
        opened.require_possible(reading)
        plan = opened.plan(reading)  # its key may be gone: before the charge
        request = opened.request
        if history.approvals.in_force is not None:
            request = self._with_evidence(opened, reading)
        with open_ledger(self._site.ledger, lock=self._site.lock) as ledger:
            with self._timed("draw"):
                stored = store_release(
                    ledger,
                    request,
                    plan,
                    prepared,
                    entropy=OperatingSystemEntropy(),
                    clock=utc_now,
                )
            return asked.deliver(ledger, stored, reading.counted, seconds=self._seconds)

    def _with_evidence(
        self, opened: OpenedRelease[RowsT, OfferT, PreparedT], reading: Reading[RowsT]
    ) -> ReleaseRequest:
        """Return the charge of a site with roles, with what its people sign of the rows.

        A site that has had roles since the ledger was read charges nothing without it.
        """
        found = gather_evidence(
            self._site,
            opened.data_set.source,
            reading.rows,
            n_rows=reading.n_rows,
            is_live=opened.table.source.is_live,
        )
        return replace(opened.request, evidence=found)

    def _read_and_ask(self, opened: OpenedRelease[RowsT, OfferT, PreparedT]) -> Reading[RowsT]:
        """Return the rows that the steward agreed to release, all of one moment."""
        reading = self._read(opened)
        offer = opened.offer(reading)
        for line in offer.alarms:
            self._dialogue.tell(line)
        asked_now = self._dialogue.require_consent(offer)
        opened.keep_consent(offer)
        if asked_now and opened.table.source.is_live:
            reading = self._read(opened)
        if reading.n_rows != opened.table.n_rows:
            self._dialogue.tell(
                f"{opened.data_set.name} has {many(reading.n_rows, 'rows')} now, "
                f"not {opened.table.n_rows}."
            )
        return reading

    def _read(self, opened: OpenedRelease[RowsT, OfferT, PreparedT]) -> Reading[RowsT]:
        """Read rows; no decision but that on people's rows depends on what was counted."""
        study, key = opened.study, opened.data_set.key
        with opened.reader() as read, self._timed("read"):
            reading = read_once(opened.table, study, key, read, progress=self._dialogue.progress)
        require_rows_of_people(reading.counted)
        return reading

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._seconds[step] = round(time.perf_counter() - started, 6)
