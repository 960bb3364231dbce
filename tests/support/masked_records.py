"""A masked sum in the curator's own values, without a wire: contributed, sealed, voted, opened."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

from dppca.common.aggregation.contribution import MaskedRelease
from dppca.common.aggregation.opening import answer, open_set, vote
from dppca.common.aggregation.pooling import show_set
from dppca.common.aggregation.sum_messages import Opening, SealedSet, Upload, Vote
from dppca.common.privacy.release import calibrate
from dppca.curator.store import Store
from dppca.curator.study import lifecycle
from dppca.curator.study.admission import contribute
from dppca.curator.study.openings import (
    OpeningDecision,
    OpeningHeader,
    store_opening,
    store_vote,
)
from dppca.curator.study.study_record import OwnerHistory, StudyRecord
from tests.support.census import header_of
from tests.support.masked_sites import make_masked_release
from tests.support.masked_studies import MaskedStudy

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def header_for(made: MaskedStudy, opening: Opening) -> OpeningHeader:
    content = opening.to_bytes()
    digest = bytes.fromhex(made.study.digest)
    return OpeningHeader(digest, b"", len(content), hashlib.sha256(content).digest())


class MaskedRecords:
    """Contributions of all owners to one study, and what its openers say of a set of them."""

    def __init__(self, made: MaskedStudy) -> None:
        self.made = made
        self.terms = made.terms

    @cached_property
    def releases(self) -> dict[str, MaskedRelease]:
        return {owner: make_masked_release(self.made, owner) for owner in self.made.keys}

    def shown(self, opener: str, owners: Sequence[str] | None = None) -> SealedSet:
        uploads = [
            Upload.from_bytes(self.releases[owner].content, self.terms)
            for owner in owners or list(self.releases)
        ]
        return show_set(self.terms, uploads, opener=opener)

    def vote(self, opener: str, owners: Sequence[str] | None = None) -> Vote:
        return vote(
            self.terms,
            self.shown(opener, owners),
            opener=opener,
            secret=self.made.secrets[opener],
            key=self.made.keys[opener],
            bound=None,
        )

    def opening(
        self,
        opener: str,
        streams: Sequence[int] | None = None,
        *,
        owners: Sequence[str] | None = None,
    ) -> Opening:
        """The opening of the streams that an opener holds, or of these."""
        sums = open_set(
            self.terms,
            self.shown(opener, owners),
            [self.vote(each, owners) for each in self.terms.openers],
            opener=opener,
            secret=self.made.secrets[opener],
            bound=None,
        )
        wanted = self.terms.held(opener) if streams is None else tuple(streams)
        return answer(self.terms, sums, wanted, opener=opener, key=self.made.keys[opener])

    @cached_property
    def complete(self) -> StudyRecord:
        """The study, open, with all contributions."""
        record = lifecycle.create(None, self.made.study, now=NOW)
        noise = calibrate(self.made.study)
        for owner, release in self.releases.items():
            header = replace(header_of(release), signature=b"signed", certificate=b"certified")
            record, _ = contribute(
                record, owner, header, OwnerHistory(), calibration=noise, now=NOW
            )
        return record

    @cached_property
    def sealed(self) -> StudyRecord:
        taken = self.complete.contributions
        digest = bytes.fromhex(self.shown(self.terms.openers[0]).digest)
        return lifecycle.seal(self.complete, taken, digest, now=NOW)

    @cached_property
    def voted(self) -> StudyRecord:
        """Sealed, with as many votes as are needed, of the first openers."""
        record = self.sealed
        for opener in self.terms.openers[: self.terms.votes_needed]:
            record = store_vote(record, opener, self.vote(opener).to_bytes(), now=NOW)
        return record

    def opened(self, record: StudyRecord, opening: Opening) -> StudyRecord:
        """The study with an opening that is wanted."""
        header, said = header_for(self.made, opening), opening.without_total()
        after, verdict = store_opening(record, opening.opener, header, said, now=NOW)
        assert verdict is OpeningDecision.ACCEPT
        return after

    def keep(self, store: Store, record: StudyRecord, *openings: Opening) -> None:
        """Store a new study with the bytes behind it, in the steps in which they come."""
        store.create(replace(self.complete, contributions=()))
        with ExitStack() as stack:
            spools = [stack.enter_context(store.spool()) for _ in self.releases]
            for spool, release in zip(spools, self.releases.values(), strict=True):
                spool.write(release.content)
            store.save(self.complete, *spools)
            store.save(replace(record, openings=()))
            spools = [stack.enter_context(store.spool()) for _ in openings]
            for spool, opening in zip(spools, openings, strict=True):
                spool.write(opening.total)
            store.save(record, *spools)
